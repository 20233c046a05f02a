"""SELECT -> one statement of Spark SQL over its inputs. Pure; every error has a position.

Queries that Spark's streams cannot run are refused here with an alternative, before anything starts:

    aggregate over a table         needs retractions
    table-table join               needs retractions
    join + GROUP BY                two stateful steps; a table is only looked up again directly before a sink:
                                   create a stream from the join
    session windows                Spark writes them when they are closed (EMIT FINAL), whatever the statement says
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.sql.catalog import Catalog, Source
from odradek.sql.expressions import check_grouped, condition, is_aggregate, render
from odradek.sql.inputs import plan_input
from odradek.sql.joins import JoinedKey, plan_join
from odradek.sql.plan import Input
from odradek.sql.position import SqlError
from odradek.sql.scope import WINDOW_BOUNDS, Bound, Scope
from odradek.sql.syntax import Call, ColumnRef, Expression, Name, Query, SelectItem, SourceRef, Window
from odradek.sql.types import SqlType, quote

GRACE_MS = 24 * 3_600_000  # ksqlDB's default
_SESSION_NOTE = "a session window is written once, when the watermark has passed its end (as with EMIT FINAL)"
_FINAL_NOTE = "a window is written once, when the watermark has passed its end: the last ones wait for later records"
_OUTER_NOTE = (
    "a row without a match is written when the watermark has passed its time: the last ones wait for later records"
)


@dataclass(frozen=True, slots=True)
class Output:
    """One column of a result."""

    name: str
    type: SqlType | None
    text: str  # Spark SQL
    expression: Expression | None  # None: from a star
    item: SelectItem


@dataclass(slots=True)
class Planned:
    """A query's result before it has an id and a sink."""

    inputs: tuple[Input, ...]
    sql: str
    outputs: list[Output]
    keys: list[str]  # names of the outputs that form the key, in order
    output_mode: str
    window: str = ""  # kind of the windows in its keys
    window_ms: int = 0
    retention_ms: int | None = None
    has_keep: bool = False  # has a column __keep: True if the row of a table still exists
    notes: list[str] = field(default_factory=list)


def plan_query(query: Query, catalog: Catalog, purpose: str) -> Planned:
    """Plan a SELECT.

    Args:
        purpose: STREAM or TABLE (to create), "push" (its changes for the screen), "pull" (the present state).

    Raises:
        SqlError: at an unsupported part.
    """
    return _Planner(query, catalog, purpose).plan()


class _Planner:
    def __init__(self, query: Query, catalog: Catalog, purpose: str) -> None:
        self.query = query
        self.purpose = purpose
        self.is_stream = purpose != "pull"
        self.scope = Scope([])
        refs = [query.source, *(join.source for join in query.joins)]
        for ref in refs:
            self._bind(ref, catalog.find(ref.name))
        self.groups = query.group_by
        self.aggregates = bool(query.group_by) or any(
            item.expression is not None and is_aggregate(item.expression) for item in query.items
        )
        self.notes: list[str] = []

    def plan(self) -> Planned:
        self._check_shape()
        query, first = self.query, self.scope.bounds[0]
        reads, text, joined = self._sources()
        window = query.window
        if window is not None:
            self.scope.window = "session_window" if window.kind == "SESSION" else "window"
        where = "" if query.where is None else condition(self._plain(query.where, "WHERE"), self.scope, "WHERE")
        if self.purpose == "TABLE":  # a table has no row without a key: ksqlDB drops such records too
            present = [f"{each} IS NOT NULL" for each in self._group_texts()]
            where = " AND ".join(([where] if where else []) + present)
        outputs = self._outputs()
        keys = self._keys(outputs, joined)
        is_changelog = self.is_stream and first.source.kind == "TABLE"
        columns = [f"{each.text} AS {quote(each.name)}" for each in outputs]
        if self.purpose in ("STREAM", "TABLE"):
            columns.append(f"{self._time()} AS __time")
            columns += self._window_columns(window, first)
        having = "" if query.having is None else self._having(query.having)
        has_keep = self.purpose == "TABLE" and (is_changelog or bool(having))
        if has_keep:
            conditions = ["(NOT " + first.quoted + ".__deleted)"] if is_changelog else []
            # WHERE over a table: a row that no longer meets it must be deleted.
            conditions += [where] if is_changelog and where else []
            conditions += [having] if having else []
            columns.append(f"coalesce({' AND '.join(conditions)}, FALSE) AS __keep")
            where, having = ("" if is_changelog else where), ""
        sql = f"SELECT {', '.join(columns)} FROM {text}"
        sql += f" WHERE {where}" if where else ""
        sql += f" GROUP BY {', '.join(self._grouping(window))}" if self.aggregates and self._grouping(window) else ""
        sql += f" HAVING {having}" if having else ""
        if query.limit is not None and not self.is_stream:
            sql += f" LIMIT {query.limit}"
        output_mode = self._output_mode(window)
        passed_on = first.source if window is None and not self.aggregates else None
        return Planned(
            inputs=tuple(reads),
            sql=sql,
            outputs=outputs,
            keys=keys,
            output_mode=output_mode,
            window=window.kind if window is not None else passed_on.window if passed_on is not None else "",
            window_ms=_window_ms(window, passed_on),
            retention_ms=window.retention.ms if window is not None and window.retention is not None else None,
            has_keep=has_keep,
            notes=self.notes,
        )

    # --- validation

    def _bind(self, ref: SourceRef, source: Source) -> None:
        alias = (ref.alias or ref.name).text
        if any(each.alias.upper() == alias.upper() for each in self.scope.bounds):
            raise SqlError(f"{alias} appears twice in FROM: give one an alias", (ref.alias or ref.name).at)
        self.scope.bounds.append(Bound(alias, source))

    def _check_shape(self) -> None:
        query, source = self.query, self.scope.bounds[0].source
        if query.window is not None and not query.group_by:
            raise SqlError("WINDOW needs GROUP BY", query.window.at)
        if query.having is not None and not query.group_by:
            raise SqlError("HAVING needs GROUP BY: use WHERE", query.having.at)
        if query.emit == "FINAL" and query.window is None:
            raise SqlError("EMIT FINAL needs a WINDOW: only windows become final", query.at)
        if query.partition_by and (query.group_by or source.kind == "TABLE"):
            wrong = "GROUP BY defines the key" if query.group_by else "a table keeps its key"
            raise SqlError(f"PARTITION BY applies only to streams: {wrong}", query.partition_by[0].at)
        if query.partition_by and self.purpose in ("push", "pull"):
            raise SqlError("PARTITION BY applies only to CREATE STREAM ... AS SELECT", query.partition_by[0].at)
        if query.limit is not None and self.purpose in ("STREAM", "TABLE"):
            raise SqlError("a persistent query has no end: LIMIT applies only to SELECT", query.at)
        if self.is_stream:
            self._check_stream(query, source)

    def _check_stream(self, query: Query, source: Source) -> None:
        name = self.query.source.name
        if self.purpose == "TABLE" and not self.aggregates and source.kind == "STREAM":
            raise SqlError("a table needs GROUP BY: this query creates a stream, use CREATE STREAM", query.at)
        if self.purpose == "STREAM" and self.aggregates:
            raise SqlError("GROUP BY creates a table: use CREATE TABLE", (query.group_by or (query,))[0].at)
        if self.purpose == "STREAM" and source.kind == "TABLE":
            raise SqlError(f"{name.text} is a table, so the query creates a table: use CREATE TABLE", name.at)
        if self.aggregates and source.kind == "TABLE":
            raise SqlError(
                f"aggregating a table ({name.text}) is not supported: declare a stream over its topic", name.at
            )
        if self.aggregates and not query.group_by:
            at = next(i.at for i in query.items if i.expression is not None and is_aggregate(i.expression))
            raise SqlError("an aggregate needs GROUP BY", at)

    def _sources(self) -> tuple[list[Input], str, JoinedKey | None]:
        """Return the inputs, FROM, and the key of the joined rows."""
        query, bounds = self.query, self.scope.bounds
        stream_joins = [
            join for join, bound in zip(query.joins, bounds[1:], strict=True) if bound.source.kind == "STREAM"
        ]
        if self.is_stream and query.joins and self.aggregates:
            raise SqlError(
                "a join and GROUP BY in one statement: create a stream from the join "
                "(CREATE STREAM ... AS SELECT ... JOIN) and aggregate that",
                query.joins[0].at,
            )
        if self.is_stream and stream_joins and len(query.joins) > len(stream_joins):
            table_join = next(each for each in query.joins if each not in stream_joins)
            raise SqlError(
                "a join of streams and one with a table in one statement: create a stream from the join of streams",
                table_join.at,
            )
        if self.is_stream and len(stream_joins) > 1:
            raise SqlError("two joins of streams in one statement: create a stream from the first", stream_joins[1].at)
        grace: int | None = None
        if self.is_stream and query.window is not None:
            grace = GRACE_MS if query.window.grace is None else query.window.grace.ms
        if self.is_stream and stream_joins:
            within = stream_joins[0].within
            grace = GRACE_MS if within is None or within.grace is None else within.grace.ms
            if stream_joins[0].kind != "INNER":
                self.notes.append(_OUTER_NOTE)
        inputs: list[Input] = []
        text, key = "", None
        for number, bound in enumerate(bounds, 1):
            is_table = bound.source.kind == "TABLE"
            read = "batch" if not is_table else "table"
            if self.is_stream and (number == 1 or not is_table):
                read = "stream"
            inputs.append(plan_input(bound.source, number, read, grace if read == "stream" else None))
            if number == 1:
                text = f"input_1 AS {bound.quoted}"
                continue
            joined = plan_join(query.joins[number - 2], number - 1, self.scope, self.is_stream)
            text += f" {joined.text}"
            key = key or joined.key
            self.scope.row_key = key.row_key
        return inputs, text, key

    # --- the clauses

    def _plain(self, expression: Expression, clause: str) -> Expression:
        if is_aggregate(expression):
            raise SqlError(f"{clause} cannot contain an aggregate: use HAVING", expression.at)
        return expression

    def _having(self, having: Expression) -> str:
        check_grouped(having, self.groups)
        return condition(having, self.scope, "HAVING")

    def _group_texts(self) -> list[str]:
        return [render(self._plain(each, "GROUP BY"), self.scope).text for each in self.groups]

    def _grouping(self, window: Window | None) -> list[str]:
        texts = self._group_texts()
        if window is not None:
            texts.insert(0, _spark_window(window, self.scope.bounds[0]))
        return texts

    def _outputs(self) -> list[Output]:
        found: list[Output] = []
        for item in self.query.items:
            found += self._star(item) if item.expression is None else [self._output(item, item.expression, len(found))]
        seen: set[str] = set()
        for each in found:
            if each.name.upper() in seen:
                raise SqlError(f"two columns are called {each.name}: give one an alias", each.item.at)
            if each.name.startswith("__"):
                raise SqlError("names that begin with __ are reserved", each.item.at)
            seen.add(each.name.upper())
        return found

    def _output(self, item: SelectItem, expression: Expression, number: int) -> Output:
        if self.aggregates and self.groups:
            check_grouped(expression, self.groups)
        found = render(expression, self.scope)
        if item.alias is not None:
            name = item.alias.text
        elif isinstance(expression, ColumnRef):
            name = expression.name.text
        else:
            name = f"KSQL_COL_{number}"
        return Output(name, found.type, found.text, expression, item)

    def _star(self, item: SelectItem) -> list[Output]:
        bounds = self.scope.bounds
        if item.source is not None:
            wanted = item.source
            bounds = [each for each in bounds if each.alias.upper() == wanted.folded]
            if not bounds:
                raise SqlError(f"unknown source {wanted.text} in this query", wanted.at)
        if self.aggregates:
            raise SqlError("* cannot be combined with GROUP BY: name the columns", item.at)
        prefixed = len(self.scope.bounds) > 1
        found = []
        for bound in bounds:
            names = [column.name for column in bound.source.columns]
            if bound.source.window and self.purpose in ("push", "pull"):
                # After the key, as in ksqlDB: on a screen, windows of one key would look alike.
                names[len(bound.source.keys) : len(bound.source.keys)] = WINDOW_BOUNDS
            for each in names:
                reference = ColumnRef(Name(each, item.at), Name(bound.alias, item.at), item.at)
                rendered = self.scope.resolve(reference)
                name = f"{bound.alias}_{each}" if prefixed else each
                found.append(Output(name, rendered.type, rendered.text, reference, item))
        return found

    def _time(self) -> str:
        times = [f"{each.quoted}.__time" for each in self.scope.bounds if each.source.kind == "STREAM"]
        times = times or [f"{self.scope.bounds[0].quoted}.__time"]
        if self.aggregates:
            return f"max({times[0]})"
        return times[0] if len(times) == 1 else f"greatest({', '.join(times)})"

    def _window_columns(self, window: Window | None, first: Bound) -> list[str]:
        if window is not None:
            name = self.scope.window
            return [f"{name}.start AS __window_start", f"{name}.end AS __window_end"]
        if first.source.window and not self.aggregates:
            return [f"{first.quoted}.__window_start", f"{first.quoted}.__window_end"]
        return []

    def _output_mode(self, window: Window | None) -> str:
        if not self.aggregates or not self.is_stream:
            return "append"
        if window is not None and window.kind == "SESSION":
            self.notes.append(_SESSION_NOTE)
            return "append"
        if self.query.emit == "FINAL":
            self.notes.append(_FINAL_NOTE)
            return "append"
        return "update"

    # --- the key

    def _keys(self, outputs: list[Output], joined: JoinedKey | None) -> list[str]:
        """Return the outputs that form the key of the records. Raises SqlError if a key column is not selected."""
        if self.purpose not in ("STREAM", "TABLE"):
            return []
        query, first = self.query, self.scope.bounds[0]
        wanted: list[tuple[str, set[str]]] = []
        if query.group_by:
            wanted = [(_shown(each), {render(each, self.scope).text}) for each in query.group_by]
        elif query.partition_by:
            wanted = [
                (_shown(each), {render(self._plain(each, "PARTITION BY"), self.scope).text})
                for each in query.partition_by
            ]
        elif joined is not None:
            wanted = [(joined.shown, joined.texts)]
        else:
            wanted = [(each.name, {first.render(each.name, each.type).text}) for each in first.source.keys]
        keys = []
        for shown, texts in wanted:
            hits = [each for each in outputs if each.text in texts and not _is_copy(each.expression)]
            if not hits:
                raise SqlError(f"the key {shown} is not selected: a record needs its key, add it to SELECT", query.at)
            keys.append(hits[0].name)
        return keys


def _is_copy(expression: Expression | None) -> bool:
    return isinstance(expression, Call) and expression.name.folded == "AS_VALUE"


def _shown(expression: Expression) -> str:
    return expression.name.text if isinstance(expression, ColumnRef) else "of this expression"


def _spark_window(window: Window, bound: Bound) -> str:
    time = f"{bound.quoted}.__time"
    if window.kind == "SESSION":
        return f"session_window({time}, {_length(window.size.ms)})"
    advance = f", {_length(window.advance.ms)}" if window.advance is not None else ""
    return f"window({time}, {_length(window.size.ms)}{advance})"


def _length(ms: int) -> str:
    return f"'{ms} milliseconds'"


def _window_ms(window: Window | None, passed_on: Source | None) -> int:
    if window is not None:
        return 0 if window.kind == "SESSION" else window.size.ms
    return passed_on.window_ms if passed_on is not None else 0
