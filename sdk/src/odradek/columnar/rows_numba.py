"""Record batches to lists of fields, with numba: the loop finds the fields, Python slices them.

Gives the same result as `rows.decode_plainly`, several times as fast for batches of more than a few records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odradek.columnar import kernels as k
from odradek.columnar.rows import Fields
from odradek.errors import ErrorCode, FormatError
from odradek.format.record_decoder import decode_headers
from odradek.model.record import BatchHeader, Header, TimestampType

_FIELDS = 7  # the arrays of int64 that `place_records` fills


def decode_compiled(payload: bytes, header: BatchHeader) -> Fields:
    """Return the records of a batch from its decompressed payload. Raises FormatError(INVALID_RECORD)."""
    count = header.record_count
    fields = np.empty((_FIELDS, count), np.int64)
    state = np.zeros(k.STATE_SLOTS, np.int64)
    code = k.place_records(
        np.frombuffer(payload, np.uint8),
        count,
        header.base_offset,
        header.base_timestamp_ms,
        header.last_offset_delta,
        *fields,
        state,
    )
    if code != k.OK:
        raise FormatError(k.MESSAGES[code], ErrorCode.INVALID_RECORD)
    offsets, timestamps, key_starts, key_ends, value_starts, value_ends, header_starts = fields
    is_fixed = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    timestamps_ms = [header.max_timestamp_ms] * count if is_fixed else timestamps.tolist()
    keys = _cut(payload, key_starts, key_ends, int(state[k.KEY_NULLS]))
    values = _cut(payload, value_starts, value_ends, int(state[k.VALUE_NULLS]))
    headers: list[tuple[Header, ...]] = [()] * count
    if state[k.HEADERS]:
        headers = [_headers(payload, start) for start in header_starts.tolist()]
    return Fields(offsets.tolist(), timestamps_ms, keys, values, headers)


def _cut(payload: bytes, starts: Any, ends: Any, nulls: int) -> list[bytes | None]:
    if nulls == len(starts):
        return [None] * nulls
    places = zip(starts.tolist(), ends.tolist(), strict=True)
    if nulls:
        return [payload[start:end] if end >= start else None for start, end in places]
    return [payload[start:end] for start, end in places]


def _headers(payload: bytes, start: int) -> tuple[Header, ...]:
    return () if start < 0 else decode_headers(payload, start, len(payload))[0]
