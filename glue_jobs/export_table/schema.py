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
        for entry in value:
            element = merge(element, type_of(entry))
        return ArrayType(element) if element is not None else None
    if isinstance(value, dict):
        fields = {
            name: data_type for name, member in value.items() if name and (data_type := type_of(member)) is not None
        }
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
    merged: DataType | None = None
    for value in values:
        if value is None:
            continue
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            merged = merge(merged, type_of(document))
    return merged if isinstance(merged, StructType) else StructType([])


def grown(table: StructType, observed: StructType) -> StructType:
    """Return the table's schema with the missing columns added; columns keep their position and type.

    Names are compared case-insensitively, as in Spark.

    Raises KafkaError(INVALID_RECORD): there would be too many columns.
    """
    schema = _grown(table, observed)
    if _count(schema) > FIELDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the values have more than {FIELDS_MAX} different fields: set --value-schema and --evolve none",
        )
    return schema


def _grown(table: StructType, observed: StructType) -> StructType:
    by_name = {field.name.lower(): field.dataType for field in observed.fields}
    fields = [
        StructField(field.name, _inside(field.dataType, by_name.get(field.name.lower()))) for field in table.fields
    ]
    known_names = {field.name.lower() for field in fields}
    for field in observed.fields:
        if field.name.lower() not in known_names:
            known_names.add(field.name.lower())
            fields.append(StructField(field.name, field.dataType))
    return StructType(fields)


def _inside(table: DataType, observed: DataType | None) -> DataType:
    if isinstance(table, StructType) and isinstance(observed, StructType):
        return _grown(table, observed)
    if isinstance(table, ArrayType) and isinstance(observed, ArrayType):
        return ArrayType(_inside(table.elementType, observed.elementType))
    return table


def _count(data_type: DataType) -> int:
    if isinstance(data_type, StructType):
        return sum(1 + _count(field.dataType) for field in data_type.fields)
    return _count(data_type.elementType) if isinstance(data_type, ArrayType) else 0
