"""Arithmetic and joined texts, as Spark SQL with Java's results where the two differ.

    x / 0 and x % 0 of DOUBLEs     Infinity, -Infinity or NaN; of other numbers there is no result: NULL
    'a' + NULL                     'anull', as Java appends to a text
    'a' || NULL                    'a': it is the function CONCAT

Types are ksqlDB's; where one is not known, Spark decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.conversions import converted
from odradek.sql.functions import FUNCTIONS
from odradek.sql.functions.bindings import LONG, once
from odradek.sql.types import DOUBLE, VARCHAR, Rendered, SqlType, arithmetic


def added_texts(operands: Sequence[Rendered], given: Sequence[bool]) -> Rendered:
    """Return `a + b` of texts. Args: given: of each operand, whether it is known not to be NULL."""
    texts = _as_texts(operands)
    if any(_is_bytes(each.type) for each in operands):
        return Rendered(f"concat({', '.join(each.text for each in texts)})", SqlType("BYTES"))
    parts = [each.text if known else f"coalesce({each.text}, 'null')" for each, known in zip(texts, given, strict=True)]
    return Rendered(f"concat({', '.join(parts)})", VARCHAR)


def concatenated(operands: Sequence[Rendered]) -> Rendered:
    """Return `a || b`."""
    return FUNCTIONS["CONCAT"].call(_as_texts(operands))


def calculated(operator: str, left: Rendered, right: Rendered, *, may_be_zero: bool) -> Rendered:
    """Return `left operator right` of two numbers. Args: may_be_zero: the right one."""
    if left.type is None or right.type is None:
        return Rendered(f"({left.text} {operator} {right.text})", left.type or right.type)
    kind = arithmetic(operator, left.type, right.type)
    if operator == "/" and kind.is_integer:
        return Rendered(f"CAST({left.text} DIV {right.text} AS {kind.spark})", kind)
    if kind == DOUBLE and operator in ("/", "%") and may_be_zero:
        return Rendered(_by_zero(operator, left.text, right.text), kind)
    text = f"({left.text} {operator} {right.text})"
    return Rendered(f"CAST({text} AS {kind.spark})" if kind.name == "DECIMAL" else text, kind)


def _by_zero(operator: str, left: str, right: str) -> str:
    """Return a division that has Java's result for zero, of which Spark makes NULL."""

    def divided(given: Sequence[str]) -> str:
        one, other = given
        if operator == "%":
            return f"({one} % IF({other} = 0, double('NaN'), {other}))"
        # 1 / 0 is Infinity, 1 / -0 -Infinity. The left operand appears once: chains of divisions are nested there.
        return f"({one} * IF({other} = 0, power({other}, -1D), 1D) / IF({other} = 0, 1D, {other}))"

    if len(right) <= LONG:
        return divided([left, right])
    return once([left, right], divided)


def _as_texts(operands: Sequence[Rendered]) -> list[Rendered]:
    return [
        each if each.type in (None, VARCHAR) or _is_bytes(each.type)
        else Rendered(converted(each.text, each.type, VARCHAR), VARCHAR)
        for each in operands
    ]  # fmt: skip


def _is_bytes(kind: SqlType | None) -> bool:
    return kind is not None and kind.name == "BYTES"
