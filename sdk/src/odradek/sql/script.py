"""Statements -> actions, in order, with the definitions of the script so far. Pure: nothing is run here.

    planner = Planner()
    for statement in parse(script):
        action = planner.plan(statement)

A refused statement changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from odradek.sql.catalog import (
    Catalog,
    Column,
    Source,
    apply_properties,
    did_you_mean,
    read_properties,
    timestamp_of,
)
from odradek.sql.conversions import converted
from odradek.sql.expressions import render
from odradek.sql.formats import check_columns
from odradek.sql.functions import FUNCTIONS
from odradek.sql.functions.signature import ANY
from odradek.sql.inputs import plan_input
from odradek.sql.plan import (
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
    Started,
    Terminated,
)
from odradek.sql.planning.connectors import plan_connector
from odradek.sql.planning.declare import (
    Schemas,
    check_held,
    check_no_headers,
    check_registered,
    check_wrapping,
    declared_columns,
    inferred,
    key_in_value,
    versioned,
    windowed,
)
from odradek.sql.planning.others import plan_other
from odradek.sql.planning.own_functions import FUNCTIONS_MODULE, load_functions
from odradek.sql.planning.settings import (
    CORRUPT_BATCHES,
    KEY_FORMAT,
    OFFSET_RESET,
    SETTINGS,
    TOPIC_PREFIX,
    VALUE_FORMAT,
    WITHOUT_EFFECT,
    WRAPPED,
    checked,
    collected,
)
from odradek.sql.planning.sinks import sink_of, topic_of
from odradek.sql.planning.upgrades import Basis, check_replaced, of_query, of_source
from odradek.sql.position import Position, SqlError
from odradek.sql.query import Planned, plan_query
from odradek.sql.scope import Scope
from odradek.sql.stages import split
from odradek.sql.syntax import (
    Create,
    CreateConnector,
    Describe,
    Drop,
    DropConnector,
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
from odradek.sql.types import BIGINT, SqlType, fits, quote

_TOPIC_LENGTH_MAX = 249
_UNTYPED = "the type of {name} is unknown: use CAST({shown} AS ...)"


@dataclass(slots=True)
class RunningQuery:
    """A persistent query that has been started."""

    plan: QueryPlan
    reads: tuple[str, ...]  # names
    writes: str
    stages: tuple[QueryPlan, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the query and of its stages."""
        return (*(each.query_id for each in self.stages), self.plan.query_id)

    @property
    def basis(self) -> list[Basis]:
        """What each step rests on."""
        return [each.basis for each in (*self.stages, self.plan) if each.basis is not None]


@dataclass(slots=True)
class Planner:
    """The state of a script."""

    catalog: Catalog = field(default_factory=Catalog)
    queries: dict[str, RunningQuery] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # of DEFINE
    schemas: Schemas | None = None  # of a schema registry; None: columns have to be declared
    loads_modules: bool = True  # of a user's own functions; where others write the scripts: False
    number: int | None = None  # of a server's statement: ids of queries end with it, so that none is given twice
    _inserts: dict[str, int] = field(default_factory=dict)
    _selects: int = 0

    def copy(self) -> Planner:
        """Return a planner with the same definitions, on which a statement can be tried."""
        return replace(
            self,
            catalog=self.catalog.copy(),
            queries=dict(self.queries),
            settings=dict(self.settings),
            variables=dict(self.variables),
            _inserts=dict(self._inserts),
        )

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
            return self._select(statement)
        if isinstance(statement, InsertSelect):
            return self._insert_select(statement)
        if isinstance(statement, InsertValues):
            return self._insert_values(statement)
        if isinstance(statement, CreateConnector | DropConnector):
            return plan_connector(statement)
        if isinstance(statement, Show):
            return plan_connector(statement) if statement.what.startswith("CONNECTOR") else self._show(statement)
        if isinstance(statement, Describe):
            return plan_connector(statement) if statement.is_connector else self._describe(statement)
        if isinstance(statement, Explain):
            return self._explain(statement)
        if isinstance(statement, Drop):
            return self._drop(statement)
        if isinstance(statement, Terminate):
            return self._terminate(statement)
        if isinstance(statement, Set):
            return self._set(statement)
        return plan_other(self, statement)

    # --- CREATE

    def _create(self, statement: Create) -> Action:
        name = statement.name
        there = self.catalog.sources.get(name.text)
        if there is not None and statement.if_not_exists:
            return Said(f"{there.name} exists already")
        if there is not None and not statement.or_replace:
            raise SqlError(f"{there.name} already exists: use CREATE OR REPLACE, or IF NOT EXISTS", name.at)
        if there is not None and there.kind != statement.kind:
            raise SqlError(f"{there.name} is a {there.kind.lower()}", name.at)
        if statement.or_replace and (statement.is_source or (there is not None and there.is_readonly)):
            raise SqlError("what CREATE SOURCE makes cannot be replaced: DROP it, then CREATE SOURCE", name.at)
        given = read_properties(statement.properties)
        if statement.query is not None:
            return self._create_as(statement, statement.query, given, there)
        if there is not None and there.query_id:
            raise SqlError(f"{there.name} is made by query {there.query_id}: CREATE OR REPLACE it AS SELECT", name.at)
        return self._declare(statement, given, there)

    def _declare(self, statement: Create, given: dict[str, Property], there: Source | None) -> Declared:
        name = statement.name
        if "KAFKA_TOPIC" not in given:
            raise SqlError(f"WITH (KAFKA_TOPIC = '...') is required: the topic of {name.text}?", name.at)
        columns = declared_columns(statement, self.catalog.types)
        value_format = self.settings.get(VALUE_FORMAT, "json").upper()
        bare = Source(
            statement.kind, name.text, "", columns, self._key_format, value_format, wrapped=self._is_wrapped
        )  # fmt: skip
        source = apply_properties(bare, given)
        is_unwrapped = "WRAP_SINGLE_VALUE" in given and source.wrapped is False
        source = inferred(source, self.schemas, name.at, is_unwrapped=is_unwrapped)
        source = versioned(windowed(key_in_value(source, given), given), given)
        if statement.kind == "TABLE" and not source.keys:
            raise SqlError(f"table {name.text} needs a PRIMARY KEY: the column of the record's key", name.at)
        source = replace(timestamp_of(source, given), is_readonly=statement.is_source)
        check_wrapping(source, given)
        if source.window and not source.keys:
            raise SqlError(f"{name.text} has windows: they are in its key, declare that", name.at)
        _check_topic(source.topic, given["KAFKA_TOPIC"].at)
        check_columns(source, name.at)
        if there is not None:
            check_replaced(source, name, [of_source(there)], [of_source(source)])
        self.catalog.add(source)
        return Declared(source, topic_of(source, ""))

    def _create_as(self, statement: Create, query: Query, given: dict[str, Property], there: Source | None) -> Started:
        name = statement.name
        reads = _reads(query)
        if name.text in reads:
            raise SqlError(f"{name.text} cannot be created from itself", query.source.name.at)
        first = self.catalog.find(query.source.name)
        query_id = self._id(f"C{statement.kind[0]}AS_{name.text}")
        if there is not None and there.query_id in self.queries:
            query_id = there.query_id  # it goes on from its checkpoint
        stages, rest, catalog = self._stages(query, query_id)
        planned = plan_query(rest, catalog, statement.kind, collected(self.settings))
        source = self._made(statement.kind, name.text, planned, first, query_id)
        source = apply_properties(source, given)
        for property_ in ("KEY", "WINDOW_TYPE", "WINDOW_SIZE"):
            if property_ in given:
                raise SqlError(f"the query defines the key and the windows: omit {property_}", given[property_].name.at)
        source = versioned(source, given)
        timestamped = timestamp_of(source, given)
        source = replace(timestamped, timestamp="", timestamp_format="")  # the column becomes the record's timestamp
        _check_topic(source.topic, given["KAFKA_TOPIC"].at if "KAFKA_TOPIC" in given else name.at)
        check_columns(source, name.at)
        check_registered(source, self.schemas, given)
        check_wrapping(source, given)
        check_held(source, first, given, query.at)
        if not source.values and statement.kind == "TABLE":
            raise SqlError("all columns belong to the key: a value is required, too. AS_VALUE(key) copies it", query.at)
        plan = self._persistent(query_id, planned, source, first, timestamped)
        replaced = self.queries.get(there.query_id) if there is not None else None
        if there is not None:
            check_replaced(source, name, [of_source(there)], [of_source(source)])
        if replaced is not None:
            check_replaced(source, name, replaced.basis, RunningQuery(plan, reads, name.text, stages).basis)
        self.catalog.add(source)
        self.queries[query_id] = RunningQuery(plan, reads, name.text, stages)
        return Started(plan, source, () if replaced is None else replaced.ids, stages)

    @property
    def _key_format(self) -> str:
        return self.settings.get(KEY_FORMAT, "kafka").upper()

    @property
    def _is_wrapped(self) -> bool | None:
        return self.settings[WRAPPED] == "true" if WRAPPED in self.settings else None

    def _id(self, name: str) -> str:
        return name if self.number is None else f"{name}_{self.number}"

    def _stages(self, query: Query, query_id: str) -> tuple[tuple[QueryPlan, ...], Query, Catalog]:
        """Return the steps before the last one of a query, the last one, and a catalog with the streams between."""
        stages: list[QueryPlan] = []
        catalog = self.catalog
        while (found := split(query, catalog)) is not None:
            stage_id = f"{query_id}_STAGE_{len(stages) + 1}"
            first = catalog.find(query.source.name)
            planned = plan_query(found.first, catalog, "STREAM")
            between = self._made("STREAM", stage_id, planned, first, stage_id)
            between = replace(between, topic=f"_odradek_sql_{stage_id}", value_format="JSON")
            stages.append(self._persistent(stage_id, planned, between, first, is_between=True))
            catalog = catalog.copy()
            catalog.add(between)
            query = found.rest(stage_id)
        return tuple(stages), query, catalog

    def _made(self, kind: str, name: str, planned: Planned, first: Source, query_id: str) -> Source:
        """Return the stream or table that a query makes, in the formats of its first source."""
        columns = []
        for each in planned.outputs:
            if each.type is None:
                shown = "..." if each.name.startswith("KSQL_COL") else each.name
                raise SqlError(_UNTYPED.format(name=each.name, shown=shown), each.item.at)
            is_key = each.name in planned.keys
            columns.append(Column(each.name, each.type, is_key, not is_key))
        columns.sort(key=lambda each: planned.keys.index(each.name) if each.is_key else len(planned.keys))
        key_format = first.key_format if first.key_format not in ("NONE", "RAW") else self._key_format
        if len(planned.keys) > 1 or (key_format == "KAFKA" and _needs_json(columns)):
            key_format = "JSON" if key_format == "KAFKA" else key_format
        values = [each for each in columns if each.in_value]
        is_bare = (
            first.value_format == "KAFKA" and len(values) == 1 and not _needs_json([replace(values[0], is_key=True)])
        )
        value_format = first.value_format if is_bare or first.value_format not in ("KAFKA", "RAW", "NONE") else "JSON"
        return Source(
            kind, name, self.settings.get(TOPIC_PREFIX, "") + name, tuple(columns),
            key_format if planned.keys else "NONE", value_format, value_delimiter=first.value_delimiter,
            window=planned.window, window_ms=planned.window_ms,
            query_id=query_id, same_key=tuple(planned.same_key), wrapped=self._is_wrapped,
        )  # fmt: skip

    def _persistent(
        self,
        query_id: str,
        planned: Planned,
        target: Source,
        first: Source,
        timestamped: Source | None = None,
        *,
        is_between: bool = False,
    ) -> QueryPlan:
        topic = topic_of(target, first.topic, planned.retention_ms)
        maintained = planned.maintained
        if maintained is not None and maintained.undone:
            maintained = replace(maintained, groups=plan_input(target, 0, "stream", None))
        return QueryPlan(
            query_id=query_id,
            mode="stream",
            inputs=planned.inputs,
            sql=planned.sql,
            columns=tuple((each.name, str(each.type or "")) for each in planned.outputs),
            output_mode=planned.output_mode,
            sink=sink_of(target, planned, timestamped or target, topic),
            starting_offsets=self.settings.get(OFFSET_RESET, "earliest"),
            corrupt_batches=self.settings.get(CORRUPT_BATCHES, ""),
            maintained=maintained,
            eager=planned.eager,
            by_time=planned.by_time,
            has_having=planned.has_having,
            notes=tuple(planned.notes),
            basis=of_query(planned.rules, timestamped or target, is_between=is_between),
        )

    # --- SELECT

    def _select(self, query: Query) -> Selected:
        planned = plan_query(query, self.catalog, "push" if query.emit else "pull", collected(self.settings))
        self._selects += 1
        plan = QueryPlan(
            query_id=f"SELECT_{self._selects}",
            mode="stream" if query.emit else "batch",
            inputs=planned.inputs,
            sql=planned.sql,
            columns=tuple((each.name, str(each.type or "")) for each in planned.outputs),
            output_mode=planned.output_mode,
            starting_offsets=self.settings.get(OFFSET_RESET, "earliest"),
            corrupt_batches=self.settings.get(CORRUPT_BATCHES, ""),
            limit=query.limit,
            maintained=planned.maintained,
            eager=planned.eager,
            notes=tuple(planned.notes),
            marks_deleted=planned.marks_deleted,
        )
        return Selected(plan, tuple(each.type for each in planned.outputs))

    # --- INSERT

    def _insert_select(self, statement: InsertSelect) -> Started:
        target = self.catalog.find(statement.target)
        if target.is_readonly:
            raise SqlError(f"{target.name} is read only: CREATE SOURCE made it", statement.target.at)
        check_no_headers(target, statement.target.at)
        if target.kind == "TABLE":
            raise SqlError(
                f"{target.name} is a table: INSERT INTO ... SELECT applies only to streams", statement.target.at
            )
        number = self._inserts.get(target.name, 0) + 1
        query_id = f"INSERT_{target.name}_{number}" if self.number is None else f"INSERTQUERY_{self.number}"
        stages, rest, catalog = self._stages(statement.query, query_id)
        planned = plan_query(rest, catalog, "STREAM")
        wanted = {each.name: each for each in target.columns}
        found = {each.name for each in planned.outputs}
        missing = [each.name for each in target.columns if each.name not in found]
        if missing:
            raise SqlError(f"{target.name} has the column {missing[0]}, which is not selected", statement.query.at)
        for each in planned.outputs:
            column = wanted.get(each.name)
            if column is None:
                hint = did_you_mean(each.name, [column.name for column in target.columns])
                raise SqlError(f"{target.name} has no column {each.name}{hint}", each.item.at)
            if each.type is not None and not fits(each.type, column.type):
                raise SqlError(f"{target.name}.{column.name} is {column.type}, not {each.type}", each.item.at)
        key_names = {each.name for each in target.keys}
        if target.keys and set(planned.keys) - key_names:
            raise SqlError(
                f"the key of {target.name} is {', '.join(each.name for each in target.keys)}: PARTITION BY it",
                statement.query.at,
            )
        plan = self._persistent(query_id, planned, target, self.catalog.find(statement.query.source.name))
        self._inserts[target.name] = number
        self.queries[query_id] = RunningQuery(plan, _reads(statement.query), target.name, stages)
        return Started(plan, None, (), stages)

    def _insert_values(self, statement: InsertValues) -> Inserted:
        target = self.catalog.find(statement.target)
        if target.is_readonly:
            raise SqlError(f"{target.name} is read only: CREATE SOURCE made it", statement.target.at)
        if target.window:
            raise SqlError(f"{target.name} has windows: INSERT INTO ... VALUES is not supported", statement.target.at)
        named = statement.columns or tuple(Name(each.name, statement.target.at) for each in target.columns)
        columns: list[tuple[str, SqlType]] = []
        for name in named:
            column = target.column(name.text)
            if column is not None and column.is_header:
                raise SqlError(f"{name.text} is a header, which no statement writes: name the other columns", name.at)
            if column is None and name.text != "ROWTIME":
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
            for expression, (named_column, kind) in zip(row, columns, strict=True):
                found = render(expression, Scope([], types=self.catalog.types))
                if found.type is not None and not fits(found.type, kind, from_text=True):
                    raise SqlError(f"{named_column} is {kind}, not {found.type}", expression.at)
                values.append(f"{converted(found.text, found.type, kind)} AS {quote(named_column)}")
            given = {name for name, _ in columns}
            values += [
                f"CAST(NULL AS {c.type.spark}) AS {quote(c.name)}" for c in target.columns if c.name not in given
            ]
            time = "timestamp_millis(`ROWTIME`)" if "ROWTIME" in given else "CAST(NULL AS TIMESTAMP)"
            rows.append(f"SELECT *, {time} AS __time FROM (SELECT {', '.join(values)})")
        sink = sink_of(target, None, target, topic_of(target, ""))
        shown = tuple((name, str(kind)) for name, kind in columns)
        plan = QueryPlan("INSERT_VALUES", "batch", (), " UNION ALL ".join(rows), shown, sink=sink)
        return Inserted(plan, len(rows))

    # --- the rest

    def _show(self, statement: Show) -> Shown | ShownTopics:
        what = statement.what
        if what == "TOPICS":
            return ShownTopics(statement.all)
        if what in ("STREAMS", "TABLES"):
            rows = [
                (each.name, each.topic, each.key_format, each.value_format, each.window or "-")
                for each in sorted(self.catalog.sources.values(), key=lambda each: each.name)
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
        if what == "TYPES":
            shown = [(name, str(kind)) for name, kind in sorted(self.catalog.types.items())]
            return Shown("Types", ("type", "is"), tuple(shown))
        if what == "VARIABLES":
            return Shown("Variables", ("variable", "value"), tuple(sorted(self.variables.items())))
        kinds = [(name, each.kind) for name, each in sorted(FUNCTIONS.items())]
        return Shown("Functions (Spark's own may be used too)", ("function", "kind"), tuple(kinds))

    def _describe(self, statement: Describe) -> Shown:
        if statement.is_function:
            return self._describe_function(statement.name)
        source = self.catalog.find(statement.name)
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
        if statement.extended:
            for query_id, query in sorted(self.queries.items()):
                role = "writes" if query.writes == source.name else "reads" if source.name in query.reads else ""
                rows += [(query_id, "query", role)] if role else []
            if source.timestamp:
                rows.append((source.timestamp, "event time", source.timestamp_format))
        return Shown(title, ("column", "type", "role"), tuple(rows))

    def _describe_function(self, name: Name) -> Shown:
        known = FUNCTIONS.get(name.folded)
        if known is None:
            raise SqlError(f"unknown function {name.text}{did_you_mean(name.text, list(FUNCTIONS))}", name.at)
        most = "any number" if known.most >= ANY else str(known.most)
        count = str(known.least) if known.least == known.most else f"{known.least} to {most}"
        return Shown(known.name, ("kind", "arguments", "takes"), ((known.kind, count, ", ".join(known.takes)),))

    def _explain(self, statement: Explain) -> Said:
        if statement.query_id is not None:
            query = self._query(statement.query_id)
            return Said(explain(query.plan))
        assert statement.statement is not None
        action = self.copy()._plan(statement.statement)
        if isinstance(action, Started | Selected):
            return Said(explain(action.plan))
        raise SqlError("EXPLAIN applies only to queries", statement.at)

    def _drop(self, statement: Drop) -> Action:
        source = self.catalog.sources.get(statement.name.text)
        if source is None and statement.if_exists:
            return Said(f"unknown {statement.kind.lower()} {statement.name.text}")
        source = self.catalog.find(statement.name)
        if source.kind != statement.kind:
            raise SqlError(f"{source.name} is a {source.kind.lower()}: DROP {source.kind}", statement.name.at)
        if source.is_readonly and statement.delete_topic:
            raise SqlError(f"{source.name} is read only: omit DELETE TOPIC", statement.name.at)
        folded = source.name
        readers = [query_id for query_id, query in self.queries.items() if folded in query.reads]
        readers += [k for k, q in self.queries.items() if q.writes == folded and k != source.query_id]
        if readers:
            raise SqlError(f"{source.name} is used by {', '.join(readers)}: TERMINATE it first", statement.name.at)
        del self.catalog.sources[folded]
        query = self.queries.pop(source.query_id, None)
        stop = () if query is None else query.ids
        if not statement.delete_topic:
            return Dropped(source.name, stop, "", served=source.served)
        stages = () if query is None else query.stages
        between = tuple(each.sink.topic.name for each in stages if each.sink)
        return Dropped(source.name, stop, source.topic, between, source.served)

    def _terminate(self, statement: Terminate) -> Terminated:
        if statement.query_id is None:
            ids = tuple(self.queries)
        else:
            self._query(statement.query_id)
            ids = (statement.query_id.text,)
        stopped = [found for each in ids for found in self.queries.pop(each).ids]
        return Terminated(tuple(stopped))

    def query(self, name: Name) -> str:
        """Return the id of a query as it is kept. Raises SqlError at an unknown one."""
        self._query(name)
        return name.text

    def _query(self, name: Name) -> RunningQuery:
        found = self.queries.get(name.text)
        if found is None:
            raise SqlError(f"unknown query {name.text}{did_you_mean(name.text, list(self.queries))}", name.at)
        return found

    def _set(self, statement: Set) -> Said | Configured:
        name = statement.name.removeprefix("ksql.streams.")
        if name.startswith("spark."):
            return Configured(name, statement.value)
        if name == FUNCTIONS_MODULE and statement.value is not None:
            if not self.loads_modules:
                raise SqlError("modules are not loaded here: run the script by `odradek sql`", statement.at)
            try:
                return Said(f"functions of {statement.value}: {', '.join(load_functions(statement.value))}")
            except SqlError as error:
                raise SqlError(error.problem, statement.at) from None
        if name in WITHOUT_EFFECT:
            return Said(f"{name} has no effect here")
        if statement.value is None and name in SETTINGS:
            self.settings.pop(name, None)
            return Said(f"{name} is unset")
        self.settings[name] = checked(name, statement)
        return Said(f"{name} is {self.settings[name]}")


def explain(plan: QueryPlan) -> str:
    """Return a plan as text for people."""
    return json.dumps(plan.document(), indent=2, ensure_ascii=False)


def _check_topic(name: str, at: Position) -> None:
    legal = name.isascii() and name.replace("_", "").replace("-", "").replace(".", "").isalnum()
    if not legal or len(name) > _TOPIC_LENGTH_MAX:
        raise SqlError(f"invalid topic name {name!r}: use letters, digits, '.', '_' and '-'", at)


def _needs_json(columns: list[Column]) -> bool:
    return any(
        each.is_key and each.type.name not in ("VARCHAR", "INT", "BIGINT", "DOUBLE", "BYTES") for each in columns
    )


def _reads(query: Query) -> tuple[str, ...]:
    return tuple(dict.fromkeys([query.source.name.text, *(join.source.name.text for join in query.joins)]))
