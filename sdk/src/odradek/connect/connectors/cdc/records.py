"""Records of changes: Debezium's envelope, tombstones, changed keys, heartbeats, and transactions.

    key     the primary key of the row
    value   before, after, source (where and when), op (r c u d t), ts_ms, transaction

An update that changes the key is written as a delete of the old key, a tombstone and an insert of the new key, with
headers that name the other key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from odradek.connect.connectors.cdc.tables import BLOCK, Table, TableId, envelope_schema
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, array, struct
from odradek.connect.data.semantic import enum
from odradek.connect.data.structs import Struct
from odradek.connect.record import Header, Offset, SourceRecord
from odradek.ports.clock import Clock

SNAPSHOT_STATES = ("true", "first", "first_in_data_collection", "last_in_data_collection", "last", "false",
                   "incremental")  # fmt: skip
_HEARTBEAT_KEY = struct({"serverName": schemas.STRING}, name="io.debezium.connector.common.ServerNameKey")
_HEARTBEAT = struct(
    {"ts_ms": schemas.INT64, "lag_bytes": schemas.OPTIONAL_INT64, "slot_status": schemas.OPTIONAL_STRING},
    name="io.debezium.connector.common.Heartbeat",
)
_TRANSACTION_KEY = struct({"id": schemas.STRING}, name="io.debezium.connector.common.TransactionMetadataKey")
_COUNT = struct({"data_collection": schemas.STRING, "event_count": schemas.INT64}, name="event.collection", version=1)
_TRANSACTION = struct(
    {
        "status": schemas.STRING,
        "id": schemas.STRING,
        "event_count": schemas.OPTIONAL_INT64,
        "data_collections": array(_COUNT, optional=True),
        "ts_ms": schemas.INT64,
    },
    name="io.debezium.connector.common.TransactionMetadataValue",
)


def source_schema(connector: str, fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of the `source` block: the common fields, and those of a connector."""
    common = {
        "version": schemas.STRING,
        "connector": schemas.STRING,
        "name": schemas.STRING,
        "ts_ms": schemas.INT64,
        "snapshot": enum(SNAPSHOT_STATES).as_optional().with_default("false"),
        "db": schemas.STRING,
        "sequence": schemas.OPTIONAL_STRING,
        "ts_us": schemas.OPTIONAL_INT64,
        "ts_ns": schemas.OPTIONAL_INT64,
    }
    return struct({**common, **fields}, name=f"io.debezium.connector.{connector}.Source", version=1)


class Transaction:
    """Counts the changes of one transaction, for the `transaction` block and the records of begin and end."""

    def __init__(self, name: str, ts_ms: int) -> None:
        self.name, self.ts_ms = name, ts_ms
        self.total = 0
        self.counts: dict[TableId | str, int] = {}

    def next(self, table: TableId | str) -> Struct:
        """Count a change of a table, or of something else by its name, and return its block."""
        self.total += 1
        self.counts[table] = self.counts.get(table, 0) + 1
        values = {"id": self.name, "total_order": self.total, "data_collection_order": self.counts[table]}
        return Struct(BLOCK, values)


class Emitter:
    """Makes the records of one connector.

    Args:
        given: its parsed configuration.
        connector: Debezium's name of the database, such as postgresql.
        source: schema of the source block.
    """

    def __init__(self, options: Mapping[str, Any], connector: str, source: Schema, clock: Clock) -> None:
        self.prefix: str = options["topic.prefix"]
        self.partition = {"server": self.prefix}
        self._source_schema, self._clock = source, clock
        self._constant = {"version": version("odradek"), "connector": connector, "name": self.prefix}
        self._delimiter: str = options["topic.delimiter"]
        self._tombstones: bool = options["tombstones.on.delete"]
        self._skipped = {operation.strip() for operation in options["skipped.operations"]}
        self._heartbeat_topic = f"{options['topic.heartbeat.prefix']}.{self.prefix}"
        self._envelopes: dict[TableId, tuple[Table, Schema]] = {}

    def source(self, ts_us: int, snapshot: str, fields: Mapping[str, Any]) -> Struct:
        """Return the source block of a change at a time, in microseconds since 1970."""
        times = {"ts_ms": ts_us // 1000, "ts_us": ts_us, "ts_ns": ts_us * 1000}
        return Struct.of_checked(self._source_schema, {**self._constant, **times, "snapshot": snapshot, **fields})

    def _envelope(self, table: Table) -> Schema:
        envelope = self._envelopes.get(table.id)
        if envelope is None or envelope[0] is not table:
            envelope = self._envelopes[table.id] = table, envelope_schema(table, self._source_schema)
        return envelope[1]

    def change(
        self,
        table: Table,
        op: str,
        rows: tuple[Struct | None, Struct | None],
        source: Struct,
        offset: Offset,
        block: Struct | None = None,
    ) -> list[SourceRecord]:
        """Return the records of a change of a row, or of a truncation.

        Args:
            rows: the row before and after.
            offset: the position behind the change; of all its records.
        """
        before, after = rows
        if op in self._skipped:
            return [self.position(offset)]
        if op == "t":
            return [self._record(table, None, op, rows, source, offset, block)]
        old_key = None if before is None or op == "c" else _key_or_none(table, before)
        new_key = None if after is None else table.key_of(after)
        if op == "u" and old_key is not None and old_key != new_key:
            named = Header("__debezium.newkey", new_key, table.key_schema)
            made = [self._record(table, old_key, "d", (before, None), source, offset, block, named)]
            if self._tombstones:
                made.append(self._tombstone(table, old_key, offset, named))
            named = Header("__debezium.oldkey", old_key, table.key_schema)
            return [*made, self._record(table, new_key, "c", (None, after), source, offset, block, named)]
        if op == "d":
            key = table.key_of(before) if before is not None else None
            made = [self._record(table, key, op, rows, source, offset, block)]
            return [*made, self._tombstone(table, key, offset)] if self._tombstones and key is not None else made
        return [self._record(table, new_key, op, rows, source, offset, block)]

    def _record(
        self,
        table: Table,
        key: Struct | None,
        op: str,
        rows: tuple[Struct | None, Struct | None],
        source: Struct,
        offset: Offset,
        block: Struct | None,
        *headers: Header,
    ) -> SourceRecord:
        now_ms = self._clock.now_ms()
        schema = self._envelope(table)
        times = {"ts_ms": now_ms, "ts_us": now_ms * 1000, "ts_ns": now_ms * 1_000_000}
        values = {"before": rows[0], "after": rows[1], "source": source, "transaction": block, "op": op, **times}
        return SourceRecord(
            topic=table.topic,
            key=key,
            key_schema=None if key is None else table.key_schema,
            value=Struct.of_checked(schema, values),
            value_schema=schema,
            headers=headers,
            source_partition=self.partition,
            source_offset=offset,
        )

    def _tombstone(self, table: Table, key: Struct | None, offset: Offset, *headers: Header) -> SourceRecord:
        return SourceRecord(
            topic=table.topic,
            key=key,
            key_schema=table.key_schema,
            headers=headers,
            source_partition=self.partition,
            source_offset=offset,
        )

    def position(self, offset: Offset) -> SourceRecord:
        """Return what stores a position without writing a record."""
        return SourceRecord.position(self.partition, offset)

    def heartbeat(self, offset: Offset | None, lag_bytes: int | None = None, status: str | None = None) -> SourceRecord:
        """Return a heartbeat: the time, and how far the source is behind its database."""
        values = {"ts_ms": self._clock.now_ms(), "lag_bytes": lag_bytes, "slot_status": status}
        return SourceRecord(
            topic=self._heartbeat_topic,
            key=Struct(_HEARTBEAT_KEY, {"serverName": self.prefix}),
            key_schema=_HEARTBEAT_KEY,
            value=Struct(_HEARTBEAT, values),
            value_schema=_HEARTBEAT,
            source_partition=None if offset is None else self.partition,
            source_offset=offset,
        )

    def transaction(self, transaction: Transaction, status: str, offset: Offset) -> SourceRecord:
        """Return the record of a transaction's BEGIN or END."""
        values: dict[str, Any] = {"status": status, "id": transaction.name, "ts_ms": transaction.ts_ms}
        if status == "END":
            counts = [
                Struct(_COUNT, {"data_collection": str(table), "event_count": count})
                for table, count in transaction.counts.items()
            ]
            values |= {"event_count": transaction.total, "data_collections": counts}
        return SourceRecord(
            topic=self._delimiter.join((self.prefix, "transaction")),
            key=Struct(_TRANSACTION_KEY, {"id": transaction.name}),
            key_schema=_TRANSACTION_KEY,
            value=Struct(_TRANSACTION, values),
            value_schema=_TRANSACTION,
            source_partition=self.partition,
            source_offset=offset,
        )


def _key_or_none(table: Table, row: Struct) -> Struct | None:
    """Return the key of a row before a change, None if the database did not send all of it."""
    if any(row.without_default(name) is None for name in table.key):
        return None
    return table.key_of(row)


def marked(records: Sequence[SourceRecord], snapshot: str) -> None:
    """Set the snapshot state of the source block in records that were made but not returned yet."""
    for record in records:
        if isinstance(record.value, Struct) and "source" in record.value:
            record.value["source"]["snapshot"] = snapshot
