"""The DynamoDB sink: each record is an item, put under its key; a tombstone deletes it. Idempotent, so effectively
once: an item is as its last record says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from odradek.connect.config import ConfigDef, Kind, non_empty
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import time_text
from odradek.connect.errors import DataError, RetriableError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.model import decimals

_BATCH_MAX = 25
_DIGITS = 38  # of a DynamoDB number


def attribute(value: Any) -> dict[str, Any]:
    """Return a value as DynamoDB has it. Raises DataError for what it does not have."""
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int | float | Decimal):
        number = Decimal(value if not isinstance(value, float) else repr(value))
        if not number.is_finite():
            raise DataError(f"DynamoDB has no number {value}")
        try:
            return {"N": str(decimals.limited(number, _DIGITS))}
        except ValueError as error:
            raise DataError(f"DynamoDB has no such number: {error}") from None
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"B": bytes(value)}
    if isinstance(value, dt.date | dt.time):
        return {"S": time_text(value)}
    if isinstance(value, list | tuple):
        return {"L": [attribute(element) for element in value]}
    if isinstance(value, Struct | Mapping):
        return {"M": {str(name): attribute(member) for name, member in value.items()}}
    raise DataError(f"DynamoDB has no {type(value).__name__}")


class DynamoDbSinkTask(SinkTask):
    """Writes items in batches."""

    def start(self, configs: Configs) -> None:
        self._options = DynamoDbSinkConnector.config_def.parse(configs)
        self._client: Any = client("dynamodb", self._options)
        self._keys: dict[str, list[str]] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        # Of a key, the last record counts: a batch may not name it twice.
        wanted: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        for record in records:
            try:
                table, key, request = self._request(record)
            except DataError as error:
                self.context.errant_records.report(record, error)
                continue
            wanted.pop((table, repr(key)), None)
            wanted[table, repr(key)] = table, request
        waiting = list(wanted.values())
        while waiting:
            batch, waiting = waiting[:_BATCH_MAX], waiting[_BATCH_MAX:]
            items: dict[str, list[Any]] = {}
            for table, request in batch:
                items.setdefault(table, []).append(request)
            with translated("the items cannot be written"):
                left = self._client.batch_write_item(RequestItems=items).get("UnprocessedItems")
            if left:
                raise RetriableError(f"DynamoDB took {len(batch) - sum(map(len, left.values()))} of {len(batch)} items")

    def _request(self, record: SinkRecord) -> tuple[str, dict[str, Any], dict[str, Any]]:
        table = self._options["table.name.format"].replace("${topic}", record.topic)
        names = self._key_names(table)
        fields = _fields(record.key) or ({names[0]: record.key} if record.key is not None else {})
        value = {} if record.value is None else _fields(record.value)
        if record.value is not None and not value:
            raise DataError("the value must be a struct or a map, whose fields are attributes")
        item = {name: attribute(cell) for name, cell in {**value, **fields}.items() if cell is not None}
        missing = [name for name in names if name not in item]
        if missing:
            raise DataError(f"neither key nor value has the field {missing[0]!r}, a key of the table {table}")
        key = {name: item[name] for name in names}
        return table, key, {"DeleteRequest": {"Key": key}} if record.value is None else {"PutRequest": {"Item": item}}

    def _key_names(self, table: str) -> list[str]:
        if table not in self._keys:
            with translated(f"the table {table} cannot be described"):
                schema = self._client.describe_table(TableName=table)["Table"]["KeySchema"]
            self._keys[table] = [key_schema["AttributeName"] for key_schema in schema]
        return self._keys[table]


def _fields(value: Any) -> dict[str, Any]:
    return dict(value.items()) if isinstance(value, Struct | Mapping) else {}


class DynamoDbSinkConnector(SinkConnector):
    """Items of an Amazon DynamoDB table, put and deleted by key."""

    task_class = DynamoDbSinkTask
    config_def = (
        ConfigDef().define(
            "table.name.format", Kind.STRING, "${topic}", "Name of the table; ${topic} is the topic.",
            importance="HIGH", allowed=non_empty(), also=("aws.dynamodb.table",),
        )
        + AWS
    )  # fmt: skip

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
