"""Idempotent producers by Kafka's rules: every sequence once, in order, however requests overtake and repeat."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from odradek.engine.append.decisions import Ahead, Applied, KnownRows, Reject, Try, Verdict, decide_sequences
from odradek.engine.partition.head import PartitionHead, ProducerState, RecentBatch
from odradek.errors import ErrorCode
from odradek.format.item_keys import HEAD_SK, partition_pk
from odradek.format.tail_entry import TailEntry
from odradek.limits import SEQUENCE_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Key, Set, Update
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all

PRODUCER = 7


@pytest.fixture
async def store() -> Store:
    store = memory_store()
    await store.engine().topics.create("t", 1)
    return store


def entry(epoch: int, sequence: int, count: int = 1) -> TailEntry:
    return TailEntry(b"o" * 16, 0, 100, count, 0, PRODUCER, epoch, sequence, 0, 1)


def head(epoch: int = 3, next_sequence: int = 20, *recent: tuple[int, int]) -> PartitionHead:
    """A head that knows the producer; `recent` are (base sequence, records) from offset 1000 on."""
    batches, offset = [], 1000
    for sequence, count in recent:
        batches.append(RecentBatch(epoch, sequence, count, offset))
        offset += count
    return PartitionHead(producers={PRODUCER: ProducerState(epoch, next_sequence, tuple(batches))})


FIVE = ((10, 2), (12, 2), (14, 2), (16, 2), (18, 2))


def verdict(new: TailEntry, stored_head: PartitionHead) -> Verdict:
    return decide_sequences([new], stored_head, KnownRows())


@pytest.mark.parametrize(
    ("new", "outcome"),
    [
        (entry(3, 20), "in order"),
        (entry(3, 18, 2), 1008),
        (entry(3, 10, 2), 1000),
        (entry(3, 8, 2), ErrorCode.DUPLICATE_SEQUENCE_NUMBER),
        (entry(3, 0, 10), ErrorCode.DUPLICATE_SEQUENCE_NUMBER),
        (entry(3, 18, 3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # it grew since it was written
        (entry(3, 18, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (entry(3, 9, 2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),  # reaches into what is remembered
        (entry(3, 21), "ahead"),
        (entry(4, 0), "in order"),
        (entry(4, 20), "ahead"),
        (entry(2, 20), ErrorCode.INVALID_PRODUCER_EPOCH),
        (entry(2, 0), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_a_sequence_means(new: TailEntry, outcome: object) -> None:
    result = verdict(new, head(3, 20, *FIVE))
    match result:
        case Try():
            assert outcome == "in order"
        case Ahead(rejection):
            assert outcome == "ahead"
            assert rejection.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        case Applied(offset):
            assert offset == outcome
        case Reject(code):
            assert code is outcome
        case _:
            raise AssertionError(result)


def test_what_waits_for_the_start_of_an_unknown_producer_is_told_to_start_again() -> None:
    result = verdict(entry(0, 5), PartitionHead())
    assert isinstance(result, Ahead)
    assert result.rejection.code is ErrorCode.UNKNOWN_PRODUCER_ID


@pytest.mark.parametrize(
    ("next_sequence", "new", "outcome"),
    [
        (SEQUENCE_MAX, entry(3, SEQUENCE_MAX), Try),
        (0, entry(3, 0), Try),
        (SEQUENCE_MAX, entry(3, 0), Ahead),
        (0, entry(3, 1), Ahead),
        (1, entry(3, SEQUENCE_MAX - 9, 2), Reject),
    ],
)
def test_sequences_wrap(next_sequence: int, new: TailEntry, outcome: type[Verdict]) -> None:
    recent = (((next_sequence - 2) % (SEQUENCE_MAX + 1), 2),)
    assert isinstance(verdict(new, head(3, next_sequence, *recent)), outcome)


async def test_a_producer_writes_through_the_wrap(store: Store) -> None:
    """The last batch before it, one across it, one after it, and each of them again."""
    engine = store.engine(sequence_wait_ms=0)
    topic = await engine.topics.resolve("t")
    await produce(engine, "t", 0, batch([b"first"], producer=(PRODUCER, 0, 0)))
    key = Key(partition_pk(PartitionId(topic.topic_id, 0)), HEAD_SK)
    await store.log.update(Update(key, (Set(("p", str(PRODUCER), "s"), SEQUENCE_MAX - 2),)))
    sends = [(SEQUENCE_MAX - 2, 2), (SEQUENCE_MAX, 3), (2, 1)]
    for _ in range(2):
        results = [await produce(engine, "t", 0, batch([b"x"] * n, producer=(PRODUCER, 0, s))) for s, n in sends]
        assert [(r.error, r.base_offset) for r in results] == [(0, 1), (0, 3), (0, 6)]
    assert (await produce(engine, "t", 0, batch([b"x"], producer=(PRODUCER, 0, 5)))).error is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert len(await read_all(engine, "t", 0)) == 7


async def test_a_wrap_that_ends_at_zero_is_no_new_producer(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.resolve("t")
    await produce(engine, "t", 0, batch([b"first"] * 3, producer=(PRODUCER, 0, 0)))
    key = Key(partition_pk(PartitionId(topic.topic_id, 0)), HEAD_SK)
    await store.log.update(Update(key, (Set(("p", str(PRODUCER), "s"), SEQUENCE_MAX),)))
    for sequence, offset in ((SEQUENCE_MAX, 3), (0, 4), (1, 5)):
        result = await produce(engine, "t", 0, batch([b"%d" % offset], producer=(PRODUCER, 0, sequence)))
        assert (result.error, result.base_offset) == (0, offset)


async def test_five_requests_in_flight_are_written_in_order_whatever_order_they_arrive_in(store: Store) -> None:
    """All 120 orders, each under an epoch of its own, over two engines."""
    engines = [store.engine(seed, head_bytes_max=500, spill_entries=2) for seed in range(2)]
    for epoch, order in enumerate(itertools.permutations(range(5))):
        base = 5 * epoch
        results = await asyncio.gather(
            *(
                produce(engines[n % 2], "t", 0, batch([b"%d" % (base + n)], producer=(PRODUCER, epoch, n)))
                for n in order
            )
        )
        assert {n: (r.error, r.base_offset) for n, r in zip(order, results, strict=True)} == {
            n: (0, base + n) for n in range(5)
        }, order
    assert [r.value for r in await read_all(engines[0], "t", 0)] == [b"%d" % n for n in range(600)]


async def test_one_that_is_ahead_waits_no_longer_than_it_may(store: Store) -> None:
    engine = store.engine(sequence_wait_ms=300)
    await produce(engine, "t", 0, batch([b"a"], producer=(PRODUCER, 0, 0)))
    before = store.clock.monotonic()
    result = await produce(engine, "t", 0, batch([b"c"], producer=(PRODUCER, 0, 2)))
    assert result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert 0.3 <= store.clock.monotonic() - before < 0.5
    assert (await produce(engine, "t", 0, batch([b"b"], producer=(PRODUCER, 0, 1)))).base_offset == 1


async def test_a_new_epoch_fences_the_old_one(store: Store) -> None:
    engine = store.engine(sequence_wait_ms=0)
    await produce(engine, "t", 0, batch([b"a"], producer=(PRODUCER, 0, 0)))
    assert (await produce(engine, "t", 0, batch([b"x"], producer=(PRODUCER, 1, 1)))).error is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert (await produce(engine, "t", 0, batch([b"b"], producer=(PRODUCER, 1, 0)))).base_offset == 1
    late = await produce(engine, "t", 0, batch([b"x"], producer=(PRODUCER, 0, 1)))
    assert late.error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await produce(engine, "t", 0, batch([b"a"], producer=(PRODUCER, 0, 0)))).error is (
        ErrorCode.INVALID_PRODUCER_EPOCH
    ), "its duplicates too, as in Kafka"


# --- conditional produce ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_conditional_batch_that_meets_any_fault_is_written_once_and_said_to_be(
    store: Store, fault: Fault
) -> None:
    engine = store.engine()
    store.log.script[("update", store.log.count("update") + 1)] = fault
    mine = batch([b"a", b"b"], producer=(PRODUCER, 0, 0))
    assert (await produce(engine, "t", 0, mine, expected_offset=0)).base_offset == 0
    await store.log.deliver_late()
    again = await produce(engine, "t", 0, mine, expected_offset=0)
    assert (again.error, again.base_offset) == (0, 0), "a duplicate is no conflict with itself"
    lost = await produce(engine, "t", 0, batch([b"x"], producer=(8, 0, 0)), expected_offset=0)
    assert (lost.error, lost.next_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)
    assert len(await read_all(engine, "t", 0)) == 2


async def test_of_many_conditional_writers_one_wins_each_offset(store: Store) -> None:
    engines = [store.engine(seed) for seed in range(6)]

    async def write(number: int) -> int:
        expected, won = 0, 0
        while expected < 30:
            result = await produce(engines[number], "t", 0, batch([b"%d" % number]), expected_offset=expected)
            if result.error:
                assert result.error is ErrorCode.OFFSET_OUT_OF_RANGE
                assert result.next_offset > expected
                expected = result.next_offset
            else:
                assert result.base_offset == expected
                expected, won = expected + 1, won + 1
        return won

    assert sum(await asyncio.gather(*(write(number) for number in range(6)))) == 30
    assert len(await read_all(engines[0], "t", 0)) == 30


async def test_nothing_comes_between_the_batches_of_one_conditional_request(store: Store) -> None:
    engine = store.engine()
    pair = batch([b"a", b"b"], producer=(PRODUCER, 0, 0)) + batch([b"c"], producer=(PRODUCER, 0, 2))
    assert (await produce(engine, "t", 0, pair, expected_offset=0)).base_offset == 0
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"a", b"b", b"c"]
