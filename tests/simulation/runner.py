"""One run: a seed makes a world, actors live in it, the world calms down, the auditor looks."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from odradek.model.topic_partition import PartitionId

from tests.simulation.actors import ConditionalProducer, Consumer, Producer, lives
from tests.simulation.auditor import audit
from tests.simulation.history import History
from tests.simulation.loop import run
from tests.simulation.world import Crash, Fates, World


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    seed: int
    problems: tuple[str, ...]
    digest: str
    steps: int
    acked: int
    trace: tuple[str, ...]


def simulate(seed: int, *, fates: Fates | None = None, settings: dict[str, Any] | None = None) -> Outcome:
    """Run the simulation of a seed."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    return run(_simulate(World(seed, fates, settings)))


async def _simulate(world: World) -> Outcome:
    asyncio.get_running_loop().set_exception_handler(_quiet)
    history = History()
    stop = asyncio.Event()
    admin = world.process("setup", 0)
    fates, world.fates = world.fates, Fates.none()
    names = ["alpha", "beta"]
    for name in names:
        topic = await admin.engine.topics.create(name, world.rng.choice((1, 2)))
        for number in range(topic.partition_count):
            history.created[PartitionId(topic.topic_id, number)] = name
    world.fates = fates
    writers = []
    for i in range(world.rng.choice((2, 3, 4))):
        name = world.rng.choice(names)
        producer = Producer(
            world, history, f"p{i}", name, world.rng.randrange(10, 50), idempotent=world.rng.random() < 0.7
        )
        writers.append(lives(world, f"producer{i}", producer.program))
    if world.rng.random() < 0.5:
        conditional = ConditionalProducer(world, history, "c", world.rng.choice(names), 15)
        writers.append(lives(world, "conditional", conditional.program))
    readers = [
        asyncio.ensure_future(
            lives(world, f"consumer-{name}", Consumer(world, history, f"r-{name}", name, stop).program)
        )
        for name in names
    ]
    await asyncio.gather(*writers)
    world.calm()
    await world.settle()
    await asyncio.sleep(300)
    stop.set()
    await asyncio.gather(*readers)
    auditor = world.process("auditor", 0)
    problems = await audit(auditor.engine, history)
    acked = sum(send.outcome == "acked" for send in history.sends)
    return Outcome(world.seed, tuple(problems), world.trace_digest(), len(world.trace), acked, tuple(world.trace))


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tasks of a dead process end with Crash, which nobody awaits."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)
