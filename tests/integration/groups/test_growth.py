"""Groups of a topic that grows: a new partition comes when its parent is consumed, and not before."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.consumer_protocol import partitions_of_assignment, without_partitions
from odradek.model.classic_group import ClassicIdentity, ClassicJoin, ClassicSync
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition

from tests.support.clients.group_member import Member
from tests.support.engine import Store, batch, memory_store, produce


@pytest.fixture
async def store() -> Store:
    made = memory_store()
    engine = made.engine(1)
    await engine.topics.create("t", 2)
    for number in (0, 0, 1):
        await produce(engine, "t", number, batch([b"x"]))
    return made


class Following(Member):
    """A member over an engine."""

    def __init__(self, engine: Engine, member_id: str, *topics: str, **options: Any) -> None:
        super().__init__(None, member_id, topics, groups=engine.groups, offsets=engine.offsets, **options)  # type: ignore[arg-type]
        self.engine = engine

    async def has(self) -> list[int]:
        """The partitions that it owns after some heartbeats."""
        for _ in range(4):
            assert await self.beat() is ErrorCode.NONE
            await self.engine.clock.sleep(2)
        return sorted(number for _, number in self.owned)

    async def commits(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            assert await self.commit(TopicPartition("t", number), offset) is ErrorCode.NONE

    async def committed(self, number: int) -> int | None:
        [result] = await self.offsets.fetch(self.group_id, [TopicPartition("t", number)])
        return None if result.committed is None else result.committed.offset


async def test_a_partition_comes_when_its_parent_is_consumed(store: Store) -> None:
    engine = store.engine()
    member = Following(engine, "a", "t")
    assert await member.has() == [0, 1]
    await member.commits({0: 1})
    await engine.topics.create_partitions("t", 4)
    assert await member.has() == [0, 1]
    await member.commits({1: 1})
    assert await member.has() == [0, 1, 3]
    await produce(engine, "t", 0, batch([b"later"]))
    await member.commits({0: 2})
    assert await member.has() == [0, 1, 2, 3], "up to the mark is enough"
    assert [await member.committed(number) for number in (2, 3)] == [0, 0], "whatever auto.offset.reset says"


async def test_a_partition_waits_for_the_parents_parent(store: Store) -> None:
    """Partition 2 had no record when the topic grew to 8: partition 6 follows partition 0."""
    engine = store.engine()
    member = Following(engine, "a", "t")
    assert await member.has() == [0, 1]
    await member.commits({0: 1, 1: 1})
    await engine.topics.create_partitions("t", 4)
    await engine.topics.create_partitions("t", 8)
    await produce(engine, "t", 0, batch([b"later"]))
    assert await member.has() == [0, 1, 3, 5, 7]
    await member.commits({0: 2})
    assert await member.has() == list(range(8))


async def test_deleted_records_need_not_be_consumed(store: Store) -> None:
    engine = store.engine()
    member = Following(engine, "a", "t")
    assert await member.has() == [0, 1]
    await engine.topics.create_partitions("t", 4)
    assert await member.has() == [0, 1]
    topic = await engine.topics.resolve("t")
    await engine.index.advance_log_start(PartitionId(topic.topic_id, 0), 2)
    assert await member.has() == [0, 1, 2]
    assert await member.committed(2) is None, "a group that has committed nothing starts where it wants"


async def test_a_group_that_does_not_commit_gets_all_after_a_time(store: Store) -> None:
    engine = store.engine()
    member = Following(engine, "a", "t")
    assert await member.has() == [0, 1]
    await engine.topics.create_partitions("t", 4)
    assert await member.has() == [0, 1]
    await engine.clock.sleep(500)
    assert await member.has() == [0, 1]
    await engine.clock.sleep(100)
    assert await member.has() == [0, 1, 2, 3]
    member.sends_all = True
    other = Following(engine, "b", "t")
    for _ in range(6):
        await other.beat()
        await member.beat()
        await engine.clock.sleep(2)
    assert len(member.owned | other.owned) == 4, "what it has is not taken away by a rebalance"


async def test_a_new_group_reads_the_parent_first(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create_partitions("t", 4)
    member = Following(engine, "a", "t")
    assert await member.has() == [0, 1]
    await member.commits({0: 2, 1: 1})
    assert await member.has() == [0, 1, 2, 3]


async def test_two_members_share_what_is_released(store: Store) -> None:
    engine = store.engine()
    members = [Following(engine, name, "t") for name in "ab"]
    for _ in range(6):
        for member in members:
            await member.beat()
        await engine.clock.sleep(2)
    await engine.topics.create_partitions("t", 4)
    for member in members:
        for _, number in member.owned:
            await member.commits({number: 2})
    for _ in range(6):
        for member in members:
            await member.beat()
        await engine.clock.sleep(2)
    assert [len(member.owned) for member in members] == [2, 2]


@pytest.mark.parametrize("configs", [{"odradek.growth.hold.ms": "0"}])
async def test_nothing_is_held_where_it_is_not_wanted(store: Store, configs: dict[str, str]) -> None:
    engine = store.engine()
    member = Following(engine, "a", "t")
    await engine.topics.create_partitions("t", 4)
    assert await member.has() == [0, 1]
    await engine.topics.alter_configs("t", set=configs)
    assert await member.has() == [0, 1, 2, 3]


# --- the classic protocol -----------------------------------------------------------------------------------------


def assignment(numbers: Sequence[int], user_data: bytes = b"\x00\x00\x00\x01u") -> bytes:
    return struct.pack(f">hih1sI{len(numbers)}I", 1, 1, 1, b"t", len(numbers), *numbers) + user_data


def test_partitions_are_taken_out_of_an_assignment_and_the_rest_stays() -> None:
    assert without_partitions(assignment([0, 1, 2, 3]), {"t": {2, 3}}) == assignment([0, 1])
    assert without_partitions(assignment([5]), {"u": {5}}) == assignment([5])
    with pytest.raises(ValueError, match=r"early|longer"):
        partitions_of_assignment(assignment([0, 1])[:-8])


async def classic_round(engine: Engine, member_id: str = "") -> tuple[ClassicIdentity, list[int]]:
    """Join alone, assign all four partitions, and return what the coordinator made of it."""
    protocols = (("range", b"topics"),)
    joined = await engine.classic_groups.join(ClassicJoin("g", member_id, "consumer", protocols, 10_000, 30_000))
    if joined.error is ErrorCode.MEMBER_ID_REQUIRED:
        return await classic_round(engine, joined.member_id)
    identity = ClassicIdentity("g", joined.member_id, joined.generation)
    plan = {joined.member_id: assignment([0, 1, 2, 3])}
    synced = await engine.classic_groups.sync(ClassicSync(identity, assignments=plan))
    assert synced.error is ErrorCode.NONE
    return identity, partitions_of_assignment(synced.assignment)["t"]


async def test_a_classic_group_rebalances_when_it_may_have_more(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create_partitions("t", 4)
    me, partitions_given = await classic_round(engine)
    assert partitions_given == [0, 1]

    async def commit(number: int, offset: int) -> None:
        offsets = {TopicPartition("t", number): OffsetAndMetadata(offset)}
        [response] = await engine.offsets.commit("g", offsets, member_id=me.member_id, member_epoch=me.generation)
        assert response.error is ErrorCode.NONE

    await commit(0, 2)
    assert await engine.classic_groups.heartbeat(me) is ErrorCode.NONE, "the other may come in a moment"
    await asyncio.sleep(0)
    await engine.clock.sleep(9)
    await engine.classic_groups.heartbeat(me)
    await engine.clock.sleep(2)
    assert await engine.classic_groups.heartbeat(me) is ErrorCode.REBALANCE_IN_PROGRESS
    me, partitions_given = await classic_round(engine, me.member_id)
    assert partitions_given == [0, 1, 2]
    await commit(1, 1)
    assert await engine.classic_groups.heartbeat(me) is ErrorCode.REBALANCE_IN_PROGRESS
    me, partitions_given = await classic_round(engine, me.member_id)
    assert partitions_given == [0, 1, 2, 3]
    assert await engine.classic_groups.heartbeat(me) is ErrorCode.NONE
    [first, _] = await engine.offsets.fetch("g", [TopicPartition("t", 2), TopicPartition("t", 3)])
    assert first.committed is not None
    assert first.committed.offset == 0
