"""Offsets of several partitions of one head are one item: each has its own verdict, and its own leader epoch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from odradek.errors import ErrorCode
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

from tests.support.clients.group_member import World, settle

T = [TopicPartition("t", number) for number in range(4)]


@pytest.fixture
async def world() -> World:
    world = World()
    await world.create("t", 4)
    return world


async def committed(world: World, partitions: Sequence[TopicPartition] = T) -> list[tuple[int, int, str] | None]:
    results = await world.offsets.fetch("g", partitions)
    return [
        None
        if result.committed is None
        else (result.committed.offset, result.committed.leader_epoch, result.committed.metadata)
        for result in results
    ]


@pytest.mark.parametrize("first", [OffsetAndMetadata(3, 5, "a"), OffsetAndMetadata(3, 0, ""), OffsetAndMetadata(3)])
@pytest.mark.parametrize("second", [OffsetAndMetadata(4), OffsetAndMetadata(4, 7), OffsetAndMetadata(4, -1, "b")])
async def test_a_later_commit_replaces_all_of_the_one_before(
    first: OffsetAndMetadata, second: OffsetAndMetadata, world: World
) -> None:
    """A leader epoch or a text that the later one does not have is removed, not kept from before."""
    assert not any(result.error for result in await world.offsets.commit("g", dict.fromkeys(T, first)))
    assert not any(result.error for result in await world.offsets.commit("g", {T[1]: second, T[2]: second}))
    was = (first.offset, first.leader_epoch, first.metadata)
    becomes = (second.offset, second.leader_epoch, second.metadata)
    assert await committed(world) == [was, becomes, becomes, was]


async def test_of_several_offsets_in_one_item_the_refused_one_alone_is_not_committed(world: World) -> None:
    """A member commits what it owns; one partition has gone to another member meanwhile."""
    one = world.member("a", "t", group_id="g")
    await settle([one, world.member("b", "t", group_id="g")])
    owned = {lease.partition for lease in one.owned}
    lost = [tp for tp in T if tp.partition not in owned]
    assert len(lost) == 2, "the members share the partitions"
    results = await world.offsets.commit(
        "g",
        {tp: OffsetAndMetadata(9, 2) for tp in T},
        member_id=one.member_id,
        member_epoch=one.epoch,
    )
    refused = [result.partition for result in results if result.error is not ErrorCode.NONE]
    assert sorted(refused) == lost
    assert await committed(world) == [None if tp in lost else (9, 2, "") for tp in T]
