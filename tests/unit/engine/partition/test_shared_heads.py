"""Heads that partitions share: one update a request, the same guarantees for each partition (docs/decisions/0030)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.cost.metering import UsageMeter
from odradek.engine.audit.store import audit_store
from odradek.engine.catalog.topic_configs import describe
from odradek.engine.engine import Engine
from odradek.engine.partition import shared_head
from odradek.engine.partition.head import NO_FLOOR, ProducerState
from odradek.engine.partition.packed_entries import PlacedEntry, decode_packed_entries, encode_packed_entries
from odradek.engine.partition.shared_head import (
    SharedHead,
    decode_shared_head,
    encode_shared_head,
    id_name_of,
    place_name,
    stamp_of,
)
from odradek.errors import ErrorCode, KafkaError, OutcomeUnknown
from odradek.format.tail_entry import FLAG_ITEM, FLAG_LOG_APPEND_TIME, TailEntry
from odradek.limits import PARTITIONS_PER_HEAD_MAX, PRODUCER_EPOCH_MAX, SEQUENCE_MAX
from odradek.model.log import MAX_TIMESTAMP, FetchPartition, ListOffsetsPartition, ProducePartition, ProduceResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId, new_topic_id, partitions_per_head
from odradek.settings import Settings
from odradek.testing import ManualClock
from odradek.testing.faults import Fault
from odradek.testing.seeded_rng import SeededRng

from tests.support.clients.transactional_producer import Transactor, values
from tests.support.engine import Store, batch, memory_store, read_all
from tests.support.examples import some

PER_HEAD = {"odradek.partitions.per.head": "4"}
SHORT = {"head_bytes_max": 200, "spill_entries": 2, "paged_appends": 6}


@pytest.fixture
def store() -> Store:
    return memory_store()


async def send(
    engine: Engine, numbers: Sequence[int], sequence: int = 0, *, producer: int = 7, epoch: int = 0
) -> list[ProduceResult]:
    """One record to each of the partitions, in one request; a negative producer is none."""
    named = (producer, epoch, sequence) if producer >= 0 else (-1, -1, -1)
    return await engine.produce(
        [ProducePartition("t", number, batch([b"%d" % sequence], producer=named)) for number in numbers]
    )


def offsets(results: Sequence[ProduceResult]) -> list[int]:
    assert {result.error for result in results} == {ErrorCode.NONE}, results
    return [result.base_offset for result in results]


async def head_of(engine: Engine, topic: Topic, number: int = 0) -> SharedHead:
    image = await engine.index.read_image(PartitionId(topic.topic_id, number).head_id)
    assert isinstance(image, SharedHead)
    return image


# --- which head ---------------------------------------------------------------------------------------------------


def test_a_topic_id_says_how_many_partitions_share_a_head() -> None:
    assert partitions_per_head(uuid4()) == 1
    assert partitions_per_head(new_topic_id(b"\xff" * 16, 1)) == 1
    topic_id = new_topic_id(b"\xff" * 16, 24)
    assert (partitions_per_head(topic_id), topic_id.version) == (24, 8)
    assert [PartitionId(topic_id, number).head_id.partition for number in (0, 23, 24, 50)] == [0, 0, 24, 48]
    assert PartitionId(topic_id, 50).place == 2
    assert UUID(str(topic_id)) == topic_id


async def test_the_number_is_chosen_at_creation_and_stays(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 6, PER_HEAD)
    with pytest.raises(KafkaError, match=r"odradek.partitions.per.head of topic 't' is 4 and cannot be changed"):
        await engine.topics.alter_configs("t", set={"odradek.partitions.per.head": "5"})
    await engine.topics.alter_configs("t", set=PER_HEAD)
    altered = await engine.topics.alter_configs("t", set={}, delete=["odradek.partitions.per.head"])
    shown = {entry.name: entry.value for entry in describe(altered, Settings())}
    assert shown["odradek.partitions.per.head"] == "4", "the id says so, whatever the row does"
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        await engine.topics.create("u", 6, {"odradek.partitions.per.head": str(PARTITIONS_PER_HEAD_MAX + 1)})


async def test_a_topic_that_grows_fills_its_last_head(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.create("t", 3, PER_HEAD)
    await send(engine, range(3))
    await engine.topics.create_partitions("t", 6)
    assert offsets(await send(engine, [3, 4, 5])) == [
        0,
        0,
        0,
    ]
    assert (await head_of(engine, topic, 3)).next_offsets == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert (await head_of(engine, topic, 5)).next_offsets == {"0": 1, "1": 1}
    await engine.topics.delete("t")
    assert await engine.index.read_image(PartitionId(topic.topic_id, 0)) is None
    assert await engine.index.read_image(PartitionId(topic.topic_id, 4)) is None


# --- append -------------------------------------------------------------------------------------------------------


async def test_a_request_is_one_update_a_head_without_a_read(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 8, PER_HEAD)
    await send(engine, [0])
    store.log.calls.clear()
    assert offsets(await send(engine, range(1, 8))) == [0] * 7
    assert store.log.calls == ["put", "update", "update"], "the bytes, then each head"


@pytest.mark.parametrize("producer", [-1, 7])
@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE, Fault.REPEATED])
async def test_an_update_that_fails_in_any_way_is_applied_once(store: Store, fault: Fault, producer: int) -> None:
    engine = store.engine()
    await engine.topics.create("t", 3, PER_HEAD)
    store.log.script["update", 1] = fault
    assert offsets(await send(engine, range(3), producer=producer)) == [0, 0, 0]
    await store.log.deliver_late()
    assert [len(await read_all(engine, "t", number)) for number in range(3)] == [1, 1, 1]


async def test_a_partition_that_refuses_keeps_the_others_from_nothing(store: Store) -> None:
    engine = store.engine(sequence_wait_ms=0)
    await engine.topics.create("t", 3, PER_HEAD)
    await send(engine, range(3))
    await send(engine, [1], 1)
    results = await engine.produce(
        [
            ProducePartition("t", 0, batch([b"new"], producer=(7, 0, 1))),
            ProducePartition("t", 1, batch([b"again"], producer=(7, 0, 1))),
            ProducePartition("t", 2, batch([b"ahead"], producer=(7, 0, 5))),
        ]
    )
    assert [result.error for result in results] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ]
    assert [results[0].base_offset, results[1].base_offset] == [1, 1]
    assert [len(await read_all(engine, "t", number)) for number in range(3)] == [2, 2, 1]


async def test_a_late_element_does_not_bring_back_what_was_sent_without_its_others(store: Store) -> None:
    """The first attempt, with both partitions, arrives after the second, in which one of them was refused."""
    engine = store.engine(sequence_wait_ms=0)
    await engine.topics.create("t", 2, PER_HEAD)
    await send(engine, [0, 1])
    store.log.script["update", 1] = Fault.LATE
    await engine.produce(
        [
            ProducePartition("t", 0, batch([b"new"], producer=(7, 0, 1))),
            ProducePartition("t", 1, batch([b"ahead"], producer=(7, 0, 5))),
        ]
    )
    await send(engine, [1], 1)
    await store.log.deliver_late()
    assert [len(await read_all(engine, "t", number)) for number in range(2)] == [2, 2]


async def test_plain_batches_stay_together_when_an_outcome_is_unknown(store: Store) -> None:
    """Each repetition is the same element, so the head knows it."""
    engine = store.engine()
    topic = await engine.topics.create("t", 3, PER_HEAD)
    elements: list[Any] = []
    update, lost = store.log.update, 2

    async def losing(update_asked: Any) -> Any:
        nonlocal lost
        elements.append(next(action.values for action in update_asked.actions if action.path == ("t",)))
        if lost:
            lost -= 1
            if not lost:
                await update(update_asked)
            raise OutcomeUnknown("lost")
        return await update(update_asked)

    store.log.update = losing  # type: ignore[method-assign]
    assert offsets(await send(engine, range(3), producer=-1)) == [0, 0, 0]
    assert len(elements) == 3
    assert len(set(elements)) == 1
    assert len((await head_of(engine, topic)).tail) == 1


async def test_a_conditional_produce_goes_alone(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 2, PER_HEAD)
    first = await engine.produce([ProducePartition("t", number, batch([b"a"]), expected_offset=0) for number in (0, 1)])
    assert offsets(first) == [0, 0]
    lost, won = await engine.produce(
        [
            ProducePartition("t", 0, batch([b"b"]), expected_offset=0),
            ProducePartition("t", 1, batch([b"b"]), expected_offset=1),
        ]
    )
    assert (lost.error, lost.next_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    assert won.base_offset == 1


async def test_the_largest_update_of_a_head_fits_an_expression(store: Store) -> None:
    """First batches of a later epoch have the longest conditions: the table refuses more than DynamoDB takes."""
    engine = store.engine()
    configs = {"odradek.partitions.per.head": str(PARTITIONS_PER_HEAD_MAX)}
    await engine.topics.create("t", PARTITIONS_PER_HEAD_MAX, configs)
    numbers = range(PARTITIONS_PER_HEAD_MAX)
    store.log.calls.clear()
    producer = 2**62
    assert offsets(await send(engine, numbers, producer=producer)) == [0] * len(numbers)
    assert offsets(await send(engine, numbers, producer=producer, epoch=PRODUCER_EPOCH_MAX)) == [1] * len(numbers)
    assert store.log.calls[:4] == ["put", "update"] * 2
    assert offsets(await send(engine, numbers, 1, producer=producer, epoch=PRODUCER_EPOCH_MAX)) == [2] * len(numbers)
    late = await send(engine, numbers, 2, producer=producer, epoch=PRODUCER_EPOCH_MAX - 1)
    assert {result.error for result in late} == {ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_the_most_plain_batches_of_all_partitions_fit(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 4, PER_HEAD)
    records = batch([b"x"]) * 1_000
    results = await engine.produce([ProducePartition("t", number, records) for number in range(4)])
    assert offsets(results) == [0] * 4
    assert [len(await read_all(engine, "t", number)) for number in range(4)] == [1_000] * 4


# --- pages and rows -----------------------------------------------------------------------------------------------


async def test_what_left_the_tail_is_read_from_pages_and_then_from_rows(store: Store) -> None:
    engine = store.engine(**SHORT)
    topic = await engine.topics.create("t", 3, PER_HEAD)
    for sequence in range(40):
        assert offsets(await send(engine, range(3), sequence)) == [sequence] * 3
        head = await head_of(engine, topic)
        assert len(head.tail) <= 8
        assert head.paged - head.indexed <= 14
    assert head.indexed > 0, "rows were written"
    cold = store.engine(1, **SHORT)
    for number in range(3):
        read = await read_all(cold, "t", number)
        assert [(record.offset, record.value) for record in read] == [(at, b"%d" % at) for at in range(40)]
        rows = await cold.index.rows_from(PartitionId(topic.topic_id, number), 0)
        assert rows[0].base_offset == 0
        assert rows[-1].end_offset == head.indexed


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE, Fault.REPEATED])
async def test_a_spill_that_is_cut_short_anywhere_loses_nothing(store: Store, at: int, fault: Fault) -> None:
    engine = store.engine(**SHORT)
    await engine.topics.create("t", 2, PER_HEAD)
    store.log.script["put", 6 + at] = fault
    store.log.script["update", 20 + at] = fault
    for sequence in range(30):
        while (results := await send(engine, [0, 1], sequence))[0].error is not ErrorCode.NONE:
            assert results[0].error.is_retryable
        assert offsets(results) == [sequence] * 2
    await store.log.deliver_late()
    for number in range(2):
        assert [record.offset for record in await read_all(store.engine(1), "t", number)] == list(range(30))


async def test_two_spills_write_the_same_rows(store: Store) -> None:
    """Both stop before their rows; whichever goes on, each partition's rows end at the same appends."""
    writer = store.engine(head_bytes_max=200, spill_entries=2, paged_appends=4_096)
    topic = await writer.topics.create("t", 3, PER_HEAD)
    for sequence in range(12):
        await send(writer, [sequence % 3], sequence // 3)
    one, two = store.engine(1, **SHORT), store.engine(2, **SHORT)
    head_id = PartitionId(topic.topic_id, 0)
    heads = [await head_of(one, topic), await head_of(two, topic)]
    await asyncio.gather(one.index.spill(head_id, heads[0]), two.index.spill(head_id, heads[1]))
    head = await head_of(one, topic)
    assert head.indexing is None
    assert head.indexed > 0
    for number in range(3):
        assert [record.offset for record in await read_all(one, "t", number)] == list(range(4))
    assert (await audit_store(store.engine(9))).findings == []


async def test_a_duplicate_keeps_its_offset_after_its_batch_left_the_tail(store: Store) -> None:
    engine = store.engine(**SHORT)
    topic = await engine.topics.create("t", 2, PER_HEAD)
    for sequence in range(20):
        await send(engine, [0, 1], sequence)
    head = await head_of(engine, topic)
    for sequence in range(15, 20):
        assert offsets(await send(store.engine(1), [0, 1], sequence)) == [sequence] * 2
    assert head.indexed > 0
    [result] = await send(store.engine(1), [0], 3)
    assert result.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


async def test_a_late_update_is_refused_after_its_element_was_paged_out(store: Store) -> None:
    engine = store.engine(head_bytes_max=200, spill_entries=1)
    await engine.topics.create("t", 2, PER_HEAD)
    store.log.script["update", 1] = Fault.LATE
    store.log.script["update", 2] = Fault.LOST_ANSWER
    assert offsets(await send(engine, [0, 1], producer=-1)) == [0, 0]
    for _ in range(6):
        store.clock.advance(1)
        await send(engine, [0, 1], producer=-1)
    await store.log.deliver_late()
    assert [len(await read_all(engine, "t", number)) for number in (0, 1)] == [7, 7]


async def test_idle_producers_leave_and_come_back(store: Store) -> None:
    engine = store.engine(**SHORT, producer_idle_ms=1_000)
    topic = await engine.topics.create("t", 2, PER_HEAD)
    await send(engine, [0, 1], producer=7)
    for sequence in range(8):
        store.clock.advance(1)
        await send(engine, [0, 1], sequence, producer=8)
    head = await head_of(engine, topic)
    assert head.stamps.keys() == {"8"}
    assert head.evictions == 1
    store.log.calls.clear()
    assert offsets(await send(engine, [0, 1], 1, producer=7)) == [9, 9]
    assert store.log.calls[:4] == ["put", "get", "get", "update"], (
        "the upload, the head, its row, then one update for both partitions"
    )
    again = await send(engine, [0, 1], 0, producer=7)
    assert {result.error for result in again} <= {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
    assert [len(await read_all(engine, "t", number)) for number in (0, 1)] == [10, 10]


async def test_maintenance_merges_sweeps_and_deletes_old_pages(store: Store) -> None:
    engine = store.engine(**SHORT, merge_rows_min=1, merge_delay_ms=0, sweep_interval_ms=0)
    topic = await engine.topics.create("t", 3, PER_HEAD)
    for sequence in range(30):
        await send(engine, range(3), sequence)
    store.clock.advance(2 * 3_600)
    assert (await engine.maintenance.run()).failures == []
    pages = await store.log.query(f"{topic.topic_id}#0", sk_from="c#", sk_to="c$")
    head = await head_of(engine, topic)
    assert [int(row.key.sk[2:]) >= head.indexed for row in pages] == [True] * len(pages)
    for number in range(3):
        view = await engine.index.read_head(PartitionId(topic.topic_id, number))
        assert view is not None
        assert 0 < view.merged_offset <= view.tail_base_offset
        assert [record.offset for record in await read_all(store.engine(1), "t", number)] == list(range(30))
    assert (await audit_store(store.engine(9))).findings == []


# --- transactions, leaders, costs ---------------------------------------------------------------------------------


async def test_a_transaction_over_partitions_of_a_head_is_one_operation_of_it(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.create("t", 4, PER_HEAD)
    transactor = await Transactor(engine, bumps=True).init()
    for number in range(4):
        await transactor.send("t", number, b"x")
    sent: list[int] = []
    transact = store.tables.transact

    async def counted(operations: Any) -> None:
        sent.append(len(operations))
        await transact(operations)

    store.tables.transact = counted  # type: ignore[method-assign]
    await transactor.commit()
    assert sent == [2], "the head and the row of the transactional id"
    assert [await values(engine, "t", number) for number in range(4)] == [[b"x"]] * 4
    assert len((await head_of(engine, topic)).tail) == 1


async def test_one_gateway_leads_all_that_share_a_head(store: Store) -> None:
    fleet = store.engine()
    topic = await fleet.topics.create("t", 3, PER_HEAD)
    await send(fleet, [0, 2])
    gateway = Engine(
        tables=store.tables,
        objects=store.objects,  # type: ignore[arg-type]
        clock=store.clock,
        rng=SeededRng(9),
        settings=Settings(),
        broker_id=1,
    )
    await gateway.leaders.register("host", 9092)
    assert offsets(await send(gateway, [1], producer=9)) == [0]
    refused = await send(fleet, [0, 1, 2], 0, producer=10)
    assert {result.error for result in refused} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    head = await head_of(fleet, topic)
    assert (head.leader_id, head.leader_epoch, head.epoch_starts) == (1, 1, {"0": 1, "2": 1})
    view = head.view(PartitionId(topic.topic_id, 2))
    assert await gateway.epochs.at(PartitionId(topic.topic_id, 2), view, 0) == 0


@pytest.mark.parametrize(
    ("partitions", "producers", "units_max"),
    [(1, 1, 2.0), (24, 1, 3.5), (24, 64, 5.5), *some([(24, 16, 5.5), (200, 1, 45.0)])],
)
async def test_what_a_request_costs(partitions: int, producers: int, units_max: float) -> None:
    """Write units of a request with a batch to each partition, spills included, without the upload."""
    meter, clock = UsageMeter(), ManualClock(auto_advance=True)
    engine = Engine(
        tables=MemoryStore(meter),
        objects=MemoryObjectStore(clock, meter),
        clock=clock,
        rng=SeededRng(1),
        settings=Settings(item_bytes_max=0),
    )
    per_head = min(partitions, PARTITIONS_PER_HEAD_MAX)
    await engine.topics.create("t", partitions, {"odradek.partitions.per.head": str(per_head)})
    before, requests = meter.snapshot(), 160
    for number in range(requests):
        sequence, producer = divmod(number, producers)
        offsets(await send(engine, range(partitions), sequence, producer=1_000 + producer))
        clock.advance(1)
    used = sum(usage.table_write_units for usage in meter.since(before).values())
    assert used / requests <= units_max
    before = meter.snapshot()
    wanted = [FetchPartition("t", number, requests) for number in range(partitions)]
    await engine.fetch(wanted, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20)
    heads = -(-partitions // per_head)
    assert sum(usage.table_read_units for usage in meter.since(before).values()) <= 2 * heads + 1


# --- formats ------------------------------------------------------------------------------------------------------


def test_packed_entries_come_back_as_they_were() -> None:
    placed = [
        PlacedEntry(0, TailEntry(b"a" * 16, 0, 100, 3, 5_000, commit_ms=4_000)),
        PlacedEntry(31, TailEntry(b"a" * 16, 100, 70, 1, -1, 7, 3, SEQUENCE_MAX, 4_000, FLAG_ITEM)),
        PlacedEntry(1, TailEntry(b"b" * 16, 9, 2**32 - 1, 2**32 - 1, 2**61, 2**62, 2**15 - 1, 0, 2**60, 3)),
        PlacedEntry(1, TailEntry(b"b" * 16, 9, 1, 1, 0, -1, -1, -1, 0, FLAG_LOG_APPEND_TIME)),
    ]
    assert decode_packed_entries(encode_packed_entries(placed)) == tuple(placed)


def test_the_batches_of_a_request_take_ten_bytes_each() -> None:
    now_ms, at, placed = 1_700_000_000_000, 0, []
    for position in range(24):
        entry = TailEntry(b"a" * 16, at, 1_100, 10, now_ms - 5, 12_345, 0, 100_000 + position, now_ms)
        placed.append(PlacedEntry(position, entry))
        at += entry.length
    assert len(encode_packed_entries(placed)) <= 40 + 24 * 11


def test_a_shared_head_comes_back_as_it_was() -> None:
    head = SharedHead(
        next_offsets={"0": 5, "v": 9},
        log_starts={"0": 1},
        merged_offsets={"v": 2},
        epoch_starts={"0": 4},
        tail=(encode_packed_entries([PlacedEntry(0, TailEntry(b"a" * 16, 0, 100, 3, 5_000, commit_ms=4_000))]),),
        paged=9,
        indexed=3,
        indexing=5,
        running_max_timestamp_ms=-7,
        spill_floor_ms=3,
        sweep_floor=NO_FLOOR,
        leader_id=1,
        leader_epoch=2,
        appended_bytes=10**12,
        stamps={"7": {"0": stamp_of(3, 9), "0f": stamp_of(3, 2), "v": 7}},
        left_ms={"7": 8},
        evictions=4,
    )
    assert decode_shared_head(encode_shared_head(head)) == head


async def test_a_large_element_does_not_stay_in_the_head(store: Store) -> None:
    """A transaction of many batches is one element, which each later append would pay for."""
    engine = store.engine()
    topic = await engine.topics.create("t", 2, PER_HEAD)
    transactor = await Transactor(engine, bumps=True).init()
    for _ in range(300):
        await transactor.send("t", 0, b"x")
    await transactor.commit()
    head = await head_of(engine, topic)
    assert head.size_bytes < 1_024
    assert await values(engine, "t", 0) == [b"x"] * 300


async def test_offsets_that_were_told_are_kept_in_a_shared_head(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 2, {**PER_HEAD, "transaction.offsets": "predicted"})
    one, other = [await Transactor(engine, name, bumps=True).init() for name in ("one", "other")]
    assert await one.send("t", 0, b"one") == await other.send("t", 0, b"other") == 0
    assert await other.send("t", 1, b"other") == 0
    await one.commit()
    with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
        await other.commit()
    assert [await values(engine, "t", number) for number in (0, 1)] == [[b"one"], []]


async def test_the_largest_timestamp_is_that_of_the_partition(store: Store) -> None:
    """The running maximum is that of all that share the head: it says nothing of the one that is asked."""
    engine = store.engine(**SHORT)
    await engine.topics.create("t", 2, PER_HEAD)
    for number in range(30):
        sent = []
        for partition, (peak, higher_ms) in enumerate(((3, 50), (14, 1_000))):
            at_ms = 1_700_000_000_000 + number + (higher_ms if number == peak else 0)
            sent.append(ProducePartition("t", partition, batch([b"%d" % number], timestamp_ms=at_ms)))
        await engine.produce(sent)
    for partition, (offset, timestamp_ms) in enumerate(((3, 1_700_000_000_053), (14, 1_700_000_001_014))):
        [result] = await engine.list_offsets([ListOffsetsPartition("t", partition, MAX_TIMESTAMP)])
        assert (result.offset, result.timestamp_ms) == (offset, timestamp_ms)
        [result] = await engine.list_offsets([ListOffsetsPartition("t", partition, timestamp_ms - 5)])
        assert result.offset == offset


def test_a_view_reads_the_producers_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head may have a thousand of them: a fetch needs none, an append its own."""
    stamps = {
        id_name_of(number): {place_name(position): stamp_of(2, number) for position in (0, 3)}
        for number in range(1_000)
    }
    stamps[id_name_of(35)]["3f"] = stamp_of(2, 9)
    stamps[id_name_of(36)]["3f"] = stamp_of(1, 9)
    head = SharedHead(stamps=stamps, left_ms={id_name_of(36): 77})
    made = Counter[int]()

    def state(epoch: int, sequence: int, **more: Any) -> ProducerState:
        made[sequence] += 1
        return ProducerState(epoch, sequence, **more)

    monkeypatch.setattr(shared_head, "ProducerState", state)
    topic_id = new_topic_id(b"\x01" * 16, 4)
    view = head.view(PartitionId(topic_id, 3))
    assert (len(view.producers), -1 in view.producers, 1_000 in view.producers, made) == (1_000, False, False, {})
    assert view.producers[35] == ProducerState(2, 35, first_sequence=9)
    assert view.producers.get(36) == ProducerState(2, 36, spilled_ms=77), "the first sequence is of a former epoch"
    assert made == {35: 1, 36: 1}
    assert set(view.producers) == set(range(1_000))
    assert len(head.view(PartitionId(topic_id, 1)).producers) == 0
