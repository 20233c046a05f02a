"""The producer's synchronous face: `send` appends in the caller's thread, the rest runs on one background loop."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

from odradek.client.config import ProducerConfig
from odradek.client.messages.offsets import ConsumerGroupMetadata
from odradek.client.producer import producer as aio
from odradek.client.producer.producer import Headers
from odradek.client.producer.record_future import OnDelivery, RecordFuture
from odradek.client.producer.table_future import TableFuture
from odradek.client.sync_face import SyncFace
from odradek.errors import KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

_AT_EXIT_S = 30.0


class Producer(SyncFace[aio.Producer], of=aio.Producer):
    """Write records to topics. Safe for use by several threads.

    The constructor connects, so a wrong address fails at once. Use it as a context manager, or `close` it; a producer
    that is never closed flushes when the interpreter ends.

    Raises:
        KafkaError: INVALID_CONFIG, BROKER_NOT_AVAILABLE.
    """

    _other_names: ClassVar[Mapping[str, str]] = {
        "produce": "use send(topic, value, key); on_delivery is called with (error, metadata)",
        "poll": "it needs none: the producer works in the background; flush() waits",
        "list_topics": "use partitions_for(topic), or Admin.list_topics()",
        "bootstrap_connected": "the constructor connects, or raises",
        "start": "the constructor connects",
        "stop": "use close()",
        "send_and_wait": "use send(...).result()",
    }

    def __init__(self, config: ProducerConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = ProducerConfig.given(config, configs)
        super().__init__(lambda: aio.Producer(self.config).start())
        self._prepare = self._client.prepare
        self._try_send = self._client.try_send
        self._forget = _close_at_exit(self)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        expected_offset: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        record = self._prepare(value, key, headers, timestamp_ms, topic)
        future = self._try_send(topic, record, partition, expected_offset)
        if future is None:
            future = self._loop.call(self._client.send_when_possible(topic, record, partition, expected_offset))
        if on_delivery is not None:
            future.deliver(on_delivery)
        return future

    def send_table(self, topic: str, table: Any, **options: Any) -> TableFuture:
        return self._loop.call(self._client.send_table(topic, table, **options))

    def flush(self, timeout: float | None = None) -> None:
        self._loop.call(self._client.flush(timeout))

    def init_transactions(self) -> None:
        self._loop.call(self._client.init_transactions())

    def begin_transaction(self) -> None:
        self._loop.call(self._client.begin_transaction())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        self._loop.call(self._client.send_offsets_to_transaction(offsets, group_metadata))

    def commit_transaction(self) -> None:
        self._loop.call(self._client.commit_transaction())

    def abort_transaction(self) -> None:
        self._loop.call(self._client.abort_transaction())

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run a block in a transaction: `with producer.transaction():` commits at the end, or aborts if it raises."""
        opened = self._client.transaction()
        self._loop.call(opened.__aenter__())
        try:
            yield self
        except BaseException as error:
            self._loop.call(_left(opened, error))
            raise
        self._loop.call(_left(opened, None))

    def close(self, timeout: float | None = None) -> None:
        self._forget()
        self._close(lambda: self._client.close(timeout))

    def partitions_for(self, topic: str) -> set[int]:
        return self._loop.call(self._client.partitions_for(topic))

    def metrics(self) -> dict[str, float]:
        return self._client.metrics()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except KafkaError:
            if error is None:  # the error of the block is the one to tell
                raise


async def _left(opened: AbstractAsyncContextManager[aio.Producer], error: BaseException | None) -> None:
    """Leave the block of a transaction; the error of the block is raised again by its caller."""
    try:
        await opened.__aexit__(None if error is None else type(error), error, None)
    except BaseException as raised:
        if raised is not error:
            raise


def _close_at_exit(producer: Producer) -> Any:
    reference = weakref.ref(producer)

    def close() -> None:
        forgotten = reference()
        if forgotten is not None:
            forgotten.close(_AT_EXIT_S)

    atexit.register(close)
    return lambda: atexit.unregister(close)
