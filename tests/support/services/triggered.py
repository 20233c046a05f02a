"""An embedded service with handlers for triggers, and what they were called with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.format.record_batch import RecordBatchBuilder
from odradek.local import LocalService
from odradek.model.log import ProducePartition
from odradek.model.record import Header
from odradek.model.trigger import Trigger, TriggerStatus
from odradek.settings import Settings

WAIT_S = 10.0


class Triggered:
    """A service in this loop.

    Attributes:
        events: those that `record` was called with, in order.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda event: None
        self.folder = folder
        self.settings = Settings(**{"catalog_cache_ms": 0, **settings})
        self.service = self._new()

    def _new(self) -> LocalService:
        return LocalService(
            self.folder, settings=self.settings, synchronous="NORMAL", trigger_handlers={"app:record": self.record}
        )

    def record(self, event: dict[str, Any], context: Any) -> Any:
        self.events.append(event)
        return self.answer(event)

    async def __aenter__(self) -> Triggered:
        await self.service.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.stop()

    async def restart(self) -> None:
        await self.service.stop()
        self.service = self._new()
        await self.service.start()

    async def topic(self, name: str, partitions: int = 1) -> None:
        await self.service.engine.topics.create(name, partitions)

    async def create(self, **options: Any) -> Trigger:
        definition = {"name": "orders-trigger", "topic": "orders", "function": "app:record", **options}
        return await self.service.triggers.create(Trigger(**definition))

    async def send(
        self, topic: str, *values: bytes, partition: int = 0, key: bytes | None = None, headers: tuple[Header, ...] = ()
    ) -> int:
        builder = RecordBatchBuilder()
        for value in values:
            builder.append(1_700_000_000_000, key, value, list(headers))
        [result] = await self.service.engine.produce([ProducePartition(topic, partition, builder.build())])
        assert not result.error, result
        return result.base_offset

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that happens."""
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.005)

    async def drained(self, name: str = "orders-trigger") -> TriggerStatus:
        """Wait until nothing is left to call with."""
        async with asyncio.timeout(WAIT_S):
            while True:
                status = await self.service.triggers.describe(name)
                if not status.lag and not any(partition.is_calling for partition in status.partitions):
                    return status
                await asyncio.sleep(0.005)

    def offsets(self) -> dict[str, list[int]]:
        """The offsets of all events, by partition, in the order of the calls."""
        offsets: dict[str, list[int]] = {}
        for event in self.events:
            for partition, records in event["records"].items():
                offsets.setdefault(partition, []).extend(record["offset"] for record in records)
        return offsets
