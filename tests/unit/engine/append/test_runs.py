"""Runs: what requests of one call have for one partition is one upload and one update, or each is decided by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from odradek.engine.append.append import RUN_ENTRIES_MAX
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.log import ProducePartition, ProduceResult
from odradek.model.topic_partition import partitions_per_head
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, read_all

PLAIN = -1


@pytest.fixture(params=[1, 8], ids=["its own head", "a shared head"])
async def store(request: pytest.FixtureRequest) -> Store:
    store = memory_store(per_head=request.param)
    await store.engine().topics.create("t", 3)
    for port in (store.log, store.objects):
        port.calls.clear()
    return store


def request(
    value: int, *, producer: int = PLAIN, epoch: int = 0, sequence: int | None = None, connection: int = 1
) -> ProducePartition:
    """A batch of two records of one value, which is its producer's `value`-th."""
    first = 2 * value if sequence is None else sequence
    of = (-1, -1, -1) if producer == PLAIN else (producer, epoch, first)
    return ProducePartition("t", 0, batch([b"%d" % value] * 2, producer=of), connection=connection)


def offsets(results: Sequence[ProduceResult]) -> list[int]:
    assert [result.error for result in results] == [ErrorCode.NONE] * len(results)
    return [result.base_offset for result in results]


async def values(engine: Engine) -> list[int]:
    return [int(record.value or b"") for record in (await read_all(engine, "t", 0))[::2]]


@pytest.mark.parametrize("producer", [PLAIN, 7])
async def test_a_run_is_one_upload_and_one_update(store: Store, producer: int) -> None:
    engine = store.engine()
    for start in (0, 5):
        store.log.calls.clear()
        results = await engine.produce([request(start + i, producer=producer) for i in range(5)])
        assert offsets(results) == [2 * (start + i) for i in range(5)]
        assert (store.objects.calls, sorted(store.log.calls)) == ([], ["put", "update"])
    assert await values(engine) == list(range(10))


async def test_producers_of_several_connections_share_an_update(store: Store) -> None:
    engine = store.engine()
    results = await engine.produce(
        [request(i, producer=7 + connection, connection=connection) for connection in range(3) for i in range(2)]
    )
    assert offsets(results) == [0, 2, 4, 6, 8, 10]
    assert store.log.count("update") == 1
    again = await engine.produce([request(1, producer=8, connection=9), request(2, producer=9, connection=8)])
    assert offsets(again) == [6, 12]


@pytest.mark.parametrize("producer", [PLAIN, 7])
async def test_a_run_goes_with_what_its_head_gets_besides(store: Store, producer: int) -> None:
    """As a gateway's call has it: two batches for one partition, one for each of two others."""
    engine = store.engine()
    alone = [replace(request(0, producer=producer), partition=number) for number in (1, 2)]
    results = await engine.produce([alone[0], request(0, producer=producer), request(1, producer=producer), alone[1]])
    assert offsets(results) == [0, 0, 2, 0]
    heads = 1 if partitions_per_head((await engine.topics.resolve("t")).topic_id) > 1 else 3
    assert store.log.count("update") == heads


@pytest.mark.parametrize("producer", [PLAIN, 7])
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE])
async def test_a_run_whose_update_fails_in_any_way_is_in_the_log_once(
    store: Store, fault: Fault, producer: int
) -> None:
    engine = store.engine()
    store.log.script[("update", 1)] = fault
    assert offsets(await engine.produce([request(i, producer=producer) for i in range(4)])) == [0, 2, 4, 6]
    await store.log.deliver_late()
    assert offsets(await engine.produce([request(4, producer=producer)])) == [8]
    assert await values(engine) == [0, 1, 2, 3, 4]


async def test_what_is_sent_again_with_more_behind_it_gets_its_offsets_and_the_rest_is_appended(store: Store) -> None:
    """Java's producer sends what was not answered again over a new connection, and goes on behind it."""
    engine = store.engine()
    await engine.produce([request(i, producer=7) for i in range(3)])
    again = await engine.produce([request(i, producer=7, connection=2) for i in range(1, 5)])
    assert offsets(again) == [2, 4, 6, 8]
    assert await values(engine) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("fault", [None, Fault.LOST_ANSWER])
async def test_a_gap_in_a_run_is_refused_and_what_comes_before_it_is_appended(
    store: Store, fault: Fault | None
) -> None:
    engine = store.engine()
    await engine.produce([request(0, producer=7)])
    if fault is not None:
        store.log.script[("update", 2)] = fault
    for _ in range(3):  # over a connection a gap shows when it stays
        results = await engine.produce([request(value, producer=7) for value in (1, 2, 4, 5)])
        assert offsets(results[:2]) == [2, 4]
        assert all(result.error.is_retryable or result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                   for result in results[2:])  # fmt: skip
    assert results[2].error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await values(engine) == [0, 1, 2]


async def test_a_new_epoch_within_a_call_follows_the_older_one(store: Store) -> None:
    engine = store.engine()
    results = await engine.produce(
        [
            request(0, producer=7),
            request(1, producer=7),
            request(2, producer=7, epoch=1, sequence=0),
            request(3, producer=7, epoch=1, sequence=2),
        ]
    )
    assert offsets(results) == [0, 2, 4, 6]
    assert store.log.count("update") == 2
    assert await values(engine) == [0, 1, 2, 3]


@pytest.mark.parametrize("producer", [PLAIN, 7])
async def test_a_long_run_is_several_updates(store: Store, producer: int) -> None:
    engine = store.engine()
    count = 2 * RUN_ENTRIES_MAX + 1
    results = await engine.produce([request(i, producer=producer) for i in range(count)])
    assert offsets(results) == list(range(0, 2 * count, 2))
    assert store.log.count("update") <= 3 + 4  # with those that spill the head


async def test_an_outcome_that_stays_unknown_is_said_of_each(store: Store) -> None:
    engine = store.engine(append_attempts_max=2)
    store.log.script.update({("update", number): Fault.LOST_REQUEST for number in range(1, 9)})
    results = await engine.produce([request(i, producer=7) for i in range(3)])
    assert [result.error for result in results] == [ErrorCode.REQUEST_TIMED_OUT] * 3
    store.log.script.clear()
    assert offsets(await engine.produce([request(i, producer=7) for i in range(3)])) == [0, 2, 4]


async def test_a_run_to_a_deleted_topic_is_refused_as_a_whole(store: Store) -> None:
    engine = store.engine()
    await engine.produce([request(0)])
    await store.engine(1).topics.delete("t")
    results = await engine.produce([request(1), request(2)])
    assert [result.error for result in results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
