"""Orphans are collected only under the lease: whoever lost it deletes nothing, whatever it has seen."""

from __future__ import annotations

import pytest
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.maintenance.maintenance import HeldPartition, MaintenanceReport
from odradek.engine.partition.maintenance_lease import LeaseLost, MaintenanceLease
from odradek.format.object_keys import segment_key
from odradek.model.topic_partition import PartitionId

from tests.support.engine import memory_store


async def test_a_collector_that_lost_its_lease_leaves_its_successors_uploads() -> None:
    store = memory_store()
    stalled, successor = store.engine(seed=1), store.engine(seed=2)
    topic = await stalled.topics.create("t", 1)
    partition = PartitionId(topic.topic_id, 0)

    def held(lease: MaintenanceLease | None) -> HeldPartition:
        assert lease is not None
        return HeldPartition(
            topic, TopicConfig.of(topic, stalled.settings), partition, lease, MaintenanceReport(), stalled.tables
        )

    before = held(await stalled.leases.take(partition))
    store.clock.advance(stalled.settings.maintenance_lease_ms / 1000 + 1)
    after = held(await successor.leases.take(partition))
    upload = segment_key(partition, 0, bytes(16))
    await store.objects.put(upload, [b"not in a row yet"])
    with pytest.raises(LeaseLost):
        await stalled.orphans.collect(before)
    assert await store.objects.head(upload) is not None
    await successor.orphans.collect(after)
    assert await store.objects.head(upload) is None, "to the holder it is an orphan: it had uploaded nothing itself"
