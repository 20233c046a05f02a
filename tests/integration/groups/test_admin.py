"""List, describe and delete groups."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode
from odradek.model.group import GroupListing
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

from tests.support.clients.group_member import SETTINGS, World, settle

T0 = TopicPartition("t", 0)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.create("t", 2)
    return world


async def test_groups_are_listed_with_their_states(world: World) -> None:
    await world.offsets.commit("simple", {T0: OffsetAndMetadata(1)})
    stable = world.member("a", "t", group_id="stable")
    moving = [world.member("a", "t", group_id="moving"), world.member("b", "t", group_id="moving")]
    left = world.member("a", "t", group_id="groups")
    for member in (stable, *moving, left):
        await member.beat()
    await left.leave()
    listed = await world.groups.list()
    assert listed == [
        GroupListing("groups", "Empty"),
        GroupListing("moving", "Reconciling"),
        GroupListing("simple", "Empty", "classic", ""),
        GroupListing("stable", "Stable"),
    ]
    assert await world.groups.list(states=["stable"]) == [listed[3]]
    assert await world.groups.list(types=["Classic"]) == [listed[2]]


async def test_description_shows_members_and_what_is_on_its_way(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    await b.beat()
    [group, missing] = await world.groups.describe(["g", "nope"])
    assert (group.state, group.group_epoch, group.assignor) == ("Reconciling", 2, "uniform")
    [first, second] = group.members
    [topic_id] = first.assignment
    assert first.assignment[topic_id] == [0, 1]
    assert len(first.target_assignment[topic_id]) == len(second.target_assignment[topic_id]) == 1
    assert not second.assignment
    assert (missing.error, missing.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


async def test_delete_takes_group_and_offsets(world: World) -> None:
    a = world.member("a", "t")
    await a.beat()
    await a.commit(T0, 5)
    assert await world.groups.delete(["g", "nope", ""]) == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("nope", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_GROUP_ID),
    ]
    await a.leave()
    assert await world.groups.delete(["g"]) == [("g", ErrorCode.NONE)]
    assert await world.groups.list() == []
    assert await world.memory.query("g#g") == []
    await settle([world.member("b", "t")])


async def test_delete_of_more_offsets_than_a_transaction_holds(world: World) -> None:
    await world.create("wide", 250)
    offsets = {TopicPartition("wide", number): OffsetAndMetadata(1) for number in range(250)}
    assert {result.error for result in await world.offsets.commit("g", offsets)} == {ErrorCode.NONE}
    assert await world.groups.delete(["g"]) == [("g", ErrorCode.NONE)]
    assert await world.memory.query("g#g") == []


async def test_a_group_of_the_dead_looks_empty_and_can_be_deleted(world: World) -> None:
    a = world.member("a", "t")
    await a.beat()
    await world.clock.sleep(3 * SETTINGS.group_session_timeout_ms / 1000)
    [group] = await world.groups.describe(["g"])
    assert (group.state, group.members) == ("Empty", ())
    assert await world.groups.delete(["g"]) == [("g", ErrorCode.NONE)]
    assert await a.beat() is ErrorCode.UNKNOWN_MEMBER_ID
