"""Statements -> actions, in order, with the definitions of the script so far. Pure: nothing is run here.

    planner = Planner()
    for statement in parse(script):
        action = planner.plan(statement)

A refused statement changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from odradek.sql.catalog import Catalog, Column, Source, apply_properties, did_you_mean, read_properties, timestamp_of
from odradek.sql.expressions import render
from odradek.sql.formats import check_columns, encode, literal, with_window
from odradek.sql.functions import FUNCTIONS
from odradek.sql.plan import (
    RESULT,
    Action,
    Configured,
    Declared,
    Dropped,
    Inserted,
    QueryPlan,
    Said,
    Selected,
    Shown,
    ShownTopics,
    Sink,
    Started,
    Terminated,
    Topic,
)
from odradek.sql.position import Position, SqlError
from odradek.sql.query import Planned, plan_query
from odradek.sql.scope import Scope
from odradek.sql.syntax import (
    Create,
    Describe,
    Drop,
    Explain,
    InsertSelect,
    InsertValues,
    Name,
    Property,
    Query,
    Set,
    Show,
    Statement,
    Terminate,
)
from odradek.sql.types import BIGINT, UNIT_MS, SqlType, quote, resolve_type

_OFFSET_RESET = "auto.offset.reset"
_CORRUPT_BATCHES = "corrupt.batches"
_SETTINGS = {_OFFSET_RESET: ("earliest", "latest"), _CORRUPT_BATCHES: ("fail", "skip")}
_TOPIC_LENGTH_MAX = 249
_UNTYPED = "the type of {name} is unknown: use CAST({shown} AS ...)"


@dataclass(slots=True)
class RunningQuery:
    """A persistent query that has been started."""

    plan: QueryPlan
    reads: tuple[str, ...]  # folded names
    writes: str


@dataclass(slots=True)
class Planner:
    """The state of a script."""

    catalog: Catalog = field(default_factory=Catalog)
    queries: dict[str, RunningQuery] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    _inserts: dict[str, int] = field(default_factory=dict)
    _selects: int = 0

    def plan(self, statement: Statement) -> Action:
        """Return the action of a statement. Raises SqlError."""
        try:
            return self._plan(statement)
        except RecursionError:
            raise SqlError("an expression is nested too deeply: split it", statement.at) from None

    def _plan(self, statement: Statement) -> Action:
        if isinstance(statement, Create):
            return self._create(statement)
        if isinstance(statement, Query):
            return Selected(self._select(statement))
        if isinstance(statement, InsertSelect):
            return self._insert_select(statement)
        if isinstance(statement, InsertValues):
            return self._insert_values(statement)
        if isinstance(statement, Show):
            return self._show(statement)
        if isinstance(statement, Describe):
            return self._describe(self.catalog.find(statement.name))
        if isinstance(statement, Explain):
            return self._explain(statement)
        if isinstance(statement, Drop):
            return self._drop(statement)
        if isinstance(statement, Terminate):
            return self._terminate(statement)
        return self._set(statement)

    # --- CREATE

    def _create(self, statement: Create) -> Action:
        name = statement.name
        there = self.catalog.sources.get(name.folded)
        if there is not None and statement.if_not_exists:
            return Said(f"{there.name} exists already")
        if there is not None and not statement.or_replace:
            raise SqlError(f"{there.name} already exists: use CREATE OR REPLACE, or IF NOT EXISTS", name.at)
        if there is not None and there.kind != statement.kind:
            raise SqlError(f"{there.name} is a {there.kind.lower()}", name.at)
        given = read_properties(statement.properties)
        if statement.query is not None:
            return self._create_as(statement, statement.query, given, there)
        return self._declare(statement, given)

    def _declare(self, statement: Create, given: dict[str, Property]) -> Declared:
        assert statement.columns is not None
        name = statement.name
        if "KAFKA_TOPIC" not in given:
            raise SqlError(f"WITH (KAFKA_TOPIC = '...') is required: the topic of {name.text}?", name.at)
        columns: list[Column] = []
        for each in statement.columns:
            if any(column.name.upper() == each.name.folded for column in columns):
                raise SqlError(f"column {each.name.text} appears twice", each.name.at)
            if each.name.text.startswith("__") or each.name.folded in _RESERVED:
                raise SqlError(f"the name {each.name.text} is reserved", each.name.at)
            wanted = "PRIMARY KEY" if statement.kind == "TABLE" else "KEY"
            if each.role and each.role != wanted:
                raise SqlError(f"the key of a {statement.kind.lower()} is {wanted}, not {each.role}", each.name.at)
            columns.append(Column(each.name.text, resolve_type(each.type), bool(each.role), not each.role))
        source = Source(statement.kind, name.text, "", tuple(columns))
        source = _key_in_value(apply_properties(source, given), given)
        source = _windows(source, given)
        if statement.kind == "TABLE" and not source.keys:
            raise SqlError(f"table {name.text} needs a PRIMARY KEY: the column of the record's key", name.at)
        source = timestamp_of(source, given)
        _check_topic(source.topic, given["KAFKA_TOPIC"].at)
        check_columns(source, name.at)
        if not source.values:
            raise SqlError("at least one value column is required", name.at)
        self.catalog.add(source)
        return Declared(source, _topic(source, ""))

    def _create_as(self, statement: Create, query: Query, given: dict[str, Property], there: Source | None) -> Started:
        planned = plan_query(query, self.catalog, statement.kind)
        name = statement.name
        query_id = f"C{statement.kind[0]}AS_{name.folded}"
        columns = []
        for each in planned.outputs:
            if each.type is None:
                shown = "..." if each.name.startswith("KSQL_COL") else each.name
                raise SqlError(_UNTYPED.format(name=each.name, shown=shown), each.item.at)
            is_key = each.name in planned.keys
            columns.append(Column(each.name, each.type, is_key, not is_key))
        first = self.catalog.find(query.source.name)
        key_format = first.key_format if not (query.group_by or query.joins or query.partition_by) else "KAFKA"
        if len(planned.keys) > 1 or (key_format == "KAFKA" and _needs_json(columns)):
            key_format = "JSON" if key_format == "KAFKA" else key_format
        value_format = first.value_format if first.value_format in ("JSON", "DELIMITED") else "JSON"
        source = Source(
            statement.kind, name.text, name.text, tuple(columns), key_format, value_format,
            value_delimiter=first.value_delimiter, window=planned.window, window_ms=planned.window_ms,
            query_id=query_id,
        )  # fmt: skip
        source = apply_properties(source, given)
        for property_ in ("KEY", "WINDOW_TYPE", "WINDOW_SIZE"):
            if property_ in given:
                raise SqlError(f"the query defines the key and the windows: omit {property_}", given[property_].name.at)
        if not source.keys and "KEY_FORMAT" not in given and "FORMAT" not in given:
            source = replace(source, key_format="NONE")
        timestamped = timestamp_of(source, given)
        source = replace(timestamped, timestamp="", timestamp_format="")  # the column becomes the record's timestamp
        _check_topic(source.topic, given["KAFKA_TOPIC"].at if "KAFKA_TOPIC" in given else name.at)
        check_columns(source, name.at)
        if not source.values:
            raise SqlError("all columns belong to the key: a value is required, too. AS_VALUE(key) copies it", query.at)
        reads = _reads(query)
        if name.folded in reads:
            raise SqlError(f"{name.text} cannot be created from itself", query.source.name.at)
        plan = self._persistent(query_id, planned, source, first, timestamped)
        replaces = there.query_id if there is not None else ""
        self.catalog.add(source)
        self.queries[query_id] = RunningQuery(plan, reads, name.folded)
        return Started(plan, source, replaces)

    def _persistent(
        self, query_id: str, planned: Planned, target: Source, first: Source, timestamped: Source | None = None
    ) -> QueryPlan:
        topic = _topic(target, first.topic, planned.retention_ms)
        return QueryPlan(
            query_id=query_id,
            mode="stream",
            inputs=planned.inputs,
            sql=planned.sql,
            columns=tuple((each.name, str(each.type or "")) for each in planned.outputs),
            output_mode=planned.output_mode,
            sink=Sink(topic, _sink_sql(target, planned, timestamped or target)),
            starting_offsets=self.settings.get(_OFFSET_RESET, "earliest"),
            corrupt_batches=self.settings.get(_CORRUPT_BATCHES, ""),
            notes=tuple(planned.notes),
        )

    # --- SELECT

    def _select(self, query: Query) -> QueryPlan:
        planned = plan_query(query, self.catalog, "push" if query.emit else "pull")
        self._selects += 1
        return QueryPlan(
            query_id=f"SELECT_{self._selects}",
            mode="stream" if query.emit else "batch",
            inputs=planned.inputs,
            sql=planned.sql,
            columns=tuple((each.name, str(each.type or "")) for each in planned.outputs),
            output_mode=planned.output_mode,
            starting_offsets=self.settings.get(_OFFSET_RESET, "earliest"),
            corrupt_batches=self.settings.get(_CORRUPT_BATCHES, ""),
            limit=query.limit,
            notes=tuple(planned.notes),
        )

    # --- INSERT

    def _insert_select(self, statement: InsertSelect) -> Started:
        target = self.catalog.find(statement.target)
        if target.kind == "TABLE":
            raise SqlError(
                f"{target.name} is a table: INSERT INTO ... SELECT applies only to streams", statement.target.at
            )
        planned = plan_query(statement.query, self.catalog, "STREAM")
        wanted = {each.name.upper(): each for each in target.columns}
        found = {each.name.upper() for each in planned.outputs}
        missing = [each.name for each in target.columns if each.name.upper() not in found]
        if missing:
            raise SqlError(f"{target.name} has the column {missing[0]}, which is not selected", statement.query.at)
        for each in planned.outputs:
            column = wanted.get(each.name.upper())
            if column is None:
                hint = did_you_mean(each.name, [column.name for column in target.columns])
                raise SqlError(f"{target.name} has no column {each.name}{hint}", each.item.at)
            if each.type is not None and not _fits(each.type, column.type):
                raise SqlError(f"{target.name}.{column.name} is {column.type}, not {each.type}", each.item.at)
        key_names = {each.name.upper() for each in target.keys}
        if target.keys and {each.upper() for each in planned.keys} - key_names:
            raise SqlError(
                f"the key of {target.name} is {', '.join(each.name for each in target.keys)}: PARTITION BY it",
                statement.query.at,
            )
        number = self._inserts.get(target.name.upper(), 0) + 1
        query_id = f"INSERT_{target.name.upper()}_{number}"
        plan = self._persistent(query_id, planned, target, self.catalog.find(statement.query.source.name))
        self._inserts[target.name.upper()] = number
        self.queries[query_id] = RunningQuery(plan, _reads(statement.query), target.name.upper())
        return Started(plan, None)

    def _insert_values(self, statement: InsertValues) -> Inserted:
        target = self.catalog.find(statement.target)
        if target.window:
            raise SqlError(f"{target.name} has windows: INSERT INTO ... VALUES is not supported", statement.target.at)
        named = statement.columns or tuple(Name(each.name, statement.target.at) for each in target.columns)
        columns: list[tuple[str, SqlType]] = []
        for name in named:
            column = target.column(name.text)
            if column is None and name.folded != "ROWTIME":
                hint = did_you_mean(name.text, [each.name for each in target.columns])
                raise SqlError(f"{target.name} has no column {name.text}{hint}", name.at)
            columns.append((column.name, column.type) if column is not None else ("ROWTIME", BIGINT))
            if [each for each, _ in columns].count(columns[-1][0]) > 1:
                raise SqlError(f"column {name.text} appears twice", name.at)
        if target.kind == "TABLE" and not {each.name for each in target.keys} <= {each for each, _ in columns}:
            raise SqlError(f"a row of table {target.name} needs its key {target.keys[0].name}", statement.target.at)
        rows = []
        for row in statement.rows:
            if len(row) != len(columns):
                raise SqlError(f"expected {len(columns)} values, not {len(row)}", row[0].at)
            values = []
            for expression, (column_name, kind) in zip(row, columns, strict=True):
                found = render(expression, Scope([]))
                if found.type is not None and not _fits(found.type, kind, from_text=True):
                    raise SqlError(f"{column_name} is {kind}, not {found.type}", expression.at)
                values.append(f"CAST({found.text} AS {kind.spark}) AS {quote(column_name)}")
            given = {name for name, _ in columns}
            values += [
                f"CAST(NULL AS {c.type.spark}) AS {quote(c.name)}" for c in target.columns if c.name not in given
            ]
            time = "timestamp_millis(`ROWTIME`)" if "ROWTIME" in given else "CAST(NULL AS TIMESTAMP)"
            rows.append(f"SELECT *, {time} AS __time FROM (SELECT {', '.join(values)})")
        sink = Sink(_topic(target, ""), _sink_sql(target, None, target))
        shown = tuple((name, str(kind)) for name, kind in columns)
        plan = QueryPlan("INSERT_VALUES", "batch", (), " UNION ALL ".join(rows), shown, sink=sink)
        return Inserted(plan, len(rows))

    # --- the rest

    def _show(self, statement: Show) -> Shown | ShownTopics:
        what = statement.what
        if what == "TOPICS":
            return ShownTopics()
        if what in ("STREAMS", "TABLES"):
            rows = [
                (each.name, each.topic, each.key_format, each.value_format, each.window or "-")
                for each in sorted(self.catalog.sources.values(), key=lambda each: each.name.upper())
                if each.kind == what.removesuffix("S")
            ]
            return Shown(what.title(), ("name", "topic", "key format", "value format", "windows"), tuple(rows))
        if what == "QUERIES":
            found = [
                (k, q.writes, q.plan.sink.topic.name if q.plan.sink else "") for k, q in sorted(self.queries.items())
            ]
            return Shown("Queries", ("query", "writes", "topic"), tuple(found))
        if what == "PROPERTIES":
            return Shown("Properties", ("property", "value"), tuple(sorted(self.settings.items())))
        kinds = [(name, "aggregate" if each.is_aggregate else "scalar") for name, each in sorted(FUNCTIONS.items())]
        return Shown("Functions (Spark's own may be used too)", ("function", "kind"), tuple(kinds))

    def _describe(self, source: Source) -> Shown:
        rows = []
        for each in source.columns:
            role = "" if not each.is_key else "primary key" if source.kind == "TABLE" else "key"
            rows.append((each.name, str(each.type), role))
        if source.window:
            rows += [("WINDOWSTART", "BIGINT", "window"), ("WINDOWEND", "BIGINT", "window")]
        by = f", written by {source.query_id}" if source.query_id else ""
        windows = f", {source.window} windows" if source.window else ""
        title = f"{source.name}: {source.kind.lower()} over topic {source.topic}, key {source.key_format}, "
        title += f"value {source.value_format}{windows}{by}"
        return Shown(title, ("column", "type", "role"), tuple(rows))

    def _explain(self, statement: Explain) -> Said:
        if statement.query_id is not None:
            query = self._query(statement.query_id)
            return Said(explain(query.plan))
        assert statement.statement is not None
        trial = Planner(
            self.catalog.copy(), dict(self.queries), dict(self.settings), dict(self._inserts), self._selects
        )
        action = trial._plan(statement.statement)
        if isinstance(action, Started | Selected):
            return Said(explain(action.plan))
        raise SqlError("EXPLAIN applies only to queries", statement.at)

    def _drop(self, statement: Drop) -> Action:
        source = self.catalog.sources.get(statement.name.folded)
        if source is None and statement.if_exists:
            return Said(f"unknown {statement.kind.lower()} {statement.name.text}")
        source = self.catalog.find(statement.name)
        if source.kind != statement.kind:
            raise SqlError(f"{source.name} is a {source.kind.lower()}: DROP {source.kind}", statement.name.at)
        folded = source.name.upper()
        readers = [query_id for query_id, query in self.queries.items() if folded in query.reads]
        readers += [k for k, q in self.queries.items() if q.writes == folded and k != source.query_id]
        if readers:
            raise SqlError(f"{source.name} is used by {', '.join(readers)}: TERMINATE it first", statement.name.at)
        del self.catalog.sources[folded]
        stop = (source.query_id,) if self.queries.pop(source.query_id, None) is not None else ()
        return Dropped(source.name, stop, source.topic if statement.delete_topic else "")

    def _terminate(self, statement: Terminate) -> Terminated:
        if statement.query_id is None:
            ids = tuple(self.queries)
        else:
            self._query(statement.query_id)
            ids = (statement.query_id.folded,)
        for each in ids:
            del self.queries[each]
        return Terminated(ids)

    def _query(self, name: Name) -> RunningQuery:
        found = self.queries.get(name.folded)
        if found is None:
            raise SqlError(f"unknown query {name.text}{did_you_mean(name.text, list(self.queries))}", name.at)
        return found

    def _set(self, statement: Set) -> Said | Configured:
        name = statement.name.removeprefix("ksql.streams.")
        if name.startswith("spark."):
            return Configured(name, statement.value)
        allowed = _SETTINGS.get(name)
        if allowed is None:
            known = ", ".join(f"'{each}'" for each in _SETTINGS)
            raise SqlError(f"unknown property '{statement.name}': {known} and those of Spark (spark.*)", statement.at)
        if statement.value is None:
            self.settings.pop(name, None)
            return Said(f"{name} is unset")
        value = statement.value.lower()
        if value not in allowed:
            raise SqlError(f"'{name}' is {' or '.join(allowed)}, not {statement.value}", statement.at)
        self.settings[name] = value
        return Said(f"{name} is {value}")


_RESERVED = ("ROWTIME", "ROWPARTITION", "ROWOFFSET", "WINDOWSTART", "WINDOWEND", "ROWKEY")


def explain(plan: QueryPlan) -> str:
    """Return a plan as text for people."""
    return json.dumps(plan.document(), indent=2, ensure_ascii=False)


def _key_in_value(source: Source, given: dict[str, Property]) -> Source:
    """Apply WITH (KEY = column): the value contains the key too, or only the record's key has it."""
    wanted = given.get("KEY")
    if wanted is None:
        return source
    if source.keys:
        raise SqlError("the key is defined twice: by WITH (KEY = ...) and in the columns", wanted.at)
    column = source.column(wanted.value)
    if column is None:
        raise SqlError(
            f"unknown column {wanted.value}{did_you_mean(wanted.value, [c.name for c in source.columns])}",
            wanted.at,
        )
    columns = tuple(replace(each, is_key=True) if each is column else each for each in source.columns)
    return replace(source, columns=columns)


def _windows(source: Source, given: dict[str, Property]) -> Source:
    kind = given.get("WINDOW_TYPE")
    size = given.get("WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise SqlError("WINDOW_SIZE needs WINDOW_TYPE", size.name.at)
        return source
    name = kind.value.upper()
    if name not in ("TUMBLING", "HOPPING", "SESSION"):
        raise SqlError(f"a window must be TUMBLING, HOPPING or SESSION, not {kind.value}", kind.at)
    if (size is None) != (name == "SESSION"):
        raise SqlError("WINDOW_SIZE is required for TUMBLING and HOPPING, and not allowed for SESSION", kind.at)
    return replace(source, window=name, window_ms=0 if size is None else _duration(size))


def _duration(given: Property) -> int:
    words = given.value.split()
    unit = words[1].upper().removesuffix("S") if len(words) == 2 else ""
    if unit not in UNIT_MS or not words[0].isdigit() or not 0 < int(words[0]) < 10**12:
        raise SqlError(f"a duration is written as '1 HOURS', not {given.value!r}", given.at)
    return int(words[0]) * UNIT_MS[unit]


def _check_topic(name: str, at: Position) -> None:
    legal = name.isascii() and name.replace("_", "").replace("-", "").replace(".", "").isalnum()
    if not legal or len(name) > _TOPIC_LENGTH_MAX:
        raise SqlError(f"invalid topic name {name!r}: use letters, digits, '.', '_' and '-'", at)


def _topic(source: Source, like: str, retention_ms: int | None = None) -> Topic:
    configs: dict[str, str] = {}
    if source.kind == "TABLE":
        configs["cleanup.policy"] = "compact,delete" if source.window else "compact"
    retention = source.retention_ms or retention_ms
    if retention is not None:
        configs["retention.ms"] = str(retention)
    return Topic(source.topic, source.partitions, tuple(configs.items()), like)


def _sink_sql(target: Source, planned: Planned | None, timestamped: Source) -> str:
    """Return the SQL from the result to records. Columns of the result are found by name, in any order."""
    keys = [(each.name, each.type) for each in target.keys]
    values = [(each.name, each.type) for each in target.values]
    casts = ", ".join(f"CAST({quote(each.name)} AS {each.type.spark}) AS {quote(each.name)}" for each in target.columns)
    extra = "__time"
    if planned is not None:
        extra += ", __keep" if planned.has_keep else ""
        extra += ", __window_start, __window_end" if target.window else ""
    key = encode("key", target.key_format, target.key_delimiter, keys)
    if target.window:
        key = with_window(key, target.window, "unix_millis(__window_start)", "unix_millis(__window_end)")
    value = encode("value", target.value_format, target.value_delimiter, values)
    if planned is not None and planned.has_keep:
        value = f"IF(__keep, {value}, NULL)"
    time = "__time"
    if timestamped.timestamp:
        column = timestamped.column(timestamped.timestamp)
        assert column is not None
        time = quote(column.name)
        if column.type.name == "BIGINT":
            time = f"timestamp_millis({time})"
        elif column.type.name == "VARCHAR":
            time = f"try_to_timestamp({time}, {literal(timestamped.timestamp_format)})"
    return f"SELECT {key} AS key, {value} AS value, {time} AS timestamp FROM (SELECT {casts}, {extra} FROM {RESULT})"


def _needs_json(columns: list[Column]) -> bool:
    return any(each.is_key and each.type.name not in ("VARCHAR", "INT", "BIGINT", "BYTES") for each in columns)


def _reads(query: Query) -> tuple[str, ...]:
    return tuple(dict.fromkeys([query.source.name.folded, *(join.source.name.folded for join in query.joins)]))


def _fits(found: SqlType, wanted: SqlType, *, from_text: bool = False) -> bool:
    """Return True if a value can be stored without loss; a literal time may be text, a DECIMAL any number."""
    if found == wanted:
        return True
    order = ("INT", "BIGINT", "DECIMAL", "DOUBLE")
    if found.name in order and wanted.name in order:
        return order.index(found.name) <= order.index(wanted.name) or (from_text and wanted.name == "DECIMAL")
    if from_text and found.name == "VARCHAR" and wanted.name in ("DATE", "TIMESTAMP"):
        return True
    return found.name == wanted.name and bool(found.inner)
