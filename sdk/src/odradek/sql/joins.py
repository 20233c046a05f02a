"""JOIN: its condition, its bounds in time, and the key of the joined rows.

stream-stream   INNER, LEFT, RIGHT, FULL; WITHIN is the largest difference of the two event times
stream-table    INNER, LEFT; on the table's primary key, with the table at the time the record is processed
table-table     only for a query of the present state (no EMIT CHANGES)
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.sql.expressions import parts, render
from odradek.sql.formats import interval
from odradek.sql.position import SqlError
from odradek.sql.scope import Bound, Rendered, Scope
from odradek.sql.syntax import ColumnRef, Expression, Join, Operation


@dataclass(frozen=True, slots=True)
class JoinedKey:
    """The key of joined rows."""

    shown: str
    texts: set[str]  # Spark SQL expressions, each of which is the key
    row_key: Rendered | None  # of a FULL JOIN


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """One JOIN as Spark SQL."""

    text: str
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
        _check_primary_key(join, right, right_side, scope)
    left_key, right_key = render(left_side, scope), render(right_side, scope)
    conditions = [f"{left_key.text} = {right_key.text}"]
    if join.within is not None:
        here, there = f"{left.quoted}.__time", f"{right.quoted}.__time"
        conditions.append(f"{there} >= {here} - {interval(join.within.before.ms)}")
        conditions.append(f"{there} <= {here} + {interval(join.within.after.ms)}")
    text = f"{join.kind} JOIN input_{number + 1} AS {right.quoted} ON {' AND '.join(conditions)}"
    return PlannedJoin(text, _key(join, left_side, left_key, right_key))


def _key(join: Join, left_side: Expression, left: Rendered, right: Rendered) -> JoinedKey:
    if join.kind == "FULL":
        whole = Rendered(f"coalesce({left.text}, {right.text})", left.type or right.type)
        return JoinedKey("ROWKEY", {whole.text}, whole)
    shown = left_side.name.text if isinstance(left_side, ColumnRef) else "of the join"
    texts = {"INNER": {left.text, right.text}, "LEFT": {left.text}, "RIGHT": {right.text}}[join.kind]
    return JoinedKey(shown, texts, None)


def _check_kinds(join: Join, left: Bound, right: Bound, kinds: tuple[str, str]) -> None:
    name = join.source.name
    if kinds == ("STREAM", "STREAM"):
        if join.within is None:
            raise SqlError("a join of streams needs WITHIN: the largest difference in time", join.at)
        return
    if kinds == ("TABLE", "TABLE"):
        raise SqlError(
            "a join of tables is not supported with EMIT CHANGES or as a persistent query: omit EMIT CHANGES, "
            "or join a stream with them",
            name.at,
        )
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


def _sides(join: Join, number: int, scope: Scope) -> tuple[Expression, Expression]:
    """Return the condition's expression over the sources so far, and the one over the joined source."""
    wanted = join.condition
    if isinstance(wanted, Operation) and wanted.operator == "=":
        before = {each.alias.upper() for each in scope.bounds[:number]}
        new = {scope.bounds[number].alias.upper()}
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


def _aliases(expression: Expression, scope: Scope) -> set[str]:
    """Return the sources that an expression uses."""
    if isinstance(expression, ColumnRef):
        text = scope.resolve(expression).text
        return {each.alias.upper() for each in scope.bounds if f"{each.quoted}." in text}
    found: set[str] = set()
    for each in parts(expression):
        found |= _aliases(each, scope)
    return found


def _check_primary_key(join: Join, right: Bound, side: Expression, scope: Scope) -> None:
    keys = right.source.keys
    wanted = [right.render(each.name, each.type).text for each in keys]
    if len(keys) != 1 or render(side, scope).text != wanted[0]:
        shown = ", ".join(each.name for each in keys) or "(none)"
        raise SqlError(f"a table must be joined on its primary key, {shown} of {right.alias}", join.condition.at)
