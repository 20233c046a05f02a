"""Leases on partitions: one holder an epoch, whatever is lost, late, repeated, paused or skewed."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.engine.leaders.brokers import RegistrationLost
from odradek.engine.partition.claims import Claim
from odradek.engine.partition.head import PartitionHead
from odradek.errors import ErrorCode, KafkaError, StoreUnavailable
from odradek.format.record_batch import decode_batches, parse_header
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.log import EpochEndPartition, FetchPartition
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce, read_all

SESSION_S = 10.0


@pytest.fixture
async def store() -> Store:
    store = memory_store(per_head=1)
    await store.engine().topics.create("t", 2)
    return store


async def partition_of(store: Store) -> PartitionId:
    return PartitionId((await store.engine().topics.resolve("t")).topic_id, 0)


async def head_of(store: Store) -> PartitionHead:
    head = await store.engine().index.read_head(await partition_of(store))
    assert head is not None
    return head


class Skewed(ManualClock):
    """The store's clock, read with an error by one process."""

    def __init__(self, clock: ManualClock, skew_ms: int) -> None:
        self._clock, self._skew_ms = clock, skew_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def process(
    store: Store,
    broker_id: int = FLEET_BROKER_ID,
    *,
    seed: int = 0,
    skew_ms: int = 0,
    tables: Any = None,
    **settings: Any,
) -> Engine:
    return Engine(
        tables=tables or store.tables,
        objects=store.objects,  # type: ignore[arg-type]
        clock=Skewed(store.clock, skew_ms),
        rng=SeededRng(1000 * broker_id + seed),
        settings=Settings(**{"leader_cache_ms": 0, **settings}),
        broker_id=broker_id,
    )


async def gateway(store: Store, broker_id: int, *, seed: int = 0, skew_ms: int = 0, **settings: Any) -> Engine:
    engine = process(store, broker_id, seed=seed, skew_ms=skew_ms, **settings)
    await engine.leaders.register("gateway", 9092)
    return engine


# --- taking -------------------------------------------------------------------------------------------------------


async def test_a_gateway_takes_a_partition_and_the_fleet_is_sent_to_it(store: Store) -> None:
    fleet, one = process(store), await gateway(store, 1)
    await produce(fleet, "t", 0, batch([b"a", b"b"]))
    assert await one.leaders.take(await partition_of(store)) == Claim(1, 1, epoch_start=2)
    refused = await produce(fleet, "t", 0, batch([b"x"]))
    assert (refused.error, refused.current_leader_id, refused.current_leader_epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        1,
        1,
    )
    assert (await produce(one, "t", 0, batch([b"c"]))).base_offset == 2
    assert [r.value for r in await read_all(fleet, "t", 0)] == [b"a", b"b", b"c"], "any function serves any fetch"


async def test_a_gateway_takes_on_its_first_append_and_then_appends_without_a_read(store: Store) -> None:
    one = await gateway(store, 1)
    assert (await produce(one, "t", 0, batch([b"a"]))).base_offset == 0
    assert (await head_of(store)).leader_id == 1
    store.log.calls.clear()
    store.catalog.calls.clear()
    assert (await produce(one, "t", 0, batch([b"b"]))).base_offset == 1
    assert sorted(store.log.calls) == ["put", "update"]
    assert store.catalog.calls == []


async def test_a_gateway_that_did_not_register_leads_nothing(store: Store) -> None:
    stranger = process(store, 1)
    with pytest.raises(KafkaError) as failure:
        await stranger.leaders.take(await partition_of(store))
    assert failure.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await produce(stranger, "t", 0, batch([b"a"]))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await head_of(store)).leader_id == FLEET_BROKER_ID


async def test_a_released_partition_is_the_fleets_at_once(store: Store) -> None:
    fleet, one = process(store), await gateway(store, 1)
    await produce(one, "t", 0, batch([b"a"]))
    await one.leaders.release_all()
    head = await head_of(store)
    assert (head.leader_id, head.leader_epoch, head.epoch_start) == (FLEET_BROKER_ID, 2, 1)
    assert (await produce(fleet, "t", 0, batch([b"b"]))).base_offset == 1
    assert await fleet.brokers.alive() == []
    assert await fleet.brokers.ever()


async def test_a_partition_that_is_gone_is_led_by_nobody(store: Store) -> None:
    one, partition = await gateway(store, 1), await partition_of(store)
    await one.leaders.take(partition)
    await store.engine().topics.delete("t")
    assert await one.leaders.take(partition) is None
    assert one.leaders._claims == {}


# --- the former leader --------------------------------------------------------------------------------------------


async def test_the_fleet_takes_over_when_the_leader_has_gone_silent(store: Store) -> None:
    fleet, one = process(store), await gateway(store, 1)
    await produce(one, "t", 0, batch([b"a"]))
    store.clock.advance(SESSION_S - 0.1)
    assert (await produce(fleet, "t", 0, batch([b"x"]))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    store.clock.advance(0.2)
    assert (await produce(fleet, "t", 0, batch([b"b"]))).base_offset == 1
    head = await head_of(store)
    assert (head.leader_id, head.leader_epoch) == (FLEET_BROKER_ID, 2)


async def test_a_paused_former_leader_cannot_append_with_what_it_sent_before(store: Store) -> None:
    """Its update left for the store, and arrives after the fleet has taken over."""
    fleet, one = process(store), await gateway(store, 1)
    await produce(one, "t", 0, batch([b"a"]))
    updates = store.log.count("update")
    store.log.script |= {("update", updates + 1): Fault.LATE, ("update", updates + 2): Fault.UNAVAILABLE}
    paused = await produce(process_like(one, append_attempts_max=2), "t", 0, batch([b"late"]))
    assert paused.error is ErrorCode.REQUEST_TIMED_OUT, "it may be in the log"
    store.clock.advance(SESSION_S + 1)
    assert (await produce(fleet, "t", 0, batch([b"b"]))).base_offset == 1
    assert await store.log.deliver_late() == 0
    assert [r.value for r in await read_all(fleet, "t", 0)] == [b"a", b"b"]


def process_like(engine: Engine, **settings: Any) -> Engine:
    """The same process with other settings: it knows its registration and what it holds."""
    engine.appender._tools = replace(engine.appender._tools, settings=replace(engine.settings, **settings))
    return engine


async def test_a_former_leader_that_wakes_up_is_refused_and_follows(store: Store) -> None:
    one = await gateway(store, 1)
    await produce(one, "t", 0, batch([b"a"]))
    store.clock.advance(SESSION_S + 1)
    two = await gateway(store, 2)
    assert (await produce(two, "t", 0, batch([b"b"]))).base_offset == 1
    refused = await produce(one, "t", 0, batch([b"x"]))
    assert (refused.error, refused.current_leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert one.leaders._claims == {}
    assert [r.value for r in await read_all(one, "t", 0)] == [b"a", b"b"]


async def test_two_incarnations_of_one_id_never_append_in_one_epoch(store: Store) -> None:
    old = await gateway(store, 1)
    await produce(old, "t", 0, batch([b"a"]))
    store.clock.advance(SESSION_S + 1)
    new = await gateway(store, 1, seed=1)
    assert (await produce(new, "t", 0, batch([b"b"]))).base_offset == 1
    with pytest.raises(RegistrationLost):
        await old.brokers.renew()
    assert (await produce(old, "t", 0, batch([b"x"]))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await head_of(store)).leader_epoch == 2


async def test_a_taking_whose_answer_was_lost_is_not_believed(store: Store) -> None:
    """The epoch may be another incarnation's: the next one is taken instead."""
    one = await gateway(store, 1)
    store.log.script[("update", store.log.count("update") + 1)] = Fault.LOST_ANSWER
    claim = await one.leaders.take(await partition_of(store))
    assert claim is not None
    assert claim.leader_epoch == (await head_of(store)).leader_epoch == 2
    assert [s.epoch for s in (await one.epochs.history(await partition_of(store), await head_of(store))).starts] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("call", ["put", "update"])
async def test_a_taking_that_meets_any_fault_ends_in_one_holder(store: Store, call: str, fault: Fault) -> None:
    one, partition = await gateway(store, 1), await partition_of(store)
    await produce(process(store), "t", 0, batch([b"a"]))
    store.log.script[(call, store.log.count(call) + 1)] = fault
    try:
        claim = await one.leaders.take(partition)
    except StoreUnavailable:
        claim = await one.leaders.take(partition)
    await store.log.deliver_late()
    head = await head_of(store)
    assert claim is not None
    assert (head.leader_id, head.leader_epoch, head.epoch_start) == (1, claim.leader_epoch, 1)
    assert (await produce(one, "t", 0, batch([b"b"]))).base_offset == 1


async def test_a_late_taking_never_turns_the_epoch_back(store: Store) -> None:
    """It arrives when the partition is the fleet's again, as it was when it was sent."""
    one, partition = await gateway(store, 1), await partition_of(store)
    store.log.script[("update", store.log.count("update") + 1)] = Fault.LATE
    await one.leaders.take(partition)
    await one.leaders.release(partition)
    before = await head_of(store)
    assert (before.leader_id, before.leader_epoch) == (FLEET_BROKER_ID, 2)
    assert await store.log.deliver_late() == 0
    assert await head_of(store) == before


async def test_the_fleet_says_that_it_does_not_know_when_its_lost_attempt_may_come_back(store: Store) -> None:
    """Refused because a gateway leads now; but the first attempt may arrive once the fleet leads again."""
    fleet, one = process(store), await gateway(store, 1)
    updates = store.log.count("update")
    store.log.script[("update", updates + 1)] = Fault.LATE

    original = store.clock.sleep

    async def taken(seconds: float) -> None:
        store.clock.sleep = original  # type: ignore[method-assign]
        await one.leaders.take(await partition_of(store))

    store.clock.sleep = taken  # type: ignore[method-assign]
    result = await produce(fleet, "t", 0, batch([b"a"]))
    assert result.error is ErrorCode.REQUEST_TIMED_OUT
    assert not result.error.has_no_side_effects
    await one.leaders.release_all()
    assert await store.log.deliver_late() == 1, "it is applied after all"


# --- races --------------------------------------------------------------------------------------------------------


class Turns:
    """Lets one table call at a time through, in the order of a schedule of names; afterwards all."""

    def __init__(self, schedule: tuple[str, ...]) -> None:
        self._schedule = list(schedule)
        self._changed = asyncio.Condition()
        self._done: set[str] = set()

    async def wait(self, name: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._left() or self._left()[0] == name)
            if self._left():
                self._schedule.pop(0)
            self._changed.notify_all()

    async def end(self, name: str) -> None:
        async with self._changed:
            self._done.add(name)
            self._changed.notify_all()

    def _left(self) -> list[str]:
        while self._schedule and self._schedule[0] in self._done:
            self._schedule.pop(0)
        return self._schedule


class TakingTurns:
    """A table whose calls wait for their turn."""

    def __init__(self, table: Any, turns: Turns, name: str) -> None:
        self._table, self._turns, self._name = table, turns, name

    def __getattr__(self, method: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._turns.wait(self._name)
            return await getattr(self._table, method)(*args, **kwargs)

        return call


class TurnTables:
    def __init__(self, store: Store, turns: Turns, name: str) -> None:
        self.log: Any = TakingTurns(store.tables.log, turns, name)
        self.catalog: Any = TakingTurns(store.tables.catalog, turns, name)
        self.groups: Any = store.tables.groups


# A taking is a read of the head, the put of the row, the update; the loser looks again and asks the registry.
SCHEDULES = sorted(set(itertools.permutations("aaaabbbb")))


@pytest.mark.parametrize("ids", [(1, 2), (1, 1)], ids=["two brokers", "two incarnations"])
async def test_two_takers_of_one_partition_end_in_one_holder_an_epoch(ids: tuple[int, int]) -> None:
    """Every interleaving of their calls."""
    for schedule in SCHEDULES:
        store = memory_store(per_head=1)
        await store.engine().topics.create("t", 1)
        partition = await partition_of(store)
        turns = Turns(schedule)
        takers = {
            name: process(store, broker_id, seed=seed, tables=TurnTables(store, turns, name))
            for seed, (name, broker_id) in enumerate(zip("ab", ids, strict=True))
        }
        for broker_id, name in zip(ids, "ab", strict=True):
            alone = await gateway(store, broker_id) if broker_id not in ids[: "ab".index(name)] else None
            takers[name].brokers.own = alone.brokers.own if alone else takers["a"].brokers.own

        async def take(name: str, engine: Engine, turns: Turns = turns, partition: PartitionId = partition) -> Any:
            claim = await engine.leaders.take(partition)
            await turns.end(name)
            return claim

        claims = await asyncio.gather(*(take(name, engine) for name, engine in takers.items()))
        head = await head_of(store)
        held = [claim for claim in claims if claim is not None]
        assert len({claim.leader_epoch for claim in held}) == len(held), schedule
        assert sum(claim.holds(head) for claim in held) == 1, schedule
        if len(set(ids)) == 2:
            assert len(held) == 1, "the other one is alive: follow it"


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
async def test_clocks_an_hour_apart_never_give_two_leaders_in_one_epoch(store: Store, skew_ms: int) -> None:
    """A gateway whose clock is right, functions whose clock is not; each append tells under which epoch it went."""
    one = await gateway(store, 1)
    fleet = process(store, skew_ms=skew_ms)
    partition = await partition_of(store)
    written: list[tuple[bytes, int, int]] = []
    renewing = True
    for second in range(40):
        if second == 20:
            renewing = False  # the gateway dies silently
        if renewing and second % 3 == 0:
            await one.brokers.renew()
        for name, engine in ((b"g", one), (b"f", fleet)):
            if name == b"g" and not renewing:
                continue
            result = await produce(engine, "t", 0, batch([name + b"%d" % second]))
            if not result.error:
                written.append((name, result.base_offset, (await head_of(store)).leader_epoch))
        store.clock.advance(1.0)
    by_epoch: dict[int, set[bytes]] = {}
    for name, _, epoch in written:
        by_epoch.setdefault(epoch, set()).add(name)
    assert all(len(names) == 1 for names in by_epoch.values()), by_epoch
    assert [offset for _, offset, _ in written] == list(range(len(written)))
    assert any(name == b"g" for name, _, _ in written[3:20]), "a living gateway goes on although the clocks disagree"
    assert written[-1][0] == b"f", "a dead one is replaced although they do"
    history = await fleet.epochs.history(partition, await head_of(store))
    assert [history.at(offset) for _, offset, _ in written] == [epoch for _, _, epoch in written]


# --- registration -------------------------------------------------------------------------------------------------


async def test_an_id_that_is_alive_is_not_given_to_another_process(store: Store) -> None:
    one = await gateway(store, 1)
    with pytest.raises(KafkaError) as failure:
        await gateway(store, 1, seed=1)
    assert failure.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    await one.brokers.release()
    assert (await gateway(store, 1, seed=1)).brokers.own is not None


@pytest.mark.parametrize("broker_id", [FLEET_BROKER_ID, -1, 2**31])
async def test_an_id_that_is_no_gateways_is_refused(store: Store, broker_id: int) -> None:
    with pytest.raises(KafkaError) as failure:
        await gateway(store, broker_id)
    assert failure.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_registration_that_meets_any_fault_is_made_once(store: Store, fault: Fault) -> None:
    store.catalog.script[("put", store.catalog.count("put") + 1)] = fault
    one = await gateway(store, 1)
    await store.catalog.deliver_late()
    await one.brokers.renew()
    [registered] = await process(store).brokers.alive()
    assert registered.incarnation == one.brokers.own.incarnation  # type: ignore[union-attr]


async def test_a_renewed_registration_outlives_its_session_and_what_the_store_refuses(store: Store) -> None:
    one, fleet = await gateway(store, 1), process(store)
    await produce(one, "t", 0, batch([b"a"]))
    store.catalog.script[("update", 2)] = Fault.UNAVAILABLE
    store.catalog.script[("update", 4)] = Fault.LOST_ANSWER
    renewal = asyncio.create_task(one.leaders.run_renewal())
    for _ in range(200):  # each turn of the loop is one renewal: the clock moves by itself
        await asyncio.sleep(0)
    assert store.clock.monotonic() > 3 * SESSION_S
    assert (await produce(fleet, "t", 0, batch([b"x"]))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    renewal.cancel()
    await asyncio.gather(renewal, return_exceptions=True)


async def test_a_gateway_that_lost_its_id_ends(store: Store) -> None:
    one = await gateway(store, 1)
    await produce(one, "t", 0, batch([b"a"]))
    store.clock.advance(SESSION_S + 1)
    await gateway(store, 1, seed=1)
    with pytest.raises(RegistrationLost):
        await one.leaders.run_renewal()
    assert one.leaders._claims == {}


# --- epochs -------------------------------------------------------------------------------------------------------


async def write_three_epochs(store: Store) -> Engine:
    """Offsets 0-1 under epoch 0, 2-4 under 1 (a gateway), 5 under 2."""
    fleet, one = process(store), await gateway(store, 1)
    await produce(fleet, "t", 0, batch([b"a", b"b"]))
    await produce(one, "t", 0, batch([b"c", b"d", b"e"]))
    await one.leaders.release_all()
    await produce(fleet, "t", 0, batch([b"f"]))
    return fleet


async def fetched(engine: Engine) -> bytes:
    [result] = await engine.fetch([FetchPartition("t", 0, 0)])
    return b"".join(bytes(part) for part in result.records)


def epochs_of(data: bytes) -> list[tuple[int, int]]:
    """(base offset, leader epoch) of each batch."""
    epochs, position = [], 0
    while position < len(data):
        header = parse_header(data, position)
        epochs.append((header.base_offset, header.partition_leader_epoch))
        position += header.size_bytes
    return epochs


async def test_a_fetched_batch_carries_the_epoch_under_which_it_was_written(store: Store) -> None:
    data = await fetched(await write_three_epochs(store))
    assert epochs_of(data) == [(0, 0), (2, 1), (5, 2)]
    assert len(list(decode_batches(data))) == 6


async def test_a_merge_keeps_the_epoch_under_which_a_batch_was_written(store: Store) -> None:
    await write_three_epochs(store)
    crowded = process(store, seed=1, head_bytes_max=300, spill_entries=1, merge_rows_min=1)
    for _ in range(6):
        await produce(crowded, "t", 0, batch([b"later"]))
    before = await fetched(crowded)
    store.clock.advance(61)
    assert (await crowded.maintenance.run()).done["segments_merged"]
    after = await fetched(process(store, seed=2))
    assert epochs_of(after)[:4] == [(0, 0), (2, 1), (5, 2), (6, 2)]
    assert before.startswith(after)


async def test_the_history_is_read_once(store: Store) -> None:
    fleet = await write_three_epochs(store)
    store.log.calls.clear()
    for _ in range(3):
        await fleet.fetch([FetchPartition("t", 0, 0)])
    assert store.log.count("query") == 1
    store.log.calls.clear()
    await process(store).fetch([FetchPartition("t", 0, 5)])
    assert store.log.count("query") == 0, "the head tells the present epoch's start"


async def test_where_epochs_end(store: Store) -> None:
    fleet = await write_three_epochs(store)
    epochs_asked = [EpochEndPartition("t", 0, epoch) for epoch in range(4)]
    answers = await fleet.epoch_end_offsets(epochs_asked)
    assert [(a.error, a.leader_epoch, a.end_offset) for a in answers] == [(0, 0, 2), (0, 1, 5), (0, 2, 6), (0, -1, -1)]


async def test_epochs_of_partitions_and_clients_that_are_wrong(store: Store) -> None:
    fleet = await write_three_epochs(store)
    answers = await fleet.epoch_end_offsets(
        [
            EpochEndPartition("t", 0, 0, current_leader_epoch=1),
            EpochEndPartition("t", 0, 0, current_leader_epoch=3),
            EpochEndPartition("t", 9, 0),
            EpochEndPartition("nothing", 0, 0),
        ]
    )
    assert [a.error for a in answers] == [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert {(a.leader_epoch, a.end_offset) for a in answers} == {(-1, -1)}
