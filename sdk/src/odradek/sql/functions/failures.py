"""Errors in the body of a lambda -> a condition of Spark SQL that is TRUE where there is one. Pure.

Spark goes on with NULL where an expression cannot be computed. In ksqlDB an error ends the whole expression around it,
up to the next place where it is caught: so one element that fails makes all of a TRANSFORM NULL. What fails:

    a + b, -a           NULL as an operand, a division by zero, a DECIMAL that overflows
    a AND b, NOT a      NULL as an operand; of AND and OR, one that decides nothing by itself
    CASE WHEN a         a condition that is NULL; only the branch that is taken counts
    a[i]                an array's index that is NULL
    TRANSFORM(...)      and its like, within a lambda: an error in their own lambdas

What catches: CAST, the elements of ARRAY, MAP and STRUCT, and an argument that is itself a call. Comparisons and the
other functions give a result for NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.sql.syntax import Call, Expression, Field, Lambda, Literal, Operation, Subscript
from odradek.sql.types import NEVER, VARCHAR, Rendered

Render = Callable[[Expression], Rendered]

_ARITHMETIC = ("+", "-", "*", "/", "%")
_NEVER_NULL = ("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "IS NULL", "IS NOT NULL", "IS DISTINCT FROM")


def failure(body: Expression, render: Render) -> str:
    """Return a condition, never NULL, that is TRUE where an expression is an error; NEVER if it cannot be one.

    Args:
        render: of subexpressions, with the parameters of the lambdas around them.
    """
    if isinstance(body, Operation):
        return _of_operation(body, render)
    if isinstance(body, Subscript):
        return _of_subscript(body, render)
    if isinstance(body, Field):
        return _of_argument(body.operand, render)
    if isinstance(body, Call):
        return any_of([*(_of_argument(each, render) for each in body.arguments), _of_lambdas(body, render)])
    return NEVER


def any_of(conditions: Sequence[str]) -> str:
    """Return a condition that is TRUE where any of some is."""
    found = list(dict.fromkeys(each for each in conditions if each != NEVER))
    return NEVER if not found else found[0] if len(found) == 1 else f"({' OR '.join(found)})"


def _of_operation(wanted: Operation, render: Render) -> str:
    operator, operands = wanted.operator, wanted.operands
    if operator in ("AND", "OR"):
        return _of_logic(wanted, render)
    if operator == "NOT":
        return any_of([failure(operands[0], render), _null(operands[0], render)])
    if operator == "CASE":
        return _of_case(wanted, render)
    inner = any_of([failure(each, render) for each in operands])
    if operator in _ARITHMETIC and VARCHAR not in [render(each).type for each in operands]:
        return any_of([inner, f"{render(wanted).text} IS NULL"])
    return inner


def _of_logic(wanted: Operation, render: Render) -> str:
    one, other = wanted.operands
    at_once = any_of([failure(one, render), _null(one, render)])
    later = any_of([failure(other, render), _null(other, render)])
    if later != NEVER:
        first = render(one).text
        later = f"({first if wanted.operator == 'AND' else f'NOT {first}'} AND {later})"
    return any_of([at_once, later])


def _of_case(wanted: Operation, render: Render) -> str:
    rest = list(wanted.operands)
    held = rest.pop(0) if wanted.has_operand else None
    default = failure(rest.pop(), render) if wanted.has_default else NEVER
    whens, thens = rest[::2], rest[1::2]
    branches = []
    for when, then in zip(whens, thens, strict=True):
        test = when if held is None else Operation("=", (held, when), wanted.at)
        wrong = any_of([failure(test, render), _null(test, render)])
        if wrong != NEVER:
            branches.append(f"WHEN {wrong} THEN TRUE")
        branches.append(f"WHEN {render(test).text} THEN {failure(then, render)}")
    if all(each.endswith(f"THEN {NEVER}") for each in branches) and default == NEVER:
        return NEVER
    return f"(CASE {' '.join(branches)} ELSE {default} END)"


def _of_subscript(wanted: Subscript, render: Render) -> str:
    outer, index = render(wanted.operand), failure(wanted.index, render)
    if outer.type is not None and outer.type.name == "ARRAY":
        index = any_of([index, _null(wanted.index, render)])
    if index != NEVER:
        index = f"({outer.text} IS NOT NULL AND {index})"
    return any_of([failure(wanted.operand, render), index])


def _of_argument(argument: Expression, render: Render) -> str:
    return NEVER if isinstance(argument, Call | Field | Lambda) else failure(argument, render)


def _of_lambdas(wanted: Call, render: Render) -> str:
    """Return where a call with lambdas fails: it has no result, although it has a collection, and REDUCE a state."""
    if not any(isinstance(each, Lambda) for each in wanted.arguments):
        return NEVER
    given = [f"{render(each).text} IS NOT NULL" for each in wanted.arguments if not isinstance(each, Lambda)]
    return f"({render(wanted).text} IS NULL AND {' AND '.join(given)})"


def _null(wanted: Expression, render: Render) -> str:
    """Return where an expression is NULL; NEVER for one that never is, unless it fails."""
    if isinstance(wanted, Operation) and wanted.operator in (*_NEVER_NULL, "AND", "OR", "NOT"):
        return NEVER
    if isinstance(wanted, Literal) and wanted.kind != "null":
        return NEVER
    return f"{render(wanted).text} IS NULL"
