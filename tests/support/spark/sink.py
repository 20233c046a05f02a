"""An embedded service whose topics a test writes by Spark and reads back as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.engine.engine import Engine
from odradek.local import start_local
from odradek.model.record import Record
from odradek.settings import Settings

from tests.support.engine import read_all

T = TypeVar("T")


class ServedLog:
    """A service in a thread of this process."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        # Events are of 2013 and retention goes by their times: a test of more than a minute would lose them.
        settings = Settings(maintenance_interval_ms=0)
        self._service = start_local(data_dir, synchronous="NORMAL", settings=settings)
        self.bootstrap_servers = self._service.bootstrap_servers
        self.source = {"store": f"embedded:{data_dir}", "startingOffsets": "earliest"}
        self.sink = {"store": f"embedded:{data_dir}", "bootstrapServers": self.bootstrap_servers}

    @property
    def engine(self) -> Engine:
        return self._service.service.engine

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the service's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._service.loop).result()

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self.run(self.engine.topics.create(topic, partitions, configs))

    def records(self, topic: str) -> dict[int, list[Record]]:
        """All that a topic holds, by partition."""
        count = self.run(self.engine.topics.resolve(topic)).partition_count
        return {i: self.run(read_all(self.engine, topic, i)) for i in range(count)}

    def values(self, topic: str) -> list[bytes]:
        """All values, sorted."""
        return sorted(record.value or b"" for records in self.records(topic).values() for record in records)

    def close(self) -> None:
        self._service.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
