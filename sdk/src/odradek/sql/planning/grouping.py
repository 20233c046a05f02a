"""Aggregates and table functions in expressions, and which columns GROUP BY leaves."""

from __future__ import annotations

from odradek.sql.expressions import parts, render
from odradek.sql.functions import FUNCTIONS, SPARK_AGGREGATES
from odradek.sql.functions.times import SHIFTS
from odradek.sql.position import SqlError
from odradek.sql.scope import Scope
from odradek.sql.syntax import Call, ColumnRef, Expression, Field, Lambda


def is_aggregate(expression: Expression) -> bool:
    """Return True if the expression contains an aggregate function."""
    return _calls(expression, "aggregate")


def is_table_function(expression: Expression) -> bool:
    """Return True if the expression contains a table function."""
    return _calls(expression, "table")


def _calls(expression: Expression, kind: str) -> bool:
    if isinstance(expression, Call):
        name = expression.name.folded
        known = FUNCTIONS.get(name)
        if (known is not None and known.kind == kind) or (kind == "aggregate" and name in SPARK_AGGREGATES):
            return True
    return any(_calls(each, kind) for each in parts(expression))


def check_grouped(
    expression: Expression, groups: tuple[Expression, ...], scope: Scope, names: tuple[str, ...] = ()
) -> None:
    """Check that every column is in GROUP BY or within an aggregate. Raises SqlError at one that is not.

    Args:
        names: parameters of the lambdas around the expression.
    """
    if expression in groups or _same_column(expression, groups, scope):
        return
    if isinstance(expression, Call):
        known = FUNCTIONS.get(expression.name.folded)
        if expression.name.folded in SPARK_AGGREGATES or (known is not None and known.is_aggregate):
            for each in expression.arguments:
                if is_aggregate(each):
                    raise SqlError("an aggregate within an aggregate is not supported", each.at)
            return
        if expression.name.folded in SHIFTS:
            for each in expression.arguments[1:]:
                check_grouped(each, groups, scope, names)
            return
    if isinstance(expression, Lambda):
        check_grouped(expression.body, groups, scope, (*names, *(each.text for each in expression.parameters)))
        return
    if isinstance(expression, ColumnRef):
        if (
            expression.name.text in (("WINDOWSTART", "WINDOWEND"))
            or (expression.source or expression.name).text in names
        ):
            return
        raise SqlError(
            f"{expression.name.text} is not in GROUP BY: group by it too, or LATEST_BY_OFFSET({expression.name.text})",
            expression.at,
        )
    for each in parts(expression):
        check_grouped(each, groups, scope, names)


def _same_column(expression: Expression, groups: tuple[Expression, ...], scope: Scope) -> bool:
    """Return True for a column that GROUP BY names in another way, such as with its source."""
    if not isinstance(expression, ColumnRef | Field):
        return False
    columns = [each for each in groups if isinstance(each, ColumnRef | Field)]
    if not columns:
        return False
    try:
        text = render(expression, scope).text
        return any(render(each, scope).text == text for each in columns)
    except SqlError:
        return False
