"""Record batches to one Arrow record batch.

Work that the caller does not need is not done:

* batches outside the requested offsets and timestamps are skipped by their headers;
* a batch without gaps is not even decompressed if its header suffices (topic, partition, offset, and the timestamp
  under LogAppendTime);
* without key, value and headers only the lengths in the records are read.

Buffers -> headers -> parts (a batch to read, or a sufficient header) -> an engine -> columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.columnar.engine import EngineName, uses_numba
from odradek.columnar.schema import schema
from odradek.errors import ErrorCode, FormatError
from odradek.format.record_batch import batch_payload, iter_headers
from odradek.format.record_decoder import batch_body
from odradek.limits import OFFSET_MAX
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, TimestampType

if TYPE_CHECKING:
    import pyarrow as pa

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
ROW_BYTES = 32  # of a record's columns beside key and value, about
_COLUMN_BYTES_MAX = 2**31 - 1  # Arrow's binary type counts bytes in 32 bits


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns and ranges that the caller requested."""

    columns: frozenset[str]
    start_offset: int  # inclusive
    end_offset: int  # exclusive
    min_timestamp_ms: int  # inclusive
    max_timestamp_ms: int  # inclusive

    @property
    def filters_timestamps(self) -> bool:
        return self.min_timestamp_ms > _INT64_MIN or self.max_timestamp_ms < _INT64_MAX


@dataclass(frozen=True, slots=True)
class Part:
    """One batch of the result."""

    header: BatchHeader
    payload: Buffer | None  # None: `offsets` and the header suffice
    offsets: range

    @property
    def log_append_time_ms(self) -> int | None:
        is_fixed = self.header.timestamp_type is TimestampType.LOG_APPEND_TIME
        return self.header.max_timestamp_ms if is_fixed else None


def decode_to_arrow(
    batches: Buffer,
    *,
    topic: str,
    partition: int,
    columns: Sequence[str] | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    min_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    verify_crc: bool = True,
    engine: EngineName = "auto",
    bytes_max: int | None = None,
) -> pa.RecordBatch:
    """Decode consecutive record batches, without a truncated last one and without control batches.

    Args:
        batches: whole batches with absolute offsets, as a fetch or a segment has them; less than 2 GiB decompressed.
        topic, partition: the values of the columns of that name.
        columns: the columns in order; None is all but `headers`.
        start_offset, end_offset: keep offsets in [start, end).
        min_timestamp_ms, max_timestamp_ms: keep timestamps in [min, max], both inclusive.
        verify_crc: checks the batches that are read.
        bytes_max: what the batches may take decompressed, with ROW_BYTES more for each record; None: 2 GiB without.

    Raises:
        FormatError: as `decode_batch`; RECORD_LIST_TOO_LARGE for more than that (pass fewer batches at once).
        ValueError: a column that does not exist, or an unknown engine.
        ImportError: engine "numba" without the extra `fast`.
    """
    wanted_schema = schema(columns=columns)
    wanted = Wanted(
        frozenset(wanted_schema.names),
        _bounded(start_offset, 0),
        _bounded(end_offset, OFFSET_MAX),
        _bounded(min_timestamp_ms, _INT64_MIN),
        _bounded(max_timestamp_ms, _INT64_MAX),
    )
    run = _engine(engine, len(batches))
    parts = _select(batches, wanted, verify_crc, bytes_max)
    return run(parts, wanted, wanted_schema, topic, partition)


def _bounded(bound: int | None, default: int) -> int:
    return default if bound is None else max(_INT64_MIN, min(bound, _INT64_MAX))


def _engine(engine: EngineName, size_bytes: int) -> Any:
    if uses_numba(engine, size_bytes):
        from odradek.columnar.decode_numba import build_columns

        return build_columns
    from odradek.columnar.decode_python import build_columns as build_columns_python

    return build_columns_python


def _select(batches: Buffer, wanted: Wanted, verify_crc: bool, bytes_max: int | None) -> list[Part]:
    parts: list[Part] = []
    size = rows = 0
    for position, header in iter_headers(batches):
        if (
            header.is_control
            or header.last_offset < wanted.start_offset
            or header.base_offset >= wanted.end_offset
            or header.max_timestamp_ms < wanted.min_timestamp_ms
        ):
            continue
        if _header_says_all(header, wanted):
            batch_body(batches, position, header, verify_crc=verify_crc)
            start, end = max(header.base_offset, wanted.start_offset), min(header.next_offset, wanted.end_offset)
            parts.append(Part(header, None, range(start, end)))
            continue
        payload = batch_payload(batches, position, header, verify_crc=verify_crc)
        size, rows = size + len(payload), rows + header.record_count
        if size > _COLUMN_BYTES_MAX or (bytes_max is not None and size + rows * ROW_BYTES > bytes_max):
            raise FormatError("the batches hold too much: decode fewer at a time", ErrorCode.RECORD_LIST_TOO_LARGE)
        parts.append(Part(header, payload, range(0)))
    return parts


def _header_says_all(header: BatchHeader, wanted: Wanted) -> bool:
    # A dense batch contains every offset, so they are known without reading it.
    if header.record_count != header.last_offset_delta + 1:
        return False
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        fits = wanted.min_timestamp_ms <= header.max_timestamp_ms <= wanted.max_timestamp_ms
        return fits and not wanted.columns & {"key", "value", "headers"}
    return not wanted.filters_timestamps and not wanted.columns & {"key", "value", "headers", "timestamp"}
