"""The append protocol: one upload, one conditional update a partition, at most once whatever is lost or late."""

from __future__ import annotations

import asyncio

import pytest
from odradek.errors import ErrorCode
from odradek.format.item_keys import HEAD_SK, partition_pk
from odradek.limits import REQUEST_BATCHES_PER_PARTITION_MAX
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Key, Set, Update
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all

BIG = b"x" * 20_000  # more than item_bytes_max: goes to an object


@pytest.fixture
async def store() -> Store:
    store = memory_store(per_head=1)
    await store.engine().topics.create("t", 3)
    for port in (store.log, store.groups, store.catalog, store.objects):
        port.calls.clear()
    return store


async def head_item(store: Store, partition: int = 0) -> tuple[Key, dict[str, object]]:
    topic = await store.engine().topics.resolve("t")
    key = Key(partition_pk(PartitionId(topic.topic_id, partition)), HEAD_SK)
    return key, await store.log.get(key)


async def test_the_happy_path_is_one_upload_and_one_update_a_partition_without_a_read(store: Store) -> None:
    engine = store.engine()
    requests = [ProducePartition("t", p, batch([BIG])) for p in range(3)]
    results = await engine.produce(requests)
    assert [(r.error, r.base_offset, r.partition) for r in results] == [(0, 0, p) for p in range(3)]
    assert store.objects.calls == ["put"]
    assert store.log.calls == ["update"] * 3


async def test_a_small_request_is_one_item_and_no_object(store: Store) -> None:
    engine = store.engine()
    assert (await produce(engine, "t", 0, batch([b"small"]))).base_offset == 0
    assert store.objects.calls == []
    assert sorted(store.log.calls) == ["put", "update"]
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"small"]


async def test_offsets_are_dense_over_batches_and_engines(store: Store) -> None:
    one, two = store.engine(1), store.engine(2)
    offsets = [
        (await produce(engine, "t", 0, batch([b"%d" % i] * (i + 1)))).base_offset
        for i, engine in enumerate([one, two, one, two])
    ]
    assert offsets == [0, 1, 3, 6]
    assert [r.offset for r in await read_all(one, "t", 0)] == list(range(10))


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("producer", [(-1, -1, -1), (7, 0, 0)])
async def test_an_update_that_fails_in_any_way_is_applied_once(
    store: Store, fault: Fault, producer: tuple[int, int, int]
) -> None:
    engine = store.engine()
    store.log.script[("update", 1)] = fault
    result = await produce(engine, "t", 0, batch([b"a", b"b"], producer=producer))
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    await store.log.deliver_late()
    assert (await produce(engine, "t", 0, batch([b"c"]))).base_offset == 2
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE])
async def test_an_upload_that_fails_is_made_again_under_the_same_name(store: Store, fault: Fault) -> None:
    engine = store.engine()
    store.objects.script[("put", 1)] = fault
    assert (await produce(engine, "t", 0, batch([BIG]))).base_offset == 0
    await store.objects.deliver_late()
    assert [r.value for r in await read_all(engine, "t", 0)] == [BIG]
    assert len(await store.objects.list("wal/")) == 1


async def test_a_late_update_is_refused_after_its_entry_was_spilled(store: Store) -> None:
    """The first attempt is delivered when the tail no longer shows that the second one was applied."""
    engine = store.engine(head_bytes_max=300, spill_entries=1)
    store.log.script[("update", 1)] = Fault.LATE
    assert (await produce(engine, "t", 0, batch([b"once"]))).base_offset == 0
    for i in range(10):
        await produce(engine, "t", 0, batch([b"%d" % i]))
    _, item = await head_item(store)
    assert item["tb"] > 0, "the entry must have left the tail for this test to mean anything"
    assert await store.log.deliver_late() == 0
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"once", *(b"%d" % i for i in range(10))]


async def test_a_lost_answer_is_found_in_the_index_rows(store: Store) -> None:
    """Applied, answer lost, spilled by others before the writer asks again."""
    engine, other = store.engine(1), store.engine(2, head_bytes_max=300, spill_entries=1)
    original = store.clock.sleep

    async def others_write(seconds: float) -> None:
        store.clock.sleep = original  # type: ignore[method-assign]
        for i in range(8):
            await produce(other, "t", 0, batch([b"%d" % i]))

    store.log.script[("update", 1)] = Fault.LOST_ANSWER
    store.clock.sleep = others_write  # type: ignore[method-assign]
    result = await produce(engine, "t", 0, batch([b"mine"]))
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    values = [r.value for r in await read_all(engine, "t", 0)]
    assert values.count(b"mine") == 1
    assert len(values) == 9


async def test_a_commit_time_below_the_spill_floor_is_replaced(store: Store) -> None:
    """A writer whose clock is behind is not locked out."""
    engine = store.engine()
    key, _ = await head_item(store)
    await store.log.update(Update(key, (Set(("sf",), store.clock.now_ms() + 60_000),)))
    assert (await produce(engine, "t", 0, batch([b"a"]))).base_offset == 0
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"a"]


async def test_a_writer_past_the_sweep_floor_uploads_again(store: Store) -> None:
    engine = store.engine()
    key, _ = await head_item(store)
    floor = (store.clock.now_ms() + 1).to_bytes(6, "big") + bytes(10)
    await store.log.update(Update(key, (Set(("wf",), floor),)))
    original = store.log._port.put

    async def stalled_put(put: object) -> None:
        store.log._port.put = original
        await original(put)
        store.clock.advance(3600)

    store.log._port.put = stalled_put
    result = await produce(engine, "t", 0, batch([b"late"]))
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"late"]
    item = await store.log.get(key)
    assert item["t"][0][2:18] >= floor


async def test_a_store_that_stays_away_is_a_retryable_error_that_says_nothing_was_appended(store: Store) -> None:
    engine = store.engine(append_attempts_max=3)
    store.log.script |= {("update", n): Fault.UNAVAILABLE for n in range(1, 4)}
    result = await produce(engine, "t", 0, batch([b"a"]))
    assert result.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert result.error.is_retryable
    assert result.error.has_no_side_effects
    assert await read_all(engine, "t", 0) == []


async def test_an_outcome_that_stays_unknown_is_said_to_be_so(store: Store) -> None:
    engine = store.engine(append_attempts_max=3)
    store.log.script |= {("update", n): Fault.LOST_REQUEST for n in range(1, 4)}
    result = await produce(engine, "t", 0, batch([b"a"]))
    assert result.error is ErrorCode.REQUEST_TIMED_OUT
    assert not result.error.has_no_side_effects


async def test_many_writers_never_lose_or_double(store: Store) -> None:
    engines = [store.engine(seed, head_bytes_max=500, spill_entries=2) for seed in range(8)]

    async def write(number: int) -> list[int]:
        return [
            (await produce(engines[number], "t", 0, batch([b"%d-%d" % (number, i)]))).base_offset for i in range(25)
        ]

    offsets = await asyncio.gather(*(write(number) for number in range(8)))
    assert sorted(offset for offsets_of_writer in offsets for offset in offsets_of_writer) == list(range(200))
    records = await read_all(engines[0], "t", 0)
    assert len({r.value for r in records}) == 200
    for number, mine in enumerate(offsets):
        assert [records[offset].value for offset in mine] == [b"%d-%d" % (number, i) for i in range(25)]


# --- sequences ----------------------------------------------------------------------------------------------------


async def test_duplicates_of_the_last_five_batches_get_their_original_offsets(store: Store) -> None:
    engine = store.engine(head_bytes_max=300, spill_entries=1, producers_in_head_max=1)
    first = [(await produce(engine, "t", 0, batch([b"a"], producer=(5, 0, s)))).base_offset for s in range(8)]
    assert first == list(range(8))
    again = [await produce(engine, "t", 0, batch([b"a"], producer=(5, 0, s))) for s in range(3, 8)]
    assert [(r.error, r.base_offset) for r in again] == [(0, s) for s in range(3, 8)]
    assert (await produce(engine, "t", 0, batch([b"a"], producer=(5, 0, 0)))).error in (
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.NONE,
    )
    assert len(await read_all(engine, "t", 0)) == 8


async def test_producers_at_work_stay_in_the_head_and_silent_ones_leave_it(store: Store) -> None:
    engine = store.engine(producer_idle_ms=60_000)
    for sequence in range(10):
        for producer_id in range(1, 17):
            await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, sequence)))
    _, item = await head_item(store)
    assert len(item["p"]) == 16
    assert item["pv"] == 0
    store.clock.advance(61)
    for sequence in range(40):
        assert not (await produce(engine, "t", 0, batch([b"x"], producer=(99, 0, sequence)))).error
    _, item = await head_item(store)
    assert set(item["p"]) == {"99"}
    assert (await produce(engine, "t", 0, batch([b"x"], producer=(7, 0, 10)))).base_offset == 200
    again = await produce(engine, "t", 0, batch([b"x"], producer=(3, 0, 9)))
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 9 * 16 + 2)


async def test_an_evicted_producer_is_remembered(store: Store) -> None:
    engine = store.engine(head_bytes_max=300, spill_entries=1, producers_in_head_max=1)
    for producer_id in range(6):
        for sequence in range(2):
            result = await produce(engine, "t", 0, batch([b"%d" % producer_id], producer=(producer_id, 0, sequence)))
            assert result.error is ErrorCode.NONE
    _, item = await head_item(store)
    assert item["pv"] > 0
    assert len(item["p"]) < 6
    before = len(await read_all(engine, "t", 0))
    duplicate = await produce(engine, "t", 0, batch([b"0"], producer=(0, 0, 1)))
    assert (duplicate.error, duplicate.base_offset) == (ErrorCode.NONE, 1)
    assert len(await read_all(engine, "t", 0)) == before
    assert (await produce(engine, "t", 0, batch([b"0"], producer=(0, 0, 2)))).base_offset == before
    fresh = await produce(engine, "t", 0, batch([b"new"], producer=(99, 0, 0)))
    assert fresh.base_offset == before + 1


async def test_the_last_five_batches_of_a_producer_that_left_the_head_and_came_back_are_known(store: Store) -> None:
    engine = store.engine(head_bytes_max=300, spill_entries=1, producers_in_head_max=1)
    for sequence in range(4):
        await produce(engine, "t", 0, batch([b"x"], producer=(7, 0, sequence)))
    for producer_id in range(100, 106):
        await produce(engine, "t", 0, batch([b"y"], producer=(producer_id, 0, 0)))
    _, item = await head_item(store)
    assert "7" not in item["p"]
    assert (await produce(engine, "t", 0, batch([b"x"], producer=(7, 0, 4)))).base_offset == 10
    for sequence in range(4):
        again = await produce(engine, "t", 0, batch([b"x"], producer=(7, 0, sequence)))
        assert (again.error, again.base_offset) == (ErrorCode.NONE, sequence)
    assert len(await read_all(engine, "t", 0)) == 11


async def test_reading_an_evicted_producer_backs_off(store: Store) -> None:
    """While the store answers nothing each try waits longer than the one before it, as those of the update do."""
    engine = store.engine(head_bytes_max=300, spill_entries=1, producers_in_head_max=1)
    for producer_id in range(6):
        await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))
    store.clock.advance(1)  # above the spill floor: no rows are searched
    store.log.calls.clear()
    store.log.script = {("get", number): Fault.UNAVAILABLE for number in range(1, 200)}
    started = store.clock.monotonic()
    result = await produce(engine, "t", 0, batch([b"y"], producer=(0, 0, 1)))
    assert result.error.is_retryable
    assert store.log.count("get") > 5, "it is the row that could not be read"
    assert store.clock.monotonic() - started > 0.25 * store.log.count("get")


async def test_a_gap_is_out_of_order_after_a_bounded_wait(store: Store) -> None:
    engine = store.engine(sequence_wait_ms=200)
    await produce(engine, "t", 0, batch([b"a"], producer=(5, 0, 0)))
    started = store.clock.monotonic()
    result = await produce(engine, "t", 0, batch([b"c"], producer=(5, 0, 2)))
    assert result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert 0.2 <= store.clock.monotonic() - started < 1
    assert len(await read_all(engine, "t", 0)) == 1


async def test_a_batch_that_overtook_its_predecessor_waits_for_it(store: Store) -> None:
    engine = store.engine()
    await produce(engine, "t", 0, batch([b"0"], producer=(5, 0, 0)))
    late, early = await asyncio.gather(
        produce(engine, "t", 0, batch([b"2"], producer=(5, 0, 2))),
        produce(engine, "t", 0, batch([b"1"], producer=(5, 0, 1))),
    )
    assert (early.base_offset, late.base_offset) == (1, 2)
    assert [r.value for r in await read_all(engine, "t", 0)] == [b"0", b"1", b"2"]


async def test_the_first_batches_of_a_producer_may_overtake_each_other(store: Store) -> None:
    engine = store.engine()
    late, early = await asyncio.gather(
        produce(engine, "t", 0, batch([b"1"], producer=(5, 0, 1))),
        produce(engine, "t", 0, batch([b"0"], producer=(5, 0, 0))),
    )
    assert (early.base_offset, late.base_offset) == (0, 1)


async def test_an_unknown_producer_in_mid_sequence_is_told_so(store: Store) -> None:
    result = await produce(store.engine(), "t", 0, batch([b"x"], producer=(5, 0, 9)))
    assert result.error is ErrorCode.UNKNOWN_PRODUCER_ID


async def test_a_newer_epoch_fences_the_older(store: Store) -> None:
    engine = store.engine()
    await produce(engine, "t", 0, batch([b"a"], producer=(5, 0, 0)))
    assert (await produce(engine, "t", 0, batch([b"b"], producer=(5, 1, 0)))).base_offset == 1
    fenced = await produce(engine, "t", 0, batch([b"c"], producer=(5, 0, 1)))
    assert fenced.error is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_sequences_wrap(store: Store) -> None:
    engine = store.engine()
    key, _ = await head_item(store)
    await store.log.update(Update(key, (Set(("p", "5"), {"e": 0, "s": 2**31 - 2}),)))
    last = batch([b"a", b"b", b"c"], producer=(5, 0, 2**31 - 2))
    assert (await produce(engine, "t", 0, last)).base_offset == 0
    assert (await produce(engine, "t", 0, batch([b"d"], producer=(5, 0, 1)))).base_offset == 3
    assert (await produce(engine, "t", 0, last)).base_offset == 0


async def test_conditional_produce_has_one_winner(store: Store) -> None:
    engine = store.engine()
    results = await asyncio.gather(*(produce(engine, "t", 0, batch([b"%d" % i]), expected_offset=0) for i in range(5)))
    assert sorted(r.error for r in results) == [ErrorCode.NONE] + [ErrorCode.OFFSET_OUT_OF_RANGE] * 4
    assert all("next offset is 1, not 0" in (r.message or "") for r in results if r.error)
    assert len(await read_all(engine, "t", 0)) == 1


# --- refusals -----------------------------------------------------------------------------------------------------


async def test_an_invalid_partition_leaves_no_trace_and_spares_the_others(store: Store) -> None:
    engine = store.engine()
    corrupt = bytearray(batch([b"a"]))
    corrupt[-1] ^= 0xFF
    results = await engine.produce(
        [
            ProducePartition("t", 0, bytes(corrupt)),
            ProducePartition("t", 1, batch([b"fine"])),
            ProducePartition("t", 9, batch([b"a"])),
            ProducePartition("nowhere", 0, batch([b"a"])),
            ProducePartition("bad name!", 0, batch([b"a"])),
        ]
    )
    assert [r.error for r in results] == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert all(r.message for r in results if r.error)
    assert await read_all(engine, "t", 0) == []
    assert [r.value for r in await read_all(engine, "t", 1)] == [b"fine"]


async def test_nothing_is_uploaded_for_a_request_that_is_invalid_whole(store: Store) -> None:
    result = await produce(store.engine(), "t", 0, batch([b"a"])[:-1])
    assert result.error
    assert "update" not in store.log.calls
    assert "put" not in store.log.calls + store.objects.calls


async def test_a_null_key_is_refused_in_a_compacted_topic(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("c", 1, {"cleanup.policy": "compact"})
    assert (await produce(engine, "c", 0, batch([b"v"]))).error is ErrorCode.INVALID_RECORD
    assert (await produce(engine, "c", 0, batch([None], keys=[b"k"]))).base_offset == 0


async def test_max_message_bytes_is_the_topics(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("small", 1, {"max.message.bytes": "1000"})
    assert (await produce(engine, "small", 0, batch([b"x" * 2000]))).error is ErrorCode.MESSAGE_TOO_LARGE


async def test_log_append_time_is_the_commits(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    result = await produce(engine, "stamped", 0, batch([b"a", b"b"], timestamp_ms=5))
    assert result.log_append_time_ms == store.clock.now_ms()
    records = await read_all(engine, "stamped", 0)
    assert {r.timestamp_ms for r in records} == {result.log_append_time_ms}


async def test_an_append_to_a_deleted_topic_is_refused_though_the_row_is_still_cached(store: Store) -> None:
    writer, admin = store.engine(1), store.engine(2)
    await produce(writer, "t", 0, batch([b"a"]))
    await admin.topics.delete("t")
    result = await produce(writer, "t", 0, batch([b"b"]))
    assert result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_request_of_too_many_batches_is_refused_whole(store: Store) -> None:
    many = batch([b"x"]) * (REQUEST_BATCHES_PER_PARTITION_MAX + 1)
    result = await produce(store.engine(), "t", 0, many)
    assert result.error is ErrorCode.INVALID_RECORD
    assert store.log.calls == []


async def test_a_head_without_room_is_spilled_and_takes_the_append(store: Store) -> None:
    """Spills failed while requests of many batches came: no append could succeed, and so none could spill."""
    key, item = await head_item(store)
    engine = store.engine()
    await produce(engine, "t", 0, batch([b"first"]))
    _, item = await head_item(store)
    [entry] = item["t"]
    fill = [entry[:-8] + i.to_bytes(8, "big") for i in range(6_300)]
    await store.log.update(Update(key, (Set(("t",), [*item["t"], *fill]), Set(("no",), 6_301))))
    many = batch([b"x"]) * REQUEST_BATCHES_PER_PARTITION_MAX
    result = await produce(engine, "t", 0, many)
    assert (result.error, result.base_offset) == (0, 6_301)
    _, item = await head_item(store)
    assert item["tb"] > 0


async def test_a_catalog_that_does_not_answer_is_no_coordinator_to_a_producer(store: Store) -> None:
    """COORDINATOR_NOT_AVAILABLE is no answer to Produce: some clients give the batch up."""
    store.catalog.script = {("get", number): Fault.UNAVAILABLE for number in range(1, 50)}
    result = await produce(store.engine(1), "t", 0, batch([b"x"]))
    assert result.error is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("producer_id", [-1, 7])
async def test_each_batch_of_a_swept_request_is_uploaded_again_and_read_from_its_new_place(
    store: Store, producer_id: int
) -> None:
    engine = store.engine()
    topic = await engine.topics.resolve("t")
    for number in range(2):
        floor = (store.clock.now_ms() + 1_000).to_bytes(6, "big") + bytes(10)
        await engine.index.raise_sweep_floor(PartitionId(topic.topic_id, number), floor)
    values = [[b"%d/%d" % (number, i) * 50 for i in range(3)] for number in range(2)]
    producers = [(-1, -1, -1) if producer_id < 0 else (producer_id, 0, sequence) for sequence in range(3)]
    results = await engine.produce(
        [
            ProducePartition(
                "t", number, b"".join(batch([v], producer=p) for v, p in zip(partition_values, producers, strict=True))
            )
            for number, partition_values in enumerate(values)
        ]
    )
    assert [result.error for result in results] == [ErrorCode.NONE] * 2
    for number, partition_values in enumerate(values):
        assert [record.value for record in await read_all(store.engine(), "t", number)] == partition_values
