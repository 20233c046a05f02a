"""Committed offsets: who may commit, what is fetched, what survives a lost answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.engine.offsets.offsets import GroupOffsets
from odradek.errors import ErrorCode, OutcomeUnknown
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.settings import Settings

from tests.support.clients.group_member import SETTINGS, SkewedClock, World, failure_code, settle

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.create("t", 2)
    return world


async def committed(world: World, partition: TopicPartition = T0) -> int | None:
    [result] = await world.offsets.fetch("g", [partition])
    return None if result.committed is None else result.committed.offset


async def test_simple_consumer_commits_and_fetches(world: World) -> None:
    offset = OffsetAndMetadata(7, 3, "note")
    results = await world.offsets.commit("g", {T0: offset, T1: OffsetAndMetadata(0)})
    assert [(result.partition, result.error) for result in results] == [(T0, ErrorCode.NONE), (T1, ErrorCode.NONE)]
    [result, nothing] = await world.offsets.fetch("g", [T0, TopicPartition("unknown", 0)])
    assert (result.committed, nothing.committed, nothing.error) == (offset, None, ErrorCode.NONE)
    everything = await world.offsets.fetch("g", None)
    assert [result.partition for result in everything] == [T0, T1]
    assert await world.offsets.fetch("other", None) == []


async def test_each_partition_has_its_own_verdict(world: World) -> None:
    offsets = {
        T0: OffsetAndMetadata(1, metadata="x" * (SETTINGS.offset_metadata_bytes_max + 1)),
        TopicPartition("t", 2): OffsetAndMetadata(1),
        TopicPartition("unknown", 0): OffsetAndMetadata(1),
    }
    codes = [result.error for result in await world.offsets.commit("g", offsets)]
    assert codes == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await world.offsets.fetch("g", None) == []


@pytest.mark.parametrize("offset", [-1, -2, -(2**63)])
async def test_a_negative_offset_is_kept_as_on_apache_kafka(world: World, offset: int) -> None:
    await world.offsets.commit("g", {T0: OffsetAndMetadata(7)})
    [result] = await world.offsets.commit("g", {T0: OffsetAndMetadata(offset)})
    assert (result.error, await committed(world)) == (ErrorCode.NONE, offset)


async def test_whole_requests_are_refused(world: World) -> None:
    offset = {T0: OffsetAndMetadata(1)}
    assert await failure_code(world.offsets.commit("", offset)) is ErrorCode.INVALID_GROUP_ID
    assert await failure_code(world.offsets.fetch("", None)) is ErrorCode.INVALID_GROUP_ID
    member = world.member("a", "t")
    await member.beat()
    assert await failure_code(world.offsets.commit("g", offset)) is ErrorCode.UNKNOWN_MEMBER_ID
    fetch = world.offsets.fetch
    assert await failure_code(fetch("g", [T0], member_id="x", member_epoch=1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await failure_code(fetch("g", [T0], member_id="a", member_epoch=9)) is ErrorCode.STALE_MEMBER_EPOCH
    assert len(await fetch("g", [T0], member_id="a", member_epoch=member.epoch)) == 1


async def test_simple_commits_are_taken_again_when_all_members_left_or_died(world: World) -> None:
    a = world.member("a", "t")
    await a.beat()
    await a.leave()
    assert [r.error for r in await world.offsets.commit("g", {T0: OffsetAndMetadata(1)})] == [ErrorCode.NONE]
    b = world.member("b", "t")
    await b.beat()
    await world.clock.sleep(3 * SETTINGS.group_session_timeout_ms / 1000)
    assert [r.error for r in await world.offsets.commit("g", {T0: OffsetAndMetadata(2)})] == [ErrorCode.NONE]
    assert await b.commit(T0, 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await committed(world) == 2


async def test_a_member_commits_what_it_owns_also_backwards(world: World) -> None:
    a = world.member("a", "t")
    await a.beat()
    assert await a.commit(T0, 10) is ErrorCode.NONE
    assert await a.commit(T0, 4) is ErrorCode.NONE
    assert await committed(world) == 4
    assert await a.commit(T0, 5, epoch=0) is ErrorCode.STALE_MEMBER_EPOCH
    b = world.member("b", "t")
    await b.beat()
    assert await b.commit(T0, 9) is ErrorCode.FENCED_MEMBER_EPOCH, "it owns nothing yet"
    assert await committed(world) == 4


async def test_offsets_stay_when_the_owner_changes_and_the_old_owner_is_refused(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    assert await a.commit(T0, 10) is ErrorCode.NONE
    assert await a.commit(T1, 20) is ErrorCode.NONE
    await settle([a, b])
    [moved] = b.owned
    partition = TopicPartition("t", moved.partition)
    assert await committed(world, partition) == 10 * (moved.partition + 1)
    assert await a.commit(partition, 99) is ErrorCode.FENCED_MEMBER_EPOCH
    assert await b.commit(partition, 30) is ErrorCode.NONE
    old_epoch = a.epoch
    await a.leave()
    assert await a.commit(partition, 99, epoch=old_epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await committed(world, partition) == 30


async def test_kept_partitions_take_commits_of_the_epoch_before(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    await settle([a, b])
    [kept] = a.owned
    assert a.epoch == 2
    assert await a.commit(TopicPartition("t", kept.partition), 1, epoch=1) is ErrorCode.NONE


async def test_commit_paused_between_call_and_write_is_refused_after_the_lease_moved(world: World) -> None:
    """The pause sits after everything that the function checks, right before the conditional write."""
    go = asyncio.Event()

    class Paused:
        def __getattr__(self, name: str) -> Any:
            async def call(*args: Any, **kwargs: Any) -> Any:
                if name == "update":
                    await go.wait()
                return await getattr(world.memory, name)(*args, **kwargs)

            return call

    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    a.offsets = GroupOffsets(Paused(), world.topics, world.clock, world.rng, SETTINGS)  # type: ignore[arg-type]
    late = [asyncio.create_task(a.commit(partition, 99)) for partition in (T0, T1)]
    await asyncio.sleep(0)
    await settle([a, b])
    for partition in b.owned:
        assert await b.commit(TopicPartition("t", partition.partition), 30) is ErrorCode.NONE
    go.set()
    codes = await asyncio.gather(*late)
    assert sorted(codes) == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]
    [moved] = b.owned
    assert await committed(world, TopicPartition("t", moved.partition)) == 30


async def test_a_write_that_arrives_after_its_repeat_is_harmless(world: World) -> None:
    """The first write is lost on the way, repeated, followed by the next commit, and then arrives after all."""
    delayed: list[Any] = []

    class LateOnce:
        def __getattr__(self, name: str) -> Any:
            async def call(*args: Any, **kwargs: Any) -> Any:
                if name == "update" and not delayed:
                    delayed.append(args[0])
                    raise OutcomeUnknown("timed out")
                return await getattr(world.memory, name)(*args, **kwargs)

            return call

    a = world.member("a", "t")
    await a.beat()
    a.offsets = GroupOffsets(LateOnce(), world.topics, world.clock, world.rng, SETTINGS)  # type: ignore[arg-type]
    assert await a.commit(T0, 10) is ErrorCode.NONE
    assert await a.commit(T0, 20) is ErrorCode.NONE
    with pytest.raises(Exception, match="condition failed"):
        await world.memory.update(delayed[0])
    assert await committed(world) == 20


async def test_a_machine_whose_clock_is_behind_commits_all_the_same(world: World) -> None:
    a = world.member("a", "t")
    await a.beat()
    assert await a.commit(T0, 10) is ErrorCode.NONE
    behind = SkewedClock(world.clock, -3_600_000)
    a.offsets = GroupOffsets(world.memory, world.topics, behind, world.rng, Settings())
    assert await a.commit(T0, 11) is ErrorCode.NONE
    assert await committed(world) == 11


async def test_offsets_of_a_deleted_topic_are_gone_even_if_its_name_returns(world: World) -> None:
    await world.offsets.commit("g", {T0: OffsetAndMetadata(5)})
    await world.topics.delete("t")
    assert await world.offsets.fetch("g", None) == []
    await world.create("t", 2)
    assert await committed(world) is None
