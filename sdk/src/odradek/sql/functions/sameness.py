"""Values that Spark can tell apart: it compares no maps, so a map gives way to its sorted entries.

And values that Java tells apart: IN and NULLIF, and whatever looks into arrays and maps, ask whether two are equal as
objects. Then -0.0 is not 0.0, and less than it, and NaN is NaN. So a DOUBLE there gives way to its text.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.bindings import once
from odradek.sql.types import DOUBLE, SqlType, quote


def distinguishable(value: str, kind: SqlType | None) -> str:
    """Return a value that is equal to another one if the given values are, as objects of Java.

    Each map in it is an array of entries, each DOUBLE a text.
    """
    if kind is None or not is_told_apart(kind):
        return value
    if kind == DOUBLE:
        return f"CAST({value} AS STRING)"
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


def is_told_apart(kind: SqlType) -> bool:
    """Return True for a type whose values Spark compares in another way than Java, or not at all."""
    return kind.holds("MAP") or kind.holds("DOUBLE")


def positive(value: str) -> str:
    """Return whether a DOUBLE is not -0.0; NULL for NULL. Among equal numbers it orders them."""
    return f"(CAST({value} AS STRING) <> '-0.0')"


def distinct(values: str, inner: SqlType | None) -> str:
    """Return an array without its repetitions, in the order of the first ones. Args: the type of an element."""
    if inner is None or not is_told_apart(inner):
        return f"array_distinct({values})"
    if inner == DOUBLE:
        return as_doubles(f"array_distinct({as_texts(values)})")
    same = f"{distinguishable('y', inner)} <=> {distinguishable('x', inner)}"
    start = f"CAST(array() AS ARRAY<{inner.spark}>)"
    return f"aggregate({values}, {start}, (a, x) -> IF(exists(a, y -> {same}), a, array_append(a, x)))"


def as_texts(values: str) -> str:
    """Return an array of DOUBLEs as their texts, which Spark tells apart as Java does the numbers."""
    return f"transform({values}, x -> CAST(x AS STRING))"


def as_doubles(texts: str) -> str:
    return f"transform({texts}, x -> CAST(x AS DOUBLE))"


def is_one_of(value: str, others: Sequence[str]) -> str:
    """Return whether a DOUBLE is one of some numbers, as Java's objects are: zeros have a sign. NULL as IN is."""

    def found(given: Sequence[str]) -> str:
        zeros = ", ".join(f"CAST(CAST({each} AS DOUBLE) AS STRING)" for each in given[1:])
        is_same = f"{given[0]} IN ({', '.join(given[1:])})"
        return f"({is_same} AND ({given[0]} <> 0 OR CAST({given[0]} AS STRING) IN ({zeros})))"

    return once([value, *others], found)
