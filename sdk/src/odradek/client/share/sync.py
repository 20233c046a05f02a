"""The share consumer's synchronous face: each method is that of aio.ShareConsumer, run on one background loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from odradek.client.background_loop import BackgroundLoop
from odradek.client.config import ShareConsumerConfig
from odradek.client.documented import documented_by
from odradek.client.share import consumer as aio
from odradek.client.share.consumer import AcknowledgementCallback, Commits, ShareRecord
from odradek.model.share import AcknowledgeType
from odradek.model.topic_partition import TopicPartition

_ITERATION_POLL_MS = 1_000


@documented_by(aio.ShareConsumer)
class ShareConsumer:
    """Takes records off topics as off a queue; for one thread at a time.

    Connects at once, so that a wrong address is an error here. Use it as a context manager, or `close` it.

    Raises KafkaError: INVALID_CONFIG, BROKER_NOT_AVAILABLE.
    """

    def __init__(self, config: ShareConsumerConfig | None = None, /, **configs: Any) -> None:
        self.config = ShareConsumerConfig.given(config, configs)
        self._loop = BackgroundLoop("odradek-share-consumer")
        try:
            self._consumer: aio.ShareConsumer = self._loop.call(_started(self.config))
        except BaseException:
            self._loop.close()
            raise

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A method of the implementation that does not wait, on the loop that owns its state."""

        async def run() -> Any:
            return function(*arguments)

        return self._loop.call(run())

    def subscribe(self, topics: Iterable[str]) -> None:
        self._run(self._consumer.subscribe, topics)

    def unsubscribe(self) -> None:
        self._loop.call(self._consumer.unsubscribe())

    def subscription(self) -> set[str]:
        return self._consumer.subscription()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        self._run(self._consumer.set_acknowledgement_commit_callback, callback)

    def poll(self, timeout_ms: float = 0, *, max_records: int | None = None) -> dict[TopicPartition, list[ShareRecord]]:
        return self._loop.call(self._consumer.poll(timeout_ms, max_records=max_records))

    def __iter__(self) -> Iterator[ShareRecord]:
        return self

    def __next__(self) -> ShareRecord:
        while True:
            for records in self.poll(_ITERATION_POLL_MS, max_records=1).values():
                return records[0]

    def acknowledge(self, record: ShareRecord, type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        self._run(self._consumer.acknowledge, record, type)

    def commit_sync(self) -> Commits:
        return self._loop.call(self._consumer.commit_sync())

    def commit_async(self) -> Future[Commits]:
        """Commit without waiting; the future's outcome is that of `commit_sync`."""
        return self._loop.start(self._consumer.commit_async)

    def close(self, *, commit: bool = True) -> None:
        if self._loop.is_closed:
            return
        try:
            self._loop.call(self._consumer.close(commit=commit))
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the block the last records may not have been processed: they are delivered again.
        self.close(commit=error is None)


async def _started(config: ShareConsumerConfig) -> aio.ShareConsumer:
    return await aio.ShareConsumer(config).start()
