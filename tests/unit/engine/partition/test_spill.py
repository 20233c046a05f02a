"""Spills among many writers: one does it, and neither producers at work nor a store that fails keep it from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.engine.partition.head import PartitionHead, head_key
from odradek.engine.partition.spill_decisions import next_forget, oldest_row, who_leaves
from odradek.errors import ConditionFailed, ErrorCode, StoreUnavailable
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Update
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import ManualClock

from tests.support.engine import Store, batch, memory_store, produce, read_all

BIG = b"x" * 5_000  # goes to an object, so that the log table's puts are those of spills
CROWDED = {"head_bytes_max": 400, "spill_entries": 2, "producers_in_head_max": 2}


@pytest.fixture
async def store() -> Store:
    store = memory_store()
    await store.engine().topics.create("t", 1)
    return store


async def partition_of(store: Store) -> PartitionId:
    return PartitionId((await store.engine().topics.resolve("t")).topic_id, 0)


async def head_of(store: Store) -> PartitionHead:
    head = await store.engine().index.read_head(await partition_of(store))
    assert head is not None
    return head


async def test_while_spills_fail_only_a_few_appends_try_one(store: Store) -> None:
    engine = store.engine(spill_entries=4, head_bytes_max=400)
    store.log.calls.clear()
    store.log.script = {("put", n): Fault.UNAVAILABLE for n in range(1, 1_000)}
    for _ in range(200):
        assert not (await produce(engine, "t", 0, batch([BIG]))).error
    assert 5 <= store.log.count("put") <= 9
    store.log.script = {}
    for _ in range(200):
        await produce(engine, "t", 0, batch([BIG]))
    assert len((await head_of(store)).tail) < 12, "it is made up for"
    assert len(await read_all(engine, "t", 0)) == 400


async def test_a_request_of_several_batches_spills_what_it_made_too_long(store: Store) -> None:
    engine = store.engine(spill_entries=4, head_bytes_max=400)
    for _ in range(20):  # no multiple of three is a power of two: the length alone would not show the crossing
        await produce(engine, "t", 0, batch([BIG]) * 3)
    assert len((await head_of(store)).tail) <= 12


async def test_a_row_that_was_begun_when_the_tail_was_short_does_not_leave_it_long(store: Store) -> None:
    """A spiller wrote its row and died; others came to spill, found the small row, and the tail grew on."""
    engine, crowded = store.engine(spill_entries=2, head_bytes_max=400), store.engine(1, head_bytes_max=100_000)
    partition = await partition_of(store)
    for _ in range(4):
        await produce(crowded, "t", 0, batch([BIG]))
    store.log.calls.clear()
    store.log.script = {("update", 1): Fault.UNAVAILABLE}
    with pytest.raises(StoreUnavailable):
        await engine.index.spill(partition, await head_of(store))
    for _ in range(60):
        await produce(crowded, "t", 0, batch([BIG]))
    await engine.index.spill(partition, await head_of(store))
    assert len((await head_of(store)).tail) == 1
    assert len(await read_all(engine, "t", 0)) == 64


async def test_a_producer_that_writes_while_it_is_evicted_stays_and_the_others_leave(store: Store) -> None:
    engine = store.engine(head_bytes_max=10_000, producers_in_head_max=2)
    for producer_id in range(12):
        await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
    head_before = await head_of(store)
    await produce(engine, "t", 0, batch([b"x"], producer=(0, 0, 1)))
    await store.engine(**CROWDED).index.spill(await partition_of(store), head_before)
    head = await head_of(store)
    assert len(head.tail) == 1, "the spill is not lost for one of them"
    assert 0 in head.producers
    assert head.evictions == 9
    for producer_id in range(12):
        sequence = 2 if producer_id == 0 else 1
        again = await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, sequence - 1)))
        assert (again.error, again.base_offset) == (ErrorCode.NONE, 12 if producer_id == 0 else producer_id)
        assert not (await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, sequence)))).error


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER])
async def test_a_producer_whose_row_cannot_be_written_stays_and_the_spill_goes_on(store: Store, fault: Fault) -> None:
    engine = store.engine(head_bytes_max=10_000)
    for producer_id in range(12):
        await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
    store.log.calls.clear()
    store.log.script = {("put", n): fault for n in (3, 5)}  # the first is the index row
    await store.engine(**CROWDED).index.spill(await partition_of(store), await head_of(store))
    store.log.script = {}
    head = await head_of(store)
    assert head.tail == ()
    assert (len(head.producers), head.evictions) == (4, 8)
    for producer_id in range(12):
        again = await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
        assert (again.error, again.base_offset) == (ErrorCode.NONE, producer_id)


async def test_a_spiller_that_saw_less_than_the_row_holds_leaves_the_forgetting_to_others(store: Store) -> None:
    """It knows nothing of the row's other batches: their duplicates would no longer be answered with their offsets."""
    engine = store.engine(head_bytes_max=100_000)
    partition = await partition_of(store)
    for sequence in range(3):
        await produce(engine, "t", 0, batch([BIG], producer=(7, 0, sequence)))
    head_before = await head_of(store)
    for sequence in range(3, 6):
        await produce(engine, "t", 0, batch([BIG], producer=(7, 0, sequence)))
    spiller = store.engine(spill_entries=2, head_bytes_max=400)
    store.log.calls.clear()
    store.log.script = {("update", 1): Fault.UNAVAILABLE}
    with pytest.raises(StoreUnavailable):
        await spiller.index.spill(partition, await head_of(store))
    store.log.script = {}
    await spiller.index.spill(partition, head_before)
    for sequence in range(1, 6):
        again = await produce(engine, "t", 0, batch([BIG], producer=(7, 0, sequence)))
        assert (again.error, again.base_offset) == (ErrorCode.NONE, sequence)


async def test_a_producer_that_goes_on_under_a_new_epoch_while_it_is_evicted_stays(store: Store) -> None:
    """Its next sequence is what it was."""
    engine = store.engine(head_bytes_max=10_000, producers_in_head_max=2)
    for producer_id in range(12):
        await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
    head_before = await head_of(store)
    await produce(engine, "t", 0, batch([b"x"], producer=(0, 1, 0)))
    await store.engine(**CROWDED).index.spill(await partition_of(store), head_before)
    assert 0 in (await head_of(store)).producers
    again = await produce(engine, "t", 0, batch([b"x"], producer=(0, 1, 0)))
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 12)


async def test_an_eviction_that_comes_late_leaves_the_row_of_a_later_one(store: Store) -> None:
    engine = store.engine(spill_entries=12, head_bytes_max=400, producers_in_head_max=100)
    partition = await partition_of(store)
    for producer_id in range(12):
        await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
    await engine.index.spill(partition, await head_of(store))
    head_before = await head_of(store)
    assert (head_before.tail, len(head_before.producers)) == ((), 12)
    roomy = store.engine(head_bytes_max=10_000)
    for producer_id in range(12):
        await produce(roomy, "t", 0, batch([b"x"], producer=(producer_id, 0, 1)))
    crowded = store.engine(**CROWDED)
    while len((head := await head_of(store)).producers) > 2 or head.tail:
        await crowded.index.spill(partition, head)
    evicted = [producer_id for producer_id in range(12) if producer_id not in head.producers]
    await crowded.index.spill(partition, head_before)
    for producer_id in evicted:
        again = await produce(roomy, "t", 0, batch([b"x"], producer=(producer_id, 0, 1)))
        assert (again.error, again.base_offset) == (ErrorCode.NONE, 12 + producer_id)


async def test_entries_are_forgotten_once(store: Store) -> None:
    """An update that arrives late finds another tail."""
    engine = store.engine(head_bytes_max=10_000)
    partition = await partition_of(store)
    for _ in range(4):
        await produce(engine, "t", 0, batch([BIG]))
    head_before = await head_of(store)
    step = next_forget(head_before, oldest_row(head_before, 2))
    assert step.is_last
    late = Update(head_key(partition), step.actions, step.condition)
    await store.log.update(late)
    with pytest.raises(ConditionFailed):
        await store.log.update(late)


async def test_who_has_entries_that_stay_in_the_tail_stays_in_the_head(store: Store) -> None:
    engine = store.engine(head_bytes_max=10_000)
    for producer_id in range(12):
        await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
    head = await head_of(store)
    settings = store.engine(**CROWDED).settings
    assert sorted(who_leaves(head, oldest_row(head, 3), settings)) == [0, 1, 2]


async def test_a_row_has_the_floor_of_those_below_it(store: Store) -> None:
    """Commit times of several writers are in no order."""
    engine = store.engine(head_bytes_max=10_000)
    await produce(engine, "t", 0, batch([BIG]))
    head = await head_of(store)
    above = head.spill_floor_ms + 10**15
    assert oldest_row(replace(head, spill_floor_ms=above), 1).spill_floor_ms == above


async def test_what_a_row_said_of_a_producer_that_came_and_left_since_is_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, crowded = store.engine(head_bytes_max=10_000), store.engine(1, **CROWDED)
    partition = await partition_of(store)
    for producer_id in range(12):
        await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
    await crowded.index.spill(partition, await head_of(store))
    assert 0 not in (await head_of(store)).producers
    behind = replace(store, clock=ManualClock(store.clock.now_ms() + 1_000, auto_advance=True))
    store.clock.advance(10)  # so that no spill floor refuses what has waited
    update, calls, elsewhere = store.log._port.update, [0], []

    async def interrupted(update_asked: Update) -> Item:
        calls[0] += 1
        if calls[0] == 2:  # the first was blind and refused
            elsewhere.append(await produce(behind.engine(2), "t", 0, batch([b"x"], producer=(0, 0, 1))))
            for other in range(1, 12):
                await produce(behind.engine(2), "t", 0, batch([b"x"], producer=(other, 0, 1)))
            await crowded.index.spill(partition, await head_of(store))
            assert 0 not in (await head_of(store)).producers
        item: Item = await update(update_asked)
        return item

    monkeypatch.setattr(store.log._port, "update", interrupted)
    result = await produce(engine, "t", 0, batch([b"x"], producer=(0, 0, 1)))
    assert [(result.error, result.base_offset) for result in elsewhere] == [(ErrorCode.NONE, 12)]
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 12)
    assert len(await read_all(engine, "t", 0)) == 24
