"""A piece of a user's table in the few types that both engines read, and the bodies that they write from it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from odradek.errors import ErrorCode, FormatError
from odradek.model.log import Buffer

_BYTES_KINDS = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a contiguous piece of a table, in the types that both engines read."""

    row_count: int
    timestamps: pa.Int64Array  # ms, no nulls
    key: pa.LargeBinaryArray | None
    value: pa.LargeBinaryArray | None
    headers: pa.LargeListArray | None  # of (key large_string, value large_binary)


@dataclass(frozen=True, slots=True)
class Body:
    """The uncompressed records of one batch."""

    payload: Buffer
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


def read_columns(
    piece: pa.RecordBatch,
    key_column: str | None,
    value_column: str | None,
    timestamp_column: str | None,
    headers_column: str | None,
    default_timestamp_ms: int,
) -> Columns:
    """Return the columns of those names, each None if it is missing. Raises FormatError as `encode_from_arrow`."""
    return Columns(
        piece.num_rows,
        _timestamps(_column(piece, timestamp_column), piece.num_rows, default_timestamp_ms),
        _binary(_column(piece, key_column), key_column),
        _binary(_column(piece, value_column), value_column),
        _headers(_column(piece, headers_column), headers_column),
    )


def _column(piece: pa.RecordBatch, name: str | None) -> pa.Array | None:
    return piece.column(name) if name is not None and name in piece.schema.names else None


def _binary(column: pa.Array | None, name: str | None) -> pa.LargeBinaryArray | None:
    if column is None or pa.types.is_null(column.type):
        return None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not any(is_kind(column.type) for is_kind in _BYTES_KINDS):
        raise _refuse(f"column {name!r} is {column.type}: cast it to binary or text")
    return column.cast(pa.large_binary())


def _timestamps(column: pa.Array | None, rows: int, default_ms: int) -> pa.Int64Array:
    if column is None or pa.types.is_null(column.type):
        return pa.repeat(pa.scalar(default_ms, pa.int64()), rows)
    if pa.types.is_timestamp(column.type):
        per_ms = {"s": None, "ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
        column = _floor_divide(column.cast(pa.int64()), per_ms) if per_ms else _multiply(column.cast(pa.int64()), 1000)
    elif not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        raise _refuse(f"a timestamp column cannot be {column.type}: use a timestamp, or int64 milliseconds")
    return column.cast(pa.int64()).fill_null(default_ms)


def _floor_divide(column: pa.Int64Array, divisor: int) -> pa.Int64Array:
    if divisor == 1:
        return column
    quotient = pc.divide(column, divisor)  # towards zero
    rounded_up = pc.less(column, pc.multiply(quotient, divisor))
    return pc.subtract(quotient, rounded_up.cast(pa.int64()))


def _multiply(column: pa.Int64Array, factor: int) -> pa.Int64Array:
    try:
        return pc.multiply_checked(column, factor)
    except pa.ArrowInvalid as error:
        raise _refuse("a timestamp does not fit 64 bits of milliseconds") from error


def _headers(column: pa.Array | None, name: str | None) -> pa.LargeListArray | None:
    if column is None or pa.types.is_null(column.type):
        return None
    column_type = column.type
    if pa.types.is_map(column_type):
        names = ["key", "value"]
    elif (pa.types.is_list(column_type) or pa.types.is_large_list(column_type)) and pa.types.is_struct(
        column_type.value_type
    ):
        names = [field.name for field in column_type.value_type]
    else:
        names = []
    if len(names) != 2:
        raise _refuse(f"column {name!r} is {column_type}: headers must be a list of structs (key, value), or a map")
    pair = pa.struct([(names[0], pa.large_string()), (names[1], pa.large_binary())])
    try:
        column = column.cast(pa.large_list(pair))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise _refuse(f"column {name!r} is {column_type}: header keys must be text, values binary or text") from error
    if pc.struct_field(pc.list_flatten(column), 0).null_count:
        raise _refuse("a header key cannot be null")
    return column


def _refuse(message: str) -> FormatError:
    return FormatError(message, ErrorCode.INVALID_RECORD)
