"""A batch under way: records of one partition, their futures, and what has happened to them.

OPEN        takes records                       (any thread, under the accumulator's lock)
QUEUED      sealed; waits for its turn or for another attempt
IN_FLIGHT   in a request that has not been answered
DONE        acknowledged or failed: its futures have an outcome
SPLIT       too large for the server: its records went on in two batches
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from enum import Enum, auto

from odradek.client.record_future import RecordFuture
from odradek.errors import KafkaError
from odradek.format.record_batch import RecordBatchBuilder, decode_rows, parse_header
from odradek.model.record import CompressionType, Header
from odradek.model.topic_partition import TopicPartition

_SEQUENCE_SPAN = 2**31


class BatchState(Enum):
    OPEN = auto()
    QUEUED = auto()
    IN_FLIGHT = auto()
    DONE = auto()
    SPLIT = auto()


class ProducerBatch:
    """One record batch from its first record to its outcome.

    Attributes:
        serial: rises with creation; `flush` waits for all up to one. The halves of a split batch keep it.
        created_s: monotonic time of the first record.
        bytes_held: what counts against buffer_memory.
        attempts: requests that carried it.
        base_sequence: -1 until its first attempt, and always without idempotence.
        maybe_applied: an attempt ended without an answer, and no later answer said that it had not been applied.
    """

    __slots__ = (
        "_builder",
        "_callbacks",
        "_lock",
        "_loop_thread",
        "attempts",
        "base_offset",
        "base_sequence",
        "bytes_held",
        "created_s",
        "encoded",
        "error",
        "first_sent_s",
        "futures",
        "log_append_time_ms",
        "maybe_applied",
        "partition",
        "serial",
        "state",
    )

    def __init__(
        self,
        partition: TopicPartition,
        serial: int,
        created_s: float,
        compression_type: CompressionType,
        compression_level: int | None,
        loop_thread: int | None,
    ) -> None:
        self.partition = partition
        self.serial = serial
        self.created_s = created_s
        self.futures: list[RecordFuture] = []
        self.bytes_held = 0
        self.state = BatchState.OPEN
        self.attempts = 0
        self.first_sent_s: float | None = None
        self.base_sequence = -1
        self.maybe_applied = False
        self.encoded: bytes | None = None  # kept for the next attempt: the same sequence, the same bytes
        self.error: KafkaError | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        self._builder = RecordBatchBuilder(compression_type, compression_level)
        self._loop_thread = loop_thread
        self._lock = threading.Lock()
        self._callbacks: list[tuple[RecordFuture, Callable[[RecordFuture], object]]] = []

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...] | list[Header],
        bytes_held: int,
    ) -> RecordFuture:
        """Add a record. Raises FormatError(INVALID_RECORD)."""
        index = self._builder.append(timestamp_ms, key, value, headers)
        future = RecordFuture(
            self, index, timestamp_ms, -1 if key is None else len(key), -1 if value is None else len(value)
        )
        self.futures.append(future)
        self.bytes_held += bytes_held
        return future

    @property
    def size_bytes(self) -> int:
        """Of the encoded batch; before that without compression."""
        return len(self.encoded) if self.encoded is not None else self._builder.estimated_size

    @property
    def uncompressed_bytes(self) -> int:
        return self._builder.estimated_size

    @property
    def record_count(self) -> int:
        return len(self.futures)

    @property
    def is_done(self) -> bool:
        return self.state is BatchState.DONE

    def encode(self, producer_id: int, producer_epoch: int) -> bytes:
        """The bytes of the batch, made once for a sequence."""
        if self.encoded is None:
            self.encoded = self._builder.build(
                producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=self.base_sequence
            )
        return self.encoded

    def forget_sequence(self) -> None:
        """Under a new producer epoch the batch gets a new sequence."""
        self.base_sequence = -1
        self.encoded = None
        self.maybe_applied = False

    # --- the outcome ----------------------------------------------------------------------------------------------

    def acknowledge(self, base_offset: int, log_append_time_ms: int = -1) -> None:
        """The batch is in the log."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()

    def fail(self, error: KafkaError) -> None:
        """The batch is given up."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            self.state = BatchState.DONE
            callbacks, self._callbacks = self._callbacks, []
        self.encoded = None
        for future, callback in callbacks:
            callback(future)

    def when_done(self, future: RecordFuture, callback: Callable[[RecordFuture], object]) -> None:
        """Call back on the producer's thread, or at once where the outcome is known."""
        with self._lock:
            if self.state is not BatchState.DONE:
                if self.state is not BatchState.SPLIT:
                    self._callbacks.append((future, callback))
                    return
                moved_to = future._batch
            else:
                moved_to = None
        if moved_to is not None:
            moved_to.when_done(future, callback)
        else:
            callback(future)

    def error_for(self, index: int) -> KafkaError:
        """An exception of its own for one record: a shared one would collect everybody's traceback."""
        assert self.error is not None
        return KafkaError(self.error.code, self.error.message)

    def refuse_to_block(self) -> None:
        """Raises asyncio.InvalidStateError on the thread that has to bring the outcome."""
        if threading.get_ident() == self._loop_thread:
            raise asyncio.InvalidStateError("the outcome is not known yet, and waiting here would stop it: await it")

    # --- split ----------------------------------------------------------------------------------------------------

    def split(self, compression_type: CompressionType, compression_level: int | None) -> list[ProducerBatch]:
        """Two batches with the records of this one, in order; together they keep its range of sequences."""
        rows = self._rows()
        middle = len(rows) // 2
        halves: list[ProducerBatch] = []
        with self._lock:
            for start, part in ((0, rows[:middle]), (middle, rows[middle:])):
                half = ProducerBatch(
                    self.partition, self.serial, self.created_s, compression_type, compression_level, self._loop_thread
                )
                for _, timestamp_ms, key, value, headers in part:
                    half._builder.append(timestamp_ms, key, value, headers)
                half.futures = self.futures[start : start + len(part)]
                half.bytes_held = self.bytes_held * len(part) // len(rows)
                half.attempts = self.attempts
                half.first_sent_s = self.first_sent_s
                half.state = BatchState.QUEUED
                if self.base_sequence >= 0:
                    half.base_sequence = (self.base_sequence + start) % _SEQUENCE_SPAN
                for index, future in enumerate(half.futures):
                    future._batch, future._index = half, index
                halves.append(half)
            halves[-1].bytes_held = self.bytes_held - halves[0].bytes_held
            for future, callback in self._callbacks:
                future._batch._callbacks.append((future, callback))
            self._callbacks = []
            self.state = BatchState.SPLIT
        self.encoded = None
        return halves

    def _rows(self) -> list[tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]]:
        data = self.encoded if self.encoded is not None else self._builder.build()
        return decode_rows(data, 0, parse_header(data), verify_crc=False)
