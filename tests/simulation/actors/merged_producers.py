"""Producers whose requests a gateway merges: many of them in one call to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from odradek.errors import StoreUnavailable
from odradek.gateway.group_commit import GroupCommit
from odradek.model.log import ProducePartition, ProduceResult

from tests.simulation.actors.producers import Habits, Producer
from tests.simulation.store.ports import Crash
from tests.simulation.world import Process, World


class _Engine:
    """The engine, as group commit sees it: what crashes in its calls is the process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def produce(self, partitions: Sequence[ProducePartition], **options: Any) -> list[ProduceResult]:
        try:
            return await self._process.engine.produce(partitions, **options)
        except Crash:
            self._process.kill()
            raise StoreUnavailable("the process has died") from None


class _Merging:
    """The process of a gateway, and its engine, as its connections see them."""

    def __init__(self, process: Process, commits: GroupCommit) -> None:
        self._process = process
        self._commits = commits

    @property
    def engine(self) -> Any:
        return self

    async def produce(self, partitions: Sequence[ProducePartition]) -> list[ProduceResult]:
        pending = asyncio.ensure_future(self._commits.produce(partitions))
        death = asyncio.ensure_future(self._process.died.wait())
        await asyncio.wait((pending, death), return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if self._process.dead:
            pending.cancel()
            raise Crash
        return pending.result()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._process, name, None)
        return getattr(self._process.engine, name) if attribute is None else attribute


class MergedProducers:
    """A gateway with so many idempotent producers of a topic.

    Args:
        records_of: how many records each of them sends.
        interval_ms: between two calls to the engine.
    """

    def __init__(
        self, world: World, name: str, topic: str, count: int, records_of: int, interval_ms: int, habits: Habits
    ) -> None:
        self._interval_ms = interval_ms
        self._producers = [
            Producer(world, f"{name}.{number}", topic, records_of, idempotent=True, habits=habits)
            for number in range(count)
        ]

    async def program(self, process: Process) -> None:
        commits = GroupCommit(_Engine(process), process.clock, 100, self._interval_ms)  # type: ignore[arg-type]
        merging: Any = _Merging(process, commits)
        await asyncio.gather(*(producer.program(merging) for producer in self._producers))
