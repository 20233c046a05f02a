"""The columns that a sample of values has: what a query shows beside those of the topic's schema.

true, false -> BOOLEAN    1 -> BIGINT    1.5 -> DOUBLE    text -> VARCHAR    {} -> STRUCT    [] -> a list
kinds that do not agree -> VARCHAR, with JSON's text of what is not text
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from odradek.columnar.typed.arrow_kinds import kind_of_arrow
from odradek.columnar.typed.fitting import INT64
from odradek.columnar.typed.typed_values import SchemasNeeded, TypedValues
from odradek.model.kinds import are_distinct, columns_of_versions, is_name, is_utf8
from odradek.spark.source.typed import ColumnSource

_DEPTH_MAX = 8
_FIELDS_MAX = 400


def with_sampled(values: TypedValues, sample: Iterable[bytes], source: ColumnSource) -> TypedValues:
    """Return a reader that also has the fields of a sample of values."""
    there = {each.field for each in values.columns}
    seen = kinds_of(_data(values, value, source) for value in sample)
    more = [(name, kind_of_arrow(kind)) for name, kind in seen.items() if name not in there and is_name(name)]
    known = [(each.name, each.kind) for each in values.columns]
    found = columns_of_versions([(0, known), (1, [*known, *more])])[len(known) :]
    return values.with_columns(found)


def _data(values: TypedValues, value: bytes, source: ColumnSource) -> Any:
    """Return the data of a value, None if there is no way to read it."""
    try:
        return values.data(value)
    except SchemasNeeded as needed:
        source.learn(values, needed.ids)
        return _data(values, value, source)
    except Exception:  # whatever a value makes a library raise
        return None


def kinds_of(sample: Iterable[Any]) -> dict[str, pa.DataType]:
    """Return the type of each field of the objects of a sample; what is not an object says nothing."""
    found: dict[str, pa.DataType] = {}
    for data in sample:
        if isinstance(data, dict):
            for name, value in data.items():
                if name in found or len(found) < _FIELDS_MAX:
                    found[name] = joined(found.get(name, pa.null()), kind_of(value))
    return {name: _told(kind) for name, kind in found.items() if _is_field(name)}


def kind_of(value: Any, depth: int = 0) -> pa.DataType:
    """Return the type of a value of JSON; null for null."""
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if value in INT64 else pa.float64()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, dict) and value and depth < _DEPTH_MAX and _has_struct(value):
        return pa.struct([pa.field(name, kind_of(each, depth + 1)) for name, each in value.items()])
    if isinstance(value, list) and depth < _DEPTH_MAX:
        inner = pa.null()
        for each in value:
            inner = joined(inner, kind_of(each, depth + 1))
        return pa.list_(inner)
    return pa.string()


def _has_struct(value: dict[str, Any]) -> bool:
    return all(map(_is_field, value)) and are_distinct(value)


def _is_field(name: str) -> bool:
    return bool(name) and is_utf8(name)


def joined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type that holds the values of both."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(joined(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {each.name: each.type for each in one}
        for each in other:
            fields[each.name] = joined(fields.get(each.name, pa.null()), each.type)
        if are_distinct(fields):
            return pa.struct([pa.field(name, kind) for name, kind in fields.items()])
    return pa.string()


def _told(kind: pa.DataType) -> pa.DataType:
    """Return a type without null in it: what nothing is known of is text."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_told(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _told(each.type)) for each in kind])
    return kind
