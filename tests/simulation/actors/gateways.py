"""Gateways: brokers that take the leadership of partitions, append, fall silent, come back late, or give it back."""

from __future__ import annotations

import asyncio

from odradek.engine.leaders.brokers import RegistrationLost
from odradek.errors import KafkaError, StoreError

from tests.simulation.actors.common import pause
from tests.simulation.actors.producers import Habits, Producer
from tests.simulation.world import Process, World


class Gateway:
    """A broker that leads what it appends to.

    Args:
        turns: how many times it registers, appends for a while, and ends.
    """

    def __init__(self, world: World, name: str, topics: list[str], turns: int, records_of: int, pace_s: float) -> None:
        self._world = world
        self._name = name
        self._topics = topics
        self._turns = turns
        self._records_of = records_of
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        rng, leaders = self._world.rng, process.engine.leaders
        while self._turns > 0:
            self._turns -= 1
            try:
                await leaders.register("gateway", 9092)
            except (KafkaError, StoreError):
                await pause(self._world, 5.0)
                continue
            # One that does not renew is taken for gone while it still appends.
            renewal = asyncio.ensure_future(self._renew(process)) if rng.random() < 0.6 else None
            producer = Producer(
                self._world,
                f"{self._name}.{self._turns}",
                rng.choice(self._topics),
                self._records_of,
                idempotent=rng.random() < 0.8,
                habits=Habits(self._pace_s),
            )
            await producer.program(process)
            if renewal is not None:
                renewal.cancel()
            if rng.random() < 0.5:
                try:
                    await leaders.release_all()
                except (KafkaError, StoreError):
                    continue
            await pause(self._world, self._pace_s * 20)

    async def _renew(self, process: Process) -> None:
        try:
            await process.engine.leaders.run_renewal()
        except RegistrationLost:
            return
