"""Commits of consumers that assign their partitions themselves, beside a group that comes to life."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.errors import ErrorCode
from odradek.model.group import JOIN_EPOCH, GroupHeartbeat
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

from tests.support.engine import memory_store

T0 = TopicPartition("t", 0)


async def test_a_simple_commit_under_way_does_not_move_the_offset_of_a_member_that_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The group was empty when the commit began; a member owns the partition when its write arrives."""
    store = memory_store()
    engine = store.engine()
    await engine.topics.create("t", 1)
    await engine.offsets.commit("g", {T0: OffsetAndMetadata(7)})
    store.clock.advance(1)
    update = store.groups._port.update

    async def after_the_join(operation: Any) -> Any:
        monkeypatch.undo()
        join = GroupHeartbeat("g", "m", JOIN_EPOCH, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], owned={})
        assert not (await engine.groups.heartbeat(join)).error
        return await update(operation)

    monkeypatch.setattr(store.groups._port, "update", after_the_join)
    [refused] = await engine.offsets.commit("g", {T0: OffsetAndMetadata(99)})
    assert refused.error is ErrorCode.UNKNOWN_MEMBER_ID
    [result] = await engine.offsets.fetch("g", [T0])
    assert result.committed == OffsetAndMetadata(7)
