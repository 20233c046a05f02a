"""Values that Spark can tell apart: it compares no maps, so a map gives way to its sorted entries.

And values that Java tells apart: IN and NULLIF ask whether two are equal as objects, and then -0.0 is not 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.bindings import once
from odradek.sql.types import SqlType, quote


def distinguishable(value: str, kind: SqlType | None) -> str:
    """Return a value that is equal to another one if the given values are: each map in it is an array of entries."""
    if kind is None or not kind.holds("MAP"):
        return value
    if kind.name == "ARRAY":
        return f"transform({value}, x -> {distinguishable('x', kind.inner[0])})"
    if kind.name == "MAP":
        pair = f"struct(e.key AS k, {distinguishable('e.value', kind.inner[1])} AS v)"
        return f"array_sort(transform(map_entries({value}), e -> {pair}))"
    fields = ", ".join(
        f"{distinguishable(f'{value}.{quote(name)}', each)} AS {quote(name)}"
        for name, each in zip(kind.fields, kind.inner, strict=True)
    )
    return f"IF({value} IS NULL, NULL, struct({fields}))"


def distinct(values: str, inner: SqlType | None) -> str:
    """Return an array without its repetitions, in the order of the first ones. Args: the type of an element."""
    if inner is None or not inner.holds("MAP"):
        return f"array_distinct({values})"
    same = f"{distinguishable('y', inner)} <=> {distinguishable('x', inner)}"
    start = f"CAST(array() AS ARRAY<{inner.spark}>)"
    return f"aggregate({values}, {start}, (a, x) -> IF(exists(a, y -> {same}), a, array_append(a, x)))"


def is_one_of(value: str, others: Sequence[str]) -> str:
    """Return whether a DOUBLE is one of some numbers, as Java's objects are: zeros have a sign. NULL as IN is."""

    def found(given: Sequence[str]) -> str:
        zeros = ", ".join(f"CAST(CAST({each} AS DOUBLE) AS STRING)" for each in given[1:])
        is_same = f"{given[0]} IN ({', '.join(given[1:])})"
        return f"({is_same} AND ({given[0]} <> 0 OR CAST({given[0]} AS STRING) IN ({zeros})))"

    return once([value, *others], found)
