"""A target stands for the assignment interval (KIP-1263): who starts together is assigned together, and nobody is
forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from odradek.adapters.memory import MemoryTable
from odradek.engine.groups.configs import ASSIGNMENT_INTERVAL
from odradek.engine.groups.decisions import Circumstances, decide_heartbeat
from odradek.errors import ErrorCode, KafkaError, TransactionCanceled
from odradek.model.group import LEAVE_EPOCH, GroupDescription, GroupHeartbeat
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.ports.meter import Usage
from odradek.ports.table import Put
from odradek.testing import ManualClock, SeededRng

from tests.support.clients.group_member import PATIENT, Member, Scheduler, SkewedClock, UnreliableTable, World, settle

INTERVAL_S = PATIENT.group_assignment_interval_ms / 1000


class CountingMeter:
    """Adds up the billable units of all calls."""

    def __init__(self) -> None:
        self.used = Usage()

    def add(self, operation: str, usage: Usage) -> None:
        self.used += usage


@pytest.fixture
async def world() -> World:
    world = World(settings=PATIENT)
    await world.create("t", 6)
    return world


async def described(world: World) -> GroupDescription:
    [group] = await world.groups.describe(["g"])
    return group


class Start:
    """So many members of one group start at once, each in a function instance of its own, and live as clients do."""

    def __init__(self, seed: int, members: int, partitions: int) -> None:
        self.clock = ManualClock()
        self.scheduler = Scheduler(seed, self.clock)
        self.meter = CountingMeter()
        self.partitions = partitions
        self.world = World(clock=self.clock, settings=PATIENT, table=MemoryTable(self.meter))
        table = UnreliableTable(self.world.table, self.scheduler)
        self.members = [
            Member(self.world, f"m{n:02}", ["t"], groups=self.world.instance(table, self.clock, SeededRng(n)))
            for n in range(members)
        ]

    async def run(self) -> None:
        await self.world.create("t", self.partitions)
        await self.scheduler.run([asyncio.create_task(self._live(member)) for member in self.members])

    async def _live(self, member: Member) -> None:
        while not self._is_settled():
            assert member.beats < 50, "it does not come to rest"
            before = member.owned
            await member.beat()
            if member.owned == before:  # else it says at once what it owns now
                await self.clock.sleep(member.interval_ms / 1000)

    def _is_settled(self) -> bool:
        return all(len(member.owned) == self.partitions // len(self.members) for member in self.members)


@pytest.mark.parametrize("seed", range(3))
async def test_24_members_over_96_partitions_join_for_1200_write_units(seed: int) -> None:
    """The first one must get all 96 leases at once and give 92 back: 750 units. A join is 4, a heartbeat 1."""
    start = Start(seed, 24, 96)
    await start.run()
    assert start.meter.used.table_write_units <= 1_200
    assert (await described(start.world)).group_epoch <= 3, "not a target a member"
    assert sum(member.beats for member in start.members) <= 24 * 7


async def test_who_comes_alone_does_not_wait(world: World) -> None:
    first = world.member("a", "t")
    await first.beat()
    assert len(first.owned) == 6
    await first.leave()
    second = world.member("b", "t")
    await second.beat()
    assert len(second.owned) == 6, "the interval has not passed, but nobody else is there"
    assert (await described(world)).state == "Stable"


async def test_who_joins_in_the_interval_waits_and_a_mere_heartbeat_makes_the_target(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    await world.clock.sleep(0.2)
    await b.beat()
    assert (b.epoch, b.owned) == (1, frozenset())
    assert b.interval_ms <= PATIENT.group_assignment_interval_ms, "it is asked back when its turn may have come"
    await a.beat()
    assert a.interval_ms <= PATIENT.group_assignment_interval_ms
    waiting = await described(world)
    assert (waiting.state, waiting.group_epoch, waiting.assignment_epoch) == ("Assigning", 2, 1)
    await world.clock.sleep(INTERVAL_S)
    await a.beat()
    assert len(a.owned) == 3, "nobody joined or left since: the heartbeat saw for itself that a target was due"
    await a.beat()
    await b.beat()
    assert (len(b.owned), b.epoch) == (3, 2)
    assert (await described(world)).state == "Stable"
    await world.clock.sleep(2 * INTERVAL_S)
    await a.beat()
    assert a.interval_ms == PATIENT.group_heartbeat_interval_ms


async def test_a_heartbeat_that_waits_writes_its_member_alone(world: World) -> None:
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    await b.beat()
    world.table.calls.clear()
    await a.beat()
    await b.beat()
    assert world.table.calls == ["query", "put"] * 2


async def test_who_remains_alone_takes_everything_at_once(world: World) -> None:
    members = [world.member(name, "t") for name in "abc"]
    await settle(members)
    await members[2].leave()
    await members[1].leave()
    assert (await described(world)).state == "Assigning"
    await members[0].beat()
    assert len(members[0].owned) == 6, "it is alone"


async def test_a_member_that_leaves_a_young_target_is_replaced_when_the_interval_is_over(world: World) -> None:
    a, b, c = members = [world.member(name, "t") for name in "abc"]
    await settle(members)
    await world.member("d", "t").beat()  # a new target
    await c.leave()
    young = await described(world)
    await b.beat()
    await a.beat()
    assert (await described(world)).assignment_epoch == young.assignment_epoch
    assert a.interval_ms <= PATIENT.group_assignment_interval_ms
    await world.clock.sleep(INTERVAL_S)
    await a.beat()
    after = await described(world)
    assert after.assignment_epoch == young.assignment_epoch + 1
    shares = [sum(map(len, member.target_assignment.values())) for member in after.members]
    assert shares == [2, 2, 2]


async def test_two_that_leave_at_once_leave_a_group_that_others_may_commit_for(world: World) -> None:
    members = [world.member(name, "t") for name in "ab"]
    await settle(members)
    view = await world.groups._store.read("g")
    around = Circumstances({"t": await world.topics.resolve("t")}, world.clock.now_ms(), b"nonce", PATIENT)
    for name in "ab":  # each sees the other stay, so neither leaves an empty target
        await world.groups._store.write(view, decide_heartbeat(view, GroupHeartbeat("g", name, LEAVE_EPOCH), around))
    assert (await described(world)).state == "Empty"
    [committed] = await world.offsets.commit("g", {TopicPartition("t", 0): OffsetAndMetadata(3)})
    assert committed.error is ErrorCode.NONE
    assert await world.groups.delete(["g"]) == [("g", ErrorCode.NONE)]


async def test_who_subscribes_otherwise_does_not_wait(world: World) -> None:
    await world.create("u", 2)
    a, b = world.member("a", "t"), world.member("b", "t")
    await settle([a, b])
    await world.member("c", "t").beat()  # a new target
    b.topics, b.sends_all = ("u",), True
    await b.beat()
    topic = await world.topics.get("u")
    assert topic is not None
    assert {partition.topic_id for partition in b.wanted} <= {topic.topic_id}, "nothing that it no longer asks for"


async def test_two_processes_of_one_instance_do_not_both_get_in(world: World) -> None:
    await world.member("a", "t").beat()
    view = await world.groups._store.read("g")
    topics = {"t": await world.topics.resolve("t")}
    around = Circumstances(topics, world.clock.now_ms(), b"nonce", PATIENT)
    join = GroupHeartbeat(
        "g", "", 0, instance_id="one", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], owned={}
    )
    first, second = (decide_heartbeat(view, replace(join, member_id=name), around) for name in "xy")
    await world.groups._store.write(view, first)
    with pytest.raises(TransactionCanceled):
        await world.groups._store.write(view, second)


async def test_who_joins_while_the_group_goes_away_joins_the_next_one(world: World) -> None:
    """Joining writes no group, but never into one that was deleted meanwhile."""
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    view = await world.groups._store.read("g")
    around = Circumstances({"t": await world.topics.resolve("t")}, world.clock.now_ms(), b"nonce", PATIENT)
    joining = decide_heartbeat(
        view, GroupHeartbeat("g", "b", 0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], owned={}), around
    )
    assert joining.group is None
    await a.leave()
    assert await world.groups.delete(["g"]) == [("g", ErrorCode.NONE)]
    with pytest.raises(TransactionCanceled):
        await world.groups._store.write(view, joining)
    await b.beat()
    assert len(b.owned) == 6


async def test_a_member_without_its_group_joins_again(world: World) -> None:
    a = world.member("a", "t")
    await a.beat()
    rows = await world.memory.query("g#g", sk_from="m#", sk_to="n")
    await a.leave()
    await world.groups.delete(["g"])
    await world.memory.put(Put(rows[0].key, rows[0].item))
    again = Member(world, "a", ["t"])
    again.epoch, again.sends_all = 1, False
    assert await again.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    await again.beat()
    assert len(again.owned) == 6


async def test_a_clock_that_is_ahead_holds_up_nobody(world: World) -> None:
    far = world.instance(world.table, SkewedClock(world.clock, 3_600_000), SeededRng(1))
    a, b = Member(world, "a", ["t"], groups=far), world.member("b", "t")
    await a.beat()
    await b.beat()
    assert (await described(world)).assignment_epoch == 2


async def test_the_interval_is_a_configuration_of_the_group(world: World) -> None:
    with pytest.raises(KafkaError, match="0 to 15000"):
        await world.configs.alter("g", set={ASSIGNMENT_INTERVAL: "15001"})
    await world.configs.alter("g", set={ASSIGNMENT_INTERVAL: "0"})
    await world.member("a", "t").beat()
    await world.member("b", "t").beat()
    assert (await described(world)).assignment_epoch == 2
    await world.configs.alter("slow", set={ASSIGNMENT_INTERVAL: "3000"})
    one, two = (world.member(name, "t", group_id="slow") for name in "ab")
    await one.beat()
    await two.beat()
    assert two.interval_ms == 3_000
    await world.clock.sleep(2.9)
    await one.beat()
    assert len(one.owned) == 6
    await world.clock.sleep(0.2)
    await one.beat()
    assert len(one.owned) == 3
