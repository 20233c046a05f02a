"""Parquet by Arrow: Connect's schemas and values as Arrow types, both ways."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from odradek.columnar.bounds import columns_with_bounds
from odradek.connect.data import logical
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct, plain
from odradek.connect.errors import DataError

_PRECISION = 38  # digits: the most that Arrow's 128-bit decimals have
_TO_ARROW = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_LOGICAL = {
    logical.DATE_NAME: pa.date32(),
    logical.TIME_NAME: pa.time32("ms"),
    logical.TIMESTAMP_NAME: pa.timestamp("ms", tz="UTC"),
}


def arrow_type(schema: Schema) -> Any:
    """Return the Arrow type of a schema."""
    if schema.name == logical.DECIMAL_NAME:
        return pa.decimal128(_PRECISION, logical.scale_of(schema))
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.STRUCT:
        return pa.struct(
            [pa.field(field.name, arrow_type(field.schema), field.schema.optional) for field in schema.fields]
        )
    if schema.type is Type.ARRAY:
        return pa.list_(arrow_type(schema.elements))
    if schema.type is Type.MAP:
        assert schema.key_schema is not None
        return pa.map_(arrow_type(schema.key_schema), arrow_type(schema.elements))
    return _TO_ARROW[schema.type]


def write_parquet(schema: Schema, values: list[Any]) -> bytes:
    """Return a Parquet file with a row for each struct. Raises DataError for other values."""
    if schema.type is not Type.STRUCT:
        raise DataError(f"Parquet needs structs, not {schema.type.value}: hoist the value into a field (HoistField)")
    columns = [pa.field(field.name, arrow_type(field.schema), field.schema.optional) for field in schema.fields]
    try:
        rows = [_row(value) for value in values]
        table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"the records cannot be written as Parquet: {error}") from error
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", write_statistics=columns_with_bounds(table) or False)
    return out.getvalue()


def _row(value: Any) -> dict[str, Any]:
    if not isinstance(value, Struct):
        raise DataError(f"Parquet needs structs, not {type(value).__name__}")
    return {name: cell(value.schema.field(name), field_value) for name, field_value in value.items()}


def cell(field: Any, value: Any) -> Any:
    if isinstance(value, dict) and field.schema.type is Type.MAP:
        return [(key, plain(member)) for key, member in value.items()]
    return plain(value)


def connect_type(data_type: Any) -> Schema:
    """Return the schema of an Arrow type. Raises DataError for a type without a counterpart."""
    for schema_type, arrow in _TO_ARROW.items():
        if data_type == arrow:
            return Schema(schema_type)
    if pa.types.is_decimal(data_type):
        return logical.decimal(data_type.scale)
    if pa.types.is_date(data_type):
        return logical.DATE
    if pa.types.is_time(data_type):
        return logical.TIME
    if pa.types.is_timestamp(data_type):
        return logical.TIMESTAMP
    if pa.types.is_struct(data_type):
        return schemas.struct((field.name, connect_type(field.type).as_optional(field.nullable)) for field in data_type)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return schemas.array(connect_type(data_type.value_type).as_optional())
    if pa.types.is_map(data_type):
        return schemas.map_of(connect_type(data_type.key_type), connect_type(data_type.item_type).as_optional())
    if pa.types.is_unsigned_integer(data_type):
        return schemas.INT64
    if pa.types.is_large_string(data_type) or pa.types.is_dictionary(data_type):
        return schemas.STRING
    if pa.types.is_large_binary(data_type) or pa.types.is_fixed_size_binary(data_type):
        return schemas.BYTES
    raise DataError(f"the Arrow type {data_type} has no counterpart in Connect's schemas")


def read_parquet(stream: BinaryIO, position: int) -> Iterator[tuple[Schema, Struct, int]]:
    """Yield schema, row and the number of the row, from 1, behind a position."""
    file = pq.ParquetFile(stream)
    schema = schemas.struct(
        (field.name, connect_type(field.type).as_optional(field.nullable)) for field in file.schema_arrow
    )
    number = 0
    for batch in file.iter_batches():
        if number + batch.num_rows <= position:
            number += batch.num_rows
            continue
        for row in batch.to_pylist():
            number += 1
            if number > position:
                yield (
                    schema,
                    Struct(schema, {n: _value(_of(schema, n), cell_value) for n, cell_value in row.items()}),
                    number,
                )


def _of(schema: Schema, name: str) -> Schema:
    field = schema.field(name)
    assert field is not None
    return field.schema


def _value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        return Struct(schema, {name: _value(_of(schema, name), member) for name, member in value.items()})
    if schema.type is Type.ARRAY:
        return [_value(schema.elements, element) for element in value]
    if schema.type is Type.MAP:
        return {key: _value(schema.elements, member) for key, member in value}
    if schema.name == logical.TIMESTAMP_NAME and value.tzinfo is None:
        return value.replace(tzinfo=logical.UTC)
    return value
