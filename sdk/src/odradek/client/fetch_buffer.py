"""Fetched bytes that wait for the application, decoded batch by batch as they are asked for.

An answer is a deque of chunks, a chunk the batches of one partition. A chunk whose partition has moved on (seek,
revocation, pause) is dropped when it is met. Nothing is decoded that is not handed out, but for the rest of a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from odradek.client.positions import PartitionState
from odradek.errors import FormatError, KafkaError
from odradek.format.record_batch import Row, decode_rows, iter_headers
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, TimestampType


class Chunk:
    """Batches of one partition, some of them handed out already."""

    def __init__(self, state: PartitionState, offset: int, data: Buffer, *, check_crcs: bool) -> None:
        self.state = state
        self.timestamp_type = TimestampType.CREATE_TIME
        self._version = state.version
        self._data = memoryview(data)
        self._check_crcs = check_crcs
        self._headers: Iterator[tuple[int, BatchHeader]] = iter_headers(self._data)
        self._rows: list[Row] = []
        self._at = 0
        self._batch_end = offset
        self._after = offset  # everything before it has been handed out

    @property
    def is_current(self) -> bool:
        return self._version == self.state.version

    def take(self, limit: int) -> tuple[list[Row], int] | None:
        """Up to `limit` rows, and the offset after them; None at the end of the chunk.

        Raises KafkaError for bytes that are no record batch.
        """
        while self._at >= len(self._rows):
            if self._batch_end > self._after:
                # Compaction may have removed all records of a batch: the next offset is after it.
                if self.state.position == self._after:
                    self.state.position = self._batch_end
                self._after = self._batch_end
            try:
                found = next(self._headers, None)
                if found is None:
                    return None
                self._load(*found)
            except FormatError as error:
                raise KafkaError(error.code, f"{self.state.partition} at offset {self._after}: {error}") from error
        rows = self._rows[self._at : self._at + limit]
        self._at += len(rows)
        self._after = self._batch_end if self._at >= len(self._rows) else rows[-1][0] + 1
        return rows, self._after

    def _load(self, at: int, header: BatchHeader) -> None:
        self._batch_end = header.next_offset
        self._rows = []
        self._at = 0
        if header.is_control or header.next_offset <= self._after:
            return
        self.timestamp_type = header.timestamp_type
        self._rows = decode_rows(self._data, at, header, verify_crc=self._check_crcs)
        if header.base_offset < self._after:  # an answer may begin in the middle of a batch
            self._at = next((i for i, row in enumerate(self._rows) if row[0] >= self._after), len(self._rows))


def next_offset(data: Buffer) -> int | None:
    """The offset after the last whole batch; None where there is none. Raises FormatError."""
    end = None
    for _, header in iter_headers(data):
        end = header.next_offset
    return end


class FetchBuffer:
    """Answers in the order in which they came."""

    def __init__(self) -> None:
        self._answers: deque[deque[Chunk]] = deque()

    @property
    def answers(self) -> int:
        """How many answers hold something that may still be handed out."""
        self._drop_stale()
        return len(self._answers)

    def add(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._answers.append(deque(chunks))

    def first(self) -> Chunk | None:
        """The chunk to hand out next."""
        self._drop_stale()
        return self._answers[0][0] if self._answers else None

    def finish_first(self) -> None:
        """The first chunk has nothing more."""
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
