"""Record bodies with numba: Arrow's buffers are read in place and the bytes written into one reused buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from odradek.columnar import kernels as k
from odradek.columnar.columns import Body, Columns
from odradek.errors import ErrorCode, FormatError
from odradek.limits import BATCH_HEADER_BYTES

Array = np.ndarray[Any, np.dtype[Any]]

_NO_BYTES = np.zeros(0, np.uint8)
_NO_ENDS = np.zeros(0, np.int64)
"""A column that is not there: the kernels take it for all null."""


def write_bodies(columns: Columns, max_batch_bytes: int) -> Iterator[Body]:
    """The bodies of the batches, in order; each is valid until the next is asked for.

    Raises FormatError(INVALID_RECORD) as `encode_from_arrow`.
    """
    arrays = (
        np.ascontiguousarray(columns.timestamps.to_numpy(zero_copy_only=False)),
        *_binary(columns.key),
        *_binary(columns.value),
        *_headers(columns.headers),
    )
    times = arrays[0]
    body_bytes_max = max(max_batch_bytes - BATCH_HEADER_BYTES, 0)
    out = np.empty(min(body_bytes_max, _bytes_max(columns.row_count, arrays)), np.uint8)
    row = 0
    while row < columns.row_count:
        code, rows, size, largest = k.write_records(row, columns.row_count, *arrays, body_bytes_max, out)
        if code != k.OK:
            raise FormatError(k.MESSAGES[code], ErrorCode.INVALID_RECORD)
        if not rows:
            out = np.empty(size, np.uint8)
            continue
        yield Body(out[:size].data, rows, int(times[row]), int(largest))
        row += rows


def _bytes_max(row_count: int, arrays: tuple[Array, ...]) -> int:
    """More than all rows can need: so a small table does not take a large buffer."""
    return sum(array.nbytes for array in arrays) + 64 * row_count


def _binary(column: pa.LargeBinaryArray | None) -> tuple[Array, Array, Array]:
    """Ends, validity (empty where nothing is null) and bytes."""
    if column is None or len(column) == 0:
        return _NO_ENDS, _NO_BYTES, _NO_BYTES
    _, ends, data = column.buffers()
    return (
        np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1],
        _valid(column),
        np.frombuffer(data, np.uint8) if data is not None and data.size else _NO_BYTES,
    )


def _headers(column: pa.LargeListArray | None) -> tuple[Array, ...]:
    if column is None or len(column) == 0:
        return _NO_ENDS, _NO_BYTES, _NO_ENDS, _NO_BYTES, _NO_ENDS, _NO_BYTES, _NO_BYTES
    pairs = column.values
    key_ends, _, key_data = _binary(pairs.field(0).cast(pa.large_binary()))
    ends = np.ascontiguousarray(column.offsets.to_numpy(zero_copy_only=False))
    return ends, _valid(column), key_ends, key_data, *_binary(pairs.field(1))


def _valid(column: pa.Array) -> Array:
    if not column.null_count:
        return _NO_BYTES
    valid: Array = column.is_valid().to_numpy(zero_copy_only=False)
    return valid.view(np.uint8)
