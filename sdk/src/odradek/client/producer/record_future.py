"""The future of one record. It is small, because a producer creates one for each record.

A future holds its batch and its index in the batch; the state that is waited for is in the batch, once. It serves both
faces: `result(timeout)` blocks a thread, `await` suspends a coroutine of any loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from odradek.errors import KafkaError, OffsetConflict
from odradek.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.client.producer.batch import ProducerBatch


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Location of a written record. `offset` is -1 if it is unknown: acks=0, a transaction, an old duplicate."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int  # -1: no key
    serialized_value_size: int  # -1: no value

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)


OnDelivery: TypeAlias = "Callable[[KafkaError | None, RecordMetadata | None], object]"
"""(error, metadata) -> anything: one of them is None. Runs on the producer's thread."""


class RecordFuture:
    """The outcome of one `send`: use `result(timeout)`, or await it."""

    __slots__ = ("_batch", "_index", "_key_size", "_timestamp_ms", "_value_size")

    def __init__(self, batch: ProducerBatch, index: int, timestamp_ms: int, key_size: int, value_size: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size

    def done(self) -> bool:
        """Return whether the outcome is known."""
        return self._batch.part_with(self._index)[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Args:
            timeout: in seconds; None waits at most delivery_timeout_ms.

        Raises:
            KafkaError: the record was not written.
            TimeoutError: the outcome is not known yet.
            asyncio.InvalidStateError: the call would block the event loop that delivers the outcome: await instead.
        """
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for the outcome; return its error, or None if the record was written. Otherwise raises as `result`."""
        self._wait(timeout)
        try:
            self._outcome()
        except KafkaError as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call `callback(future)` when the outcome is known: at once if it is, otherwise on the producer's thread."""
        self._batch.when_done(self._index, lambda: callback(self))

    # --- the names of other clients -------------------------------------------------------------------------------

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Do as `result`; the name that kafka-python's and Java's users write."""
        return self.result(timeout)

    def add_callback(self, callback: Callable[..., object], *arguments: Any, **named: Any) -> RecordFuture:
        """Call `callback(*arguments, metadata)` when the record is written; as kafka-python's futures."""
        self.deliver(lambda error, metadata: callback(*arguments, metadata, **named) if error is None else None)
        return self

    def add_errback(self, callback: Callable[..., object], *arguments: Any, **named: Any) -> RecordFuture:
        """Call `callback(*arguments, error)` when the record was not written; as kafka-python's futures."""
        self.deliver(lambda error, _: None if error is None else callback(*arguments, error, **named))
        return self

    def deliver(self, on_delivery: OnDelivery) -> None:
        """Call `on_delivery(error, metadata)` when the outcome is known, one of them None."""

        def done(future: RecordFuture) -> None:
            error = future.exception()
            on_delivery(error, None if error is not None else future.result())

        self.add_done_callback(done)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self.done():
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not woken.done():
                    woken.set_result(None)

            self._batch.when_done(self._index, lambda: loop.call_soon_threadsafe(wake))
            yield from woken
        return self._outcome()

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        self._batch.refuse_to_block()
        woken = threading.Event()
        self._batch.when_done(self._index, woken.set)
        if not woken.wait(timeout):
            raise TimeoutError(f"the record is not acknowledged after {timeout} s")

    def _outcome(self) -> RecordMetadata:
        batch, index = self._batch.part_with(self._index)
        if batch.error is not None:
            batch.note_seen(index)
            # A new exception for each record: a shared one would collect the tracebacks of all callers.
            if isinstance(batch.error, OffsetConflict):
                raise OffsetConflict(batch.error.expected_offset, batch.error.actual_offset)
            raise KafkaError(batch.error.code, batch.error.message)
        return RecordMetadata(
            batch.partition.topic,
            batch.partition.partition,
            batch.base_offset + index if batch.base_offset >= 0 else -1,
            self._timestamp_ms if batch.log_append_time_ms < 0 else batch.log_append_time_ms,
            self._key_size,
            self._value_size,
        )
