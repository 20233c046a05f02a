"""The Iceberg sink: records as rows, appended, or by key with updates and deletes. Exactly once (tables.py).

Rows are collected and committed together, when there are `commit.records.max` of them or the interval has passed: each
commit is a snapshot and at least one file. With keys (upsert mode) a commit deletes the rows with the keys of its
records and appends the new ones, which rewrites the files that had them.

Configurations are those of Apache Iceberg's own connector; `commit.records.max` is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, non_empty, with_prefix
from odradek.connect.connectors.iceberg import files
from odradek.connect.connectors.iceberg.tables import Offsets, TableWriter, translated
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type, struct
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import infer_schema
from odradek.connect.errors import ConnectError, DataError, RetriableError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition

with extra("connect-iceberg"):
    import pyarrow as pa
    from pyiceberg.catalog import Catalog, load_catalog

    from odradek.connect.connectors.files.arrow import arrow_type, cell

_CATALOG = "iceberg.catalog"
_AUTO_CREATED = "iceberg.tables.auto-create-props."
_DEFINITIONS = (
    ConfigDef()
    .define(
        "iceberg.tables", Kind.STRING, documentation="Name of the table, with its namespace: db.orders, or db.${topic}",
        importance="HIGH", allowed=non_empty(),
    )
    .define(_CATALOG, Kind.STRING, "iceberg", "Name of the catalog. iceberg.catalog.* are its properties, as PyIceberg "
            "names them: type (glue, rest, sql ...), uri, warehouse, s3.region ...")
    .define("iceberg.tables.auto-create-enabled", Kind.BOOLEAN, False, "Whether missing tables are created. "
            "iceberg.tables.auto-create-props.* are their properties.")
    .define("iceberg.tables.default-partition-by", Kind.LIST, [], "Partition of tables that are created: columns, or "
            "day(column), hour(column) ...")
    .define("iceberg.tables.evolve-schema-enabled", Kind.BOOLEAN, False, "Whether missing columns are added.")
    .define(
        "iceberg.tables.upsert-mode-enabled", Kind.BOOLEAN, False,
        "Whether a record replaces the row with its key, and a tombstone deletes it.", importance="HIGH",
    )
    .define("iceberg.tables.default-id-columns", Kind.LIST, [], "The columns that are the key, with upsert mode.")
    .define("iceberg.tables.cdc-field", Kind.STRING, None, "With upsert mode: field of the value that says what was "
            "done; D, d or DELETE deletes the row. It is not written.")
    .define(
        "iceberg.control.commit.interval-ms", Kind.LONG, 300_000, "Time between two commits.", importance="HIGH",
        allowed=between(0),
    )
    .define("commit.records.max", Kind.INT, 100_000, "Records of a commit.", allowed=between(1))
)  # fmt: skip
Key = tuple[Any, ...]


@dataclass
class _Collected:
    """Records and offsets to be committed to one table."""

    writer: TableWriter
    exists: bool
    rows: list[dict[str, Any]] = field(default_factory=list)  # without keys
    by_key: dict[Key, dict[str, Any] | None] = field(default_factory=dict)  # with keys; None: deleted
    types: dict[Schema, None] = field(default_factory=dict)  # of the values, in their order
    first: Offsets = field(default_factory=dict)  # of the first record of each partition
    behind: Offsets = field(default_factory=dict)
    count: int = 0
    is_stale: bool = False  # another task may have written partitions that came from it

    def clear(self) -> None:
        self.rows, self.by_key, self.types, self.count = [], {}, {}, 0
        self.first, self.behind = {}, {}


class IcebergSinkTask(SinkTask):
    """Collects rows and commits them."""

    def start(self, configs: Configs) -> None:
        files.use()
        self._configs = configs
        self._given = _parsed(configs)
        self._catalog = _catalog(configs)
        self._tables: dict[str, _Collected] = {}
        self._taken: dict[TopicPartition, int] = {}  # the next offset: a batch may come again after a failure
        self._due_s = self._next_s()

    def _next_s(self) -> float:
        interval_ms: int = self._given["iceberg.control.commit.interval-ms"]
        return self.context.clock.monotonic() + interval_ms / 1000

    # --- collecting -----------------------------------------------------------------------------------------------

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        for table in self._tables.values():
            table.is_stale = True

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._commit_full()  # it failed the last time
        for record in records:
            tp = record.source
            if record.source_position < self._taken.get(tp, 0):
                continue
            table = self._collected(record.topic)
            if record.source_position >= table.writer.offsets.get(tp, 0):
                try:
                    self._take(table, record)
                except DataError as error:
                    self.context.errant_records.report(record, error)
                else:
                    table.first.setdefault(tp, record.source_position)
                    table.behind[tp] = record.source_position + 1
                    table.count += 1
            self._taken[tp] = record.source_position + 1
            self._commit_full()
        if self.context.clock.monotonic() >= self._due_s:
            for table in self._tables.values():
                self._commit(table)
            self._due_s = self._next_s()

    def _collected(self, topic: str) -> _Collected:
        name = str(self._given["iceberg.tables"]).replace("${topic}", topic)
        if name not in self._tables:
            writer = TableWriter(self._catalog, name, self._configs["name"])
            exists = writer.load()
            if not exists and not self._given["iceberg.tables.auto-create-enabled"]:
                raise ConnectError(
                    f"the table {name} does not exist: create it, or set iceberg.tables.auto-create-enabled=true"
                )
            self._tables[name] = _Collected(writer, exists)
        table = self._tables[name]
        if table.is_stale:
            table.writer.load()
            table.is_stale = False
        return table

    def _take(self, table: _Collected, record: SinkRecord) -> None:
        names = self._given["iceberg.tables.default-id-columns"]
        if not self._given["iceberg.tables.upsert-mode-enabled"]:
            if record.value is not None:
                row, schema = _row(record)
                table.types[schema] = None
                table.rows.append(row)
            return
        operation = self._given["iceberg.tables.cdc-field"]
        if record.value is None:
            table.by_key.pop(key := _key_of(record, names), None)
            table.by_key[key] = None
            return
        row, schema = _row(record)
        is_deleted = operation and str(row.pop(operation, "")).upper() in ("D", "DELETE")
        missing = [name for name in names if row.get(name) is None]
        if missing:
            raise DataError(f"the value has no field {missing[0]!r}, a column of the key")
        key = tuple(row[name] for name in names)
        table.by_key.pop(key, None)
        table.by_key[key] = None if is_deleted else row
        table.types[_without(schema, operation)] = None

    # --- committing -----------------------------------------------------------------------------------------------

    def _commit_full(self) -> None:
        for table in self._tables.values():
            if table.count >= self._given["commit.records.max"]:
                self._commit(table)

    def _commit(self, table: _Collected) -> None:
        """Commit what is collected of a table. Raises RetriableError: the next attempt compares the offsets."""
        if not table.behind:
            return
        writer, before = table.writer, dict(table.writer.offsets)
        if any(before.get(tp, 0) > offset for tp, offset in table.first.items()):
            raise self._given_way(table)
        if not table.exists and not table.types:
            table.clear()  # deletes, and nothing to delete from
            return
        try:
            self._prepare(table)
            if table.rows or not self._given["iceberg.tables.upsert-mode-enabled"]:
                writer.commit(table.behind, _arrow(table.rows, writer.schema))
            else:
                names = self._given["iceberg.tables.default-id-columns"]
                rows = [row for row in table.by_key.values() if row is not None]
                keys = [dict(zip(names, key, strict=True)) for key in table.by_key]
                key_schema = pa.schema([writer.schema.field(name) for name in names])
                writer.commit(table.behind, _arrow(rows, writer.schema), _arrow(keys, key_schema))
        except RetriableError:
            self._compare(table, before)
            raise
        table.clear()

    def _compare(self, table: _Collected, before: Offsets) -> None:
        """Load a table after a failed commit. Raises RetriableError if another task has written our partitions."""
        if not table.writer.load():
            return
        stored = table.writer.offsets
        if all(stored.get(tp) == offset for tp, offset in table.behind.items()):
            table.clear()  # it was committed, although the answer was lost
        elif any(stored.get(tp) != before.get(tp) for tp in table.behind):
            raise self._given_way(table)

    def _given_way(self, table: _Collected) -> RetriableError:
        """Go on behind what another task has written: which of the two has a partition is for their group to say."""
        places = ", ".join(map(str, sorted(table.behind)))
        next = {tp: table.writer.offsets.get(tp, offset) for tp, offset in table.first.items()}
        self._taken.update(next)
        self.context.seek(next)
        table.clear()
        return RetriableError(f"another task has written records of {places}")

    def _prepare(self, table: _Collected) -> None:
        """Create or evolve the table for what is collected."""
        wanted = _columns(table)
        if not table.exists:
            options = self._given
            properties = {str(k): str(v) for k, v in with_prefix(self._configs, _AUTO_CREATED).items()}
            table.writer.create(wanted, options["iceberg.tables.default-partition-by"], properties)
            table.exists = True
        if self._given["iceberg.tables.evolve-schema-enabled"] and not _covers(table.writer.schema, wanted):
            table.writer.evolve(wanted)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets behind what is committed to the tables."""
        first: Offsets = {}
        for table in self._tables.values():
            for tp, offset in table.first.items():
                first[tp] = min(offset, first.get(tp, offset))
        return {tp: first.get(tp, offset) for tp, offset in offsets.items()}

    def rest(self) -> None:
        for table in self._tables.values():
            self._commit(table)

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget everything that is collected: what is kept of other partitions comes again from their offsets."""
        closed = set(partitions)
        for table in self._tables.values():
            kept = {tp: offset for tp, offset in table.first.items() if tp not in closed}
            if kept:
                self.context.seek(kept)
            for tp in kept:
                self._taken[tp] = kept[tp]
            table.clear()
        for tp in closed:
            self._taken.pop(tp, None)


def _parsed(configs: Configs) -> dict[str, Any]:
    return _DEFINITIONS.parse(configs)


def _catalog(configs: Configs) -> Catalog:
    name = _parsed(configs)[_CATALOG]
    with translated(f"the catalog {name} cannot be opened"):
        properties = {str(k): str(v) for k, v in with_prefix(configs, f"{_CATALOG}.").items()}
        return load_catalog(name, **properties)


def _row(record: SinkRecord) -> tuple[dict[str, Any], Schema]:
    """Return a value as a row, and its schema. Raises DataError."""
    value = record.value
    if isinstance(value, Struct):
        return {name: cell(value.schema.field(name), field_value) for name, field_value in value.items()}, value.schema
    if not isinstance(value, Mapping):
        raise DataError("the value must be a struct or a map, whose fields are columns: use HoistField")
    row = {str(name): member for name, member in value.items()}
    return row, struct({name: _inferred(member) for name, member in row.items() if member is not None})


def _inferred(value: Any) -> Schema:
    """Return the schema of a JSON value: an object is a struct."""
    if isinstance(value, Mapping):
        fields = {str(name): _inferred(member) for name, member in value.items() if member is not None}
        return struct(fields, optional=True)
    if isinstance(value, list) and value:
        return schemas.array(_inferred(value[0]), optional=True)
    return (infer_schema(value) or schemas.STRING).as_optional()


def _without(schema: Schema, name: str | None) -> Schema:
    if name is None or schema.field(name) is None:
        return schema
    return schema.with_fields((field.name, field.schema) for field in schema.fields if field.name != name)


def _key_of(record: SinkRecord, names: Sequence[str]) -> Key:
    """Return the key of a tombstone. Raises DataError."""
    if isinstance(record.key, Struct | Mapping):
        key_values = dict(record.key.items())
    else:
        key_values = {names[0]: record.key} if len(names) == 1 else {}
    missing = [name for name in names if key_values.get(name) is None]
    if missing:
        raise DataError(f"the key of the tombstone has no field {missing[0]!r}")
    return tuple(key_values[name] for name in names)


def _columns(table: _Collected) -> pa.Schema:
    """Return the columns of everything that is collected. Raises DataError for types that do not go together."""
    made = [
        pa.schema([pa.field(field.name, _iceberg_type(field.schema), field.schema.optional) for field in schema.fields])
        for schema in table.types
    ]
    try:
        return pa.unify_schemas(made, promote_options="permissive") if made else pa.schema([])
    except pa.ArrowException as error:
        raise DataError(f"the records have columns of different types: {error}") from error


def _covers(table_fields: Any, wanted: Any) -> bool:
    """Return True if a schema or struct has all fields of another one, at all levels, with room for their values."""
    fields = {field.name: field.type for field in table_fields}
    return all(field.name in fields and _has_parts(fields[field.name], field.type) for field in wanted)


def _has_parts(table_type: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True if a column has room for the values of another type, and its structs have all fields of the other's.

    Types that cannot be changed into each other are not compared.
    """
    if pa.types.is_struct(table_type) and pa.types.is_struct(wanted):
        return _covers(table_type, wanted)
    if pa.types.is_list(table_type) or pa.types.is_large_list(table_type):
        return not pa.types.is_list(wanted) or _has_parts(table_type.value_type, wanted.value_type)
    if pa.types.is_map(table_type) and pa.types.is_map(wanted):
        return _has_parts(table_type.key_type, wanted.key_type) and _has_parts(table_type.item_type, wanted.item_type)
    return not _is_wider(wanted, table_type)


def _is_wider(one: Any, other: Any) -> bool:
    """Return True for a type that a column of another type can be changed into."""
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        return bool(one.scale == other.scale and one.precision > other.precision)
    return (one, other) in ((pa.int64(), pa.int32()), (pa.float64(), pa.float32()))


def _iceberg_type(schema: Schema) -> Any:
    """Return an Arrow type that Iceberg has: times in microseconds."""
    data_type = arrow_type(schema)
    if pa.types.is_time(data_type):
        return pa.time64("us")
    if schema.type is Type.STRUCT:
        return pa.struct(
            [pa.field(field.name, _iceberg_type(field.schema), field.schema.optional) for field in schema.fields]
        )
    if schema.type is Type.ARRAY:
        return pa.list_(_iceberg_type(schema.elements))
    if schema.type is Type.MAP:
        return pa.map_(data_type.key_type, _iceberg_type(schema.elements))
    return data_type


def _arrow(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of a table; fields that it does not have are left out."""
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConnectError(f"the records do not fit the columns of the table: {error}") from error


class IcebergSinkConnector(SinkConnector):
    """Rows of Apache Iceberg tables, appended or by key; exactly once."""

    task_class = IcebergSinkTask
    config_def = _DEFINITIONS

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        if (
            validated["iceberg.tables.upsert-mode-enabled"].value
            and not validated["iceberg.tables.default-id-columns"].value
        ):
            validated["iceberg.tables.default-id-columns"].errors.append(
                "iceberg.tables.default-id-columns is required with upsert mode: the columns of the key"
            )
        return validated

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max

    @classmethod
    def alter_offsets(cls, configs: Configs, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Change the offsets in the tables that the topics have by name."""
        catalog, template = _catalog(configs), str(_parsed(configs)["iceberg.tables"])
        by_table: dict[str, dict[TopicPartition, int | None]] = {}
        for tp, offset in offsets.items():
            by_table.setdefault(template.replace("${topic}", tp.topic), {})[tp] = offset
        for name, changed in by_table.items():
            writer = TableWriter(catalog, name, configs.get("name", ""))
            if writer.load():
                writer.set_offsets(changed)
