"""A segment: the batches of one partition, one after the other, at their places in the log (docs/formats/segment.md).

    batch | batch | batch ...      each a whole RecordBatch v2 with its absolute base offset and leader epoch

There is no header and no footer: any stretch of whole batches is what a fetch answers, byte for byte. What is known of
the segment lies in the index object beside it (offset_index.py). Offsets rise; compaction leaves gaps in and
between batches. A segment may be empty where compaction dropped everything: its index still says what it spans.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.errors import FormatError
from odradek.format.batch_header import check_crc, iter_headers, parse_header, patch_offsets
from odradek.format.crc import crc32c
from odradek.format.offset_index import INTERVAL_BYTES, OffsetIndex
from odradek.format.record_decoder import decode_rows
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader

_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment ready to be uploaded."""

    parts: tuple[Buffer, ...]  # one after the other they are the object
    index: OffsetIndex


class SegmentBuilder:
    """Puts batches one after the other and indexes them. The batches are not copied.

    Args:
        base_offset: of the segment: the first offset that it answers for.
        interval_bytes: length of a stretch of the index, at least.
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
        """The offset after the last batch; the base offset while there is none."""
        return self._next_offset

    def append(self, batch: Buffer, base_offset: int, leader_epoch: int) -> None:
        """Add one whole batch at its place. The CRC is the caller's to have checked.

        Raises FormatError where it is no single whole batch, or lies before the end of the last one or its epoch.
        """
        header = parse_header(batch)
        if header.size_bytes != len(batch):
            raise FormatError(f"{len(batch) - header.size_bytes} bytes after the batch")
        self._index(header, base_offset, leader_epoch)
        for part in patch_offsets(batch, base_offset, leader_epoch):
            self._parts.append(part)
            self._crc = crc32c(part, initial=self._crc)
        self._size_bytes += len(batch)

    def build(self, end_offset: int | None = None) -> Segment:
        """The segment and its index.

        Args:
            end_offset: exclusive; None ends it after the last batch. Compaction keeps that of the original.

        Raises FormatError where it lies before the end of the last batch.
        """
        end_offset = self._next_offset if end_offset is None else end_offset
        if end_offset < self._next_offset:
            raise FormatError(f"a segment cannot end at {end_offset}, before its last batch")
        return Segment(tuple(self._parts), self._make_index(end_offset))

    def _index(self, header: BatchHeader, base_offset: int, leader_epoch: int) -> None:
        if base_offset < self._next_offset:
            raise FormatError(f"a batch at offset {base_offset} lies before {self._next_offset}")
        if self._epochs and leader_epoch < self._epochs[-1][0]:
            raise FormatError(f"leader epoch {leader_epoch} is older than that of the batch before")
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
    """Make the index of a segment from its bytes alone, checking every batch's CRC on the way.

    Raises FormatError where the bytes are no segment.
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
    """Raise FormatError where a segment is not the one that its index describes, or a batch is damaged."""
    if len(log) != index.size_bytes:
        raise FormatError(f"a segment has {len(log)} bytes and its index says {index.size_bytes}")
    if crc32c(log) != index.segment_crc:
        raise FormatError("a segment does not match the CRC-32C in its index")
    # The interval is not stored, so compare with an entry for every batch.
    again = index_segment(log, base_offset=index.base_offset, end_offset=index.end_offset, interval_bytes=1)
    numbers = {position: number for number, position in enumerate(again.positions)}
    for offset, timestamp, (start, end) in zip(index.offsets, index.max_timestamps_ms, index.stretches(), strict=True):
        number, last = numbers.get(start), numbers.get(end, len(numbers)) - 1
        if number is None or again.offsets[number] != offset or again.max_timestamps_ms[last] != timestamp:
            raise FormatError(f"the index entry of position {start} is not what the segment holds there")
    described = (index.record_count, index.batch_count, index.max_timestamp_ms, index.leader_epochs)
    if described != (again.record_count, again.batch_count, again.max_timestamp_ms, again.leader_epochs):
        raise FormatError("a segment disagrees with the counts in its index")


def select_batches(log: Buffer, offset: int, max_bytes: int) -> tuple[memoryview, int]:
    """The whole batches from the one that holds `offset` (or the next after a gap), as a fetch answers them.

    Args:
        log: bytes that begin at a batch; the last one may be cut off and is then left out.
        max_bytes: of all of them; the first is there however large.

    Returns the bytes, and the offset after them (`offset` itself where there are none).
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
    """The first record from `start_offset` on whose timestamp is at least `timestamp_ms`: (offset, timestamp in ms).

    Decodes only the batches whose maximum reaches the timestamp, one after the other until one holds such a record.
    Raises FormatError as `decode_rows`.
    """
    for position, header in iter_headers(log):
        if header.max_timestamp_ms < timestamp_ms or header.last_offset < start_offset:
            continue
        for row in decode_rows(log, position, header):
            if row[1] >= timestamp_ms and row[0] >= start_offset:
                return row[0], row[1]
    return None
