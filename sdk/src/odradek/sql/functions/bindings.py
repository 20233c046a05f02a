"""A value that an expression needs more than once is written once, so that a plan is as long as its script is deep.

Spark SQL has no name for a part of an expression. An array of one element has: its elements are changed by a lambda,
whose parameter is the name.

    transform(array(<value>), b -> IF(b < 0, NULL, b))[0]

A short value is repeated instead: Spark then compiles the expression, which it does with no lambda. Nothing within a
lambda can be computed in Python, so that a value is bound, and never a function in Python around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

LONG = 160  # characters from which a value is written once
_STEP = " -> "


def once(values: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """Return an expression of some values in which each long one is written once."""
    names = _names(values)
    plain = body(values)
    if names is None or all(plain.count(each) < 2 for each in values if len(each) > LONG):
        return plain
    inner = body(names)
    if "ksql_" in inner:
        return plain
    bound = [(name, each) for name, each in zip(names, values, strict=True) if name != each]
    if len(bound) == 1:
        [(name, value)] = bound
        return f"transform(array({value}), {name}{_STEP}{inner})[0]"
    outer = _name(values)
    fields = ", ".join(f"{value} AS {name}" for name, value in bound)
    inner = body([f"{outer}.{name}" if name != each else each for name, each in zip(names, values, strict=True)])
    return f"transform(array(struct({fields})), {outer}{_STEP}{inner})[0]"


def _names(values: Sequence[str]) -> list[str] | None:
    """Return a name for each value that is bound, and the others as they are; None if all are short."""
    if all(len(each) <= LONG for each in values):
        return None
    stem = _name(values)
    return [f"{stem}_{number}" if _is_bound(each) else each for number, each in enumerate(values)]


def _is_bound(value: str) -> bool:
    """Return True for a long value, and for one in Python, which cannot be within the lambda."""
    return len(value) > LONG or "ksql_" in value


def _name(values: Sequence[str]) -> str:
    """Return a name that no lambda within the values has."""
    return f"b{1 + max(each.count(_STEP) for each in values)}"
