"""JOIN: its condition, its bounds in time, and the key of the joined rows.

stream-stream   INNER, LEFT, RIGHT, FULL; WITHIN is the largest difference of the two event times
stream-table    INNER, LEFT; on the table's primary key, with the table as it is or, with HISTORY_RETENTION, as of the
                record's time
table-table     INNER, LEFT, RIGHT, FULL on primary keys; INNER, LEFT of any expression with a primary key (foreign key)
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.sql.catalog import Source
from odradek.sql.conversions import comparable
from odradek.sql.expressions import computed, parts, render
from odradek.sql.formats import interval
from odradek.sql.planning.eager import eager_join
from odradek.sql.position import SqlError
from odradek.sql.scope import Bound, Scope
from odradek.sql.syntax import ColumnRef, Expression, Join, Lambda, Name, Operation
from odradek.sql.types import Rendered


@dataclass(frozen=True, slots=True)
class JoinedKey:
    """The key of joined rows."""

    shown: str
    texts: tuple[str, ...]  # Spark SQL of the columns that may stand for the key, in order of preference
    key: Rendered  # the key itself: with an outer join, of whichever side has it
    row_key: Rendered | None  # where no column is the key: that of a FULL JOIN, or of two expressions


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """One JOIN as Spark SQL."""

    text: str
    condition: str
    key: JoinedKey


def plan_join(join: Join, number: int, scope: Scope, is_stream: bool) -> PlannedJoin:
    """Plan the join of bounds[number] with those before it.

    Raises:
        SqlError: at an unsupported part.
    """
    bounds = scope.bounds
    left, right = bounds[0], bounds[number]
    kinds = (left.source.kind, right.source.kind)
    if is_stream:
        _check_kinds(join, left, right, kinds)
    elif join.within is not None and kinds != ("STREAM", "STREAM"):
        raise SqlError("WITHIN applies only to joins of streams: a table has one row for each key", join.within.at)
    left_side, right_side = _sides(join, number, scope)
    if kinds[1] == "TABLE":
        _check_primary_key(join, number, left_side, right_side, scope)
    elif is_stream and right.source.window and not (
        _is_key(left, left_side, scope) and _is_key(right, right_side, scope)
    ):  # fmt: skip
        raise SqlError(
            "streams with windows are joined by their keys: others would lose the windows", join.condition.at
        )
    left_key, right_key = computed(left_side, scope), computed(right_side, scope)
    one, other = comparable(left_key, right_key, "=", join.condition.at)
    conditions = [f"{one} = {other}"]
    if join.within is not None:
        is_timed = is_stream and eager_join(join) is None
        time = "__joined_time" if is_timed else "__time"
        # Kafka Streams has no right join: ksqlDB takes the left join of the other stream, with the same bounds.
        sides = (right, left) if join.kind == "RIGHT" else (left, right)
        here, there = (f"{each.quoted}.{time}" for each in sides)
        conditions.append(f"{there} >= {here} - {interval(join.within.before.ms)}")
        conditions.append(f"{there} <= {here} + {interval(join.within.after.ms)}")
    if kinds == ("STREAM", "TABLE") and right.source.history_ms:
        at, since, until = f"{left.quoted}.__time", f"{right.quoted}.__time", f"{right.quoted}.__until"
        oldest = f"{right.quoted}.__newest - {interval(right.source.history_ms)}"
        conditions += [f"{since} <= {at}", f"({until} IS NULL OR {at} < {until})", f"{at} >= {oldest}"]
    if left.source.window and right.source.window:
        # A record's key has the start of a window, and the end only of a session.
        conditions.append(f"{left.quoted}.__window_start = {right.quoted}.__window_start")
        if "SESSION" in (left.source.window, right.source.window):
            conditions.append(f"{left.quoted}.__window_end = {right.quoted}.__window_end")
    condition = " AND ".join(conditions)
    text = f"{join.kind} JOIN input_{number + 1} AS {right.quoted} ON {condition}"
    return PlannedJoin(text, condition, _key(join, (left_side, right_side), left_key, right_key, scope.row_key_name))


def _key(join: Join, sides: tuple[Expression, Expression], left: Rendered, right: Rendered, name: str) -> JoinedKey:
    either = Rendered(f"coalesce({left.text}, {right.text})", left.type or right.type)
    key = {"FULL": either, "RIGHT": right}.get(join.kind, left)
    columns = [each for each, side in zip((left, right), sides, strict=True) if isinstance(side, ColumnRef)]
    if join.kind == "FULL" or not columns:
        return JoinedKey(name, (key.text,), key, key)
    first = sides[0]
    shown = first.name.text if isinstance(first, ColumnRef) else columns[0].text
    return JoinedKey(shown, tuple(each.text for each in columns), key, None)


def _check_kinds(join: Join, left: Bound, right: Bound, kinds: tuple[str, str]) -> None:
    name = join.source.name
    if kinds == ("STREAM", "STREAM"):
        if join.within is None:
            raise SqlError("a join of streams needs WITHIN: the largest difference in time", join.at)
        _check_windows(name, left.source, right.source)
        return
    if kinds == ("TABLE", "TABLE"):
        if join.within is not None:
            raise SqlError("WITHIN applies only to joins of streams: a table has one row for each key", join.within.at)
        return
    if kinds == ("TABLE", "STREAM"):
        raise SqlError(f"the stream must come first: FROM {right.alias} JOIN {left.alias}", name.at)
    if join.within is not None:
        raise SqlError("WITHIN applies only to joins of streams: a table has one row for each key", join.within.at)
    if join.kind not in ("INNER", "LEFT"):
        raise SqlError(
            f"a stream and a table can be joined by INNER or LEFT, not {join.kind}: "
            "a row of a table alone is not an event",
            join.at,
        )
    if right.source.window:
        raise SqlError(f"{right.source.name} has windows: joining a stream with it is not supported", name.at)


def _check_windows(name: Name, left: Source, right: Source) -> None:
    """Raise SqlError for streams whose windows cannot be the same."""
    if bool(left.window) != bool(right.window) or (left.window == "SESSION") != (right.window == "SESSION"):
        shown = " and ".join(f"{each.name} has {each.window or 'no'} windows" for each in (left, right))
        raise SqlError(f"{shown}: only streams with windows of one kind can be joined", name.at)


def _sides(join: Join, number: int, scope: Scope) -> tuple[Expression, Expression]:
    """Return the condition's expression over the sources so far, and the one over the joined source."""
    wanted = join.condition
    if isinstance(wanted, Operation) and wanted.operator == "=":
        before = {each.alias for each in scope.bounds[:number]}
        new = {scope.bounds[number].alias}
        one, other = wanted.operands
        uses_one, uses_other = _aliases(one, scope), _aliases(other, scope)
        render(wanted, scope)  # raises for unknown names and incomparable types
        if uses_one and uses_other and uses_one <= before and uses_other == new:
            return one, other
        if uses_one and uses_other and uses_other <= before and uses_one == new:
            return other, one
    raise SqlError(
        "ON needs one equation of a column of each side, such as ON a.x = b.y: move other conditions to WHERE",
        wanted.at,
    )


def _aliases(expression: Expression, scope: Scope, parameters: frozenset[str] = frozenset()) -> set[str]:
    """Return the sources that an expression uses. Args: the parameters of the lambdas around it, which are none."""
    if isinstance(expression, ColumnRef):
        if expression.source is None and expression.name.text in parameters:
            return set()
        text = scope.resolve(expression).text
        return {each.alias for each in scope.bounds if f"{each.quoted}." in text}
    if isinstance(expression, Lambda):
        parameters |= {each.text for each in expression.parameters}
    found: set[str] = set()
    for each in parts(expression):
        found |= _aliases(each, scope, parameters)
    return found


def _check_primary_key(join: Join, number: int, left: Expression, right: Expression, scope: Scope) -> None:
    """Raise SqlError unless a table is joined on its primary key; RIGHT and FULL need that of both."""
    bound = scope.bounds[number]
    if not _is_key(bound, right, scope):
        shown = ", ".join(each.name for each in bound.source.keys) or "(none)"
        raise SqlError(f"a table must be joined on its primary key, {shown} of {bound.alias}", join.condition.at)
    before = scope.bounds[:number]
    is_outer = before[0].source.kind == "TABLE" and join.kind in ("RIGHT", "FULL")
    if is_outer and not any(_is_key(each, left, scope) for each in before):
        raise SqlError(f"a {join.kind} JOIN of tables needs their primary keys on both sides", join.condition.at)


def _is_key(bound: Bound, side: Expression, scope: Scope) -> bool:
    keys = bound.source.keys
    return len(keys) == 1 and render(side, scope).text == bound.render(keys[0].name, keys[0].type).text


def is_foreign(join: Join, number: int, scope: Scope) -> bool:
    """Return True if a join of tables is by a foreign key: its left side is not the primary key of a table before."""
    left, _ = _sides(join, number, scope)
    return not any(_is_key(each, left, scope) for each in scope.bounds[:number])
