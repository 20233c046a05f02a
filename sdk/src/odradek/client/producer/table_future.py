"""The future of a table: one outcome for all its batches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.errors import KafkaError
from odradek.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.client.producer.batch import ProducerBatch


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """Location of the rows of a table."""

    topic: str
    row_count: int
    counts: Mapping[TopicPartition, int]  # rows by partition
    offsets: Mapping[TopicPartition, tuple[range, ...]]
    """The offsets of each partition's rows, in order: one range unless another producer wrote in between. Empty if
    they are unknown (acks=0, a transaction)."""


class TableFuture:
    """The outcome of one `send_table`: use `result(timeout)`, or await it."""

    __slots__ = ("_batches", "row_count", "topic")

    def __init__(self, topic: str, batches: Sequence[ProducerBatch]) -> None:
        self.topic = topic
        self._batches = batches
        self.row_count = sum(batch.record_count for batch in batches)

    def _leaves(self) -> Iterator[ProducerBatch]:
        for batch in self._batches:
            yield from batch.leaves()

    def done(self) -> bool:
        """Return whether the outcome of every row is known."""
        return all(batch.is_done for batch in self._leaves())

    def result(self, timeout: float | None = None) -> TableMetadata:
        """Wait for the outcome.

        Args:
            timeout: in seconds; None waits at most delivery_timeout_ms.

        Raises:
            KafkaError: some rows were not written; the message gives their number and the first error. The others were.
            TimeoutError: the outcome is not known yet.
            asyncio.InvalidStateError: the call would block the event loop that delivers the outcome: await instead.
        """
        until_s = None if timeout is None else time.monotonic() + timeout
        while (waiting := self._first_open()) is not None:
            waiting.refuse_to_block()
            woken = threading.Event()
            waiting.when_done(0, woken.set)
            if not woken.wait(None if until_s is None else max(until_s - time.monotonic(), 0)):
                raise TimeoutError(f"the table is not acknowledged after {timeout} s")
        return self._outcome()

    def __await__(self) -> Generator[object, None, TableMetadata]:
        loop = asyncio.get_running_loop()
        while (waiting := self._first_open()) is not None:
            woken: asyncio.Future[None] = loop.create_future()

            def wake(woken: asyncio.Future[None] = woken) -> None:
                if not woken.done():
                    woken.set_result(None)

            waiting.when_done(0, lambda wake=wake: loop.call_soon_threadsafe(wake))  # type: ignore[misc]
            yield from woken
        return self._outcome()

    def _first_open(self) -> ProducerBatch | None:
        return next((batch for batch in self._leaves() if not batch.is_done), None)

    def _outcome(self) -> TableMetadata:
        counts: dict[TopicPartition, int] = {}
        offsets: dict[TopicPartition, list[range]] = {}
        failed = 0
        first: tuple[KafkaError, TopicPartition] | None = None
        for batch in self._leaves():
            count = batch.record_count
            if batch.error is not None:
                batch.note_all_seen()
                failed += count
                first = first or (batch.error, batch.partition)
                continue
            counts[batch.partition] = counts.get(batch.partition, 0) + count
            ranges = offsets.setdefault(batch.partition, [])
            start = batch.base_offset
            if start < 0:
                continue
            if ranges and ranges[-1].stop == start:
                start = ranges.pop().start
            ranges.append(range(start, batch.base_offset + count))
        if first is not None:
            error, partition = first
            raise KafkaError(
                error.code,
                f"{failed} of {self.row_count} rows were not written; the first, to {partition}: {error.message}",
            )
        return TableMetadata(
            self.topic,
            self.row_count,
            counts,
            {partition: tuple(partition_offsets) for partition, partition_offsets in offsets.items()},
        )
