"""The JDBC source: rows of tables, or of a query, in one of these modes.

    bulk                      everything again at each poll; no position, so no exactly once
    incrementing              rows with a larger value of a column that only grows
    timestamp                 rows with a later time of change: updates as well
    timestamp+incrementing    both: later ones, and of the same time those with a larger number

A source partition is a table, or the query; its offset has the last value of each column. Rows of one time are returned
together by `timestamp`, since the time alone cannot tell them apart. Deleted rows are seen by change capture, or by
comparison (deletes.py).

Configurations are those of Confluent's connector.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.jdbc.database import (
    DATABASE,
    as_struct,
    column_schema,
    open_engine,
    translated,
)
from odradek.connect.connectors.jdbc.deletes import KnownKeys, key_of
from odradek.connect.connectors.jdbc.queries import QuerySchema
from odradek.connect.data.logical import moment_of, ms_of
from odradek.connect.data.schema import Schema, struct
from odradek.connect.errors import ConfigError, ConnectError
from odradek.connect.plugin import Configs, ExactlyOnceSupport, SourceConnector, SourceTask
from odradek.connect.record import SourceRecord

_MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")
_US = 1_000_000

_DEFINITIONS = DATABASE + (
    ConfigDef()
    .define(
        "mode", Kind.STRING, documentation="How new rows are found.", importance="HIGH", allowed=one_of(*_MODES)
    )
    .define("incrementing.column.name", Kind.STRING, "", "The column that only grows.")
    .define("timestamp.column.name", Kind.LIST, [], "The column with the time of the last change, in UTC.")
    .define("table.whitelist", Kind.LIST, [], "The tables; by default all.", also=("table.include.list",))
    .define("table.blacklist", Kind.LIST, [], "Tables to leave out.", also=("table.exclude.list",))
    .define("schema.pattern", Kind.STRING, None, "Schema of the tables; by default the connection's.")
    .define("query", Kind.STRING, "", "A SELECT in place of tables; conditions and order are put around it.")
    .define(
        "topic.prefix", Kind.STRING, documentation="Before the name of the table; with `query`, the topic itself.",
        importance="HIGH", allowed=non_empty(),
    )
    .define("poll.interval.ms", Kind.INT, 5_000, "Time between two looks for new rows.", allowed=between(0))
    .define("batch.max.rows", Kind.INT, 1_000, "The largest number of rows of one poll.", allowed=between(1))
    .define(
        "timestamp.delay.interval.ms", Kind.LONG, 0,
        "Rows are read when their time is so old, so that transactions with earlier times have ended.",
        allowed=between(0),
    )
    .define(
        "timestamp.initial", Kind.LONG, None, "First time to read, in ms since 1970; -1: now. By default all.",
    )
    .define(
        "delete.detection", Kind.STRING, "none",
        "snapshot: the primary keys of a table are compared with those of the last time, and each one that is gone "
        "becomes a tombstone; the records get the primary key as their key.", allowed=one_of("none", "snapshot"),
    )
    .define(
        "delete.detection.interval.ms", Kind.LONG, 60_000, "Time between two comparisons of a table.",
        allowed=between(1),
    )
    .define(
        "numeric.mapping", Kind.STRING, "none", "Exact numbers: none is Connect's Decimal; precision_only makes whole "
        "numbers of up to 18 digits INT8 to INT64; best_fit those with a fraction FLOAT64, too; best_fit_eager_double "
        "with more digits as well.", allowed=one_of("none", "precision_only", "best_fit", "best_fit_eager_double"),
    )
    .define("validate.non.null", Kind.BOOLEAN, True, "Whether nullable columns of the mode are refused.")
)  # fmt: skip


class _Input:
    """A table or a query, and the position in it.

    Args:
        columns: names of the timestamp column and the incrementing one; None for those that the mode does not have.
    """

    def __init__(
        self,
        name: str,
        topic: str,
        source: Any,
        schema: Schema | None,
        columns: tuple[str | None, str | None],
    ) -> None:
        self.partition = {"query": name} if schema is None else {"table": name}
        self.topic, self.source, self.schema = topic, source, schema
        self.timestamp, self.incrementing = columns
        self.offset: dict[str, int] = {}  # timestamp in microseconds, incrementing
        self.described: QuerySchema | None = None  # of a query
        self.rows: Iterator[list[SourceRecord]] | None = None
        self.due_s = 0.0
        self.key_schema: Schema | None = None  # with delete.detection
        self.known_keys: KnownKeys | None = None
        self.compared_s: float | None = None

    @property
    def is_bulk(self) -> bool:
        return self.timestamp is None and self.incrementing is None

    def statement(self, until: dt.datetime | None) -> Any:
        """Return the SELECT of the rows behind the position."""
        # Of a query, only the columns of the mode are known by name.
        query = sa.select(sa.literal_column("*") if self.schema is None else self.source).select_from(self.source)
        if self.is_bulk:
            return query
        column = self.source.c
        time = None if self.timestamp is None else column[self.timestamp]
        number = None if self.incrementing is None else column[self.incrementing]
        last_time = _time(self.offset["timestamp"]) if "timestamp" in self.offset else None
        last_number = self.offset.get("incrementing")
        if time is not None and until is not None:
            query = query.where(time < until)
        if time is not None and last_time is not None:
            later = time > last_time
            if number is not None and last_number is not None:
                later = sa.or_(later, sa.and_(time == last_time, number > last_number))
            query = query.where(later)
        elif number is not None and last_number is not None:
            query = query.where(number > last_number)
        return query.order_by(*(order_column for order_column in (time, number) if order_column is not None))


def _time(microseconds: int) -> dt.datetime:
    """Return the time without a zone, as columns in UTC have it."""
    return (moment_of(0) + dt.timedelta(microseconds=microseconds)).replace(tzinfo=None)


def _microseconds(value: Any) -> int:
    if not isinstance(value, dt.datetime):
        raise ConnectError(f"the timestamp column must have timestamps that are not null, not {value!r:.80}")
    moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return ms_of(moment) * 1000 + moment.microsecond % 1000


class JdbcSourceTask(SourceTask):
    """Reads its share of the tables in turn."""

    _engine: sa.Engine | None = None

    def start(self, configs: Configs) -> None:
        self._options = options = _DEFINITIONS.parse(configs)
        self._engine = open_engine(options)
        self._interval_s = options["poll.interval.ms"] / 1000
        with translated("the tables cannot be described"):
            self._inputs = [self._query()] if options["query"] else [self._table(table) for table in _tables(configs)]
        for source in self._inputs:
            stored = self.context.offset(source.partition)
            source.offset = {} if stored is None else {name: int(value) for name, value in stored.items()}
            if not source.offset and source.timestamp is not None and options["timestamp.initial"] is not None:
                first_ms = options["timestamp.initial"]
                source.offset["timestamp"] = (self.context.clock.now_ms() if first_ms < 0 else first_ms) * 1000

    def _columns(self) -> tuple[str | None, str | None]:
        mode, options = self._options["mode"], self._options
        time = options["timestamp.column.name"][0] if "timestamp" in mode else None
        return time, options["incrementing.column.name"] if "incrementing" in mode else None

    def _query(self) -> _Input:
        text = self._options["query"].strip().rstrip(";")
        names = [column for column in self._columns() if column is not None]
        source = sa.text(text).columns(*(sa.column(name) for name in names)).subquery("q")
        made = _Input("query", self._options["topic.prefix"], source, None, self._columns())
        assert self._engine is not None
        made.described = QuerySchema(self._engine.dialect.name)
        return made

    def _table(self, name: str) -> _Input:
        assert self._engine is not None
        table = sa.Table(name, sa.MetaData(), autoload_with=self._engine, schema=self._options["schema.pattern"])
        columns = self._columns()
        for column in filter(None, columns):
            if column not in table.c:
                raise ConfigError(f"the table {name} has no column {column}, which mode={self._options['mode']} needs")
            if table.c[column].nullable and self._options["validate.non.null"]:
                raise ConfigError(f"the column {column} of {name} may be null; validate.non.null=false permits it")
        schema = struct(
            [(column.name, column_schema(column, self._options["numeric.mapping"])) for column in table.c], name=name
        )
        topic = f"{self._options['topic.prefix']}{name}"
        made = _Input(name, topic, table, schema, columns)
        if self._options["delete.detection"] == "snapshot":
            keys = [column.name for column in table.primary_key.columns]
            if not keys:
                raise ConfigError(f"delete.detection=snapshot needs a primary key, which {name} does not have")
            fields = {field.name: field.schema for field in schema.fields}
            made.key_schema = struct([(key, fields[key]) for key in keys], name=f"{name}.Key")
            made.known_keys = KnownKeys(name, self.context.offset)
        return made

    def poll(self) -> list[SourceRecord]:
        now_s = self.context.clock.monotonic()
        for source in self._inputs:
            if source.rows is None and now_s < source.due_s:
                continue
            if source.rows is None:
                source.rows = self._read(source)
            with translated(f"{source.partition} cannot be read"):
                batch = next(source.rows, None)
            if batch is not None:
                self._inputs.append(self._inputs.pop(self._inputs.index(source)))  # the others are next
                return batch
            source.rows, source.due_s = None, now_s + self._interval_s
            deleted = self._deleted(source, now_s)
            if deleted:
                return deleted
        wait_s = min((source.due_s for source in self._inputs), default=now_s + 1) - now_s
        self.context.wait(max(0.0, min(wait_s, 1.0)))
        return []

    def _read(self, source: _Input) -> Iterator[list[SourceRecord]]:
        """Yield batches of the rows that are new now."""
        assert self._engine is not None
        until = None
        if source.timestamp is not None:
            until = _time((self.context.clock.now_ms() - self._options["timestamp.delay.interval.ms"]) * 1000)
        with self._engine.connect() as connection:
            executed = connection.execution_options(stream_results=True).execute(source.statement(until))
            description = list(executed.cursor.description) if executed.cursor is not None else []
            batch: list[Mapping[str, Any]] = []
            for mapping in executed.mappings():
                row: dict[str, Any] = {str(name): value for name, value in mapping.items()}
                if len(batch) >= self._options["batch.max.rows"] and not _is_same_time(source, batch[-1], row):
                    yield self._records(source, batch, description)
                    batch = []
                batch.append(row)
            if batch:
                yield self._records(source, batch, description)

    def _deleted(self, source: _Input, now_s: float) -> list[SourceRecord]:
        """Compare the keys if it is time to; return a tombstone for each row that is gone."""
        if source.known_keys is None or source.key_schema is None:
            return []
        if (
            source.compared_s is not None
            and now_s < source.compared_s + self._options["delete.detection.interval.ms"] / 1000
        ):
            return []
        assert self._engine is not None
        schema, names = source.key_schema, [field.name for field in source.key_schema.fields]
        with translated(f"the keys of {source.partition} cannot be read"), self._engine.connect() as connection:
            key_rows = connection.execute(sa.select(*(source.source.c[name] for name in names))).mappings()
            present = {key_of(row[name] for name in names) for row in key_rows}
        source.compared_s = now_s
        records = []
        for bucket, deleted_keys, offset in source.known_keys.compare(present):
            partition = source.known_keys.partition(bucket)
            records.append(SourceRecord.position(partition, offset))
            for key in deleted_keys:
                kept = as_struct(schema, dict(zip(names, _typed(source, names, json.loads(key)), strict=True)))
                records.append(
                    SourceRecord(
                        topic=source.topic,
                        key=kept,
                        key_schema=schema,
                        source_partition=partition,
                        source_offset=offset,
                    )
                )
        return records

    def _records(self, source: _Input, rows: list[Mapping[str, Any]], description: list[Any]) -> list[SourceRecord]:
        schema = source.schema
        if schema is None:
            assert source.described is not None
            schema = source.described.of(description, rows)
        records = []
        for row in rows:
            offset = dict(source.offset)
            if source.timestamp is not None:
                offset["timestamp"] = _microseconds(row[source.timestamp])
            if source.incrementing is not None:
                offset["incrementing"] = int(row[source.incrementing])
            source.offset = offset
            key = None if source.key_schema is None else as_struct(source.key_schema, row)
            if source.known_keys is not None and key is not None:
                source.known_keys.add(key_of(row[name] for name in key))
            records.append(
                SourceRecord(
                    topic=source.topic,
                    key=key,
                    key_schema=source.key_schema,
                    value=as_struct(schema, row),
                    value_schema=schema,
                    source_partition=None if source.is_bulk else source.partition,
                    source_offset=None if source.is_bulk else offset,
                )
            )
        return records

    def stop(self) -> None:
        if self._engine is not None:
            self._engine.dispose()


def _typed(source: _Input, names: list[str], values: list[Any]) -> list[Any]:
    """Return the values of a key as the columns have them, from its JSON."""
    kinds = [source.source.c[name].type.python_type for name in names]
    return [
        value if isinstance(value, python_type) else _of_text(python_type, value)
        for python_type, value in zip(kinds, values, strict=True)
    ]


def _of_text(python_type: type, value: Any) -> Any:
    if python_type in (dt.date, dt.datetime, dt.time):
        return python_type.fromisoformat(value)
    return python_type(value)


def _is_same_time(source: _Input, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True for rows that only `timestamp` mode cannot tell apart."""
    if source.timestamp is None or source.incrementing is not None:
        return False
    return bool(one[source.timestamp] == other[source.timestamp])


def _tables(configs: Configs) -> list[str]:
    return [name for name in configs.get("tables", "").split(",") if name]


class JdbcSourceConnector(SourceConnector):
    """Rows of a relational database: everything, new ones, or new and changed ones."""

    task_class = JdbcSourceTask
    config_def = _DEFINITIONS

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        mode = validated["mode"].value or ""
        if "incrementing" in mode and not validated["incrementing.column.name"].value:
            validated["incrementing.column.name"].errors.append(
                f"incrementing.column.name is required with mode={mode}"
            )
        if "timestamp" in mode and len(validated["timestamp.column.name"].value or ()) != 1:
            validated["timestamp.column.name"].errors.append(f"mode={mode} needs one timestamp.column.name")
        if validated["query"].value and (validated["table.whitelist"].value or validated["table.blacklist"].value):
            validated["query"].errors.append("give either query or tables")
        if validated["query"].value and validated["delete.detection"].value == "snapshot":
            validated["delete.detection"].errors.append("delete.detection=snapshot needs tables, not a query")
        return validated

    @classmethod
    def exactly_once_support(cls, configs: Configs) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.UNSUPPORTED if configs.get("mode") == "bulk" else ExactlyOnceSupport.SUPPORTED

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        options = _DEFINITIONS.parse(self.configs)
        if options["query"]:
            return [dict(self.configs)]
        tables = options["table.whitelist"]
        if not tables:
            engine = open_engine(options)
            with translated("the tables cannot be listed"):
                tables = sa.inspect(engine).get_table_names(schema=options["schema.pattern"])
            engine.dispose()
        tables = [table for table in tables if table not in options["table.blacklist"]]
        groups = [tables[number::tasks_max] for number in range(min(tasks_max, len(tables)))]
        return [{**self.configs, "tables": ",".join(group)} for group in groups]
