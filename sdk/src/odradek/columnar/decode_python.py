"""Columns with pyarrow only, for installations without numba: about as fast as the record decoder."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import pyarrow as pa

from odradek.columnar.decode import Part, Wanted
from odradek.columnar.names import TIMESTAMP_MS_MAX
from odradek.format.record_decoder import Row, decode_payload


def build_columns(parts: list[Part], wanted: Wanted, schema: pa.Schema, topic: str, partition: int) -> pa.RecordBatch:
    """Return the requested columns of the parts' records. Raises FormatError as `decode_batch`."""
    offsets: list[int] = []
    timestamps: list[int] = []
    types: list[int] = []
    rows: list[Row] = []
    for part in parts:
        before = len(offsets)
        if part.payload is None:
            offsets += part.offsets
            timestamps += repeat(part.log_append_time_ms or 0, len(part.offsets))
        else:
            kept = [row for row in decode_payload(bytes(part.payload), part.header) if _keeps(row, wanted)]
            rows += kept
            offsets += [row[0] for row in kept]
            timestamps += [row[1] for row in kept]
        types += repeat(int(part.header.timestamp_type), len(offsets) - before)
    # A part without rows has none of the columns below; then no part has rows that they need.
    makers: dict[str, Any] = {
        "key": lambda: [row[2] for row in rows],
        "value": lambda: [row[3] for row in rows],
        "topic": lambda: [topic] * len(offsets),
        "partition": lambda: [partition] * len(offsets),
        "offset": lambda: offsets,
        "timestamp": lambda: [max(-TIMESTAMP_MS_MAX, min(ms, TIMESTAMP_MS_MAX)) * 1000 for ms in timestamps],
        "timestampType": lambda: types,
        "headers": lambda: [[{"key": key, "value": value} for key, value in row[4]] for row in rows],
    }
    return pa.RecordBatch.from_arrays([pa.array(makers[f.name](), type=f.type) for f in schema], schema=schema)


def _keeps(row: Row, wanted: Wanted) -> bool:
    return (
        wanted.start_offset <= row[0] < wanted.end_offset
        and wanted.min_timestamp_ms <= row[1] <= wanted.max_timestamp_ms
    )
