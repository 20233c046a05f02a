"""Calls of functions for partitions that share a head."""

from __future__ import annotations

from typing import Any

from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.functions.environment import MAINTAINER
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition

from tests.support.engine import batch, read_all


async def shared_heads(world: Any, admin: Engine) -> Any:
    """Pages, rows of pages, a merge of all partitions of a head, a commit of several leases."""
    topic = await admin.topics.create("spread", 3, {"retention.ms": "-1"})
    assert PartitionId(topic.topic_id, 1).shares_head
    producer = world.engine("produce", head_bytes_max=400, spill_entries=1, paged_appends=2)
    for _ in range(12):
        results = await producer.produce([ProducePartition("spread", number, batch([b"v"])) for number in range(3)])
        assert not any(result.error for result in results)
    assert len(await read_all(world.engine("fetch"), "spread", 2)) == 12
    offsets = {TopicPartition("spread", number): OffsetAndMetadata(1) for number in range(3)}
    coordinator = world.engine("coordinator")
    assert not any(result.error for result in await coordinator.offsets.commit("sharing", offsets))
    assert not (await coordinator.offsets.delete("sharing", list(offsets)[:1]))[0].error
    merged = MaintenanceReport()
    merging = world.engine(MAINTAINER, merge_rows_min=1, merge_delay_ms=0).maintenance
    world.clock.advance(60)
    await merging.run_partitions(topic, range(3), merged)
    assert merged.done["segments_merged"] >= 3, merged
    await coordinator.groups.delete(["sharing"])
    await admin.topics.delete("spread")
    return world
