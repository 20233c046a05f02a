"""SELECT -> one statement of Spark SQL over its inputs. Pure; every error has a position.

What Spark's streams cannot run is done in other ways:

    aggregate over a table, join of tables, sessions      maintained: computed again from the tables, and compared
                                                          (maintained.py, docs/decisions/0043)
    several joins of streams, a join and GROUP BY         in stages, with a stream of their own between (stages.py)
    outer join of streams                                 each record is joined when it arrives (planning/eager.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.sql.catalog import Catalog, Source
from odradek.sql.expressions import (
    computed,
    erring_groups,
    filtering,
    parts,
)
from odradek.sql.formats import EPOCH, interval
from odradek.sql.functions import FUNCTIONS
from odradek.sql.inputs import plan_input
from odradek.sql.joins import JoinedKey, is_foreign, plan_join
from odradek.sql.plan import Eager, Input, Maintained
from odradek.sql.planning import headers, late
from odradek.sql.planning.eager import eager_join, eager_sql
from odradek.sql.planning.grouping import check_grouped, is_aggregate, is_table_function
from odradek.sql.planning.keys import Output, result_keys, without_aggregates
from odradek.sql.planning.names import GeneratedNames
from odradek.sql.planning.undone import undone_sql
from odradek.sql.planning.upgrades import Rules, kept_state
from odradek.sql.position import SqlError
from odradek.sql.scope import PSEUDO_COLUMNS, ROW_COLUMNS, WINDOW_BOUNDS, Bound, Scope
from odradek.sql.syntax import Call, ColumnRef, Expression, Field, Name, Query, SelectItem, SourceRef, Window
from odradek.sql.types import Rendered, quote

_FINAL_NOTE = "a window is written once, when stream time has passed its end: the last ones wait for later records"
_OUTER_NOTE = (
    "a row without a match is written when stream time has passed its window and the grace period: the last ones wait "
    "for later records"
)


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
    has_having: bool = False  # rows of groups that do not meet a condition are not kept
    marks_deleted: bool = False  # has a last column __deleted: True if the row of a table no longer exists
    maintained: Maintained | None = None
    eager: Eager | None = None
    keeps_empty_key: bool = False  # a key of which no column has a value is written all the same
    by_time: bool = False  # a join of streams: see QueryPlan
    same_key: list[str] = field(default_factory=list)  # outputs that a join makes equal to the key
    notes: list[str] = field(default_factory=list)
    has_headers: bool = False  # has a column __headers: of the record that made the row
    rules: Rules = ()  # of its state, for a persistent query


def plan_query(query: Query, catalog: Catalog, purpose: str, collected: Mapping[str, int] | None = None) -> Planned:
    """Plan a SELECT.

    Args:
        purpose: STREAM or TABLE (to create), "push" (its changes for the screen), "pull" (the present state).
        collected: the number of elements that COLLECT_LIST and COLLECT_SET keep, if not 1,000.

    Raises:
        SqlError: at an unsupported part.
    """
    return _Planner(query, catalog, purpose, collected or {}).plan()


def named_items(query: Query, catalog: Catalog) -> tuple[SelectItem, ...]:
    """Return the items of a query with their names: stars are written out. Raises SqlError."""
    return _Planner(query, catalog, "pull", {}).named_items()


class _Planner:
    def __init__(self, query: Query, catalog: Catalog, purpose: str, collected: Mapping[str, int]) -> None:
        self.query = query
        self.purpose = purpose
        self.is_stream = purpose != "pull"
        self.scope = Scope([], types=catalog.types, collected=collected)
        refs = [query.source, *(join.source for join in query.joins)]
        for ref in refs:
            self._bind(ref, catalog.find(ref.name))
        self.groups = query.group_by
        self.aggregates = bool(query.group_by) or any(
            item.expression is not None and is_aggregate(item.expression) for item in query.items
        )
        first = self.scope.bounds[0].source
        has_tables = first.kind == "TABLE" and (self.aggregates or bool(query.joins))
        self.has_sessions = self.aggregates and query.window is not None and query.window.kind == "SESSION"
        # What Spark's own operators cannot retract is computed again from what is kept, and compared.
        self.is_maintained = self.is_stream and (has_tables or (self.has_sessions and query.emit != "FINAL"))
        # Late records are left out: of windows and joins of streams by Spark's own operators.
        reads_windows = not self.is_stream and self.aggregates and query.window is not None and not query.joins
        is_timed = self.is_stream or reads_windows
        self.is_timed = is_timed and not self.is_maintained and first.kind == "STREAM"
        # Of records that are all there, those between which a session was closed are told apart.
        self.marks_sessions = self.has_sessions and (self.is_maintained or (reads_windows and self.is_timed))
        # A record of a stream without a value stays one, where nothing but columns is asked of it.
        is_plain = not (query.joins or query.where or self.aggregates) and first.kind == "STREAM"
        self.passes_nulls = purpose == "STREAM" and is_plain and bool(first.values)
        # As in Kafka Streams, a row has the headers of the record that made it. Of rows of tables that is not known.
        self.passes_headers = purpose in ("STREAM", "TABLE") and (not self.is_maintained or self.has_sessions)
        self.eager: Eager | None = None
        self.join_condition = ""
        self.notes: list[str] = []

    def plan(self) -> Planned:
        self._check_shape()
        query, first = self.query, self.scope.bounds[0]
        reads, text, joined = self._sources()
        window = query.window
        if window is not None:
            self.scope.window = "session_window" if window.kind == "SESSION" else "window"
            if self.is_timed and window.kind != "SESSION":
                self.scope.window = f"{first.quoted}.__window"
            self.scope.window_gap_ms = window.size.ms if window.kind == "SESSION" else 0
        where = "" if query.where is None else filtering(without_aggregates(query.where, "WHERE"), self.scope, "WHERE")
        self.scope.groups = erring_groups(self.groups, self.scope)
        if self.purpose == "TABLE":  # a table has no row without a key: ksqlDB drops such records too
            present = [f"{each} IS NOT NULL" for each in self._group_texts()]
            where = " AND ".join(([where] if where else []) + present)
        rows = self._rows()
        outputs = self._outputs()
        same_key = [each.name for each in outputs if joined is not None and each.text in joined.texts]
        keys = []
        if self.purpose in ("STREAM", "TABLE"):
            keys = result_keys(query, self.scope, outputs, joined, passes_nulls=self.passes_nulls)
        is_changelog = self.is_stream and first.source.kind == "TABLE" and not self.is_maintained
        columns = [f"{each.text} AS {quote(each.name)}" for each in outputs]
        if self.purpose in ("STREAM", "TABLE"):
            columns.append(f"{self._time()} AS __time")
            columns += [f"{self._headers()} AS __headers"] if self.passes_headers else []
            columns += self._window_columns(window, first)
        having = "" if query.having is None else self._having(query.having)
        has_keep = self.purpose == "TABLE" and not self.is_maintained and (is_changelog or bool(having))
        if has_keep:
            conditions = ["(NOT " + first.quoted + ".__deleted)"] if is_changelog else []
            # WHERE over a table: a row that no longer meets it must be deleted.
            conditions += [where] if is_changelog and where else []
            conditions += [having] if having else []
            columns.append(f"coalesce({' AND '.join(conditions)}, FALSE) AS __keep")
            where, having = ("" if is_changelog else where), ""
        if self.passes_nulls and not rows:
            has_keep = True
            columns.append(f"(NOT {first.quoted}.__deleted) AS __keep")
        marks_deleted = is_changelog and self.purpose == "push" and not rows
        if marks_deleted:
            columns.append(f"{first.quoted}.__deleted AS __deleted")
            where = f"({where}) OR {first.quoted}.__deleted" if where else ""
        joins_streams = any(each.source.kind == "STREAM" for each in self.scope.bounds[1:])
        used = [*columns, text, rows, where, having, *self._grouping(window)]
        if self.marks_sessions and window is not None:
            reads[0], where = late.filtered(reads[0], first, where), ""
            text = late.with_sessions(first, window, self._group_texts())
        elif self.is_timed and window is not None:
            reads[0], text, where = late.windowed(reads[0], first, window, where, used)
        elif self.is_timed and joins_streams and self.eager is None:
            reads = late.joined(reads, self.scope.bounds, query.joins[0], used)
        rest = f"{rows} WHERE {where}" if where else rows
        sql = f"SELECT {', '.join(columns)} FROM {text}{rest}"
        sql += f" GROUP BY {', '.join(self._grouping(window))}" if self.aggregates and self._grouping(window) else ""
        if window is not None and window.kind == "HOPPING":  # as in Kafka Streams, none begins before the epoch
            having = " AND ".join([f"{self.scope.window}.start >= {EPOCH}", *([having] if having else [])])
        sql += f" HAVING {having}" if having else ""
        if self.is_timed and query.joins and not joins_streams:
            # Spark may build its hash table of the stream, and then reverses the records of a key.
            sql += f" SORT BY {first.quoted}.__partition, {first.quoted}.__offset"
        if query.limit is not None and not self.is_stream:
            sql += f" LIMIT {query.limit}"
        if self.eager is not None:
            shown = [each.name for each in outputs] if self.purpose == "push" else []
            sql = eager_sql(
                columns,
                query.joins[0],
                self.eager,
                self.join_condition,
                self.scope.bounds,
                rest,
                keys=keys,
                shown=shown,
            )
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
            keeps_empty_key=len(query.partition_by) > 1,
            by_time=(self.eager is None and not self.aggregates and joins_streams) or query.emit == "FINAL",
            has_keep=has_keep,
            has_having=has_keep and self.aggregates,
            marks_deleted=marks_deleted,
            same_key=same_key,
            maintained=self._maintained(text, outputs, keys),
            eager=self.eager,
            notes=self.notes,
            has_headers=self.passes_headers,
            rules=self._rules(joins_streams=joins_streams),
        )

    def _rules(self, *, joins_streams: bool) -> Rules:
        if self.purpose not in ("STREAM", "TABLE"):
            return ()
        waits = joins_streams and self.eager is None
        return kept_state(self.query, self.scope, waits=waits, is_final=self.query.emit == "FINAL")

    # --- validation

    def _bind(self, ref: SourceRef, source: Source) -> None:
        alias = (ref.alias or ref.name).text
        if any(each.alias == alias for each in self.scope.bounds):
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
        if self.aggregates and not query.group_by:
            at = next(i.at for i in query.items if i.expression is not None and is_aggregate(i.expression))
            raise SqlError("an aggregate needs GROUP BY", at)

    def _sources(self) -> tuple[list[Input], str, JoinedKey | None]:
        """Return the inputs, FROM, and the key of the joined rows."""
        query, bounds = self.query, self.scope.bounds
        first = bounds[0]
        stream_joins = [
            join for join, bound in zip(query.joins, bounds[1:], strict=True) if bound.source.kind == "STREAM"
        ]
        several = len(stream_joins) > 1 or (stream_joins and len(query.joins) > len(stream_joins))
        if self.is_stream and first.source.kind == "STREAM" and query.joins and (self.aggregates or several):
            # A persistent query is split (stages.py): what comes here is for the screen.
            raise SqlError(
                "this takes several steps: CREATE STREAM or TABLE ... AS SELECT does them, then SELECT from that",
                query.joins[-1].at,
            )
        grace: int | None = None
        if query.window is not None:
            grace = late.grace_ms(query.window, query.emit)
        if self.is_stream and stream_joins:
            within = stream_joins[0].within
            self.eager = eager_join(stream_joins[0])
            if self.eager is None:
                grace = None if within is None else late.join_ms(within)
            elif self.eager.grace_ms is not None:
                self.notes.append(_OUTER_NOTE)
        inputs: list[Input] = []
        text, key = "", None
        for number, bound in enumerate(bounds, 1):
            is_table = bound.source.kind == "TABLE"
            read = "batch" if not is_table else "table"
            if self.is_stream and (number == 1 or not is_table) and not self.is_maintained:
                read = "stream"
            if read == "table" and bound.source.history_ms and first.source.kind == "STREAM":
                read = "history"
            watermark = grace if self.is_timed and read in ("stream", "batch") else None
            passes = self.passes_headers and (read == "stream" or self.has_sessions)
            reading = plan_input(
                bound.source, number, read, watermark, pass_nulls=self.passes_nulls, pass_headers=passes
            )
            inputs.append(reading)
            if number == 1:
                text = f"input_1 AS {bound.quoted}"
                continue
            joined = plan_join(query.joins[number - 2], number - 1, self.scope, self.is_stream)
            text += f" {joined.text}"
            self.join_condition = joined.condition
            key = self._key_after(number - 1, key, joined.key)
            self.scope.row_key = None if key is None else key.row_key
        return inputs, text, key

    def _key_after(self, number: int, before: JoinedKey | None, joined: JoinedKey) -> JoinedKey | None:
        """Return the key of the rows after a join: that of its condition; a foreign key leaves the key as it is."""
        first = self.scope.bounds[0]
        if first.source.kind == "TABLE" and is_foreign(self.query.joins[number - 1], number, self.scope):
            if before is not None or len(first.source.keys) > 1:
                return before  # None: the key is all of the first table's columns
            own = first.source.keys[0]
            rendered = first.render(own.name, own.type)
            return JoinedKey(own.name, (rendered.text,), rendered, None)
        equal = before.texts if before is not None else self._equal_to_key(first)
        if joined.row_key is None and set(joined.texts) & set(equal):
            return JoinedKey(joined.shown, tuple(dict.fromkeys([*equal, *joined.texts])), joined.key, None)
        return joined

    def _equal_to_key(self, bound: Bound) -> tuple[str, ...]:
        """Return the columns of a stream between two steps that its join made equal."""
        columns = [bound.source.column(name) for name in bound.source.same_key]
        return tuple(bound.render(each.name, each.type).text for each in columns if each is not None)

    # --- the clauses

    def _having(self, having: Expression) -> str:
        check_grouped(having, self.groups, self.scope)
        return filtering(having, self.scope, "HAVING")

    def _group_texts(self) -> list[str]:
        return [computed(without_aggregates(each, "GROUP BY"), self.scope).text for each in self.groups]

    def _grouping(self, window: Window | None) -> list[str]:
        texts = self._group_texts()
        if window is not None:
            texts.insert(0, self._window(window))
            if self.marks_sessions:
                texts.append(f"{self.scope.bounds[0].quoted}.__session")
        return texts

    def _window(self, window: Window) -> str:
        """Return what a query groups by: the window of a record."""
        if self.is_timed and window.kind != "SESSION":
            return self.scope.window
        return late.spark_window(window, f"{self.scope.bounds[0].quoted}.__time")

    def _outputs(self) -> list[Output]:
        names = self._names()
        found: list[Output] = []
        for item in self.query.items:
            if item.expression is None:
                found += self._star(item)
            elif item.is_struct_star:
                found += self._fields(item, item.expression)
            else:
                found.append(self._output(item, item.expression, names))
        seen: set[str] = set()
        for each in found:
            if each.name in seen:
                raise SqlError(f"two columns are called {each.name}: give one an alias", each.item.at)
            if each.name.startswith("__"):
                raise SqlError("names that begin with __ are reserved", each.item.at)
            if each.name in PSEUDO_COLUMNS and self.purpose in ("STREAM", "TABLE"):
                raise SqlError(f"the name {each.name} is reserved: give the column an alias", each.item.at)
            seen.add(each.name)
        return found

    def named_items(self) -> tuple[SelectItem, ...]:
        names, found = self._names(), []
        for item in self.query.items:
            if item.expression is None:
                if item.source is None and self.query.joins and self.query.joins[-1].kind == "FULL":
                    key = ColumnRef(Name(self.scope.row_key_name, item.at), None, item.at)
                    found.append(SelectItem(key, key.name, None, item.at))
                found += [_named(each) for each in self._star(item, check=False)]
            elif item.is_struct_star:
                found += [_named(each) for each in self._fields(item, item.expression)]
            else:
                name = item.alias.text if item.alias is not None else self._name(item.expression, names)
                found.append(SelectItem(item.expression, Name(name, item.at), None, item.at))
        return tuple(found)

    def _rows(self) -> str:
        """Render the table functions: one lateral view numbers the rows of the longest, and each call is an element."""
        calls = [call for item in self.query.items if item.expression is not None for call in _tables(item.expression)]
        if not calls:
            return ""
        if self.scope.bounds[0].source.kind == "TABLE":
            name = self.scope.bounds[0].source.name
            problem = "a table function makes several rows of one, which have no key of their own"
            raise SqlError(f"{problem}: {name} is a table, read its topic as a stream", calls[0].at)
        if self.aggregates:
            raise SqlError("a table function cannot be combined with GROUP BY: create a stream from it", calls[0].at)
        arrays = [computed(call, self.scope) for call in calls]
        for call, array in zip(calls, arrays, strict=True):
            element = Rendered(f"try_element_at({array.text}, __row)", array.type)
            self.scope.replacements.append((call, element))
        longest = f"greatest({', '.join(f'coalesce(size({each.text}), 0)' for each in arrays)}, 0)"
        numbers = f"IF({longest} > 0, sequence(1, {longest}), CAST(array() AS ARRAY<INT>))"
        return f" LATERAL VIEW explode({numbers}) __rows AS __row"

    def _names(self) -> GeneratedNames:
        taken = {column.name for bound in self.scope.bounds for column in bound.source.columns}
        return GeneratedNames(taken)

    def _output(self, item: SelectItem, expression: Expression, names: GeneratedNames) -> Output:
        if self.aggregates and self.groups:
            check_grouped(expression, self.groups, self.scope)
        found = computed(expression, self.scope)
        name = item.alias.text if item.alias is not None else self._name(expression, names)
        return Output(name, found.type, found.text, expression, item)

    def _name(self, expression: Expression, names: GeneratedNames) -> str:
        if isinstance(expression, ColumnRef):
            return self._column_name(expression)
        return names.of_field(expression.name.text) if isinstance(expression, Field) else names.next()

    def _column_name(self, reference: ColumnRef) -> str:
        """Return a column's name in the result: with its source where several sources have such a column."""
        name, bounds = reference.name.text, self.scope.bounds
        if reference.source is None or not any(each.alias == reference.source.text for each in bounds):
            return name
        having = [each for each in bounds if each.source.column(name) is not None]
        pseudo = name in PSEUDO_COLUMNS and len(bounds) > 1
        return f"{reference.source.text}_{name}" if len(having) > 1 or pseudo else name

    def _fields(self, item: SelectItem, expression: Expression) -> list[Output]:
        """Return the columns of `struct->*`."""
        outer = computed(expression, self.scope)
        if outer.type is None or outer.type.name != "STRUCT":
            raise SqlError(f"->* needs a STRUCT, not {outer.type}", item.at)
        found = []
        for name, kind in zip(outer.type.fields, outer.type.inner, strict=True):
            reference = Field(expression, Name(name, item.at), item.at)
            found.append(Output(name, kind, f"{outer.text}.{quote(name)}", reference, item))
        return found

    def _star(self, item: SelectItem, *, check: bool = True) -> list[Output]:
        bounds = self.scope.bounds
        if item.source is not None:
            wanted = item.source
            bounds = [each for each in bounds if each.alias == wanted.text]
            if not bounds:
                raise SqlError(f"unknown source {wanted.text} in this query", wanted.at)
        prefixed = len(self.scope.bounds) > 1
        found = []
        if prefixed and item.source is None and self.scope.row_key is not None and self.purpose in ("STREAM", "TABLE"):
            key = self.scope.row_key
            found.append(Output(self.scope.row_key_name, key.type, key.text, None, item))
        for bound in bounds:
            columns = list(bound.source.columns)
            if self.query.partition_by:  # the old key becomes the last of the value's columns
                columns.sort(key=lambda column: column.is_key)
            names = [column.name for column in columns]
            keys = len(bound.source.keys)
            if prefixed and self.query.partition_by:  # as in ksqlDB, whose join passes them on to the repartitioning
                names[len(names) - keys : len(names) - keys] = ROW_COLUMNS
                names += WINDOW_BOUNDS if bound.source.window else ()
            elif bound.source.window and (prefixed or self.purpose in ("push", "pull")):
                # After the key, as in ksqlDB: on a screen, or in joined rows, windows of one key would look alike.
                names[keys:keys] = WINDOW_BOUNDS
            for each in names:
                reference = ColumnRef(Name(each, item.at), Name(bound.alias, item.at), item.at)
                if self.aggregates and check:
                    check_grouped(reference, self.groups, self.scope)
                rendered = self.scope.resolve(reference)
                name = f"{bound.alias}_{each}" if prefixed else each
                found.append(Output(name, rendered.type, rendered.text, reference, item))
        return found

    def _time(self) -> str:
        times = [f"{each.quoted}.__time" for each in self.scope.bounds if each.source.kind == "STREAM"]
        times = times or [f"{each.quoted}.__time" for each in self.scope.bounds]
        latest = times[0] if len(times) == 1 else f"greatest({', '.join(times)})"
        return f"max({latest})" if self.aggregates else latest

    def _headers(self) -> str:
        """Return the headers of the record that makes a row: of two streams, of the one that comes later."""
        first, *others = self.scope.bounds
        if self.aggregates:
            order = f"struct({first.quoted}.__offset, {first.quoted}.__partition)"
            return headers.of_latest(f"{first.quoted}.__headers", order)
        other = next((each for each in others if each.source.kind == "STREAM"), None)
        if other is None:
            return f"{first.quoted}.__headers"
        order = "__time" if self.eager is None else "__arrived"
        one, two = (f"{each.quoted}.{order}" for each in (first, other))
        return f"IF({two} IS NULL OR {one} >= {two}, {first.quoted}.__headers, {other.quoted}.__headers)"

    def _window_columns(self, window: Window | None, first: Bound) -> list[str]:
        if window is not None:
            name = self.scope.window
            end = f"{name}.end"
            if window.kind == "SESSION":
                end = f"({end} - {interval(self.scope.window_gap_ms)})"
            return [f"{name}.start AS __window_start", f"{end} AS __window_end"]
        if first.source.window and not self.aggregates:
            return [f"{first.quoted}.__window_start", f"{first.quoted}.__window_end"]
        return []

    def _maintained(self, sources: str, outputs: list[Output], keys: list[str]) -> Maintained | None:
        if not (self.is_maintained or self.marks_sessions):
            return None
        window = self.query.window
        if not self.has_sessions or window is None:
            if not (self.aggregates and keys):
                return Maintained()
            at = self.query.at
            items = {each.name: each.expression or ColumnRef(Name(each.name, at), None, at) for each in outputs}
            types = {each.name: each.type for each in outputs}
            grouped = [(each, name, types[name]) for each, name in zip(self.groups, keys, strict=True)]
            return Maintained(undone=undone_sql(items, grouped, self.query.having, sources, self.scope))
        groups = self._group_texts()
        alias = self.scope.bounds[0].quoted
        named = ", ".join([f"{text} AS g{number}" for number, text in enumerate(groups)])
        same = " AND ".join(f"s.g{number} <=> {text}" for number, text in enumerate(groups))
        rows = late.with_sessions(self.scope.bounds[0], window, groups)
        last = f"max(unix_millis({alias}.__time)) AS last"  # where nothing is aggregated, Spark 4.1 merges no sessions
        sessions = (
            f"SELECT {named}, {alias}.__session AS __session, session_window, {last} FROM {rows} "
            f"GROUP BY {', '.join(self._grouping(window))}"
        )
        within = f"{alias}.__time >= s.session_window.start AND {alias}.__time < s.session_window.end"
        open_rows = (
            f"WITH rows AS (SELECT * FROM {rows}) SELECT {alias}.* FROM rows AS {alias} JOIN ({sessions}) AS s "
            f"ON {same} AND {alias}.__session = s.__session AND {within} "
            "WHERE s.last >= :cut"
        )
        texts = late.grouped(self.scope.bounds[0], groups)
        return Maintained(window.size.ms, late.grace_ms(window), texts, open_rows)

    def _output_mode(self, window: Window | None) -> str:
        if not self.aggregates or not self.is_stream or self.is_maintained:
            return "append"
        if self.query.emit == "FINAL":
            self.notes.append(_FINAL_NOTE)
            return "append"
        return "update"


def _tables(expression: Expression) -> list[Call]:
    """Return the calls of table functions in an expression."""
    if isinstance(expression, Call) and is_table_function(expression):
        known = FUNCTIONS.get(expression.name.folded)
        if known is not None and known.kind == "table":
            return [expression]
    return [call for each in parts(expression) for call in _tables(each)]


def _named(output: Output) -> SelectItem:
    return SelectItem(output.expression, Name(output.name, output.item.at), None, output.item.at)


def _window_ms(window: Window | None, passed_on: Source | None) -> int:
    if window is not None:
        return 0 if window.kind == "SESSION" else window.size.ms
    return passed_on.window_ms if passed_on is not None else 0
