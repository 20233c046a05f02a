"""Members that come together own consecutive partitions: each reads its part of an upload, and some of the heads."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.cost.metering import UsageMeter
from odradek.engine.engine import Engine
from odradek.engine.groups.assignors import AssignorMember, assign_uniform
from odradek.model.log import FetchPartition, ProducePartition
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import batch

PARTITIONS, MEMBERS, REQUESTS, BYTES = 200, 4, 10, 2_600


async def test_a_group_reads_what_was_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    meter, clock = UsageMeter(), ManualClock(auto_advance=True)
    tables, objects = MemoryStore(meter), MemoryObjectStore(clock, meter)
    read = {"bytes": 0}
    get_range = objects.get_range

    async def counted(*args: Any, **named: Any) -> bytes:
        data = await get_range(*args, **named)
        read["bytes"] += len(data)
        return data

    monkeypatch.setattr(objects, "get_range", counted)

    def engine(seed: int) -> Engine:
        settings = Settings(item_bytes_max=0, read_ahead_bytes=0, uploads_kept_bytes=0)  # as in functions
        return Engine(tables=tables, objects=objects, clock=clock, rng=SeededRng(seed), settings=settings)

    writer = engine(0)
    topic = await writer.topics.create("t", PARTITIONS)
    for number in range(REQUESTS):
        data = [batch([bytes(BYTES)], producer=(7, 0, number)) for _ in range(PARTITIONS)]
        request = [ProducePartition("t", partition, batches) for partition, batches in enumerate(data)]
        random.Random(number).shuffle(request)  # clients name partitions in any order
        await writer.produce(request)
    written = sum(map(len, data)) * REQUESTS

    members = [AssignorMember(f"m{number}", frozenset({topic.topic_id})) for number in range(MEMBERS)]
    before = meter.total()
    for seed, partitions in enumerate(assign_uniform(members, {topic.topic_id: PARTITIONS}).values(), 1):
        wanted = [FetchPartition("t", partition.partition, 0) for partition in sorted(partitions)]
        results = await engine(seed).fetch(wanted, max_wait_ms=0, min_bytes=1, max_bytes=1 << 24)
        assert all(result.high_watermark == REQUESTS for result in results)
    used = meter.total() - before
    assert read["bytes"] < 1.1 * written
    heads = -(-PARTITIONS // Settings().default_partitions_per_head)
    assert used.table_read_units < 4 * 2 * heads, "a head is read by one member, or by the two whose parts meet there"
