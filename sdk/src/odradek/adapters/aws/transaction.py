"""TransactWriteItems: operations on one or several tables, all or none. TransactGetItems: items at one moment.

DynamoDB answers a refusal with one reason per operation. A false condition takes precedence, because it persists. A
conflict with another transaction is TransactionConflict and throttling StoreUnavailable: nothing was applied, try
again. A throttled read is tried again here, like every read; how long to wait for a transaction, its caller decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.adapters import capacity
from odradek.adapters.aws.attribute_values import from_item, to_item, to_key, to_parameters
from odradek.adapters.aws.calls import Calls, Refused, invalid, retried
from odradek.adapters.rejections import RejectionsTold
from odradek.adapters.validation import check_transact_get, check_transaction
from odradek.errors import ConditionFailed, StoreUnavailable, TransactionCanceled, TransactionConflict
from odradek.format.item_size import item_size
from odradek.ports.expression_text import Expressions
from odradek.ports.meter import Meter, Usage
from odradek.ports.table import Check, Delete, Item, Key, Operation, Put, Update


async def transact(client: Any, calls: Calls, meter: Meter, addressed: Sequence[tuple[str, Operation]]) -> None:
    """Apply all operations, each given with its table's name, or none. Raises as ports.table.Table.transact."""
    with RejectionsTold(meter, "TransactWriteItems", [operation.key for _, operation in addressed]):
        check_transaction(addressed)
        try:
            response = await calls.write(
                client.transact_write_items,
                TransactItems=[_entry(table_name, operation) for table_name, operation in addressed],
                ReturnConsumedCapacity="TOTAL",
            )
        except Refused as refused:
            reasons = refused.response.get("CancellationReasons", [])
            _count_refused(meter, [operation for _, operation in addressed], reasons)
            raise _refusal(reasons, str(refused)) from refused
    units = sum(consumed["CapacityUnits"] for consumed in response.get("ConsumedCapacity", ()))
    meter.add("TransactWriteItems", Usage(table_write_units=units, table_requests=1))


async def transact_get(
    client: Any, calls: Calls, meter: Meter, table_name: str, keys: Sequence[Key]
) -> list[Item | None]:
    """Return the items at one moment, in the order of the keys. Raises as ports.table.Table.transact_get."""
    with RejectionsTold(meter, "TransactGetItems", keys):
        check_transact_get(keys)
        gets = [{"Get": {"TableName": table_name, "Key": to_key(key)}} for key in keys]

        async def attempt() -> dict[str, Any]:
            try:
                return await calls.read_once(
                    client.transact_get_items, TransactItems=gets, ReturnConsumedCapacity="TOTAL"
                )
            except Refused as refused:
                raise _refusal(refused.response.get("CancellationReasons", []), str(refused)) from refused

        response = await retried(attempt)
    units = sum(consumed["CapacityUnits"] for consumed in response.get("ConsumedCapacity", ()))
    meter.add("TransactGetItems", Usage(table_read_units=units, table_requests=1))
    return [from_item(entry["Item"])[1] if entry.get("Item") else None for entry in response["Responses"]]


def _entry(table_name: str, operation: Operation) -> dict[str, Any]:
    expressions = Expressions()
    body: dict[str, Any] = {"TableName": table_name, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    match operation:
        case Update(key, actions):
            action = "Update"
            body |= {"Key": to_key(key), "UpdateExpression": expressions.update(actions)}
        case Put(key, item):
            action = "Put"
            body["Item"] = to_item(key, item)
        case Delete(key):
            action = "Delete"
            body["Key"] = to_key(key)
        case Check(key):
            action = "ConditionCheck"
            body["Key"] = to_key(key)
    if operation.condition is not None:
        body["ConditionExpression"] = expressions.condition(operation.condition)
    return {action: body | to_parameters(expressions)}


def _refusal(reasons: Sequence[dict[str, Any]], message: str) -> Exception:
    codes = [reason.get("Code", "None") for reason in reasons]
    if "ConditionalCheckFailed" in codes:
        return TransactionCanceled(
            [
                ConditionFailed(from_item(reason["Item"])[1] if reason.get("Item") else None)
                if reason.get("Code") == "ConditionalCheckFailed"
                else None
                for reason in reasons
            ]
        )
    for reason in reasons:
        if reason.get("Code") == "ValidationError":
            return invalid(str(reason.get("Message", "")))
    if "TransactionConflict" in codes:
        return TransactionConflict(message)
    return StoreUnavailable(message)


def _count_refused(meter: Meter, operations: Sequence[Operation], reasons: Sequence[dict[str, Any]]) -> None:
    """Count a refused transaction, which is billed but not reported: 2 units per KB of each item that it returns."""
    sizes = [
        item_size(operation.key[0], operation.key[1], from_item(reason["Item"])[1]) if reason.get("Item") else 0
        for operation, reason in zip(operations, reasons, strict=False)
    ]
    units = 2 * sum(map(capacity.write_units, sizes))
    meter.add("TransactWriteItems", Usage(table_write_units=units, table_requests=1))
