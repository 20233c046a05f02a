"""Errors in an expression -> conditions of Spark SQL that are TRUE where there is one. Pure.

Spark goes on with NULL where an expression cannot be computed. In ksqlDB an error ends the whole expression around it,
up to the next place where it is caught, which makes of it NULL: so COALESCE(n / 0, 1) is NULL, not 1. What fails:

    a + b, -a, a LIKE b  NULL as an operand, a division by zero, a DECIMAL that overflows; not + of texts, nor x / 0 of
                         DOUBLEs (operators.py)
    a = b, a BETWEEN b AND c  a text that is not the time that it is compared with, NaN and Infinity with a DECIMAL
    a AND b, NOT a       NULL as an operand; of AND and OR, one that decides nothing by itself
    CASE WHEN a          a condition that is NULL; only the branch that is taken counts
    a[i]                 an array's index that is NULL
    PARSE_DATE(a, f)     and other calls, for arguments that they cannot use (raising.py)
    TRANSFORM(...)       and its like, within a lambda: an error in their own lambdas

What catches: a column of the result, a key, an argument of an aggregate or table function; CAST, the elements of ARRAY,
MAP and STRUCT, and an argument that is itself a call or a field; a || b is a call. Comparisons and the other functions
give a result for NULL.

Most errors need no condition: an operator that makes NULL of NULL has passed them on. `unseen` is what remains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from odradek.sql.functions.raising import WITHOUT_RESULT, has_errors, some_errors
from odradek.sql.syntax import Call, Expression, Field, Lambda, Literal, Operation, Subscript
from odradek.sql.types import NEVER, VARCHAR, Rendered

ARITHMETIC = ("+", "-", "*", "/", "%")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_NEVER_NULL = (*_COMPARISONS, "BETWEEN", "IN", "IS NULL", "IS NOT NULL", "IS DISTINCT FROM")
# Scalar functions that have a result although an argument is NULL.
TAKING_NULL = frozenset({
    "ARRAY_CONCAT", "ARRAY_CONTAINS", "ARRAY_JOIN", "ARRAY_REMOVE", "COALESCE", "CONCAT", "CONCAT_WS", "ELT",
    "ENTRIES", "FIELD", "GEO_DISTANCE", "GREATEST", "IFNULL", "INSTR", "IS_JSON_STRING", "JSON_ARRAY_CONTAINS", "LEAST",
    "MAP_UNION", "MASK", "MASK_KEEP_LEFT", "MASK_KEEP_RIGHT", "MASK_LEFT", "MASK_RIGHT", "NULLIF", "REDUCE", "SLICE",
    "TO_JSON_STRING",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an expression means where it is."""

    render: Callable[[Expression], Rendered]  # with the parameters of the lambdas around it
    argument: Callable[[Expression], Rendered]  # of a call: it is computed by itself, if an error in it is caught
    incomparable: Callable[[Expression, Expression], str]  # where two values that are there cannot be compared
    # Where something fails that is computed before the expression around it, such as an aggregate; None for the rest.
    known: Callable[[Expression], str | None]
    is_listed: Callable[[str], bool]  # a function of this package, by name: not Spark's own or the user's

    def text(self, wanted: Expression) -> str:
        return self.render(wanted).text


def failure(body: Expression, meaning: Meaning) -> str:
    """Return a condition, never NULL, that is TRUE where an expression is an error; NEVER if it cannot be one."""
    known = meaning.known(body)
    if known is not None:
        return known
    if _joins_texts(body, meaning):
        return any_of([failure(each, meaning) for each in _uncaught(body)])
    if isinstance(body, Operation):
        return _of_operation(body, meaning)
    if isinstance(body, Subscript):
        return _of_subscript(body, meaning)
    if isinstance(body, Field):
        return failure(body.operand, meaning)
    if isinstance(body, Call):
        inner = [failure(each, meaning) for each in _uncaught(body)]
        return any_of([*inner, _of_call(body, meaning)])
    return NEVER


def unseen(body: Expression, meaning: Meaning) -> str:
    """Return a condition that is TRUE where an expression is an error, and has a value in Spark all the same."""
    known = meaning.known(body)
    if known is not None:
        return known
    if _joins_texts(body, meaning):
        return failure(body, meaning)
    if isinstance(body, Operation):
        if body.operator == "CASE":
            return _of_case(body, meaning, unseen)
        if body.operator in (*_NEVER_NULL, "AND", "OR"):
            return failure(body, meaning)
        return any_of([unseen(each, meaning) for each in body.operands])
    if isinstance(body, Subscript):
        return any_of([unseen(body.operand, meaning), unseen(body.index, meaning)])
    if isinstance(body, Field):
        return unseen(body.operand, meaning)
    if isinstance(body, Call):
        passes_on = meaning.is_listed(body.name.folded) and body.name.folded not in TAKING_NULL
        return any_of([(unseen if passes_on else failure)(each, meaning) for each in _uncaught(body)])
    return NEVER


def unseen_test(test: Expression, meaning: Meaning) -> str:
    """Return a condition that is TRUE where a condition is an error, and TRUE in Spark all the same."""
    if not isinstance(test, Operation) or meaning.known(test) is not None:
        return unseen(test, meaning)
    if test.operator == "AND":
        return any_of([unseen_test(each, meaning) for each in test.operands])
    if test.operator == "OR":
        return _of_logic(test, meaning, unseen_test)
    if test.operator == "IN":
        first, *others = test.operands
        return any_of([unseen(first, meaning), *(failure(each, meaning) for each in others)])
    if test.operator in (*_COMPARISONS, "BETWEEN", "IS NOT NULL"):
        return any_of([unseen(each, meaning) for each in test.operands])
    return unseen(test, meaning)


def any_of(conditions: Sequence[str]) -> str:
    """Return a condition that is TRUE where any of some is."""
    found = list(dict.fromkeys(each for each in conditions if each != NEVER))
    return NEVER if not found else found[0] if len(found) == 1 else f"({' OR '.join(found)})"


def _of_operation(wanted: Operation, meaning: Meaning) -> str:
    operator, operands = wanted.operator, wanted.operands
    if operator in ("AND", "OR"):
        return _of_logic(wanted, meaning, _no_truth)
    if operator == "NOT":
        return _no_truth(operands[0], meaning)
    if operator == "CASE":
        return _of_case(wanted, meaning, failure)
    if operator in _COMPARISONS or operator == "BETWEEN":
        return _of_comparison(wanted, meaning)
    if operator == "IS DISTINCT FROM":
        return any_of([*(failure(each, meaning) for each in operands), meaning.incomparable(*operands)])
    if not _fails_for_null(wanted, meaning):
        return any_of([failure(each, meaning) for each in operands])
    # The result is NULL where an operand is, also one that fails.
    wrong = [wanted] if operator in ARITHMETIC and len(operands) > 1 else operands
    missing = [f"{meaning.text(each)} IS NULL" for each in wrong if not is_given(each)]
    return any_of([*(unseen(each, meaning) for each in operands), *missing])


def _fails_for_null(wanted: Operation, meaning: Meaning) -> bool:
    """Return True for an operation that has a result or is an error."""
    if wanted.operator == "LIKE":
        return True
    return wanted.operator in ARITHMETIC and not _joins_texts(wanted, meaning)


def _of_comparison(wanted: Operation, meaning: Meaning) -> str:
    """Return where a comparison fails: its second operand is computed only if the first is not NULL."""
    first, second, *third = wanted.operands
    later = failure(second, meaning)
    if later != NEVER and _null(first, meaning) != NEVER:
        later = f"({meaning.text(first)} IS NOT NULL AND {later})"
    last = NEVER if not third else any_of([failure(third[0], meaning), meaning.incomparable(first, third[0])])
    if last != NEVER:
        last = f"({meaning.text(Operation('>=', (first, second), wanted.at))} AND {last})"
    return any_of([failure(first, meaning), later, meaning.incomparable(first, second), last])


def _no_truth(wanted: Expression, meaning: Meaning) -> str:
    """Return where an operand of AND, OR and NOT is an error or NULL."""
    return any_of([failure(wanted, meaning), _null(wanted, meaning)])


def _of_logic(wanted: Operation, meaning: Meaning, of_second: Callable[[Expression, Meaning], str]) -> str:
    """Return where AND or OR fails; `of_second` says it of the second operand, where the first does not decide."""
    one, other = wanted.operands
    later = of_second(other, meaning)
    if later != NEVER:
        first = meaning.text(one)
        later = f"({first if wanted.operator == 'AND' else f'NOT {first}'} AND {later})"
    return any_of([_no_truth(one, meaning), later])


def _of_case(wanted: Operation, meaning: Meaning, of_result: Callable[[Expression, Meaning], str]) -> str:
    rest = list(wanted.operands)
    held = rest.pop(0) if wanted.has_operand else None
    default = of_result(rest.pop(), meaning) if wanted.has_default else NEVER
    branches = []
    for number in range(0, len(rest), 2):
        test = rest[number] if held is None else Operation("=", (held, rest[number]), wanted.at)
        is_last = number + 2 == len(rest) and not wanted.has_default
        # After the last condition comes NULL anyway, if an error is not TRUE in Spark.
        wrong = unseen_test(test, meaning) if is_last and of_result is unseen else _no_truth(test, meaning)
        branches += [(wrong, "TRUE"), (meaning.text(test), of_result(rest[number + 1], meaning))]
    branches = [(test, found) for test, found in branches if test != NEVER]
    if default == NEVER:
        while branches and branches[-1][1] == NEVER:
            branches.pop()
    if not branches:
        return default
    if len(branches) == 1 and branches[0][1] == "TRUE" and default == NEVER:
        return branches[0][0]
    whens = " ".join(f"WHEN {test} THEN {found}" for test, found in branches)
    return f"(CASE {whens} ELSE {default} END)"


def _of_subscript(wanted: Subscript, meaning: Meaning) -> str:
    outer, index = meaning.render(wanted.operand), failure(wanted.index, meaning)
    if outer.type is not None and outer.type.name == "ARRAY":
        index = any_of([index, _null(wanted.index, meaning)])
    if index != NEVER:
        index = f"({outer.text} IS NOT NULL AND {index})"
    return any_of([failure(wanted.operand, meaning), index])


def _uncaught(wanted: Call | Operation) -> list[Expression]:
    """Return the arguments whose errors end the call, too; || is a call of CONCAT."""
    if isinstance(wanted, Call):
        return [each for each in wanted.arguments if not is_caught(each)]
    return [each for each in wanted.operands if wanted.operator != "||" or not is_caught(each)]


def _joins_texts(wanted: Expression, meaning: Meaning) -> TypeGuard[Operation]:
    """Return True for || and + of texts, which have a result for NULL."""
    if not isinstance(wanted, Operation):
        return False
    return wanted.operator == "||" or (wanted.operator == "+" and meaning.render(wanted).type == VARCHAR)


def is_caught(argument: Expression) -> bool:
    """Return True if an error in an argument makes only it NULL."""
    return isinstance(argument, Call | Field | Lambda) or (
        isinstance(argument, Operation) and argument.operator == "||"
    )


def _of_call(wanted: Call, meaning: Meaning) -> str:
    """Return where a call itself fails; of lambdas: a collection is there, and no result."""
    name = wanted.name.folded
    has_lambda = any(isinstance(each, Lambda) for each in wanted.arguments)
    found = []
    if has_lambda or name in WITHOUT_RESULT:
        given = [
            f"{meaning.argument(each).text} IS NOT NULL"
            for each in wanted.arguments
            if not isinstance(each, Lambda) and _null(each, meaning) != NEVER
        ]
        missing = f"{meaning.text(wanted)} IS NULL"
        found.append(f"({' AND '.join([missing, *given])})")
    if has_errors(name) and meaning.is_listed(name):
        found += some_errors(name, [meaning.argument(each) for each in wanted.arguments])
    return any_of(found)


def _null(wanted: Expression, meaning: Meaning) -> str:
    """Return where an expression is NULL; NEVER for one that never is, unless it fails."""
    if is_given(wanted) or (isinstance(wanted, Operation) and wanted.operator in (*_NEVER_NULL, "AND", "OR", "NOT")):
        return NEVER
    if isinstance(wanted, Operation) and (_fails_for_null(wanted, meaning) or _joins_texts(wanted, meaning)):
        return NEVER
    return f"{meaning.text(wanted)} IS NULL"


def is_given(wanted: Expression) -> bool:
    """Return True for a literal that is not NULL."""
    return isinstance(wanted, Literal) and wanted.kind != "null"
