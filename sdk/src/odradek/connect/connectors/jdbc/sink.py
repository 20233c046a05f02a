"""The JDBC sink: records as rows of tables, by insert, upsert or update, and deletes by tombstones.

With `exactly.once=true` the offsets of the records are kept in a table of the same database and written in the same
transaction, on condition that they are still those that this task has read: of two tasks that have a partition for a
moment, each writes only what the other has not. Otherwise writes are at least once, which upsert makes harmless.

Rows of change capture are understood: dates, times, numbers, JSON and UUIDs in Debezium's semantic types become the
columns that they were, and a large value that was not sent, since it did not change, leaves its column as it is.

Configurations are those of Confluent's connector; `exactly.once` and `offsets.table` are ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc, types
from sqlalchemy.schema import CreateColumn

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.jdbc.binding import binder, column_type, take_json_as_text, takes_plainly
from odradek.connect.connectors.jdbc.copying import ROWS_MIN, can_copy, copied
from odradek.connect.connectors.jdbc.database import DATABASE, open_engine, translated
from odradek.connect.data import schema as schemas
from odradek.connect.data import unavailable
from odradek.connect.data.schema import Schema
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import infer_schema
from odradek.connect.errors import ConnectError, DataError, RetriableError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.model.topic_partition import TopicPartition

_SHAPES_MAX = 1_000
_KAFKA_KEY = ("__connect_topic", "__connect_partition", "__connect_offset")

_DEFINITIONS = DATABASE + (
    ConfigDef()
    .define(
        "insert.mode", Kind.STRING, "insert", "How rows are written.", importance="HIGH",
        allowed=one_of("insert", "upsert", "update"),
    )
    .define(
        "pk.mode", Kind.STRING, "none",
        "Where the primary key is from: none; kafka: topic, partition and offset; record_key; record_value.",
        importance="HIGH", allowed=one_of("none", "kafka", "record_key", "record_value"),
    )
    .define("pk.fields", Kind.LIST, [], "Columns of the primary key; by default all fields of the key.")
    .define(
        "table.name.format", Kind.STRING, "${topic}", "Name of the table; ${topic} is the topic.",
        allowed=non_empty(),
    )
    .define("fields.whitelist", Kind.LIST, [], "Fields of the value to write; by default all.")
    .define("auto.create", Kind.BOOLEAN, False, "Whether missing tables are created.")
    .define("auto.evolve", Kind.BOOLEAN, False, "Whether missing columns are added.")
    .define("delete.enabled", Kind.BOOLEAN, False, "Whether a tombstone deletes its row; needs pk.mode=record_key.")
    .define("batch.size", Kind.INT, 3_000, "The largest number of rows of one statement.", allowed=between(1))
    .define("exactly.once", Kind.BOOLEAN, False, "Whether offsets are kept in the database, in the same transaction.")
    .define("offsets.table", Kind.STRING, "odradek_connect_offsets", "The table of those offsets.")
    .define("unavailable.value.placeholder", Kind.STRING, "__debezium_unavailable_value", "What change capture writes "
            "for a value that was not sent, since it did not change: its column is left as it is.")
)  # fmt: skip


_Fields = tuple[tuple[str, Schema], ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Shape:
    """The common shape of changes that one statement can write; compared by identity.

    Attributes:
        fields: of key and row: the columns that the table needs.
        keys: names of the columns of the key.
        names: columns of the row; None: rows are deleted.
        partial: columns of the table are to stay as they are.
    """

    table: str
    fields: _Fields
    keys: tuple[str, ...]
    names: tuple[str, ...] | None
    partial: bool = False


class _Change(NamedTuple):
    """A row to write, or the key of one to delete, as the columns take it."""

    shape: _Shape
    row: dict[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        values = [self.row[name] for name in self.shape.keys]
        return tuple([tuple(value) if type(value) is list else value for value in values])


class _Shapes:
    """The shapes of a task: records with the same schemas get the same one.

    Args:
        mark: what change capture writes for a text that was not sent.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._signs: dict[int, tuple[_Fields, list[tuple[str, Any]]]] = {}
        self._shapes: dict[tuple[Any, ...], tuple[_Shape, _Fields, _Fields]] = {}  # the fields keep their identity
        self._fields: dict[_Fields, _Fields] = {}

    def of(self, table: str, key: _Fields, row: _Fields, names: tuple[str, ...] | None, partial: bool) -> _Shape:
        """Return the shape of a change.

        Args:
            key, row: as `fields` has returned them: the same object for the same fields.
        """
        at = table, id(key), id(row), names, partial
        shape = self._shapes.get(at)
        if shape is None:
            keys = tuple(name for name, _ in key)
            others = (
                ()
                if names is None
                else ((name, field_schema) for name, field_schema in row if name in names and name not in keys)
            )
            shape = self._shapes[at] = _Shape(table, (*key, *others), keys, names, partial), key, row
        return shape[0]

    def fields(self, interned_fields: _Fields) -> _Fields:
        """Return fields that are equal to these, always the same object."""
        return self._fields.setdefault(interned_fields, interned_fields)

    def signs(self, fields: _Fields) -> list[tuple[str, Any]]:
        """Return what values of these fields are if change capture was not sent them."""
        signs_kept = self._signs.get(id(fields))
        if signs_kept is None:
            signs = ((name, unavailable.sign(schema, self._mark)) for name, schema in fields if self._mark)
            signs_kept = self._signs[id(fields)] = fields, [(name, sign) for name, sign in signs if sign is not None]
        return signs_kept[1]

    def trim(self) -> bool:
        """Forget everything if there is too much, and return whether: schemas may change for ever."""
        if len(self._shapes) + len(self._fields) + len(self._signs) <= _SHAPES_MAX:
            return False
        self._shapes.clear()
        self._fields.clear()
        self._signs.clear()
        return True


class JdbcSinkTask(SinkTask):
    """Writes the rows of a batch in one transaction."""

    _engine: sa.Engine | None = None

    def start(self, configs: Configs) -> None:
        self._given = options = _DEFINITIONS.parse(configs)
        self._name = configs.get("name", "")
        self._engine = open_engine(options)
        self._tables: dict[str, sa.Table] = {}
        self._binders: dict[_Shape, list[tuple[str, Callable[[Any], Any]]]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._shapes = _Shapes(options["unavailable.value.placeholder"])
        self._offsets: sa.Table | None = None
        self._is_unsure = False  # whether the offsets in the database may be others than `_positions`
        if options["exactly.once"]:
            self._offsets = _offsets_table(options["offsets.table"])
            with translated("the table of offsets cannot be created"):
                self._offsets.create(self._engine, checkfirst=True)

    # --- offsets in the database ----------------------------------------------------------------------------------

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        if self._offsets is None:
            return
        self._read_positions(partitions)
        self.context.seek({tp: self._positions[tp] for tp in partitions if tp in self._positions})

    def _read_positions(self, partitions: Iterable[TopicPartition]) -> None:
        table = self._offsets
        assert table is not None
        assert self._engine is not None
        with translated("the offsets cannot be read"), self._engine.connect() as connection:
            for tp in partitions:
                next_offset = connection.execute(sa.select(table.c.next_offset).where(*self._of(tp))).scalar()
                if next_offset is not None:
                    self._positions[tp] = int(next_offset)

    def _of(self, tp: TopicPartition) -> tuple[Any, ...]:
        assert self._offsets is not None
        column = self._offsets.c
        return column.connector == self._name, column.topic == tp.topic, column.partition == tp.partition

    def _move(self, connection: sa.Connection, tp: TopicPartition, behind: int) -> None:
        """Write the offset behind a batch, if it is still the one that this task has read.

        Raises:
            RetriableError: another task was faster. Which of the two has the partition is for their group to say; the
                offsets are read again, and what is written already is left out.
        """
        assert self._offsets is not None
        before = self._positions.get(tp)
        if before is None:
            row = {"connector": self._name, "topic": tp.topic, "partition": tp.partition, "next_offset": behind}
            try:
                connection.execute(sa.insert(self._offsets).values(row))
            except exc.IntegrityError as error:
                raise RetriableError(f"another task has written records of {tp}") from error
            return
        condition = (*self._of(tp), self._offsets.c.next_offset == before)
        moved = connection.execute(sa.update(self._offsets).where(*condition).values(next_offset=behind))
        if moved.rowcount != 1:
            raise RetriableError(f"another task has written records of {tp}")

    # --- writing --------------------------------------------------------------------------------------------------

    def put(self, records: Sequence[SinkRecord]) -> None:
        if self._offsets is not None:
            if self._is_unsure:
                self._read_positions({record.source for record in records})
                self._is_unsure = False
            records = [record for record in records if record.source_position >= self._positions.get(record.source, 0)]
        if not records:
            return
        assert self._engine is not None
        if self._shapes.trim():
            self._binders.clear()
        changes = []
        for record in records:
            try:
                changes += self._changes(record)
            except DataError as error:
                self.context.errant_records.report(record, error)
        behind: dict[TopicPartition, int] = {}
        for record in records:
            behind[record.source] = record.source_position + 1
        try:
            with translated("the rows cannot be written"), self._engine.begin() as connection:
                for group in _grouped(changes, self._given["batch.size"]):
                    self._write(connection, group)
                if self._offsets is not None:
                    for tp, offset in behind.items():
                        self._move(connection, tp, offset)
        except RetriableError:
            self._is_unsure = True  # the connection may have broken behind the commit
            raise
        if self._offsets is not None:
            self._positions.update(behind)

    def _changes(self, record: SinkRecord) -> list[_Change]:
        table = self._given["table.name.format"].replace("${topic}", record.topic)
        key, key_fields = self._key(record)
        if record.value is None:
            if not self._given["delete.enabled"]:
                return []
            if self._given["pk.mode"] != "record_key":
                raise DataError("delete.enabled needs pk.mode=record_key")
            return [self._bound(self._shapes.of(table, key_fields, (), None, False), dict(key))]
        row, fields = self._columns(record.value_schema, record.value, "value")
        wanted = self._given["fields.whitelist"]
        chosen = {name: value for name, value in row.items() if name in wanted} if wanted else row
        row = chosen
        absent = {name for name, sign in self._shapes.signs(fields) if chosen.get(name) == sign}
        if absent:
            row = {name: value for name, value in chosen.items() if name not in absent}
        is_partial = len(row) < len(chosen)
        row |= key
        return [self._bound(self._shapes.of(table, key_fields, fields, tuple(row), is_partial), row)]

    def _bound(self, shape: _Shape, row: dict[str, Any]) -> _Change:
        """Return a change with values as the columns of its table take them, which is prepared.

        Raises:
            DataError: a value that its column cannot have.
            ConnectError: there is no such table or column.
        """
        binders = self._binders.get(shape)
        if binders is None:
            self._prepare(shape)
            binders = self._binders[shape] = self._binders_of(shape)
        for name, bind in binders:
            try:
                row[name] = bind(row[name])
            except DataError as error:
                raise DataError(f"{shape.table}.{name} cannot be written: {error}") from error
        return _Change(shape, row)

    def _binders_of(self, shape: _Shape) -> list[tuple[str, Callable[[Any], Any]]]:
        """Return what changes values, by the names of their columns."""
        assert self._engine is not None
        table, dialect = self._tables[shape.table], self._engine.dialect.name
        schema = dict(shape.fields)
        names = shape.keys if shape.names is None else shape.names
        pairs = [(name, table.c[name], schema.get(name)) for name in names]
        return [
            (name, binder(column, field, dialect)) for name, column, field in pairs if not takes_plainly(column, field)
        ]

    def _columns(self, schema: Schema | None, value: Any, subject: str) -> tuple[dict[str, Any], _Fields]:
        """Return the fields of a struct or map with their schemas. Raises DataError for other values."""
        if isinstance(value, Struct):
            return value.flat(), _fields_of(value.schema)
        if isinstance(value, Mapping):
            inferred = tuple(
                (name, (infer_schema(member) or schemas.STRING).as_optional()) for name, member in value.items()
            )
            return dict(value), self._shapes.fields(inferred)
        raise DataError(
            f"the {subject} must be a struct or a map, whose fields are columns, not {type(value).__name__}"
        )

    def _key(self, record: SinkRecord) -> tuple[dict[str, Any], _Fields]:
        mode, names = self._given["pk.mode"], self._given["pk.fields"]
        if mode == "none":
            return {}, ()
        if mode == "kafka":
            chosen = names if len(names) == len(_KAFKA_KEY) else _KAFKA_KEY
            values = (record.source.topic, record.source.partition, record.source_position)
            kinds = (schemas.STRING, schemas.INT32, schemas.INT64)
            return dict(zip(chosen, values, strict=True)), self._shapes.fields(tuple(zip(chosen, kinds, strict=True)))
        if mode == "record_value":
            key_values, fields = self._columns(record.value_schema, record.value, "value")
        elif isinstance(record.key, Struct | Mapping):
            key_values, fields = self._columns(record.key_schema, record.key, "key")
        else:
            [name] = names or ["id"]
            schema = record.key_schema or infer_schema(record.key)
            key_values, fields = {name: record.key}, self._shapes.fields(((name, schema or schemas.STRING),))
        chosen = names or list(key_values)
        missing = [name for name in chosen if key_values.get(name) is None]
        if missing:
            raise DataError(
                f"the record has no {mode.removeprefix('record_')} field {missing[0]!r} for its primary key"
            )
        if names:
            fields = self._shapes.fields(tuple((name, field_schema) for name, field_schema in fields if name in names))
        return {name: key_values[name] for name in chosen}, fields

    def _prepare(self, shape: _Shape) -> None:
        """Reflect, create or evolve the table of changes. Raises ConnectError."""
        table = self._tables.get(shape.table)
        if table is not None and all(name in table.c for name, _ in shape.fields):
            return
        assert self._engine is not None
        schema_name, _, name = shape.table.rpartition(".")
        with translated(f"the table {shape.table} cannot be prepared"):
            if not sa.inspect(self._engine).has_table(name, schema=schema_name or None):
                if not self._given["auto.create"]:
                    raise ConnectError(f"the table {shape.table} does not exist: create it, or set auto.create=true")
                columns = [_column(field, field_schema, field in shape.keys) for field, field_schema in shape.fields]
                sa.Table(name, sa.MetaData(), *columns, schema=schema_name or None).create(
                    self._engine, checkfirst=True
                )
            table = self._reflected(name, schema_name)
            missing = [(field, field_schema) for field, field_schema in shape.fields if field not in table.c]
            if missing:
                if not self._given["auto.evolve"]:
                    raise ConnectError(
                        f"the table {shape.table} has no column {missing[0][0]}: add it, or set auto.evolve=true"
                    )
                self._evolve(table, missing)
                table = self._reflected(name, schema_name)
        self._tables[shape.table] = table

    def _reflected(self, name: str, schema_name: str) -> sa.Table:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Did not recognize type", exc.SAWarning)  # it takes text
            table = sa.Table(name, sa.MetaData(), autoload_with=self._engine, schema=schema_name or None)
        return take_json_as_text(table)

    def _evolve(self, table: sa.Table, missing: list[tuple[str, Schema]]) -> None:
        assert self._engine is not None
        preparer = self._engine.dialect.identifier_preparer
        with self._engine.begin() as connection:
            for name, schema in missing:
                column = CreateColumn(_column(name, schema.as_optional(), False)).compile(dialect=self._engine.dialect)
                connection.execute(sa.text(f"ALTER TABLE {preparer.format_table(table)} ADD COLUMN {column}"))

    def _write(self, connection: sa.Connection, group: list[_Change]) -> None:
        """Write changes of one table and one kind."""
        shape = group[0].shape
        table = self._tables[shape.table]
        if shape.names is None:
            condition = [table.c[name] == sa.bindparam(f"k_{name}", type_=table.c[name].type) for name in shape.keys]
            keys = [{f"k_{name}": value for name, value in change.row.items()} for change in group]
            connection.execute(sa.delete(table).where(*condition), keys)
            return
        rows = [change.row for change in group]
        mode = self._given["insert.mode"]
        if mode == "update":
            _update(connection, table, shape.keys, rows)
        elif mode == "upsert" and shape.keys:
            if shape.partial:  # an insert might lack a column that must not be null
                rows = [row for row in rows if not _update(connection, table, shape.keys, [row])]
            if rows and not _copied(connection, table, shape.keys, rows):
                _upsert(connection, table, shape.keys, rows)
        elif not _copied(connection, table, (), rows):
            connection.execute(sa.insert(table), rows)

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._positions.pop(tp, None)

    def stop(self) -> None:
        if self._engine is not None:
            self._engine.dispose()


def _offsets_table(name: str) -> sa.Table:
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("connector", types.String(200), primary_key=True),
        sa.Column("topic", types.String(249), primary_key=True),
        sa.Column("partition", types.Integer(), primary_key=True, autoincrement=False),
        sa.Column("next_offset", types.BigInteger(), nullable=False),
    )


@lru_cache(maxsize=_SHAPES_MAX)
def _fields_of(schema: Schema) -> _Fields:
    return tuple((field.name, field.schema) for field in schema.fields)


def _column(name: str, schema: Schema, is_key: bool) -> Any:
    data_type = column_type(schema, is_key=is_key)
    return sa.Column(name, data_type, primary_key=is_key, nullable=schema.optional and not is_key, autoincrement=False)


def _grouped(changes: list[_Change], size: int) -> Iterable[list[_Change]]:
    """Yield neighbours that one statement can write. A key comes once in a group: the last change counts."""
    group: list[_Change] = []
    keys_in_group: set[Any] = set()
    for change in changes:
        key = change.key
        if group and (change.shape is not group[0].shape or len(group) >= size or (key and key in keys_in_group)):
            yield group
            group, keys_in_group = [], set()
        group.append(change)
        keys_in_group.add(key)
    if group:
        yield group


def _copied(connection: sa.Connection, table: sa.Table, keys: tuple[str, ...], rows: list[dict[str, Any]]) -> bool:
    return len(rows) >= ROWS_MIN and can_copy(connection) and copied(connection, table, keys, rows)


def _update(connection: sa.Connection, table: sa.Table, keys: tuple[str, ...], rows: list[dict[str, Any]]) -> int:
    condition = [table.c[name] == sa.bindparam(f"k_{name}", type_=table.c[name].type) for name in keys]
    others = [name for name in rows[0] if name not in keys]
    if not others:
        return 0
    new = {name: sa.bindparam(f"v_{name}", type_=table.c[name].type) for name in others}
    statement = sa.update(table).where(*condition).values(new)
    bound = [
        {**{f"k_{name}": row[name] for name in keys}, **{f"v_{name}": row[name] for name in others}} for row in rows
    ]
    return connection.execute(statement, bound).rowcount


def _upsert(connection: sa.Connection, table: sa.Table, keys: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Insert or replace rows, by the database's own statement if it has one."""
    dialect = connection.dialect.name
    others = [name for name in rows[0] if name not in keys]
    if dialect in ("postgresql", "sqlite"):
        if dialect == "postgresql":
            from sqlalchemy.dialects.postgresql import insert
        else:
            from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
        statement: Any = insert(table)
        if others:
            new = {name: statement.excluded[name] for name in others}
            statement = statement.on_conflict_do_update(index_elements=list(keys), set_=new)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=list(keys))
        connection.execute(statement, rows)
    elif dialect in ("mysql", "mariadb"):
        from sqlalchemy.dialects.mysql import insert as mysql_insert

        statement = mysql_insert(table)
        connection.execute(
            statement.on_duplicate_key_update({name: statement.inserted[name] for name in others or keys}), rows
        )
    else:
        for row in rows:
            exists = sa.select(sa.literal(1)).where(*(table.c[name] == row[name] for name in keys))
            if connection.execute(exists).first() is None:
                connection.execute(sa.insert(table), [row])
            else:
                _update(connection, table, keys, [row])


class JdbcSinkConnector(SinkConnector):
    """Rows of a relational database: insert, upsert, update and delete; tables created and evolved."""

    task_class = JdbcSinkTask
    config_def = _DEFINITIONS

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        if validated["insert.mode"].value in ("upsert", "update") and validated["pk.mode"].value == "none":
            validated["pk.mode"].errors.append("insert.mode=upsert and update need a pk.mode: which row is meant")
        if validated["delete.enabled"].value is True and validated["pk.mode"].value != "record_key":
            validated["delete.enabled"].errors.append("delete.enabled needs pk.mode=record_key")
        return validated

    @classmethod
    def alter_offsets(cls, configs: Configs, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Change the offsets in the database as well."""
        options = _DEFINITIONS.parse(configs)
        if not options["exactly.once"]:
            return
        table, engine = _offsets_table(options["offsets.table"]), open_engine(options)
        name = configs.get("name", "")
        with translated("the offsets cannot be changed"), engine.begin() as connection:
            table.create(connection, checkfirst=True)
            for tp, offset in offsets.items():
                of_place = (
                    table.c.connector == name,
                    table.c.topic == tp.topic,
                    table.c.partition == tp.partition,
                )
                connection.execute(sa.delete(table).where(*of_place))
                if offset is not None:
                    row = {"connector": name, "topic": tp.topic, "partition": tp.partition, "next_offset": offset}
                    connection.execute(sa.insert(table).values(row))
        engine.dispose()

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
