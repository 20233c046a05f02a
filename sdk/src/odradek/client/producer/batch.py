"""A producer batch: the records of one partition, and the state of their delivery.

OPEN        takes records                       (any thread, under the accumulator's lock)
QUEUED      sealed; waits for its turn or for another attempt
IN_FLIGHT   in a request that has not been answered
DONE        acknowledged or failed: its futures have an outcome
SPLIT       new batches carry its records: it was too large for the server, or its topic has grown
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from odradek.client.process import Origin
from odradek.errors import KafkaError
from odradek.format.record_batch import RecordBatchBuilder, Row, decode_rows, parse_header
from odradek.model.record import CompressionType
from odradek.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.client.producer.table_batches import EncodedBody

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
        serial: rises with creation; `flush` waits for all up to one. The parts of a split batch keep it.
        created_s: monotonic time of the first record.
        bytes_held: what counts against buffer_memory.
        attempts: requests that carried it.
        base_sequence: -1 until its first attempt, and always without idempotence.
        sent_behind: earlier batches had no outcome yet when the last attempt was sent.
        maybe_applied: an attempt ended without an answer, and no later answer said that it had not been applied.
        cause: the error that explains why the attempts so far failed (retry.telling); None if none has failed.
        expected_offset: of a conditional send: the batch is written only if the log ends there; otherwise None.
        chosen_by: how many partitions the topic had when keys chose this one; None: no key did.
    """

    __slots__ = (
        "_builder",
        "_callbacks",
        "_final_count",
        "_lock",
        "_loop_thread",
        "_origin",
        "_places",
        "_saw_all",
        "_seen",
        "append",
        "attempts",
        "base_offset",
        "base_sequence",
        "bytes_held",
        "cause",
        "chosen_by",
        "created_s",
        "encoded",
        "error",
        "expected_offset",
        "first_sent_s",
        "log_append_time_ms",
        "maybe_applied",
        "partition",
        "sent_behind",
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
        body: EncodedBody | None = None,
    ) -> None:
        self.partition = partition
        self.serial = serial
        self.created_s = created_s
        self.bytes_held = 0
        self.state = BatchState.OPEN
        self.attempts = 0
        self.first_sent_s: float | None = None
        self.base_sequence = -1
        self.maybe_applied = False
        self.sent_behind = False
        self.cause: KafkaError | None = None
        self.expected_offset: int | None = None
        self.chosen_by: int | None = None
        self.encoded: bytes | None = None  # kept for the next attempt: the same sequence, the same bytes
        self.error: KafkaError | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        # The body of a table's batch is finished; else records are added one by one.
        self._builder = RecordBatchBuilder(compression_type, compression_level) if body is None else body
        self._final_count: int | None = None
        self.append = self._builder.append  # (timestamp_ms, key, value, headers) -> index
        self._loop_thread = loop_thread
        self._origin = Origin()
        self._lock = threading.Lock()
        self._callbacks: list[tuple[int, Callable[[], object]]] = []
        self._seen: set[int] = set()  # indexes of records whose outcome has been read
        self._saw_all = False
        self._places: Sequence[tuple[ProducerBatch, int]] | None = None  # where its records are since it was split

    @property
    def size_bytes(self) -> int:
        """The size of the encoded batch; before encoding, the size without compression."""
        return len(self.encoded) if self.encoded is not None else self._builder.estimated_size

    @property
    def uncompressed_bytes(self) -> int:
        return self._builder.estimated_size

    @property
    def record_count(self) -> int:
        return self._builder.record_count if self._final_count is None else self._final_count

    @property
    def is_done(self) -> bool:
        return self.state is BatchState.DONE

    def encode(self, producer_id: int, producer_epoch: int, *, is_transactional: bool = False) -> bytes:
        """Return the bytes of the batch, encoded once for each sequence."""
        if self.encoded is None:
            self.encoded = self._builder.build(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=is_transactional,
            )
        return self.encoded

    def forget_sequence(self) -> None:
        """Drop the sequence: under a new producer epoch the batch gets another."""
        self.base_sequence = -1
        self.encoded = None
        self.maybe_applied = False

    # --- the outcome ----------------------------------------------------------------------------------------------

    def acknowledge(self, base_offset: int, log_append_time_ms: int = -1) -> None:
        """Record that the batch is in the log."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()

    def fail(self, error: KafkaError) -> None:
        """Record that the batch is given up."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            self.state = BatchState.DONE
            callbacks, self._callbacks = self._callbacks, []
        self._release()
        for _, callback in callbacks:
            callback()

    def _release(self) -> None:
        """Drop the records: a future that is kept also keeps its batch, but does not need them."""
        self._final_count = self._builder.record_count
        self.encoded = None
        self._builder = RecordBatchBuilder()
        self.append = self._builder.append

    def when_done(self, index: int, callback: Callable[[], object]) -> None:
        """Call back for a record on the producer's thread, or at once if its outcome is known. Raises KafkaError.

        In a child process an outcome that is not known yet never will be, and the lock may be held for ever.
        """
        if not self.part_with(index)[0].is_done:
            self._origin.check()
        with self._lock:
            if self._places is None and self.state is not BatchState.DONE:
                self._callbacks.append((index, callback))
                self._seen.add(index)
                return
        part, part_index = self.part_with(index)
        if part is not self:
            part.when_done(part_index, callback)
            return
        self.note_seen(index)
        callback()

    def part_with(self, index: int) -> tuple[ProducerBatch, int]:
        """Return the batch that carries a record now, after any splits, and the record's index in it."""
        batch = self
        while batch._places is not None:
            batch, index = batch._places[index]
        return batch, index

    def leaves(self) -> Iterator[ProducerBatch]:
        """Iterate over the batches that carry the records now, in order."""
        if self._places is None:
            yield self
        else:
            for part in dict.fromkeys(part for part, _ in self._places):
                yield from part.leaves()

    def note_all_seen(self) -> None:
        """Record that the outcome of all records has been read."""
        self._saw_all = True

    def note_seen(self, index: int) -> None:
        """Record that the outcome of this record has been read."""
        self._seen.add(index)

    @property
    def unseen(self) -> int:
        """Return the number of records whose outcome has not been read."""
        return 0 if self._saw_all else self.record_count - len(self._seen)

    def refuse_to_block(self) -> None:
        """Raise asyncio.InvalidStateError on the thread that delivers the outcome."""
        if threading.get_ident() == self._loop_thread:
            raise asyncio.InvalidStateError(
                "the outcome is not known yet, and waiting here would block the event loop that delivers it: await it"
            )

    # --- split ----------------------------------------------------------------------------------------------------

    def split(self, compression_type: CompressionType, compression_level: int | None) -> list[ProducerBatch]:
        """Return two batches with the records of this one, in order. Together they keep its range of sequences."""
        count = self.record_count
        middle = count // 2
        first, second = halves = self._divide(
            [(self.partition, range(middle)), (self.partition, range(middle, count))],
            compression_type,
            compression_level,
            self._rows(),
        )
        for half in halves:
            half.attempts = self.attempts
            half.first_sent_s = self.first_sent_s
            half.chosen_by = self.chosen_by
        if self.base_sequence >= 0:
            first.base_sequence = self.base_sequence
            second.base_sequence = (self.base_sequence + middle) % _SEQUENCE_SPAN
        return halves

    def spread(
        self,
        choose: Callable[[bytes, bytes | None], int],
        partition_count: int,
        compression_type: CompressionType,
        compression_level: int | None,
    ) -> list[ProducerBatch]:
        """Return batches of the partitions that the records' keys choose now, each with its records in order.

        Records without a key stay where they are. The batch must surely not be in a log.
        """
        rows = self._rows()
        indexes: dict[int, list[int]] = {}
        for index, (_, _, key, value, _) in enumerate(rows):
            number = self.partition.partition if key is None else choose(key, value)
            indexes.setdefault(number, []).append(index)
        places = [
            (TopicPartition(self.partition.topic, number), record_indexes)
            for number, record_indexes in sorted(indexes.items())
        ]
        parts = self._divide(places, compression_type, compression_level, rows)
        for part in parts:
            part.chosen_by = partition_count
        return parts

    def _divide(
        self,
        parts: Sequence[tuple[TopicPartition, Sequence[int]]],
        compression_type: CompressionType,
        compression_level: int | None,
        rows: Sequence[Row],
    ) -> list[ProducerBatch]:
        """Return queued batches of these records, by their indexes; each record is in one of them."""
        made: list[ProducerBatch] = []
        places: dict[int, tuple[ProducerBatch, int]] = {}
        for partition, indexes in parts:
            part = ProducerBatch(
                partition, self.serial, self.created_s, compression_type, compression_level, self._loop_thread
            )
            for index in indexes:
                _, timestamp_ms, key, value, headers = rows[index]
                places[index] = part, part.append(timestamp_ms, key, value, headers)
            part.bytes_held = self.bytes_held * len(indexes) // len(rows)
            part.state = BatchState.QUEUED
            part.cause = self.cause
            made.append(part)
        made[-1].bytes_held += self.bytes_held - sum(part.bytes_held for part in made)
        with self._lock:
            for index, callback in self._callbacks:
                part, at = places[index]
                part._callbacks.append((at, callback))
            for index in self._seen:
                part, at = places[index]
                part._seen.add(at)
            for part in made:
                part._saw_all = self._saw_all
            self._callbacks = []
            self._places = [places[index] for index in range(len(rows))]
            self.state = BatchState.SPLIT
        self._release()
        return made

    def _rows(self) -> list[Row]:
        data = self.encoded if self.encoded is not None else self._builder.build()
        return decode_rows(data, 0, parse_header(data), verify_crc=False)
