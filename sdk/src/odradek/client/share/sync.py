"""The synchronous share consumer: each method runs that of aio.ShareConsumer on one background loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from odradek.client.config import ShareConsumerConfig
from odradek.client.share import consumer as aio
from odradek.client.share.consumer import AcknowledgementCallback, Commits, ShareRecord
from odradek.client.sync_face import SyncFace
from odradek.model.share import AcknowledgeType
from odradek.model.topic_partition import TopicPartition

_ITERATION_POLL_MS = 1_000


class ShareConsumer(SyncFace[aio.ShareConsumer], of=aio.ShareConsumer):
    """Consume topics as a queue, as a member of a share group. For one thread at a time,
    apart from `wakeup` and `close`.

    The constructor connects, so a wrong address fails at once. Use it as a context manager, or `close` it. Leaving the
    block by an exception releases the records of the last poll; their delivery counts.

    Raises:
        KafkaError: INVALID_CONFIG, BROKER_NOT_AVAILABLE.
    """

    def __init__(self, config: ShareConsumerConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = ShareConsumerConfig.given(config, configs)
        super().__init__(lambda: aio.ShareConsumer(self.config).start())

    def subscribe(self, topics: Iterable[str]) -> None:
        self._run(self._client.subscribe, topics)

    def unsubscribe(self) -> None:
        self._loop.call(self._client.unsubscribe())

    def subscription(self) -> set[str]:
        return self._client.subscription()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set a callback for the outcome of acknowledgements. It is called on the background thread."""
        self._run(self._client.set_acknowledgement_commit_callback, callback)

    def poll(self, timeout_ms: float = 0, *, max_records: int | None = None) -> dict[TopicPartition, list[ShareRecord]]:
        return self._loop.call(self._client.poll(timeout_ms, max_records=max_records))

    def wakeup(self) -> None:
        """End the poll that waits, or the next one, with WakeupError. For other threads and signal handlers."""
        self._loop.soon(self._client.wakeup)

    def __iter__(self) -> Iterator[ShareRecord]:
        return self

    def __next__(self) -> ShareRecord:
        while True:
            for records in self.poll(_ITERATION_POLL_MS, max_records=1).values():
                return records[0]

    def acknowledge(self, record: ShareRecord, type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        self._run(self._client.acknowledge, record, type)

    def commit_sync(self) -> Commits:
        return self._loop.call(self._client.commit_sync())

    def commit_async(self) -> Future[Commits]:
        """Send acknowledgements without waiting, and return a future of the outcome of `commit_sync`."""
        return self._loop.start(self._client.commit_async)

    def close(self, *, commit: bool = True) -> None:
        self._close(lambda: self._client.close(commit=commit))

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the block the last records may not have been processed: they are delivered again.
        self.close(commit=error is None)
