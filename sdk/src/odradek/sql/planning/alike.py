"""What can be told of a comparison when it is planned: by types and, of literals, by what they say. Pure."""

from __future__ import annotations

from decimal import Decimal

from odradek.sql.conversions import is_text_of
from odradek.sql.syntax import Construct, Expression, Literal, Name, Operation
from odradek.sql.types import VARCHAR, SqlType


def is_other_than_zero(wanted: Expression) -> bool:
    """Return True for a number that is written, and is not zero."""
    return isinstance(wanted, Literal) and wanted.kind == "number" and Decimal(wanted.text) != 0


def is_literal(wanted: Expression) -> bool:
    """Return True for a literal, or a number with its sign."""
    inside = wanted.operands[0] if isinstance(wanted, Operation) and wanted.operator == "-" else wanted
    return isinstance(inside, Literal)


def is_alike(kind: SqlType, other: SqlType, written: Expression) -> bool:
    """Return True if a value of the other type, written so, can be equal to one of the first."""
    if isinstance(written, Literal) and written.kind in ("string", "null"):
        return written.kind == "null" or is_text_of(written.text, kind)
    if kind.name == other.name == "STRUCT":
        fields = dict(zip(other.fields, zip(other.inner, _written_inside(written, other), strict=True), strict=True))
        there = [(one, *fields[name]) for name, one in zip(kind.fields, kind.inner, strict=True) if name in fields]
        return all(is_alike(one, two, each) for one, two, places in there for each in places)
    if kind.name == other.name and kind.inner:
        parts = zip(kind.inner, other.inner, _written_inside(written, other), strict=True)
        return all(is_alike(one, two, each) for one, two, places in parts for each in places)
    return kind == other or (kind.is_number and other.is_number) or (kind == VARCHAR and is_literal(written))


def _written_inside(written: Expression, kind: SqlType) -> list[list[Expression]]:
    """Return what is written for each part of a type: its elements; what is no constructor stands for each part."""
    if not isinstance(written, Construct):
        return [[written]] * len(kind.inner)
    if written.kind == "STRUCT":
        return [[each] for each in written.values]
    values = list(written.values)
    keys = [each for each in written.keys if not isinstance(each, Name)]
    return [values] if written.kind == "ARRAY" else [keys, values]
