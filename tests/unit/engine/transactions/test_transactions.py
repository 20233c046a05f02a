"""Promises to a transactional producer, over memory stores."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.engine.partition.head import head_key
from odradek.engine.transactions.items import TransactionRow, pending_range
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import PRODUCER_EPOCH_MAX, SEQUENCE_MAX
from odradek.model.log import FetchPartition, ProducePartition
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.ports.table import Set, Update
from odradek.testing.faults import Fault

from tests.support.clients.transactional_producer import TIMEOUT_MS, Transactor, committed, transactional_batch, values
from tests.support.engine import Store, batch, memory_store, produce


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
async def engine(store: Store) -> Engine:
    engine = store.engine()
    await engine.topics.create("a", 2)
    await engine.topics.create("b", 1)
    return engine


async def set_row(engine: Engine, **fields: Any) -> None:
    """Put the row of "tx" into a state that would take thousands of calls to reach."""

    def decide(row: TransactionRow | None, fresh_id: int | None) -> TransactionRow:
        assert row is not None
        changed = replace(row, **fields)
        return row if replace(changed, version=row.version) == row else changed

    await engine.transactions.store.change("tx", decide)


async def refused(call: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await call
    return caught.value.code


@pytest.mark.parametrize("bumps", [False, True])
async def test_a_commit_shows_all_partitions_and_offsets_at_once_and_nothing_before(
    engine: Engine, bumps: bool
) -> None:
    producer = await Transactor(engine, bumps=bumps).init()
    await producer.send("a", 0, b"1", b"2")
    await producer.send("a", 0, b"3")
    await producer.send("b", 0, b"4")
    await producer.send_offset("group", "a", 1, 7)
    assert await values(engine, "a") == await values(engine, "b") == []
    assert await committed(engine, "group", "a", 1) is None
    await producer.commit()
    assert await values(engine, "a") == [b"1", b"2", b"3"]
    assert await values(engine, "b") == [b"4"]
    assert await committed(engine, "group", "a", 1) == 7


@pytest.mark.parametrize("bumps", [False, True])
async def test_an_abort_leaves_no_trace_and_the_next_transaction_goes_on(engine: Engine, bumps: bool) -> None:
    producer = await Transactor(engine, bumps=bumps).init()
    for round_, value in enumerate((b"first", b"second", b"third")):
        await producer.send("a", 0, b"not this", b"nor this")
        await producer.send_offset("group", "b", 0, 99)
        await producer.abort()
        await producer.send("a", 0, value)
        await producer.send("a", 1, value)
        await producer.commit()
        assert await values(engine, "a") == [b"first", b"second", b"third"][: round_ + 1]
    assert await values(engine, "a", 1) == [b"first", b"second", b"third"]
    assert await committed(engine, "group", "b") is None


async def test_a_fetch_sees_no_uncommitted_offsets(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await produce(engine, "a", 0, batch([b"plain"]))
    await producer.send("a", 0, b"open")
    [result] = await engine.fetch([FetchPartition("a", 0, 0)])
    assert result.high_watermark == 1
    await produce(engine, "a", 0, batch([b"meanwhile"]))
    await producer.commit()
    assert await values(engine, "a") == [b"plain", b"meanwhile", b"open"]


async def test_a_commit_is_one_transaction_however_many_partitions(store: Store, engine: Engine) -> None:
    await engine.topics.create("wide", 40)
    producer = await Transactor(engine).init()
    for partition in range(40):
        await producer.send("wide", partition, b"x")
    store.log.calls.clear()
    await producer.commit()
    assert store.tables.across.calls == ["transact"]
    assert store.log.count("update") == 0


async def test_an_abort_of_the_second_protocol_is_one_read_and_one_write(store: Store, engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"x")
    for table in (store.log, store.catalog):
        table.calls.clear()
    await producer.abort()
    assert (store.catalog.calls, store.log.calls, store.tables.across.calls) == (["get", "put"], [], [])


# --- duplicates and order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bumps", [False, True])
async def test_a_produce_that_is_repeated_in_its_transaction_counts_once(engine: Engine, bumps: bool) -> None:
    producer = await Transactor(engine, bumps=bumps).init()
    await producer.send("a", 0, b"1")
    request = producer.request("a", 0, b"2")
    for _ in range(3):
        [result] = await producer.produce(request)
        assert not result.error
    await producer.commit()
    assert await values(engine, "a") == [b"1", b"2"]


async def test_requests_of_a_transaction_may_overtake_each_other(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    requests = [producer.request("a", 0, b"%d" % i) for i in range(5)]
    for request in reversed(requests):
        [result] = await producer.produce(request)
        assert not result.error
    await producer.commit()
    assert await values(engine, "a") == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_lost_batch_fails_the_whole_transaction(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("b", 0, b"good")
    producer.request("a", 0, b"lost")
    await producer.send("a", 0, b"after it")
    assert await refused(producer.commit()) is ErrorCode.TRANSACTION_ABORTABLE
    assert await values(engine, "a") == await values(engine, "b") == []
    await producer.abort()
    await producer.send("a", 0, b"again")
    await producer.commit()
    assert await values(engine, "a") == [b"again"]


async def test_a_recreated_topic_costs_a_producer_of_the_first_protocol_one_transaction(engine: Engine) -> None:
    """It keeps epoch and sequences over transactions: to the new log a batch before its first is missing."""
    producer = await Transactor(engine, bumps=False).init()
    await producer.send("a", 0, b"1", b"2")
    await producer.commit()
    await engine.topics.delete("a")
    await engine.topics.create("a", 1)
    await producer.send("a", 0, b"3")
    assert await refused(producer.commit()) is ErrorCode.TRANSACTION_ABORTABLE
    await producer.abort()
    for value in (b"4", b"5"):
        await producer.send("a", 0, value)
        await producer.commit()
    assert await values(engine, "a") == [b"4", b"5"]


async def test_other_batches_under_a_used_sequence_are_refused(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"1")
    other = transactional_batch([b"1", b"2"], producer.producer_id, producer.epoch, 0)
    [result] = await producer.produce(ProducePartition("a", 0, other))
    assert result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_late_duplicate_of_an_aborted_batch_never_enters_a_log(engine: Engine) -> None:
    """The first protocol keeps the epoch, so only its sequence tells that the batch is of an earlier transaction."""
    producer = await Transactor(engine, bumps=False).init()
    late = producer.request("a", 0, b"aborted")
    await producer.announce("a", 0)
    await producer.produce(late)
    await producer.abort()
    await producer.send("a", 0, b"good")
    [result] = await producer.produce(late)
    assert not result.error
    await producer.commit()
    assert await values(engine, "a") == [b"good"]


@pytest.mark.parametrize("commit", [False, True])
async def test_a_late_duplicate_alone_does_not_move_the_sequence_back(engine: Engine, commit: bool) -> None:
    """A transaction that holds nothing else of the partition ends; what was used up before it still is."""
    producer = await Transactor(engine, bumps=False).init()
    first = producer.request("a", 0, b"1")
    aborted = producer.request("a", 0, b"aborted")
    for request, commits in ((first, True), (aborted, False)):
        await producer.announce("a", 0)
        await producer.produce(request)
        await producer.end(commit=commits)
    for late in (first, aborted):
        await producer.announce("a", 0)
        await producer.produce(late)
        await producer.send("b", 0, b"beside")
        await producer.end(commit=commit)
    await producer.announce("a", 0)
    await producer.produce(aborted)
    await producer.send("a", 0, b"good")
    await producer.commit()
    assert await values(engine, "a") == [b"1", b"good"]


async def test_a_late_duplicate_in_an_aborted_transaction_leaves_the_log_where_it_was(engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init()
    first = producer.request("a", 0, b"1")
    await producer.announce("a", 0)
    await producer.produce(first)
    await producer.commit()
    await producer.send("a", 0, b"2")
    await producer.commit()
    await producer.announce("a", 0)
    await producer.produce(first)
    await producer.abort()
    await producer.send("a", 0, b"3")
    await producer.commit()
    assert await values(engine, "a") == [b"1", b"2", b"3"]


async def test_a_late_produce_of_the_second_protocol_is_fenced_by_the_end(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"1")
    late = producer.request("a", 0, b"late")
    await producer.commit()
    [result] = await producer.produce(late)
    assert result.error is ErrorCode.PRODUCER_FENCED
    assert not (await engine.transactions.list())[0].is_ongoing


async def test_sequences_wrap_within_a_transaction(engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init()
    row = await engine.transactions.describe("tx")
    assert row is not None
    topic = await engine.topics.resolve("a")
    # As if aborted transactions of this epoch had used up all sequences but two.

    start = SEQUENCE_MAX - 1
    await set_row(engine, aborted_sequences={PartitionId(topic.topic_id, 0): start})
    producer.sequences["a", 0] = start
    await producer.send("a", 0, b"1", b"2")
    producer.sequences["a", 0] = 0
    await producer.send("a", 0, b"3")
    await producer.commit()
    assert await values(engine, "a") == [b"1", b"2", b"3"]


# --- fencing ------------------------------------------------------------------------------------------------------


async def test_a_second_instance_fences_the_first_and_aborts_what_it_had_open(engine: Engine) -> None:
    zombie = await Transactor(engine).init()
    await zombie.send("a", 0, b"zombie")
    fresh = await Transactor(engine).init()
    assert (fresh.producer_id, fresh.epoch) == (zombie.producer_id, zombie.epoch + 1)
    [result] = await zombie.produce(zombie.request("a", 0, b"more"))
    assert result.error is ErrorCode.PRODUCER_FENCED
    assert await refused(zombie.commit()) is ErrorCode.PRODUCER_FENCED
    assert await refused(zombie.abort()) is ErrorCode.PRODUCER_FENCED
    assert await refused(zombie.init(keep=True)) is ErrorCode.PRODUCER_FENCED
    with pytest.raises(KafkaError):
        await zombie.send_offset("group", "a", 0, 1)
    await fresh.send("a", 0, b"fresh")
    await fresh.commit()
    assert await values(engine, "a") == [b"fresh"]


async def test_a_producer_that_keeps_its_id_gets_the_next_epoch_once(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"dropped")
    before = (producer.producer_id, producer.epoch)
    ids = [
        await engine.transactions.init("tx", TIMEOUT_MS, producer_id=before[0], producer_epoch=before[1])
        for _ in range(2)
    ]
    assert ids == [(before[0], before[1] + 1)] * 2
    producer._take(ids[0])
    await producer.send("a", 0, b"kept")
    await producer.commit()
    assert await values(engine, "a") == [b"kept"]


@pytest.mark.parametrize("keep", [False, True])
async def test_an_id_that_begins_again_takes_over_nothing_of_what_was_going_on(engine: Engine, keep: bool) -> None:
    """Records, offsets and sequences of the open transaction are dropped; the next one has its own alone."""
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"dropped 0")
    await producer.send("a", 1, b"dropped 1")
    await producer.send_offset("group", "b", 0, 5)
    again = producer if keep else Transactor(engine)
    await again.init(keep=keep)
    [described] = await engine.transactions.list()
    assert not described.is_ongoing
    assert await refused(engine.transactions.end("tx", again.producer_id, again.epoch, commit=True, bump=True)) is (
        ErrorCode.INVALID_TXN_STATE
    ), "nothing has been added to it yet"
    await again.send("a", 0, b"kept")
    await again.commit()
    assert (await values(engine, "a", 0), await values(engine, "a", 1)) == ([b"kept"], [])
    assert await committed(engine, "group", "b", 0) is None


async def test_a_repeated_beginning_does_not_drop_what_its_answer_began(engine: Engine) -> None:
    """InitProducerId of the former epoch arrives twice; its producer has gone on after the first answer."""
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"dropped")
    former = (producer.producer_id, producer.epoch)
    await producer.init(keep=True)
    await producer.send("a", 0, b"kept")
    late = engine.transactions.init("tx", TIMEOUT_MS, producer_id=former[0], producer_epoch=former[1])
    assert await refused(late) is ErrorCode.PRODUCER_FENCED
    await producer.commit()
    assert await values(engine, "a") == [b"kept"]


async def test_epochs_that_are_used_up_give_a_new_producer_id(engine: Engine) -> None:

    producer = await Transactor(engine).init()
    first_id = producer.producer_id
    await set_row(engine, producer_epoch=PRODUCER_EPOCH_MAX)
    producer.epoch = PRODUCER_EPOCH_MAX
    await producer.send("a", 0, b"last")
    await producer.commit()
    assert producer.epoch == 0
    assert producer.producer_id != first_id
    again = await engine.transactions.end("tx", first_id, PRODUCER_EPOCH_MAX, commit=True, bump=True)
    assert again == (producer.producer_id, 0)
    await producer.send("a", 0, b"first")
    await producer.commit()
    assert await values(engine, "a") == [b"last", b"first"]


async def test_a_plain_producer_of_a_newer_epoch_stops_the_commit(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"old epoch")
    await producer.send("b", 0, b"elsewhere")
    plain = batch([b"plain"], producer=(producer.producer_id, producer.epoch + 1, 0))
    assert not (await produce(engine, "a", 0, plain)).error
    assert await refused(producer.commit()) is ErrorCode.TRANSACTION_ABORTABLE
    assert await values(engine, "a") == [b"plain"]
    assert await values(engine, "b") == []


async def test_a_producer_that_was_evicted_from_the_head_is_still_known(store: Store) -> None:
    engine = store.engine(head_bytes_max=400, spill_entries=1, producers_in_head_max=1)
    await engine.topics.create("a", 1)
    producer = await Transactor(engine, bumps=False).init()
    await producer.send("a", 0, b"1")
    await producer.commit()
    for i in range(12):
        assert not (await produce(engine, "a", 0, batch([b"other"], producer=(999, 0, i)))).error
    await producer.send("a", 0, b"2")
    await producer.commit()
    assert (await values(engine, "a"))[-1] == b"2"
    zombie = batch([b"old"], producer=(producer.producer_id, producer.epoch, 0))
    assert (await produce(engine, "a", 0, zombie)).base_offset == 0


# --- the state machine --------------------------------------------------------------------------------------------


async def test_ending_is_repeatable_and_only_what_was_asked(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"1")
    end = engine.transactions.end
    first = await end("tx", producer.producer_id, 0, commit=True, bump=True)
    assert await end("tx", producer.producer_id, 0, commit=True, bump=True) == first == (producer.producer_id, 1)
    assert await refused(end("tx", producer.producer_id, 0, commit=False, bump=True)) is ErrorCode.INVALID_TXN_STATE
    assert await refused(end("tx", producer.producer_id, 1, commit=True, bump=True)) is ErrorCode.INVALID_TXN_STATE
    assert await end("tx", producer.producer_id, 1, commit=False, bump=True) == (producer.producer_id, 2)
    assert await values(engine, "a") == [b"1"]


async def test_ending_is_repeatable_under_the_first_protocol(engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init()
    assert await refused(producer.commit()) is ErrorCode.INVALID_TXN_STATE
    await producer.send("a", 0, b"1")
    for _ in range(2):
        await producer.commit()
    assert await refused(producer.abort()) is ErrorCode.INVALID_TXN_STATE
    assert await values(engine, "a") == [b"1"]


async def test_the_first_protocol_announces_partitions_and_groups(engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init()
    [result] = await producer.produce(producer.request("a", 0, b"x"))
    assert result.error is ErrorCode.TRANSACTION_ABORTABLE
    await producer.announce("b", 0)
    [result] = await producer.produce(producer.request("a", 0, b"x"))
    assert result.error is ErrorCode.TRANSACTION_ABORTABLE
    call = engine.transactions.commit_offsets("tx", producer.producer_id, 0, "group", {}, announces=False)
    assert await refused(call) is ErrorCode.TRANSACTION_ABORTABLE


async def test_partitions_that_do_not_exist_are_not_announced(engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init()
    places = [TopicPartition("a", 0), TopicPartition("a", 9), TopicPartition("none", 0)]
    errors = await engine.transactions.add_partitions("tx", producer.producer_id, 0, places)
    assert [error.code if error else None for error in errors.values()] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert not (await engine.transactions.list())[0].is_ongoing


async def test_bad_requests_are_refused_with_kafkas_codes(engine: Engine) -> None:
    init = engine.transactions.init
    assert await refused(init("", 1000)) is ErrorCode.INVALID_REQUEST
    assert await refused(init("x" * 901, 1000)) is ErrorCode.INVALID_REQUEST
    assert await refused(init("tx", 0)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await refused(init("tx", 900_001)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await refused(init("tx", 1000, producer_id=1)) is ErrorCode.INVALID_REQUEST
    end = engine.transactions.end("nobody", 1, 0, commit=True, bump=True)
    assert await refused(end) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = await Transactor(engine).init()
    end = engine.transactions.end("tx", producer.producer_id + 1, 0, commit=True, bump=True)
    assert await refused(end) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    plain = ProducePartition("a", 0, batch([b"x"], producer=(producer.producer_id, 0, 0)))
    [result] = await producer.produce(plain)
    assert result.error is ErrorCode.INVALID_TXN_STATE
    outside = await produce(engine, "a", 0, transactional_batch([b"x"], producer.producer_id, 0, 0))
    assert outside.error is ErrorCode.INVALID_TXN_STATE


# --- limits and time ----------------------------------------------------------------------------------------------


async def test_one_place_too_many_is_refused_before_anything_is_committed(engine: Engine) -> None:
    await engine.topics.create("wide", 120)
    producer = await Transactor(engine).init()
    for partition in range(98):
        await producer.send("wide", partition, b"x")
    await producer.send_offset("group", "a", 0, 5)
    [result] = await producer.produce(producer.request("wide", 98, b"one too many"))
    assert result.error is ErrorCode.TRANSACTION_ABORTABLE
    assert result.message is not None
    assert "at most 99" in result.message
    await producer.commit()
    assert await values(engine, "wide", 97) == [b"x"]
    assert await committed(engine, "group", "a") == 5


async def test_many_batches_of_a_partition_are_one_commit_and_are_spilled(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    for i in range(120):
        await producer.send("a", 0, b"%d" % i)
    await producer.commit()
    topic = await engine.topics.resolve("a")

    head = await engine.index.read_image(PartitionId(topic.topic_id, 0).head_id)
    assert head is not None
    assert len(head.tail) < 20
    assert await values(engine, "a") == [b"%d" % i for i in range(120)]
    await producer.send("a", 0, b"next")
    await producer.commit()
    assert (await values(engine, "a"))[-1] == b"next"


async def test_a_transaction_that_is_too_old_is_refused_and_its_producer_may_come_back(
    store: Store, engine: Engine
) -> None:
    producer = await Transactor(engine).init(timeout_ms=1000)
    await producer.send("a", 0, b"too late")
    store.clock.advance(1.5)
    assert await refused(producer.commit()) is ErrorCode.INVALID_TXN_STATE
    [result] = await producer.produce(producer.request("a", 0, b"more"))
    assert result.error is ErrorCode.PRODUCER_FENCED
    await producer.init(keep=True)
    await producer.send("a", 0, b"in time")
    await producer.commit()
    assert await values(engine, "a") == [b"in time"]


@pytest.mark.parametrize("by_maintenance", [False, True])
async def test_an_abort_after_the_time_out_tells_the_new_epoch_and_the_producer_goes_on(
    store: Store, engine: Engine, by_maintenance: bool
) -> None:
    producer = await Transactor(engine).init(timeout_ms=1000)
    await producer.send("a", 0, b"too late")
    store.clock.advance(1.5)
    if by_maintenance:
        await engine.transactions.expire_transactions()
    stale = producer.producer_id, producer.epoch
    await producer.abort()
    assert (producer.producer_id, producer.epoch) == (stale[0], stale[1] + 1)
    again = await engine.transactions.end("tx", *stale, commit=False, bump=True)  # its answer was lost
    assert (again.producer_id, again.producer_epoch) == (producer.producer_id, producer.epoch)
    await producer.send("a", 0, b"in time")
    assert await refused(engine.transactions.end("tx", *stale, commit=False, bump=True)) is ErrorCode.PRODUCER_FENCED
    await producer.commit()
    assert await values(engine, "a") == [b"in time"]


async def test_an_abort_after_the_time_out_revives_nobody_beside_a_new_instance(store: Store, engine: Engine) -> None:
    producer = await Transactor(engine).init(timeout_ms=1000)
    await producer.send("a", 0, b"too late")
    store.clock.advance(1.5)
    await Transactor(engine).init()
    assert await refused(producer.abort()) is ErrorCode.PRODUCER_FENCED
    assert await refused(producer.commit()) is ErrorCode.PRODUCER_FENCED


async def test_without_kip_890_a_producer_is_fenced_by_the_time_out(store: Store, engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init(timeout_ms=1000)
    await producer.send("a", 0, b"too late")
    store.clock.advance(1.5)
    assert await refused(producer.abort()) is ErrorCode.PRODUCER_FENCED
    assert await refused(producer.commit()) is ErrorCode.PRODUCER_FENCED


async def test_maintenance_fences_and_removes_what_is_left(store: Store, engine: Engine) -> None:
    producer = await Transactor(engine).init(timeout_ms=1000)
    await producer.send("a", 0, b"x")
    await producer.abort()
    await producer.send("a", 0, b"y")
    await producer.send_offset("group", "a", 0, 1)
    assert await engine.transactions.wants_expiry()
    assert await engine.transactions.expire_transactions() == {"transactions_expired": 0, "pending_items_removed": 1}
    assert not await engine.transactions.wants_expiry()
    store.clock.advance(2)
    assert await engine.transactions.wants_expiry()
    assert await engine.transactions.expire_transactions() == {"transactions_expired": 1, "pending_items_removed": 2}
    assert not await engine.transactions.wants_expiry()
    assert await engine.transactions.expire_transactions() == {"transactions_expired": 0, "pending_items_removed": 0}
    assert await store.log.query(pending_range("tx", 0)[0]) == []
    assert await refused(producer.commit()) is ErrorCode.INVALID_TXN_STATE
    assert await values(engine, "a") == []


async def test_a_commit_deletes_its_pending_items(store: Store, engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"x")
    await producer.send_offset("group", "a", 0, 1)
    await producer.commit()
    assert await store.log.query(pending_range("tx", 0)[0]) == []


async def test_an_id_that_ends_in_anothers_name_keeps_to_itself(engine: Engine) -> None:
    one, other = await Transactor(engine, "tx#1").init(), await Transactor(engine, "tx").init()
    await one.send("a", 0, b"one")
    await other.send("a", 0, b"other")
    await one.abort()
    await other.commit()
    assert await values(engine, "a") == [b"other"]


# --- what makes a commit impossible -------------------------------------------------------------------------------


async def test_a_deleted_topic_fails_the_whole_transaction(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"x")
    await producer.send("b", 0, b"y")
    await engine.topics.delete("b")
    assert await refused(producer.commit()) is ErrorCode.TRANSACTION_ABORTABLE
    assert await values(engine, "a") == []
    await producer.abort()


async def test_objects_below_the_sweep_floor_fail_the_whole_transaction(store: Store, engine: Engine) -> None:

    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"swept")
    await producer.send("b", 0, b"y")
    topic = await engine.topics.resolve("a")
    await store.log.update(Update(head_key(PartitionId(topic.topic_id, 0)), (Set(("wf",), b"\xff" * 16),)))
    assert await refused(producer.commit()) is ErrorCode.TRANSACTION_ABORTABLE
    assert await values(engine, "b") == []


async def test_a_commit_above_a_raised_spill_floor_takes_a_new_time(store: Store, engine: Engine) -> None:

    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"x")
    topic = await engine.topics.resolve("a")
    far = store.clock.now_ms() + 10_000
    await store.log.update(Update(head_key(PartitionId(topic.topic_id, 0)), (Set(("sf",), far),)))
    await producer.commit()
    assert store.tables.across.calls == ["transact"], "nothing waits until the clock has caught up"
    assert await values(engine, "a") == [b"x"]


async def test_contention_is_retried_until_it_is_over(store: Store, engine: Engine) -> None:
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"x")
    store.tables.across.script = {("transact", n): Fault.UNAVAILABLE for n in (1, 2, 3)}
    await producer.commit()
    assert await values(engine, "a") == [b"x"]
