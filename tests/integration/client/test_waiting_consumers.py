"""The cost of a waiting consumer: calls and reads of a minute, counted in virtual time over the real functions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.aio import Consumer
from odradek.cost.metering import total
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import TopicPartition
from odradek.testing.seeded_rng import SeededRng

from infra.stages import STAGES
from tests.simulation.loop import run
from tests.support.engine import batch
from tests.support.services.virtual_account import VirtualAccount

MINUTE_S = 60.0
PARTITIONS = 6


async def _usage(every_s: float, **configs: Any) -> tuple[int, float, list[float]]:
    """Calls and read units of a minute, after one to settle, and how late each record was."""
    account = VirtualAccount(STAGES["dev"])
    clock = account.clock
    engine = account.engine()
    await engine.topics.create("t", PARTITIONS)
    late_s: list[float] = []
    written: dict[int, float] = {}

    async def write() -> None:
        while True:
            await clock.sleep(every_s)
            written_s = clock.monotonic()
            [result] = await engine.produce([ProducePartition("t", 0, batch([b"v"]))])
            written[result.base_offset] = written_s

    async def read() -> None:
        consumer = Consumer(
            transport=account.transport(), clock=clock, rng=SeededRng(3), auto_offset_reset="earliest", **configs
        )
        async with consumer:
            consumer.assign([TopicPartition("t", number) for number in range(PARTITIONS)])
            while True:
                for records in (await consumer.poll(1_000)).values():
                    late_s.extend(clock.monotonic() - written[record.offset] for record in records)

    tasks = [asyncio.create_task(read())]
    if every_s:
        tasks.append(asyncio.create_task(write()))
    await clock.sleep(MINUTE_S)
    before = total(account.meter.snapshot()["fetch"])
    await clock.sleep(MINUTE_S)
    used = total(account.meter.snapshot()["fetch"]) - before
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return used.function_requests, used.table_read_units, late_s


@pytest.mark.parametrize(
    ("every_s", "configs", "calls_max", "looks_max"),
    [
        (0, {"fetch_idle_pause_max_ms": 1000}, 60, 70),
        (0, {"fetch_idle_pause_max_ms": 0}, 120, 400),  # a long poll looks at a quiet partition three times
        (4, {"fetch_idle_pause_max_ms": 1000}, 75, 90),
        (0.1, {"fetch_idle_pause_max_ms": 1000, "fetch_min_bytes": 700, "fetch_max_wait_ms": 1000}, 75, 160),
    ],
)
def test_a_minute_of_waiting(every_s: float, configs: dict[str, Any], calls_max: int, looks_max: int) -> None:
    calls, units, late_s = run(_usage(every_s, **configs))
    assert calls_max * 0.5 <= calls <= calls_max
    assert units <= looks_max * PARTITIONS
    assert max(late_s, default=0) < 1.5
