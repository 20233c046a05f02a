"""Columns with numba: one pass over the payloads writes Arrow's buffers directly.

Buffers are allocated for the most that the payloads can hold; memory that is never touched costs nothing. Headers need
a second pass, since their number is not known before the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from odradek.columnar import kernels as k
from odradek.columnar.decode import Part, Wanted
from odradek.columnar.names import TIMESTAMP_MS_MAX
from odradek.columnar.schema import HEADERS_TYPE
from odradek.errors import ErrorCode, FormatError
from odradek.model.record import TimestampType

Array = np.ndarray[Any, np.dtype[Any]]


def build_columns(parts: list[Part], wanted: Wanted, schema: pa.Schema, topic: str, partition: int) -> pa.RecordBatch:
    """Return the requested columns of the parts' records. Raises FormatError as `decode_batch`."""
    rows_max = sum(part.header.record_count if part.payload is not None else len(part.offsets) for part in parts)
    key = _Binary(rows_max, parts, "key" in wanted.columns)
    value = _Binary(rows_max, parts, "value" in wanted.columns)
    wants_headers = "headers" in wanted.columns
    offsets = np.empty(rows_max, np.int64)
    timestamps = np.empty(rows_max, np.int64)
    header_starts = np.empty(rows_max if wants_headers else 0, np.int64)
    state = np.zeros(k.STATE_SLOTS, np.int64)
    row_ends = [0]
    for part in parts:
        row = row_ends[-1]
        if part.payload is None:
            end = row + len(part.offsets)
            offsets[row:end] = np.arange(part.offsets.start, part.offsets.stop)
            timestamps[row:end] = part.log_append_time_ms or 0
            state[k.ROWS] = end
        else:
            header, fixed = part.header, part.log_append_time_ms
            _check(
                k.parse_records(
                    np.frombuffer(part.payload, np.uint8),
                    header.record_count,
                    header.base_offset,
                    header.base_timestamp_ms,
                    header.last_offset_delta,
                    fixed is not None,
                    fixed or 0,
                    wanted.start_offset,
                    wanted.end_offset,
                    wanted.min_timestamp_ms,
                    wanted.max_timestamp_ms,
                    key.is_wanted,
                    value.is_wanted,
                    wants_headers,
                    offsets,
                    timestamps,
                    key.ends,
                    key.bits,
                    key.data,
                    value.ends,
                    value.bits,
                    value.data,
                    header_starts,
                    state,
                )
            )
        row_ends.append(int(state[k.ROWS]))
    rows = row_ends[-1]
    makers: dict[str, Any] = {
        "key": lambda: key.to_arrow(rows, int(state[k.KEY_NULLS]), pa.binary()),
        "value": lambda: value.to_arrow(rows, int(state[k.VALUE_NULLS]), pa.binary()),
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), rows),
        "partition": lambda: pa.repeat(pa.scalar(partition, pa.int32()), rows),
        "offset": lambda: pa.array(offsets[:rows]),
        "timestamp": lambda: _timestamps(timestamps[:rows]),
        "timestampType": lambda: _timestamp_types(parts, row_ends),
        "headers": lambda: _headers(parts, row_ends, header_starts, state),
    }
    return pa.RecordBatch.from_arrays([makers[field.name]() for field in schema], schema=schema)


class _Binary:
    """The three buffers of an Arrow binary array while they are filled."""

    def __init__(self, rows_max: int, parts: list[Part], is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        rows_max = rows_max if is_wanted else 0
        data_max = sum(len(part.payload) for part in parts if part.payload is not None) if is_wanted else 0
        self.ends = np.empty(rows_max + 1, np.int32)
        self.ends[0] = 0
        self.bits = np.zeros(rows_max // 8 + 1, np.uint8)
        self.data = np.empty(data_max, np.uint8)

    def to_arrow(self, rows: int, nulls: int, data_type: pa.DataType) -> pa.Array:
        bits = pa.py_buffer(self.bits) if nulls else None
        data = pa.py_buffer(self.data[: self.ends[rows]])
        return pa.Array.from_buffers(data_type, rows, [bits, pa.py_buffer(self.ends[: rows + 1]), data], nulls)


def _timestamps(timestamps_ms: Array) -> pa.Array:
    clamped = np.clip(timestamps_ms, -TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX)
    clamped *= 1000
    return pa.array(clamped).view(pa.timestamp("us", tz="UTC"))


def _timestamp_types(parts: list[Part], row_ends: list[int]) -> pa.Array:
    types = [int(part.header.timestamp_type) for part in parts]
    if set(types) <= {TimestampType.CREATE_TIME}:
        return pa.array(np.zeros(row_ends[-1], np.int32))
    return pa.array(np.repeat(np.array(types, np.int32), np.diff(row_ends)))


def _headers(parts: list[Part], row_ends: list[int], header_starts: Array, sizes: Array) -> pa.Array:
    rows, count = row_ends[-1], int(sizes[k.HEADERS])
    key_data = np.empty(int(sizes[k.HEADER_KEY_BYTES]), np.uint8)
    value_data = np.empty(int(sizes[k.HEADER_VALUE_BYTES]), np.uint8)
    list_ends = np.zeros(rows + 1, np.int32)
    key_ends = np.zeros(count + 1, np.int32)
    value_ends = np.zeros(count + 1, np.int32)
    value_bits = np.zeros(count // 8 + 1, np.uint8)
    state = np.zeros(k.STATE_SLOTS, np.int64)
    if count:
        for part, first, end in zip(parts, row_ends, row_ends[1:], strict=False):
            data = np.frombuffer(part.payload or b"", np.uint8)
            _check(
                k.fill_headers(
                    data,
                    header_starts,
                    first,
                    end,
                    list_ends,
                    key_ends,
                    key_data,
                    value_ends,
                    value_bits,
                    value_data,
                    state,
                )
            )
    keys = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(key_ends), pa.py_buffer(key_data)], 0)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FormatError("a header key is not UTF-8", ErrorCode.INVALID_RECORD) from error
    nulls = int(sizes[k.HEADER_NULLS])
    bits = pa.py_buffer(value_bits) if nulls else None
    values = pa.Array.from_buffers(
        pa.binary(), count, [bits, pa.py_buffer(value_ends), pa.py_buffer(value_data)], nulls
    )
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(list_ends)], 0, children=[pairs])


def _check(code: int) -> None:
    if code != k.OK:
        raise FormatError(k.MESSAGES[code], ErrorCode.INVALID_RECORD)
