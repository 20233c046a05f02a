"""transaction.offsets=predicted: a told offset is that of the record, or the record is in no log."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from odradek.backoff import Backoff
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import SEQUENCE_MAX
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.testing.faults import Fault

from tests.support.clients.transactional_producer import Transactor, transactional_batch, values
from tests.support.counted import at_least
from tests.support.engine import Store, batch, memory_store, produce, read_all

PREDICTED = {"transaction.offsets": "predicted"}


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
async def engine(store: Store) -> Engine:
    engine = store.engine()
    await engine.topics.create("a", 2, PREDICTED)
    await engine.topics.create("b", 1)
    return engine


@pytest.fixture(params=[False, True], ids=["KIP-98", "KIP-890"])
async def producer(engine: Engine, request: pytest.FixtureRequest) -> Transactor:
    return await Transactor(engine, bumps=request.param).init()


async def offset_of(engine: Engine, value: bytes, partition: int = 0) -> int:
    [offset] = [record.offset for record in await read_all(engine, "a", partition) if record.value == value]
    return offset


async def interlope(engine: Engine) -> None:
    """Another writer appends a record to the first partition."""
    assert not (await produce(engine, "a", 0, batch([b"of another"]))).error


async def aborted_by(producer: Transactor) -> str:
    """The message of a commit that is refused because of a told offset; the producer goes on as clients do."""
    with pytest.raises(KafkaError) as refused:
        await producer.commit()
    assert refused.value.code is ErrorCode.TRANSACTION_ABORTABLE
    if producer.bumps:
        await producer.init()  # it does not know the epoch that the abort gave it
    return refused.value.message


# --- told and kept ------------------------------------------------------------------------------------------------


async def test_told_offsets_are_those_of_the_log(engine: Engine, producer: Transactor) -> None:
    """Over batches, partitions, commits, aborts, and what others wrote between two transactions."""
    for number in range(6):
        await interlope(engine)
        offsets_told = {}
        for partition in (0, 1, 0, 0):
            value = b"%d-%d" % (number, len(offsets_told))
            offsets_told[value] = partition, await producer.send("a", partition, value, value + b"+")
        if number % 3 == 1:
            await producer.abort()
            continue
        await producer.commit()
        for value, (partition, offset) in at_least(4, offsets_told.items()):
            assert await offset_of(engine, value, partition) == offset


async def test_offsets_are_right_in_whatever_order_the_requests_arrive(engine: Engine) -> None:
    """Functions get the requests of a connection side by side."""
    producer = await Transactor(engine).init()
    await producer.send("a", 0, b"before")
    await producer.commit()
    values_ = [[b"%d.%d" % (i, j) for j in range(i + 1)] for i in range(5)]
    requests = [producer.request("a", 0, *pair) for pair in values_]
    order = list(range(5))
    random.Random(3).shuffle(order)
    offsets_told = {}
    for i in order:
        [result] = await producer.produce(requests[i])
        offsets_told[i] = result.base_offset
    await producer.commit()
    for i, pair in enumerate(values_):
        assert await offset_of(engine, pair[0]) == offsets_told[i]


async def test_sequences_wrap(engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init()
    topic = await engine.topics.resolve("a")
    await interlope(engine)

    def decide(row: Any, fresh_id: int | None) -> Any:
        used = {PartitionId(topic.topic_id, 0): SEQUENCE_MAX - 1}
        return row if row.aborted_sequences == used else replace(row, aborted_sequences=used)

    await engine.transactions.store.change("tx", decide)
    producer.sequences["a", 0] = SEQUENCE_MAX - 1
    assert await producer.send("a", 0, b"1", b"2") == 1
    producer.sequences["a", 0] = 0
    assert await producer.send("a", 0, b"3") == 3
    await producer.commit()
    assert await offset_of(engine, b"3") == 3


async def test_a_producer_that_was_evicted_from_the_head_is_told_the_right_offset(store: Store) -> None:
    engine = store.engine(head_bytes_max=400, spill_entries=1, producers_in_head_max=1)
    await engine.topics.create("a", 1, PREDICTED)
    producer = await Transactor(engine, bumps=False).init()
    await producer.send("a", 0, b"1")
    await producer.commit()
    for i in range(12):
        assert not (await produce(engine, "a", 0, batch([b"other"], producer=(999, 0, i)))).error
    assert await producer.send("a", 0, b"2") == 13
    await producer.commit()
    assert await offset_of(engine, b"2") == 13


async def test_a_repeated_produce_is_told_what_the_first_one_was(engine: Engine, producer: Transactor) -> None:
    """The answer of the first may have arrived: a second answer with another offset would make one of them false."""
    if not producer.bumps:
        await producer.announce("a", 0)
    request = producer.request("a", 0, b"1")
    [first] = await producer.produce(request)
    await interlope(engine)
    [second] = await producer.produce(request)
    assert first.base_offset == second.base_offset == 0
    await aborted_by(producer)
    assert await values(engine, "a") == [b"of another"]


# --- told, and not kept: aborted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [(), (b"second",)], ids=["one batch", "a batch after it"])
async def test_another_writer_aborts_the_transaction_which_then_succeeds(
    engine: Engine, producer: Transactor, writes: tuple[bytes, ...]
) -> None:
    assert await producer.send("a", 0, b"first") == 0
    await producer.send("a", 1, b"elsewhere")
    await interlope(engine)
    for value in writes:
        await producer.send("a", 0, value)
    assert "transaction.offsets=predicted" in await aborted_by(producer)
    assert await values(engine, "a") == [b"of another"]
    assert await values(engine, "a", 1) == []
    assert await producer.send("a", 0, b"again") == 1
    await producer.commit()
    assert await offset_of(engine, b"again") == 1


async def test_another_writer_between_the_commits_read_and_its_write_aborts_it(
    engine: Engine, producer: Transactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await producer.send("a", 0, b"told 0")
    read_images = engine.index.read_images

    async def overtaken(*args: Any, **options: Any) -> Any:
        images = await read_images(*args, **options)
        monkeypatch.undo()
        await interlope(engine)
        return images

    monkeypatch.setattr(engine.index, "read_images", overtaken)
    await aborted_by(producer)
    assert await values(engine, "a") == [b"of another"]


async def test_two_transactions_that_were_told_the_same_offset_are_not_both_committed(engine: Engine) -> None:
    one, other = [await Transactor(engine, name).init() for name in ("one", "other")]
    assert await one.send("a", 0, b"one") == await other.send("a", 0, b"other") == 0
    await one.commit()
    await aborted_by(other)
    assert await values(engine, "a") == [b"one"]


async def test_a_later_configuration_takes_nothing_back(engine: Engine, producer: Transactor) -> None:
    await producer.send("a", 0, b"told 0")
    await engine.topics.alter_configs("a", set={"transaction.offsets": "unknown"})
    await interlope(engine)
    await aborted_by(producer)


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LATE, Fault.LOST_REQUEST])
async def test_an_unknown_outcome_is_committed_or_aborted_and_never_moved(
    store: Store, engine: Engine, producer: Transactor, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer appends between the first attempt, whose answer is lost, and the second one."""
    assert await producer.send("a", 0, b"told 0") == 0
    store.tables.across.script["transact", store.tables.across.count("transact") + 1] = fault

    async def meanwhile(backoff: Backoff, attempt: int) -> None:
        monkeypatch.undo()
        await interlope(engine)

    monkeypatch.setattr(Backoff, "pause", meanwhile)
    if fault is Fault.LOST_ANSWER:
        await producer.commit()
        assert await values(engine, "a") == [b"told 0", b"of another"]
    else:
        await aborted_by(producer)
        await store.tables.across.deliver_late()
        assert await values(engine, "a") == [b"of another"]


async def test_a_transaction_that_timed_out_leaves_nothing(store: Store, engine: Engine) -> None:
    producer = await Transactor(engine).init(timeout_ms=1000)
    assert await producer.send("a", 0, b"told 0") == 0
    store.clock.advance(1.5)
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        await producer.commit()
    await producer.init(keep=True)
    assert await producer.send("a", 0, b"again") == 0
    await producer.commit()
    assert await values(engine, "a") == [b"again"]


# --- not told -----------------------------------------------------------------------------------------------------


async def test_by_default_nothing_is_told_and_writers_do_not_abort_each_other(
    store: Store, engine: Engine, producer: Transactor
) -> None:
    reads = store.log.count("get")
    assert await producer.send("b", 0, b"mine") == -1
    assert store.log.count("get") == reads
    assert not (await produce(engine, "b", 0, batch([b"of another"]))).error
    await producer.commit()
    assert await values(engine, "b") == [b"of another", b"mine"]


async def test_a_prediction_costs_one_read(store: Store, engine: Engine, producer: Transactor) -> None:
    reads = store.log.count("get")
    await producer.send("a", 0, b"1")
    assert store.log.count("get") == reads + 1


async def test_a_duplicate_of_an_earlier_transaction_is_told_nothing(engine: Engine) -> None:
    producer = await Transactor(engine, bumps=False).init()
    await producer.announce("a", 0)
    late = producer.request("a", 0, b"1")
    await producer.produce(late)
    await producer.commit()
    await producer.announce("a", 0)
    [result] = await producer.produce(late)
    assert (result.error, result.base_offset) == (ErrorCode.NONE, -1)
    assert await producer.send("a", 0, b"2") == 1
    await producer.commit()
    assert await values(engine, "a") == [b"1", b"2"]


async def test_a_producer_that_another_epoch_has_overtaken_is_told_nothing(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    newer = batch([b"newer"], producer=(producer.producer_id, producer.epoch + 1, 0))
    assert not (await produce(engine, "a", 0, newer)).error
    old = transactional_batch([b"old"], producer.producer_id, producer.epoch, 0)
    [result] = await producer.produce(ProducePartition("a", 0, old))
    assert (result.error, result.base_offset) == (ErrorCode.NONE, -1)
    await aborted_by(producer)


# --- the default by name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "configs", "told_offset"),
    [
        ("primary.orders", {}, 0),
        ("primary.orders", {"transaction.offsets": "unknown"}, -1),
        ("exact", {}, 0),
        ("exactly", {}, -1),
        ("primary.checkpoints.internal", {}, -1),  # several tasks of MirrorMaker write to it
        ("primary.checkpoints.internal", PREDICTED, 0),
        ("mm2-offsets.primary.internal", {}, 0),
        ("orders", {}, -1),
        ("orders", PREDICTED, 0),
    ],
)
async def test_the_operator_names_topics_that_are_predicted(
    store: Store, topic: str, configs: dict[str, str], told_offset: int
) -> None:
    engine = store.engine(transaction_offsets_predicted="primary.*, exact, mm2-offsets.primary.internal")
    await engine.topics.create(topic, 1, configs)
    producer = await Transactor(engine).init()
    assert await producer.send(topic, 0, b"x") == told_offset
    described = {
        config.name: config.value for config in engine.topics.describe_configs(await engine.topics.resolve(topic))
    }
    assert described["transaction.offsets"] == ("unknown" if told_offset < 0 else "predicted")
