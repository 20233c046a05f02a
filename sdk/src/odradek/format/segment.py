"""A segment: consecutive batches of one partition with their offsets in the log (docs/formats/segment.md).

    batch | batch | batch ...      each a whole RecordBatch v2 with its absolute base offset and leader epoch

There is no header and no footer: any stretch of whole batches is a fetch's response, byte for byte. The index object
beside the segment describes it (offset_index.py). Offsets increase; compaction leaves gaps in and between batches. A
segment may be empty after compaction; its index still has the range of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.errors import FormatError
from odradek.format.batch_header import check_crc, iter_headers, parse_header, patch_offsets
from odradek.format.crc import crc32c
from odradek.format.offset_index import INTERVAL_BYTES, OffsetIndex
from odradek.format.record_decoder import iter_rows
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader

_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment ready to be uploaded."""

    parts: tuple[Buffer, ...]  # concatenated they are the object
    index: OffsetIndex


class SegmentBuilder:
    """Concatenates batches and indexes them. The batches are not copied.

    Args:
        base_offset: of the segment: the first offset of its range.
        interval_bytes: minimum length of a stretch of the index.
    """

    def __init__(self, base_offset: int, *, interval_bytes: int = INTERVAL_BYTES) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._next_offset = base_offset
        self._parts: list[Buffer] = []
        self._size_bytes = 0
        self._crc = 0
        self._record_count = 0
        self._batch_count = 0
        self._epochs: list[tuple[int, int]] = []
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._max_timestamps: list[int] = []

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def record_count(self) -> int:
        return self._record_count

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset without batches."""
        return self._next_offset

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int) -> None:
        """Add one whole batch, whose CRC the caller has checked.

        Raises FormatError if it is not exactly one batch, or is older than the last one by offset or epoch.
        """
        header = parse_header(batch)
        if header.size_bytes != len(batch):
            raise FormatError(f"{len(batch) - header.size_bytes} bytes are left after the batch")
        self._index(header, base_offset, leader_epoch)
        for part in patch_offsets(batch, base_offset, leader_epoch):
            self._parts.append(part)
            self._crc = crc32c(part, initial=self._crc)
        self._size_bytes += len(batch)

    def build(self, end_offset: int | None = None) -> Segment:
        """Return the segment and its index.

        Args:
            end_offset: exclusive; None ends it after the last batch. Compaction keeps that of the original.

        Raises FormatError if the last batch ends after it.
        """
        end_offset = self._next_offset if end_offset is None else end_offset
        if end_offset < self._next_offset:
            raise FormatError(f"the segment cannot end at {end_offset}, before its last batch")
        return Segment(tuple(self._parts), self._make_index(end_offset))

    def _index(self, header: BatchHeader, base_offset: int, leader_epoch: int) -> None:
        if base_offset < self._next_offset:
            raise FormatError(f"the batch at offset {base_offset} is before {self._next_offset}")
        if self._epochs and leader_epoch < self._epochs[-1][0]:
            raise FormatError(f"leader epoch {leader_epoch} is older than that of the previous batch")
        if not self._epochs or leader_epoch > self._epochs[-1][0]:
            self._epochs.append((leader_epoch, base_offset))
        timestamp = header.max_timestamp_ms
        if not self._positions or self._size_bytes - self._positions[-1] >= self._interval_bytes:
            self._offsets.append(base_offset)
            self._positions.append(self._size_bytes)
            self._max_timestamps.append(max(timestamp, self._max_timestamps[-1]) if self._max_timestamps else timestamp)
        elif timestamp > self._max_timestamps[-1]:
            self._max_timestamps[-1] = timestamp
        self._next_offset = base_offset + header.last_offset_delta + 1
        self._record_count += header.record_count
        self._batch_count += 1

    def _make_index(self, end_offset: int) -> OffsetIndex:
        return OffsetIndex(
            base_offset=self._base_offset,
            end_offset=end_offset,
            size_bytes=self._size_bytes,
            record_count=self._record_count,
            batch_count=self._batch_count,
            max_timestamp_ms=self._max_timestamps[-1] if self._max_timestamps else _NO_TIMESTAMP,
            segment_crc=self._crc,
            leader_epochs=tuple(self._epochs),
            offsets=tuple(self._offsets),
            positions=tuple(self._positions),
            max_timestamps_ms=tuple(self._max_timestamps),
        )


def index_segment(
    log: Buffer, *, base_offset: int, end_offset: int | None = None, interval_bytes: int = INTERVAL_BYTES
) -> OffsetIndex:
    """Build the index of a segment from its bytes, and check every batch's CRC.

    Raises FormatError if the bytes are not a segment.
    """
    builder = SegmentBuilder(base_offset, interval_bytes=interval_bytes)
    view = memoryview(log)
    position = 0
    while position < len(view):
        header = parse_header(view, position)
        check_crc(view, position, header)
        batch = view[position : position + header.size_bytes]
        builder.append(batch, header.base_offset, header.partition_leader_epoch)
        position += header.size_bytes
    return builder.build(end_offset).index


def verify_segment(log: Buffer, index: OffsetIndex) -> None:
    """Raise FormatError if the index describes another segment, or if a batch is damaged."""
    if len(log) != index.size_bytes:
        raise FormatError(f"the segment has {len(log)} bytes, its index says {index.size_bytes}")
    if crc32c(log) != index.segment_crc:
        raise FormatError("the segment does not match the CRC-32C in its index")
    # The interval is not stored, so compare with an entry for every batch.
    again = index_segment(log, base_offset=index.base_offset, end_offset=index.end_offset, interval_bytes=1)
    numbers = {position: number for number, position in enumerate(again.positions)}
    for offset, timestamp, (start, end) in zip(index.offsets, index.max_timestamps_ms, index.stretches(), strict=True):
        number, last = numbers.get(start), numbers.get(end, len(numbers)) - 1
        if number is None or again.offsets[number] != offset or again.max_timestamps_ms[last] != timestamp:
            raise FormatError(f"the index entry of position {start} does not match the segment")
    described = (index.record_count, index.batch_count, index.max_timestamp_ms, index.leader_epochs)
    if described != (again.record_count, again.batch_count, again.max_timestamp_ms, again.leader_epochs):
        raise FormatError("the segment does not match the counts in its index")


def select_batches(log: Buffer, offset: int, max_bytes: int) -> tuple[memoryview, int]:
    """Return the whole batches from the one that contains `offset` (or the next after a gap), for a fetch.

    Args:
        log: bytes that begin at a batch; a truncated last batch is left out.
        max_bytes: of all of them; the first is returned however large.

    Returns the bytes, and the offset after them (`offset` itself if there are none).
    Raises FormatError as `parse_header`.
    """
    view = memoryview(log)
    start: int | None = None
    end = 0
    next_offset = offset
    for position, header in iter_headers(view):
        if start is None:
            if header.last_offset < offset:
                continue
            start = position
        elif position + header.size_bytes - start > max_bytes:
            break
        end = position + header.size_bytes
        next_offset = header.next_offset
    return (view[:0], offset) if start is None else (view[start:end], next_offset)


def find_timestamp(log: Buffer, timestamp_ms: int, *, start_offset: int = 0) -> tuple[int, int] | None:
    """Return the first record from `start_offset` on with at least this timestamp: (offset, timestamp in ms), or None.

    Decodes only batches whose maximum reaches the timestamp, until one contains such a record. Raises FormatError as
    `decode_rows`.
    """
    for position, header in iter_headers(log):
        if header.max_timestamp_ms < timestamp_ms or header.last_offset < start_offset:
            continue
        for row in iter_rows(log, position, header):
            if row[1] >= timestamp_ms and row[0] >= start_offset:
                return row[0], row[1]
    return None
