"""A group member as a client library behaves, and a table whose calls a test can hold, fail and count."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryTable
from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.configs import GroupConfigs
from odradek.engine.groups.groups import Groups
from odradek.engine.groups.growth_holds import GrowthHolds
from odradek.engine.offsets.offsets import GroupOffsets
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.share.groups import ShareGroups
from odradek.engine.tools import Tools
from odradek.errors import ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.model.group import GroupHeartbeat, GroupHeartbeatResult
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.ports.rng import Rng
from odradek.settings import Settings
from odradek.testing import ManualClock, SeededRng

SETTINGS = Settings(catalog_cache_ms=1_000, group_assignment_interval_ms=0)  # a target is computed at once
PATIENT = replace(SETTINGS, group_assignment_interval_ms=1_000)
LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}


class CountingTable:
    """Forwards to a table and lists the names of the calls."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            return await getattr(self.table, name)(*args, **kwargs)

        return call


class UnreliableTable:
    """Holds every call until the scheduler lets it go, and loses some: before, after, or told as not applied."""

    def __init__(self, table: Any, scheduler: Scheduler, *, fault_rate: float = 0.0) -> None:
        self._table = table
        self._scheduler = scheduler
        self.fault_rate = fault_rate

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._scheduler.turn()
            chance = self._scheduler.random.random() if self._scheduler.faults else 1.0
            if chance < self.fault_rate:
                raise StoreUnavailable("thrown by the test")
            is_write = name in ("put", "update", "delete", "transact")
            if is_write and chance < 2 * self.fault_rate:
                raise OutcomeUnknown("lost before it was applied")
            result = await getattr(self._table, name)(*args, **kwargs)
            if is_write and chance < 3 * self.fault_rate:
                raise OutcomeUnknown("lost after it was applied")
            return result

        return call


class Scheduler:
    """Lets one held call go at a time, chosen by a seeded chance; time passes when it says so."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.random = random.Random(seed)
        self.clock = clock
        self.faults = True
        self._held: list[asyncio.Future[None]] = []

    async def turn(self) -> None:
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.append(held)
        await held

    async def run(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Run until the tasks are done; those of earlier runs go on as well."""
        waiting = set(tasks)
        while waiting:
            await self._settle()
            waiting = {task for task in waiting if not task.done()}
            if not waiting:
                return
            if self._held and self.random.random() < 0.95:
                held = self._held.pop(self.random.randrange(len(self._held)))
                if not held.done():
                    held.set_result(None)
            else:
                self.clock.advance(self.random.choice((0.001, 0.01, 0.2)))

    async def _settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)


class SkewedClock:
    """A machine's clock that is off by a fixed time."""

    def __init__(self, clock: ManualClock, skew_ms: int) -> None:
        self._clock = clock
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@dataclass
class GroupsAlone:
    """Tables of which only the groups' is there: no share group is deleted."""

    groups: Any


class World:
    """One store, one catalog, and any number of function instances over them."""

    def __init__(self, *, clock: ManualClock | None = None, settings: Settings = SETTINGS, table: Any = None) -> None:
        self.clock = clock or ManualClock(auto_advance=True)
        self.settings = settings
        self.memory = MemoryTable()
        self.table = CountingTable(table or self.memory)
        self.catalog = CountingTable(MemoryTable())
        self.rng = SeededRng(7)
        # The catalog answers at once, so its clock may run by itself.
        self.index = PartitionIndex(MemoryTable(), settings)
        self.topics = Topics(self.catalog, self.index, self.clock, self.rng, settings)
        self.configs = GroupConfigs(self.catalog, self.clock, self.rng, settings)  # type: ignore[arg-type]
        self.groups = self.instance(self.table, self.clock, self.rng)
        self.offsets = GroupOffsets(self.table, self.topics, self.clock, self.rng, settings)

    def instance(self, table: Any, clock: Any, rng: Rng) -> Groups:
        """A function instance over this world's topics and configurations."""
        tables: Any = GroupsAlone(table)
        tools = Tools(tables, MemoryObjectStore(clock), clock, rng, self.settings)
        share = ShareGroups(tools, self.topics, self.configs)
        holds = GrowthHolds(tools, self.topics, self.index)
        return Groups(tools, self.topics, self.configs, holds, share.delete_items)

    async def create(self, name: str, partition_count: int) -> None:
        await self.topics.create(name, partition_count)

    def member(self, member_id: str, *topics: str, group_id: str = "g", **options: Any) -> Member:
        return Member(self, member_id, topics, group_id=group_id, **options)


class Member:
    """Speaks KIP-848: sends what changed, drops what it was told to drop, joins again when fenced."""

    def __init__(
        self,
        world: World,
        member_id: str,
        topics: Iterable[str],
        *,
        group_id: str = "g",
        groups: Groups | None = None,
        offsets: GroupOffsets | None = None,
        **options: Any,
    ) -> None:
        self.world = world
        self.group_id = group_id
        self.member_id = member_id
        self.topics = tuple(topics)
        self.options = options
        self.groups = groups or world.groups
        self.offsets = offsets or world.offsets
        self.epoch = 0
        self.owned: frozenset[PartitionId] = frozenset()
        self.wanted: frozenset[PartitionId] = frozenset()  # the last assignment answered
        self.sends_all = True  # join, or the last answer was lost
        self.reported: frozenset[PartitionId] | None = None
        self.beats = 0
        self.interval_ms = 0

    async def beat(self, *, lose_answer: bool = False, keep: frozenset[PartitionId] = frozenset()) -> ErrorCode:
        """One heartbeat. `keep`: partitions that the application does not let go of yet."""
        joins = self.epoch == 0
        says_owned = joins or self.sends_all or self.owned != self.reported
        full = joins or self.sends_all
        request = GroupHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=self.options.get("rebalance_timeout_ms", 60_000) if full else -1,
            instance_id=self.options.get("instance_id"),
            subscribed_topic_names=list(self.topics) if full and "regex" not in self.options else None,
            subscribed_topic_regex=self.options.get("regex") if full else None,
            server_assignor=self.options.get("assignor") if full else None,
            owned=_by_topic(self.owned) if says_owned else None,
        )
        self.sends_all = True
        result = await self.groups.heartbeat(request)
        self.beats += 1
        if lose_answer:
            return result.error
        if result.error in LOST:
            self.forget()
        elif result.error is ErrorCode.NONE:
            self.sends_all = False
            self.reported = self.owned if says_owned else self.reported
            self._take(result, keep)
        return result.error

    def forget(self) -> None:
        """Give up everything, as after a fence."""
        self.epoch, self.owned, self.wanted, self.sends_all = 0, frozenset(), frozenset(), True

    async def leave(self, epoch: int = -1) -> ErrorCode:
        result = await self.groups.heartbeat(
            GroupHeartbeat(self.group_id, self.member_id, epoch, instance_id=self.options.get("instance_id"))
        )
        self.forget()
        return result.error

    async def commit(
        self, partition: TopicPartition, offset: int, epoch: int | None = None, metadata: str = ""
    ) -> ErrorCode:
        [result] = await self.offsets.commit(
            self.group_id,
            {partition: OffsetAndMetadata(offset, metadata=metadata or self.member_id)},
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
        )
        return result.error

    def _take(self, result: GroupHeartbeatResult, keep: frozenset[PartitionId]) -> None:
        assert result.member_id is not None
        self.member_id, self.epoch = result.member_id, result.member_epoch
        self.interval_ms = result.heartbeat_interval_ms
        if result.assignment is not None:
            self.wanted = frozenset(
                PartitionId(topic_id, number) for topic_id, numbers in result.assignment.items() for number in numbers
            )
        self.owned = self.wanted | (self.owned & keep)


async def settle(members: Iterable[Member], *, rounds: int = 12) -> int:
    """Beat in turn until a whole round changes nothing; the number of rounds that it took."""
    members = list(members)
    for done in range(rounds):
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            await member.beat()
        await members[0].world.clock.sleep(members[0].world.settings.group_assignment_interval_ms / 1000)
        if before == [(member.epoch, member.owned) for member in members] and len({m.epoch for m in members}) == 1:
            return done
    raise AssertionError(f"not settled after {rounds} rounds")


async def failure_code(call: Awaitable[Any]) -> ErrorCode:
    """The code of the KafkaError that the call raises."""
    try:
        await call
    except KafkaError as error:
        return error.code
    raise AssertionError("nothing was raised")


def _by_topic(partitions: Iterable[PartitionId]) -> dict[Any, list[int]]:
    numbers: dict[Any, list[int]] = {}
    for topic_id, number in sorted(partitions):
        numbers.setdefault(topic_id, []).append(number)
    return numbers
