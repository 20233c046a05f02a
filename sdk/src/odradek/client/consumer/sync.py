"""The synchronous consumer: each method runs that of aio.Consumer on one background loop.

Heartbeats and fetches continue in the background while the application processes records. A rebalance listener runs in
the thread that polls, and may call the consumer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from odradek.client.config import ConsumerConfig
from odradek.client.consumer import consumer as aio
from odradek.client.consumer.commits import Offsets
from odradek.client.consumer.rebalance import RebalanceListener
from odradek.client.consumer.record import ConsumerRecord
from odradek.client.messages.offsets import ConsumerGroupMetadata
from odradek.client.sync_face import SyncFace
from odradek.client.types import OffsetAndTimestamp
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_ITERATION_POLL_MS = 1_000


class Consumer(SyncFace[aio.Consumer], of=aio.Consumer):
    """Read records of topics, alone or as a member of a group. For one thread at a time,
    apart from `wakeup` and `close`.

    The constructor connects, so a wrong address fails at once. Use it as a context manager, or `close` it. Leaving the
    block by an exception commits nothing.

    Raises:
        KafkaError: INVALID_CONFIG, BROKER_NOT_AVAILABLE.
    """

    _other_names: ClassVar[Mapping[str, str]] = {
        "getone": "use next(consumer), or consume(1)",
        "getmany": "use poll(timeout_ms, max_records=)",
        "store_offsets": "use commit(offsets) with enable_auto_commit=False",
        "get_watermark_offsets": "use beginning_offsets and end_offsets",
        "partitions_for_topic": "use Admin.describe_topics([topic])",
        "topics": "use Admin.list_topics()",
        "list_topics": "use Admin.list_topics()",
        "incremental_assign": "use assign(partitions)",
        "highwater": "use lag() or end_offsets",
        "start": "the constructor connects",
        "stop": "use close()",
    }

    def __init__(self, config: ConsumerConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = ConsumerConfig.given(config, configs)
        super().__init__(lambda: _started(self.config, self._call_listener))

    async def _call_listener(
        self, method: Callable[[list[TopicPartition]], Awaitable[None] | None], partitions: list[TopicPartition]
    ) -> None:
        await self._loop.on_caller(lambda: method(partitions))

    # --- what to read ---------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        self._run(self._client.subscribe, topics, pattern=pattern, listener=listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._run(self._client.assign, partitions)

    def unsubscribe(self) -> None:
        self._loop.call(self._client.unsubscribe())

    def assignment(self) -> set[TopicPartition]:
        return self._client.assignment()

    def subscription(self) -> set[str]:
        return self._client.subscription()

    # --- reading --------------------------------------------------------------------------------------------------

    def poll(
        self, timeout_ms: float = 0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        return self._loop.call(self._client.poll(timeout_ms, max_records=max_records))

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[ConsumerRecord]:
        return self._loop.call(self._client.consume(num_messages, timeout))

    def wakeup(self) -> None:
        """End the poll that waits, or the next one, with WakeupError. For other threads and signal handlers."""
        self._loop.soon(self._client.wakeup)

    def poll_table(self, timeout_ms: float = 0, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
        return self._loop.call(self._client.poll_table(timeout_ms, columns, **options))

    def read_at(self, topic: str, partition: int, offset: int) -> ConsumerRecord | None:
        return self._loop.call(self._client.read_at(topic, partition, offset))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        while True:
            # Held records are moved by this thread alone: the loop only fills what is empty.
            record = self._client.next_held()
            if record is not None:
                return record
            self._loop.call(self._client.fill(_ITERATION_POLL_MS))

    # --- offsets --------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None) -> None:
        self._loop.call(self._client.commit(offsets))

    def commit_async(self, offsets: Offsets | None = None) -> Future[None]:
        """Commit without waiting, and return a future of the outcome of `commit`."""
        return self._loop.start(lambda: self._client.commit_async(offsets))

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._loop.call(self._client.committed(partitions))

    def position(self, partition: TopicPartition) -> int:
        return self._loop.call(self._client.position(partition))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._run(self._client.seek, partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._run(self._client.seek_to_beginning, *partitions)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._run(self._client.seek_to_end, *partitions)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._loop.call(self._client.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._loop.call(self._client.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._loop.call(self._client.offsets_for_times(timestamps))

    def lag(self) -> dict[TopicPartition, int | None]:
        return self._loop.call(self._client.lag())

    def group_metadata(self) -> ConsumerGroupMetadata:
        return self._client.group_metadata()

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._run(self._client.pause, *partitions)

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        self._run(self._client.resume, *partitions)

    def paused(self) -> set[TopicPartition]:
        return self._client.paused()

    def partitions_for(self, topic: str) -> set[int]:
        return self._loop.call(self._client.partitions_for(topic))

    # --- the end --------------------------------------------------------------------------------------------------

    def close(self, *, commit: bool = True) -> None:
        self._close(lambda: self._client.close(commit=commit))

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the block the last records may not have been processed: they are read again.
        self.close(commit=error is None)


async def _started(config: ConsumerConfig, call_listener: Any) -> aio.Consumer:
    consumer = aio.Consumer(config)
    consumer._call_listener = call_listener
    return await consumer.start()
