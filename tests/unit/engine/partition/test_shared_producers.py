"""Producers of a shared head: more than it keeps leave it whole for rows, and come back whole (decisions 0061)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.engine.partition.head import VERSION
from odradek.engine.partition.packed_entries import PlacedEntry, encode_packed_entries
from odradek.engine.partition.shared_head import Page, SharedHead, id_name_of, stamp_of
from odradek.engine.partition.shared_spill import cheapest_page, who_leaves
from odradek.errors import ErrorCode
from odradek.format.item_keys import partition_pk, producer_sk
from odradek.format.item_size import item_size
from odradek.format.tail_entry import TailEntry
from odradek.limits import SPILL_SETTLED_MAX
from odradek.model.log import ProducePartition, ProduceResult
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Key, Set, Update
from odradek.settings import Settings
from odradek.testing.faults import Fault

from tests.support.clients.transactional_producer import Transactor, values
from tests.support.engine import Store, batch, memory_store, read_all
from tests.support.examples import some

PLACES = 3
CROWDED = {"head_bytes_max": 1, "spill_entries": 1, "paged_appends": 6, "producers_bytes_max": 1}
ROOMY = {"head_bytes_max": 100_000}
DAY_S = 86_400


@pytest.fixture
def store() -> Store:
    return memory_store(per_head=PLACES)


async def topic_of(engine: Engine, partitions: int = PLACES) -> PartitionId:
    """A new topic "t"; returns its head's id."""
    return PartitionId((await engine.topics.create("t", partitions)).topic_id, 0)


async def send(
    engine: Engine, producer: int, sequence: int, numbers: Sequence[int] = range(PLACES), epoch: int = 0
) -> list[ProduceResult]:
    records = batch([b"%d/%d" % (producer, sequence)], producer=(producer, epoch, sequence))
    return await engine.produce([ProducePartition("t", number, records) for number in numbers])


async def sent(engine: Engine, producer: int, sequence: int, numbers: Sequence[int] = range(PLACES)) -> None:
    assert {result.error for result in await send(engine, producer, sequence, numbers)} == {ErrorCode.NONE}


async def head_of(engine: Engine, head_id: PartitionId) -> SharedHead:
    image = await engine.index.read_image(head_id)
    assert isinstance(image, SharedHead)
    return image


async def push_out(store: Store, engine: Engine) -> None:
    """Push earlier entries, and with them their producers, out of the tail."""
    for _ in range(3):
        store.clock.advance(1)
        [result] = await engine.produce([ProducePartition("t", 0, batch([b"plain"]))])
        assert not result.error


@pytest.mark.parametrize("count", some([300, 1_000]))
async def test_many_producers_are_refused_nothing_and_the_head_stays_small(store: Store, count: int) -> None:
    """Every table call is checked against DynamoDB's limits of expressions and items."""
    engine = store.engine(producers_bytes_max=1_024)
    head_id = await topic_of(engine)
    largest = 0
    for sequence in range(2):
        for producer in range(count):
            await sent(engine, producer, sequence, [producer % PLACES])
            head = await head_of(engine, head_id)
            largest = max(largest, head.size_bytes)
    assert largest < 4_096
    assert head.evictions > 2 * count - 100
    refused = store.log.calls.count("update") - 2 * count
    assert refused < 1.5 * count, "appends are not refused: what is beside them are pages"
    [again] = await send(store.engine(1), count // 2, 1, [count // 2 % PLACES])
    assert again.error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


async def test_who_comes_back_in_one_partition_is_back_in_all_of_them(store: Store) -> None:
    engine = store.engine(**CROWDED)
    head_id = await topic_of(engine)
    await sent(engine, 7, 0)
    await push_out(store, engine)
    assert id_name_of(7) not in (await head_of(engine, head_id)).stamps
    await sent(engine, 7, 1, [0])
    assert (await head_of(engine, head_id)).stamps[id_name_of(7)] == {"0": 2, "1": 1, "2": 1}
    other = store.engine(1, **ROOMY)
    [late] = await send(other, 7, 0, [1])
    assert (late.error, late.base_offset) == (ErrorCode.NONE, 0), "a duplicate, which is answered with its offset"
    await sent(other, 7, 1, [1, 2])
    assert [len(await read_all(engine, "t", number)) for number in (1, 2)] == [2, 2]


async def test_a_partition_that_it_never_wrote_to_needs_no_row(store: Store) -> None:
    engine = store.engine(**ROOMY)
    await topic_of(engine)
    await sent(engine, 7, 0, [0])
    store.log.calls.clear()
    await sent(engine, 7, 0, [1])
    await sent(store.engine(1, **ROOMY), 7, 0, [2])
    assert store.log.calls.count("get") == 0
    assert store.log.calls.count("update") == 3, "who has not seen the head takes the producer for a new one, once"


async def test_few_producers_go_blind_and_many_read_first(store: Store) -> None:
    engine = store.engine(**{**CROWDED, "producers_bytes_max": 1_024})
    await topic_of(engine)
    for sequence in range(6):
        for producer in range(3):
            store.clock.advance(1)
            await sent(engine, producer, sequence)
    assert store.log.calls.count("get") == 0
    many = store.engine(1, **CROWDED)
    await sent(many, 0, 6)
    for producer in range(3):
        await sent(many, producer, 6 + (producer == 0))
    store.log.calls.clear()
    for sequence in range(7, 12):
        for producer in range(3):
            store.clock.advance(1)
            await sent(many, producer, sequence + (producer == 0))
    reads = store.log.calls.count("get")
    assert reads == 30, "the head and the producer's row, each time"


async def test_an_old_append_is_refused_after_its_producer_came_and_left_again(store: Store) -> None:
    """It rests on a row that was read before: the head does not have the producer, as it had not then."""
    slow, engine = store.engine(**CROWDED), store.engine(1, **CROWDED)
    head_id = await topic_of(engine)
    await sent(engine, 7, 0)
    await push_out(store, engine)
    slow.appender._tools.heads_seen.saw(head_id, await head_of(engine, head_id))
    update, log = store.log.update, store.log
    waited: list[Any] = []

    async def late(operation: Update) -> Any:
        if not waited and any(action.path[0] == "t" for action in operation.actions):
            waited.append(operation)
            log.update = update  # type: ignore[method-assign]
            await sent(engine, 7, 1)
            await push_out(store, engine)
        return await update(operation)

    log.update = late  # type: ignore[method-assign]
    results = await send(slow, 7, 1)
    assert waited
    assert {result.error for result in results} <= {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
    for number in range(PLACES):
        values = [record.value for record in await read_all(engine, "t", number)]
        assert values.count(b"7/1") == 1


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER])
async def test_who_has_no_row_stays_in_the_head(store: Store, fault: Fault) -> None:
    engine = store.engine(**ROOMY)
    head_id = await topic_of(engine)
    for producer in range(4):
        await sent(engine, producer, 0)
    store.log.calls.clear()
    store.log.script = {("put", n): fault for n in (2, 3)}  # the first is the page
    await store.engine(1, **{**CROWDED, "producers_bytes_max": 60}).index.spill(head_id, await head_of(engine, head_id))
    store.log.script = {}
    head = await head_of(engine, head_id)
    assert len(head.tail) == 1, "the page went out all the same"
    assert (len(head.stamps), head.evictions) == (3, 1)
    for producer in range(4):
        await sent(engine, producer, 1)
        [again] = await send(engine, producer, 0, [1])
        assert (again.error, again.base_offset) == (ErrorCode.NONE, producer)


async def test_who_wrote_meanwhile_stays_and_the_others_leave_with_the_page(store: Store) -> None:
    engine = store.engine(**ROOMY)
    head_id = await topic_of(engine)
    for producer in range(5):
        await sent(engine, producer, 0)
    head_before = await head_of(engine, head_id)
    await sent(engine, 2, 1)
    await store.engine(1, **CROWDED).index.spill(head_id, head_before)
    head = await head_of(engine, head_id)
    assert (len(head.tail), sorted(head.stamps), head.evictions) == (1, ["2"], 4)
    await sent(engine, 2, 2)
    await sent(engine, 0, 1)


async def test_an_older_row_never_replaces_a_newer_one(store: Store) -> None:
    engine = store.engine(**CROWDED)
    head_id = await topic_of(engine)
    await sent(engine, 7, 0)
    old = (await head_of(engine, head_id)).stamps[id_name_of(7)]
    await push_out(store, engine)
    await sent(engine, 7, 1)
    await push_out(store, engine)
    write = engine.index.producer_rows.write_stamps
    assert not await write(head_id, 7, old, seen_at=1, committed_ms=1)
    row = await store.log.get(Key(partition_pk(head_id), producer_sk(7)))
    assert row is not None
    assert row["p"] == {"0": 2, "1": 2, "2": 2}


async def test_a_transaction_reads_the_row_of_a_head_once(store: Store) -> None:
    engine = store.engine(**CROWDED)
    head_id = await topic_of(engine)
    producer = await Transactor(engine, bumps=False).init()
    for number in range(PLACES):
        await producer.send("t", number, b"1")
    await producer.commit()
    await push_out(store, engine)
    assert id_name_of(producer.producer_id) not in (await head_of(engine, head_id)).stamps
    reads = []
    for text in (b"2", b"3"):
        for number in range(2):
            await producer.send("t", number, text)
        store.log.calls.clear()
        await producer.commit()
        reads.append(store.log.calls.count("get"))
    assert reads[0] - reads[1] == 1, "the second finds it in the head"
    stamps = (await head_of(engine, head_id)).stamps[id_name_of(producer.producer_id)]
    assert stamps == {"0": 3, "1": 3, "2": 1}
    assert [(await values(engine, "t", number))[-1] for number in range(2)] == [b"3", b"3"]
    zombie = batch([b"1"], producer=(producer.producer_id, producer.epoch, 0))
    [again] = await engine.produce([ProducePartition("t", 2, zombie)])
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 0)


async def test_evicted_producers_are_described_until_they_expire(store: Store) -> None:
    engine = store.engine(**CROWDED)
    head_id = await topic_of(engine)
    await sent(engine, 7, 0, [1])
    await push_out(store, engine)
    second = PartitionId(head_id.topic_id, 1)
    assert [
        (producer.producer_id, producer.last_sequence) for producer in await engine.partition_states.producers(second)
    ] == [(7, 0)]
    assert await engine.partition_states.producers(head_id) == []
    store.clock.advance(2 * DAY_S)
    assert (await engine.maintenance.run()).done["producers_expired"] == 1
    assert await engine.partition_states.producers(second) == []
    [unknown] = await send(engine, 7, 1, [1])
    assert unknown.error is ErrorCode.UNKNOWN_PRODUCER_ID


async def test_a_row_of_a_newer_release_stops_the_append(store: Store) -> None:
    engine = store.engine(**CROWDED)
    head_id = await topic_of(engine)
    await sent(engine, 7, 0)
    await push_out(store, engine)
    key = Key(partition_pk(head_id), producer_sk(7))
    await store.log.update(Update(key, (Set(("v",), VERSION + 1),)))
    assert {result.error for result in await send(engine, 7, 1)} == {ErrorCode.KAFKA_STORAGE_ERROR}


# --- decisions ----------------------------------------------------------------------------------------------------


def element(producer: int, commit_ms: int) -> bytes:
    entry = TailEntry(
        b"a" * 16, 0, 100, 1, 0, producer_id=producer, producer_epoch=0, base_sequence=0, commit_ms=commit_ms
    )
    return encode_packed_entries([PlacedEntry(0, entry)])


def page_of(head: SharedHead, count: int) -> Page:
    return Page(head.paged, head.tail[:count], 100, 0)


def test_who_leaves() -> None:
    tail = tuple(element(producer, 10 * producer) for producer in (1, 2, 3))
    stamps = {str(name): {"0": stamp_of(0, 1)} for name in (1, 2, 3, 4, 5)}
    head = SharedHead(tail=tail, stamps=stamps, left_ms={"4": 5, "5": 15})
    idle = Settings(producer_idle_ms=90)
    assert who_leaves(head, page_of(head, 2), idle) == ["4"], "only it was silent since before 10"
    full = Settings(producers_bytes_max=head.producer_bytes - 1)
    assert who_leaves(head, page_of(head, 2), full) == ["4", "1", "5", "2"], (
        "the longest silent first, 3 is in the tail"
    )
    was_full = SharedHead(tail=tail, stamps=stamps, left_ms={"4": 5, "5": 15}, crowded_until=4)
    assert len(who_leaves(was_full, page_of(head, 2), Settings())) == 4
    many = SharedHead(stamps={id_name_of(number): {"0": 1} for number in range(1_000)})
    assert len(who_leaves(many, page_of(many, 0), full)) == SPILL_SETTLED_MAX


@pytest.mark.parametrize(
    ("head_bytes", "added_bytes", "paged_bytes", "count"),
    [
        (500, 10, 10, 51),  # until the head would cost another unit
        (500, 20_000, 20_000, 1),
        (700, 400, 240, 2),
        (5_000, 100, 100, 10),
    ],
)
def test_a_page_comes_after_as_many_appends_as_cost_least(
    head_bytes: int, added_bytes: int, paged_bytes: int, count: int
) -> None:
    assert cheapest_page(head_bytes, added_bytes, paged_bytes) == count


def test_what_a_producer_takes_of_a_head() -> None:
    """The id stands once, with a few bytes for each of 24 partitions."""
    stamps = {"2s": {"0123456789abcdefghijklmnopqrstuvwxyz"[position]: stamp_of(0, 12_345) for position in range(24)}}
    head, none = SharedHead(stamps=stamps), SharedHead()
    assert head.size_bytes - none.size_bytes <= head.producer_bytes <= 24 * 7
    assert item_size("", "", {"p": {}}) > 0
