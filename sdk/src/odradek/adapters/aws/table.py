"""Tables in DynamoDB: each port call is one operation of the low-level client.

The table has a string hash key `pk` and a string range key `sk`. Both are attributes of every item, and are removed
from the items that callers see. Capacity is as DynamoDB reports it; for a refused write, which reports none, it is
computed by the rules of the guide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from odradek.adapters import capacity
from odradek.adapters.aws.attribute_values import from_item, to_attribute, to_item, to_key, to_parameters
from odradek.adapters.aws.calls import BACKOFF, READ_ATTEMPTS_MAX, Calls, Refused
from odradek.adapters.aws.transaction import transact, transact_get
from odradek.adapters.rejections import RejectionsTold
from odradek.adapters.validation import check_key, check_operation, check_query
from odradek.errors import ConditionFailed, StoreUnavailable
from odradek.format.item_size import item_size
from odradek.ports.expression_text import Expressions
from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.table import Condition, Delete, Item, Key, Operation, Put, Row, Update


class DynamoTable:
    """ports.table.Table over one DynamoDB table.

    Args:
        client: botocore's DynamoDB client, made for one attempt a call.
        table_name: the table.
        calls: the threads to call in; by default a separate pool.
    """

    def __init__(self, client: Any, table_name: str, meter: Meter | None = None, *, calls: Calls | None = None) -> None:
        self._client = client
        self._calls = calls or Calls.for_client(client)
        self._meter = meter or NullMeter()
        self.table_name = table_name

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        with RejectionsTold(self._meter, "GetItem", key):
            check_key(key)
            response = await self._calls.read(
                self._client.get_item,
                TableName=self.table_name,
                Key=to_key(key),
                ConsistentRead=consistent,
                ReturnConsumedCapacity="TOTAL",
            )
        self._count_read("GetItem", response)
        return from_item(response["Item"])[1] if "Item" in response else None

    async def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> list[Item | None]:
        unique = list(dict.fromkeys(keys))
        step = capacity.BATCH_GET_KEYS_MAX
        chunks = [unique[at : at + step] for at in range(0, len(unique), step)]
        items_by_key: dict[Key, Item] = {}
        with RejectionsTold(self._meter, "BatchGetItem", keys):
            for key in keys:
                check_key(key)
            for part in await asyncio.gather(*(self._get_chunk(chunk, consistent) for chunk in chunks)):
                items_by_key |= part
        return [items_by_key.get(key) for key in keys]

    async def transact_get(self, keys: Sequence[Key]) -> list[Item | None]:
        return await transact_get(self._client, self._calls, self._meter, self.table_name, keys)

    async def query(
        self,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str | None = None,
        descending: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> list[Row]:
        with RejectionsTold(self._meter, "Query", pk):
            check_query(pk, sk_from, sk_to, limit)
        if limit == 0 or (sk_to is not None and sk_from >= sk_to):
            return []
        parameters = _key_condition(pk, sk_from, sk_to) | {
            "TableName": self.table_name,
            "ScanIndexForward": not descending,
            "ConsistentRead": consistent,
            "ReturnConsumedCapacity": "TOTAL",
        }
        rows: list[Row] = []
        while True:
            if limit is not None:
                # One more, for the row at the upper bound that BETWEEN includes.
                parameters["Limit"] = limit - len(rows) + 1
            with RejectionsTold(self._meter, "Query", pk):
                response = await self._calls.read(self._client.query, **parameters)
            self._count_read("Query", response)
            page = (Row(*from_item(attributes)) for attributes in response["Items"])
            rows += (row for row in page if row.key.sk != sk_to)
            if limit is not None and len(rows) >= limit:
                return rows[:limit]
            if "LastEvaluatedKey" not in response:
                return rows
            parameters["ExclusiveStartKey"] = response["LastEvaluatedKey"]

    async def update(self, update: Update) -> Item:
        with RejectionsTold(self._meter, "UpdateItem", update.key):
            check_operation(update)
            expressions = Expressions()
            parameters = {
                "Key": to_key(update.key),
                "UpdateExpression": expressions.update(update.actions),
                "ReturnValues": "ALL_NEW",
            }
            response = await self._write("UpdateItem", update.key, parameters, update.condition, expressions)
        return from_item(response["Attributes"])[1]

    async def put(self, put: Put) -> None:
        with RejectionsTold(self._meter, "PutItem", put.key):
            check_operation(put)
            parameters = {"Item": to_item(put.key, put.item)}
            await self._write("PutItem", put.key, parameters, put.condition, Expressions())

    async def delete(self, delete: Delete) -> None:
        with RejectionsTold(self._meter, "DeleteItem", delete.key):
            check_operation(delete)
            await self._write("DeleteItem", delete.key, {"Key": to_key(delete.key)}, delete.condition, Expressions())

    async def transact(self, operations: Sequence[Operation]) -> None:
        await transact(
            self._client, self._calls, self._meter, [(self.table_name, operation) for operation in operations]
        )

    async def _write(
        self,
        operation: str,
        key: Key,
        parameters: dict[str, Any],
        condition: Condition | None,
        expressions: Expressions,
    ) -> dict[str, Any]:
        if condition is not None:
            parameters["ConditionExpression"] = expressions.condition(condition)
            parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        call = {
            "UpdateItem": self._client.update_item,
            "PutItem": self._client.put_item,
            "DeleteItem": self._client.delete_item,
        }[operation]
        try:
            response = await self._calls.write(
                call,
                TableName=self.table_name,
                ReturnConsumedCapacity="TOTAL",
                **parameters,
                **to_parameters(expressions),
            )
        except Refused as refused:
            attributes = refused.response.get("Item")
            current = from_item(attributes)[1] if attributes else None
            size = 0 if current is None else item_size(key[0], key[1], current)
            self._meter.add(operation, capacity.write_usage(size))
            raise ConditionFailed(current) from refused
        units = response.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
        self._meter.add(operation, Usage(table_write_units=units, table_requests=1))
        return response

    async def _get_chunk(self, keys: Sequence[Key], consistent: bool) -> dict[Key, Item]:
        items_by_key: dict[Key, Item] = {}
        request = {"Keys": [to_key(key) for key in keys], "ConsistentRead": consistent}
        attempt = 0
        while True:
            response = await self._calls.read(
                self._client.batch_get_item,
                RequestItems={self.table_name: request},
                ReturnConsumedCapacity="TOTAL",
            )
            units = sum(consumed["CapacityUnits"] for consumed in response.get("ConsumedCapacity", ()))
            self._meter.add("BatchGetItem", Usage(table_read_units=units, table_requests=1))
            items = response["Responses"].get(self.table_name, ())
            items_by_key |= dict(map(from_item, items))
            # Keys beyond 16 MB or the table's throughput come back as unprocessed.
            request = response.get("UnprocessedKeys", {}).get(self.table_name)
            if not request:
                return items_by_key
            attempt = 0 if items else attempt + 1
            if attempt == READ_ATTEMPTS_MAX:
                raise StoreUnavailable(f"{self.table_name}: throttled")
            await BACKOFF.pause(attempt)

    def _count_read(self, operation: str, response: dict[str, Any]) -> None:
        units = response.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
        self._meter.add(operation, Usage(table_read_units=units, table_requests=1))


def _key_condition(pk: str, sk_from: str, sk_to: str | None) -> dict[str, Any]:
    """Return the condition on partition key and range; with both bounds it includes `sk_to`: one clause on `sk`."""
    expression, values = "pk = :pk", {":pk": to_attribute(pk)}
    if sk_from:
        values[":from"] = to_attribute(sk_from)
    if sk_to:
        values[":to"] = to_attribute(sk_to)
    if sk_from and sk_to:
        expression += " AND sk BETWEEN :from AND :to"
    elif sk_from:
        expression += " AND sk >= :from"
    elif sk_to:
        expression += " AND sk < :to"
    return {"KeyConditionExpression": expression, "ExpressionAttributeValues": values}
