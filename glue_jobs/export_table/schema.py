"""The schema of JSON values: inference, and the evolution of a table. Pure.

Inference: null fields are ignored; whole numbers are BIGINT, others DOUBLE, both together DOUBLE; values of several
kinds are STRING, their JSON text. `merge` is commutative and associative, so tasks may see any part of the values.

A table only ever gets more columns, also nested ones. A column keeps its type: a record with a value that does not fit
becomes a dead letter. So readers of older files and snapshots continue to work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

FIELDS_MAX = 2_000  # per table; JSON with data in its field names must not create a column for each
_LONG_MAX = 2**63 - 1


def type_of(value: Any) -> DataType | None:
    """Return the type of a JSON value; None for a value without information (null, empty)."""
    if isinstance(value, bool):
        return BooleanType()
    if isinstance(value, int):
        return LongType() if -_LONG_MAX - 1 <= value <= _LONG_MAX else DoubleType()
    if isinstance(value, float):
        return DoubleType()
    if isinstance(value, str):
        return StringType()
    if isinstance(value, list):
        element: DataType | None = None
        for each in value:
            element = merge(element, type_of(each))
        return ArrayType(element) if element is not None else None
    if isinstance(value, dict):
        fields = {name: kind for name, each in value.items() if name and (kind := type_of(each)) is not None}
        return _struct(fields) if fields else None
    return None


def merge(one: DataType | None, other: DataType | None) -> DataType | None:
    """Return the type that holds both."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, StructType) and isinstance(other, StructType):
        fields: dict[str, DataType] = {field.name: field.dataType for field in one.fields}
        for field in other.fields:
            both = merge(fields.get(field.name), field.dataType)
            assert both is not None
            fields[field.name] = both
        return _struct(fields)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        element = merge(one.elementType, other.elementType)
        assert element is not None
        return ArrayType(element)
    if {type(one), type(other)} == {LongType, DoubleType}:
        return DoubleType()
    return StringType()


def _struct(fields: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, fields[name]) for name in sorted(fields)])


def schema_of(values: Iterable[bytes | None]) -> StructType:
    """Return the schema of all values that are JSON objects; others are ignored."""
    seen: DataType | None = None
    for value in values:
        if value is None:
            continue
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            seen = merge(seen, type_of(document))
    return seen if isinstance(seen, StructType) else StructType([])


def grown(table: StructType, seen: StructType) -> StructType:
    """Return the table's schema with the missing columns added; columns keep their position and type.

    Names are compared case-insensitively, as in Spark.

    Raises KafkaError(INVALID_RECORD): there would be too many columns.
    """
    schema = _grown(table, seen)
    if _count(schema) > FIELDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the values have more than {FIELDS_MAX} different fields: set --value-schema and --evolve none",
        )
    return schema


def _grown(table: StructType, seen: StructType) -> StructType:
    by_name = {field.name.lower(): field.dataType for field in seen.fields}
    fields = [StructField(each.name, _inside(each.dataType, by_name.get(each.name.lower()))) for each in table.fields]
    known = {field.name.lower() for field in fields}
    for field in seen.fields:
        if field.name.lower() not in known:
            known.add(field.name.lower())
            fields.append(StructField(field.name, field.dataType))
    return StructType(fields)


def _inside(table: DataType, seen: DataType | None) -> DataType:
    if isinstance(table, StructType) and isinstance(seen, StructType):
        return _grown(table, seen)
    if isinstance(table, ArrayType) and isinstance(seen, ArrayType):
        return ArrayType(_inside(table.elementType, seen.elementType))
    return table


def _count(kind: DataType) -> int:
    if isinstance(kind, StructType):
        return sum(1 + _count(field.dataType) for field in kind.fields)
    return _count(kind.elementType) if isinstance(kind, ArrayType) else 0
