"""Joining, living on, leaving: what a KIP-848 client sees, over the real engine and the memory table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from odradek.errors import ConditionFailed, ErrorCode
from odradek.model.group import GroupHeartbeat
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.ports.table import Put
from odradek.testing import SeededRng

from tests.support.clients.group_member import SETTINGS, Member, SkewedClock, World, settle

T0 = TopicPartition("t", 0)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.create("t", 6)
    return world


async def test_first_member_owns_everything_at_once(world: World) -> None:
    member = world.member("a", "t")
    assert await member.beat() is ErrorCode.NONE
    assert len(member.owned) == 6
    assert member.epoch == 1
    assert member.interval_ms == SETTINGS.group_heartbeat_interval_ms


async def test_server_makes_a_member_id(world: World) -> None:
    member = world.member("", "t")
    await member.beat()
    assert len(member.member_id) == 22
    assert await member.beat() is ErrorCode.NONE


async def test_revoke_comes_before_grant(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    await b.beat()
    assert not b.owned
    assert b.interval_ms < SETTINGS.group_heartbeat_interval_ms, "who waits is asked back soon"
    everything = a.owned
    await a.beat(keep=everything)  # it is told, but its application holds on
    assert len(a.wanted) == 3
    assert a.epoch == 1, "it owes partitions, so its epoch stays"
    await b.beat()
    assert not b.owned
    a.owned = a.wanted
    await a.beat()
    assert a.epoch == 2
    await b.beat()
    assert len(b.owned) == 3
    assert not a.owned & b.owned


async def test_members_come_and_go_with_few_moves(world: World) -> None:
    members = [world.member(name, "t") for name in "abc"]
    await settle(members)
    assert sorted(len(member.owned) for member in members) == [2, 2, 2]
    before = {member.member_id: member.owned for member in members}
    assert await members[2].leave() is ErrorCode.NONE
    await settle(members[:2])
    for member in members[:2]:
        assert before[member.member_id] < member.owned
    assert members[0].owned | members[1].owned == before["a"] | before["b"] | before["c"]


async def test_new_partitions_and_topics_are_noticed(world: World) -> None:
    named, pattern = world.member("a", "t", "later"), world.member("b", regex="la.*")
    await settle([named, pattern])
    assert len(named.owned) == 6
    await world.topics.create_partitions("t", 8)
    await world.create("later", 2)
    await world.clock.sleep(2)
    await settle([named, pattern])
    assert len(named.owned | pattern.owned) == 10
    assert len(pattern.owned) == 2, "the pattern's member takes what only it and another can"
    await world.topics.delete("t")
    await world.clock.sleep(2)
    await settle([named, pattern])
    assert len(named.owned | pattern.owned) == 2


async def test_subscription_change_moves_partitions(world: World) -> None:
    await world.create("u", 2)
    member = world.member("a", "t")
    await member.beat()
    member.topics, member.sends_all = ("u",), True
    await settle([member])
    topic = await world.topics.get("u")
    assert topic is not None
    assert member.owned == {PartitionId(topic.topic_id, 0), PartitionId(topic.topic_id, 1)}


async def test_lost_answers_are_repeated_without_harm(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat(lose_answer=True)
    await a.beat()
    assert len(a.owned) == 6
    await b.beat()
    await a.beat()
    await a.beat(lose_answer=True)  # its epoch rose, and it does not know
    assert a.epoch == 1
    assert await a.beat() is ErrorCode.NONE
    assert a.epoch == 2
    await settle([a, b])


async def test_wrong_epochs_are_fenced(world: World) -> None:
    a = world.member("a", "t")
    await settle([a])
    ahead = GroupHeartbeat("g", "a", a.epoch + 1)
    assert (await world.groups.heartbeat(ahead)).error is ErrorCode.FENCED_MEMBER_EPOCH
    b = world.member("b", "t")
    await settle([a, b])
    behind = GroupHeartbeat("g", "a", a.epoch - 1)
    assert (await world.groups.heartbeat(behind)).error is ErrorCode.FENCED_MEMBER_EPOCH
    foreign = {partition.topic_id: [partition.partition] for partition in b.owned}
    claims = replace(behind, owned=foreign)
    assert (await world.groups.heartbeat(claims)).error is ErrorCode.FENCED_MEMBER_EPOCH
    nobody = GroupHeartbeat("g", "nobody", 3)
    assert (await world.groups.heartbeat(nobody)).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "g" * 1000}, ErrorCode.INVALID_GROUP_ID),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 4, "member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "m" * 1000}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "magic"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(a"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
async def test_bad_heartbeats_are_refused_and_leave_no_trace(
    world: World, change: dict[str, object], code: ErrorCode
) -> None:
    good = GroupHeartbeat("g", "a", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], owned={})
    result = await world.groups.heartbeat(replace(good, **change))  # type: ignore[arg-type]
    assert result.error is code
    assert result.message
    assert await world.groups.list() == []


async def test_group_has_a_largest_size() -> None:
    settings = replace(SETTINGS, group_members_max=2)
    world = World(settings=settings)
    await world.create("t", 2)
    await settle([world.member("a", "t"), world.member("b", "t")])
    assert await world.member("c", "t").beat() is ErrorCode.GROUP_MAX_SIZE_REACHED
    await world.clock.sleep(1_000)  # the two have died
    assert await world.member("c", "t").beat() is ErrorCode.NONE


async def test_static_member_keeps_its_partitions_over_a_restart(world: World) -> None:
    a = world.member("a", "t", instance_id="one")
    b = world.member("b", "t", instance_id="two")
    await settle([a, b])
    owned, epoch = a.owned, a.epoch
    assert await world.member("x", "t", instance_id="one").beat() is ErrorCode.UNRELEASED_INSTANCE_ID
    assert await a.leave(-2) is ErrorCode.NONE
    await b.beat()
    assert b.epoch == epoch, "no rebalance while it is away"
    successor = world.member("a2", "t", instance_id="one")
    await successor.beat()
    assert (successor.owned, successor.epoch) == (owned, epoch)
    old = GroupHeartbeat("g", "a", epoch, instance_id="one")
    assert (await world.groups.heartbeat(old)).error is ErrorCode.FENCED_INSTANCE_ID


async def test_static_member_that_died_is_replaced_after_its_session(world: World) -> None:
    await world.member("a", "t", instance_id="one").beat()
    successor = world.member("a2", "t", instance_id="one")
    await world.clock.sleep(0.9 * SETTINGS.group_session_timeout_ms / 1000)
    assert await successor.beat() is ErrorCode.UNRELEASED_INSTANCE_ID
    await world.clock.sleep(0.1 * SETTINGS.group_session_timeout_ms / 1000)
    assert await successor.beat() is ErrorCode.NONE
    assert len(successor.owned) == 6


async def test_a_late_write_of_a_members_former_life_changes_nothing(world: World) -> None:
    kept = _KeepsPuts(world.memory)
    a, b = world.member("a", "t", groups=world.instance(kept, world.clock, world.rng)), world.member("b", "t")
    await a.beat()
    await a.beat()
    [late] = kept.puts
    await a.leave()
    await settle([b])
    await a.beat()  # under the same id: its first write has the version of its first life's
    with pytest.raises(ConditionFailed):
        await world.memory.put(late)
    await settle([a, b])
    assert len(a.owned) == len(b.owned) == 3


class _KeepsPuts:
    """A table that keeps what is put alone, as each heartbeat does that moves nothing."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.puts: list[Put] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def put(self, put: Put) -> None:
        self.puts.append(put)
        await self._table.put(put)


async def test_member_that_owes_for_too_long_is_removed(world: World) -> None:
    a, b = world.member("a", "t", rebalance_timeout_ms=10_000), world.member("b", "t")
    await a.beat()
    await b.beat()
    everything = a.owned
    for _ in range(30):
        await world.clock.sleep(0.9)
        if await a.beat(keep=everything) is not ErrorCode.NONE:
            break
    assert a.epoch == 0
    await settle([b])
    assert len(b.owned) == 6


async def test_crashed_member_is_expired_by_the_others(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await settle([a, b])
    for _ in range(8):
        await world.clock.sleep(5)
        await b.beat()
        assert len(b.owned) == 3, "a session is not over yet"
    for _ in range(8):
        await world.clock.sleep(5)
        await b.beat()
    assert len(b.owned) == 6
    assert await a.beat() is ErrorCode.UNKNOWN_MEMBER_ID


async def test_group_of_the_dead_is_taken_over_soon(world: World) -> None:
    await settle([world.member(name, "t") for name in "abc"])
    await world.clock.sleep(3_600)
    late = world.member("z", "t")
    started_s = world.clock.monotonic()
    while not late.owned and world.clock.monotonic() < started_s + 60:
        await late.beat()
        await world.clock.sleep(late.interval_ms / 1000)
    assert len(late.owned) == 6
    assert world.clock.monotonic() - started_s < SETTINGS.group_session_timeout_ms / 2000


async def test_outage_of_everybody_removes_nobody(world: World) -> None:
    members = [world.member(name, "t") for name in "abc"]
    await settle(members)
    epoch = members[0].epoch
    await world.clock.sleep(80)
    for member in members:
        assert await member.beat() is ErrorCode.NONE
    assert {member.epoch for member in members} == {epoch}


@pytest.mark.parametrize("skew_s", [-7200, 7200])
async def test_a_clock_that_is_off_removes_no_living_member(world: World, skew_s: int) -> None:
    skewed = SkewedClock(world.clock, skew_s * 1000)
    far = world.instance(world.table, skewed, SeededRng(1))
    a, b = world.member("a", "t"), Member(world, "b", ["t"], groups=far)
    await settle([a, b])
    epoch = a.epoch
    for _ in range(60):
        await world.clock.sleep(5)
        assert await a.beat() is ErrorCode.NONE
        assert await b.beat() is ErrorCode.NONE
    assert a.epoch == b.epoch == epoch


async def test_heartbeat_interval_and_session_timeout_are_configurations_of_the_group(world: World) -> None:
    configs = {"consumer.heartbeat.interval.ms": "2000", "consumer.session.timeout.ms": "9000"}
    await world.configs.alter("slow", set=configs)
    first = world.member("a", "t", group_id="slow", instance_id="one")
    await first.beat()
    assert first.interval_ms == 2_000
    successor = world.member("a2", "t", group_id="slow", instance_id="one")
    await world.clock.sleep(8.9)
    assert await successor.beat() is ErrorCode.UNRELEASED_INSTANCE_ID
    await world.clock.sleep(0.2)
    assert await successor.beat() is ErrorCode.NONE
    assert (await world.member("b", "t").beat()) is ErrorCode.NONE
