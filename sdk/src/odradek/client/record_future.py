"""The promise of one record: light, because a producer makes one for each record.

A future holds its batch and its place in it; what can be waited for lives in the batch, once. It serves both faces:
`result(timeout)` blocks a thread, `await` suspends a coroutine of any loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.errors import KafkaError
from odradek.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.client.batch import ProducerBatch


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record was written. `offset` is -1 where the server could not tell (acks=0, a long past duplicate)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int  # -1: no key
    serialized_value_size: int  # -1: no value

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RecordFuture:
    """The outcome of one `send`."""

    __slots__ = ("_batch", "_index", "_key_size", "_seen", "_timestamp_ms", "_value_size")

    def __init__(self, batch: ProducerBatch, index: int, timestamp_ms: int, key_size: int, value_size: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size
        self._seen = False  # somebody asked for the outcome, so that flush() need not report it

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Args:
            timeout: in seconds; None waits as long as delivery_timeout_ms lets the record live.

        Raises:
            KafkaError: why the record was not written.
            TimeoutError: it is not known yet.
            asyncio.InvalidStateError: this would block the event loop that has to bring the outcome: await it.
        """
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for the outcome; the error, or None where the record was written. Raises TimeoutError."""
        self._wait(timeout)
        self._seen = True
        return self._batch.error

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call `callback(future)` once the outcome is known: at once if it is, else on the producer's thread."""
        self._seen = True
        self._batch.when_done(self, callback)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self.done():
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not woken.done():
                    woken.set_result(None)

            self._batch.when_done(self, lambda _: loop.call_soon_threadsafe(wake))
            yield from woken
        return self._outcome()

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        self._batch.refuse_to_block()
        woken = threading.Event()
        self._batch.when_done(self, lambda _: woken.set())
        if not woken.wait(timeout):
            raise TimeoutError(f"the record is not acknowledged after {timeout} s")

    def _outcome(self) -> RecordMetadata:
        self._seen = True
        batch = self._batch
        if batch.error is not None:
            raise batch.error_for(self._index)
        return RecordMetadata(
            batch.partition.topic,
            batch.partition.partition,
            batch.base_offset + self._index if batch.base_offset >= 0 else -1,
            self._timestamp_ms if batch.log_append_time_ms < 0 else batch.log_append_time_ms,
            self._key_size,
            self._value_size,
        )
