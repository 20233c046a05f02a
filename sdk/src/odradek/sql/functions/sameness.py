"""Values that Spark can tell apart: it compares no maps, so a map gives way to its sorted entries."""

from __future__ import annotations

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
