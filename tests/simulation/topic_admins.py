"""An admin: topics come, grow, change and go while others use them."""

from __future__ import annotations

from odradek.errors import KafkaError

from tests.simulation.actors import look_up, pause
from tests.simulation.world import Process, World

_PARTITIONS_MAX = 4


class TopicAdmin:
    """Creates, grows, alters and deletes topics of its names."""

    def __init__(self, world: World, names: list[str], turns: int, pace_s: float) -> None:
        self._world = world
        self._names = names
        self._turns = turns
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        while self._turns > 0:
            self._turns -= 1
            name = self._world.rng.choice(self._names)
            try:
                await self._act(process, name)
            except KafkaError as error:
                self._world.note(f"{process.name} admin of {name}: {error.code.name}")
            await pause(self._world, self._pace_s)

    async def _act(self, process: Process, name: str) -> None:
        rng, engine = self._world.rng, process.engine
        draw = rng.random()
        topic = await look_up(engine, name)
        if topic is None:
            await engine.topics.create(name, rng.choice((1, 2)))
        elif draw < 0.25:
            await engine.topics.delete(name)
        elif draw < 0.5 and topic.partition_count < _PARTITIONS_MAX:
            await engine.topics.create_partitions(name, topic.partition_count + 1)
        elif draw < 0.7:
            await engine.topics.alter_configs(name, set={"max.message.bytes": str(rng.choice((1000, 100_000)))})
