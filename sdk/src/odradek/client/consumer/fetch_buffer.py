"""Fetched bytes that wait for the application; each batch is decoded when its records are needed.

A response becomes a deque of chunks; a chunk holds the batches of one partition. A chunk whose partition has changed
(seek, revocation, pause) is dropped when it is reached. At most the rest of one batch is decompressed ahead, and of it
the rest of one part decoded (`format.record_decoder.PART_BYTES`): a small batch may hold hundreds of megabytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator

from odradek.client.consumer.positions import PartitionState
from odradek.client.consumer.record import CorruptRecordBatchError
from odradek.columnar.rows import NO_RECORDS, ROWS, Fields
from odradek.errors import FormatError
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, TimestampType


class Chunk:
    """Batches of one partition, some of them already returned."""

    def __init__(
        self,
        state: PartitionState,
        offset: int,
        data: Buffer,
        batches: list[tuple[int, BatchHeader]],
        *,
        check_crcs: bool,
    ) -> None:
        self.state = state
        self.timestamp_type = TimestampType.CREATE_TIME
        self._version = state.version
        self._data = memoryview(data)
        self._check_crcs = check_crcs
        self._batches = batches  # where they are in the data
        self._next = 0  # the first that is not in `_parts`
        self._parts: Iterator[Fields] = iter(())  # of the batch before that
        self._left = 0  # of its records, how many are in `_parts`
        self._fields = NO_RECORDS  # the last of the parts
        self._count = 0  # of the records in them
        self._at = 0
        self._batch_end = offset
        self._after = offset  # everything before it has been handed out

    @property
    def is_current(self) -> bool:
        return self._version == self.state.version

    def take(self, limit: int) -> tuple[Fields, int] | None:
        """Return up to `limit` records and the offset after them; None at the end of the chunk.

        Raises CorruptRecordBatchError for a batch that cannot be decoded; the next call continues after it.
        """
        while self._at >= self._count:
            try:
                if self._next_part():
                    continue
            except FormatError as error:
                self._left = 0
                raise CorruptRecordBatchError(self.state.partition, self._after, self._batch_end, error) from error
            if self._batch_end > self._after:
                # Compaction may have removed all records of a batch: the next offset is after it.
                if self.state.position == self._after:
                    self.state.position = self._batch_end
                self._after = self._batch_end
            if self._next == len(self._batches):
                return None
            self._open(*self._batches[self._next])
            self._next += 1
        fields = self._fields.part(self._at, self._at + limit)
        self._at += len(fields.offsets)
        self._after = fields.offsets[-1] + 1 if self._is_inside_batch else self._batch_end
        return fields, self._after

    def take_bytes(self, limit: int) -> tuple[memoryview, int, int] | None:
        """Return whole batches with up to `limit` rows, from the next row on; None at the end of the chunk.

        The result is the bytes, the offset of the first row, and the offset after the last. Rows of these batches
        outside that range must not be returned to the application. Only batch headers are read.
        """
        number = self._next - self._is_inside_batch
        if number == len(self._batches):
            return None
        start, first = self._batches[number][0], self._after
        end, after, left = start, first, limit
        while number < len(self._batches) and left > 0:
            at, header = self._batches[number]
            end = at + header.size_bytes
            if not header.is_control and header.next_offset > first:
                begin = max(header.base_offset, first)
                rows_max = min(header.next_offset - begin, header.record_count)
                if rows_max > left:  # cut by offsets: their number bounds that of the rows
                    after = begin + left
                    break
                left -= rows_max
            after = max(after, header.next_offset)
            number += 1
        self._next = number
        self._parts, self._left = iter(()), 0
        self._set(NO_RECORDS)
        self._after = self._batch_end = after
        return self._data[start:end], first, after

    @property
    def _is_inside_batch(self) -> bool:
        """True if records of the batch have not been handed out."""
        return self._at < self._count or self._left > 0

    def _open(self, at: int, header: BatchHeader) -> None:
        self._batch_end = header.next_offset
        if header.is_control or header.next_offset <= self._after:
            return
        self.timestamp_type = header.timestamp_type
        self._left = header.record_count
        self._parts = ROWS.parts(self._data, at, header, verify_crc=self._check_crcs)

    def _next_part(self) -> bool:
        """Decode the next part of the batch. Return False if there is none. Raises FormatError."""
        fields = next(self._parts, None)
        self._set(fields or NO_RECORDS)
        if fields is None:
            return False
        self._left -= self._count
        if self._count and fields.offsets[0] < self._after:  # an answer may begin in the middle of a batch
            self._at = bisect_left(fields.offsets, self._after)
        return True

    def _set(self, fields: Fields) -> None:
        self._fields, self._count, self._at = fields, len(fields.offsets), 0


class FetchBuffer:
    """Responses in the order in which they arrived."""

    def __init__(self) -> None:
        self._answers: deque[deque[Chunk]] = deque()

    @property
    def answers(self) -> int:
        """Return the number of responses with data that may still be returned."""
        self._drop_stale()
        return len(self._answers)

    def add(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._answers.append(deque(chunks))

    def first(self) -> Chunk | None:
        """Return the chunk to read from next, or None."""
        self._drop_stale()
        return self._answers[0][0] if self._answers else None

    def finish_first(self) -> None:
        """Drop the first chunk, which is exhausted."""
        self._answers[0].popleft()
        self._drop_stale()

    def _drop_stale(self) -> None:
        while self._answers:
            chunks = self._answers[0]
            while chunks and not chunks[0].is_current:
                chunks.popleft()
            if chunks:
                return
            self._answers.popleft()
