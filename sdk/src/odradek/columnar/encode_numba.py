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
"""A missing column, which the kernels treat as all null."""


class BodyWriter:
    """Writes the bodies of batches from the rows of some columns."""

    def __init__(self, columns: Columns) -> None:
        self.row_count = columns.row_count
        self.key = binary_arrays(columns.key)
        times = np.ascontiguousarray(columns.timestamps.to_numpy(zero_copy_only=False))
        self._out: Array | None = None
        self._arrays = (times, *self.key, *binary_arrays(columns.value), *_headers(columns.headers))

    def write(self, max_batch_bytes: int, rows: Array | None = None) -> Iterator[Body]:
        """Yield the bodies of the batches of these rows (None: all) in order; each is valid until the next one.

        Raises FormatError(INVALID_RECORD) as `encode_from_arrow`.
        """
        order, end = (_NO_ENDS, self.row_count) if rows is None else (rows, len(rows))
        times = self._arrays[0]
        body_bytes_max = max(max_batch_bytes - BATCH_HEADER_BYTES, 0)
        if self._out is None:  # one buffer for all calls: fresh memory costs as much as writing to it
            self._out = np.empty(min(body_bytes_max, _bytes_max(self.row_count, self._arrays)), np.uint8)
        out = self._out
        at = 0
        while at < end:
            code, count, size, largest = k.write_records(at, end, *self._arrays, order, body_bytes_max, out)
            if code != k.OK:
                raise FormatError(k.MESSAGES[code], ErrorCode.INVALID_RECORD)
            if not count:
                out = self._out = np.empty(size, np.uint8)
                continue
            first = at if rows is None else int(rows[at])
            yield Body(out[:size].data, count, int(times[first]), int(largest))
            at += count


def _bytes_max(row_count: int, arrays: tuple[Array, ...]) -> int:
    """Return an upper bound of the bytes of all rows, so that a small table does not take a large buffer."""
    return sum(array.nbytes for array in arrays) + 64 * row_count


def binary_arrays(column: pa.LargeBinaryArray | None) -> tuple[Array, Array, Array]:
    """Return ends, validity (empty if nothing is null) and bytes."""
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
    key_ends, _, key_data = binary_arrays(pairs.field(0).cast(pa.large_binary()))
    ends = np.ascontiguousarray(column.offsets.to_numpy(zero_copy_only=False))
    return ends, _valid(column), key_ends, key_data, *binary_arrays(pairs.field(1))


def _valid(column: pa.Array) -> Array:
    if not column.null_count:
        return _NO_BYTES
    valid: Array = column.is_valid().to_numpy(zero_copy_only=False)
    return valid.view(np.uint8)
