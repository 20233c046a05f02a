"""Many idempotent producers in one call, as a gateway merges their requests: what one update cannot take goes with the
next. DynamoDB limits the text and the operators of an expression, and each producer of each partition is a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.log import ProducePartition, ProduceResult
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, read_all
from tests.support.examples import some


def requests(
    number: int, producers: Sequence[int], partitions: int, *, epoch: int = 0, sequence: int | None = None
) -> list[ProducePartition]:
    """The number-th batch of each producer to each partition, those of a partition beside each other."""
    first = number if sequence is None else sequence
    return [
        ProducePartition(
            "t",
            partition,
            batch([b"%d %d" % (producer, number)], producer=(producer, epoch, first)),
            connection=producer,
        )
        for partition in range(partitions)
        for producer in producers
    ]


def errors(results: Sequence[ProduceResult]) -> set[str]:
    return {result.error.name for result in results}


async def check(engine: Engine, producers: Sequence[int], partitions: int, batches: int) -> None:
    """Every record is there once, those of a producer in order."""
    for partition in range(partitions):
        numbers_by_producer: dict[int, list[int]] = {}
        for record in await read_all(engine, "t", partition):
            producer, number = map(int, (record.value or b"").split())
            numbers_by_producer.setdefault(producer, []).append(number)
        assert numbers_by_producer == {producer: list(range(batches)) for producer in producers}, partition


@pytest.mark.parametrize("per_head", [1, 32], ids=["own heads", "a shared head"])
@pytest.mark.parametrize(("count", "partitions"), [(40, 1), (16, 24), pytest.param(40, 32, marks=pytest.mark.slow)])
async def test_a_call_of_many_producers_is_appended_whole(count: int, partitions: int, per_head: int) -> None:
    """The largest is slow: 6,400 batches."""
    store = memory_store(per_head=per_head)
    engine = store.engine()
    await engine.topics.create("t", partitions)
    producers = range(1_000, 1_000 + count)
    for number in range(3):
        assert errors(await engine.produce(requests(number, producers, partitions))) == {"NONE"}
    # A producer that starts anew needs the longest condition.
    for number in range(3, 5):
        again = requests(number, producers, partitions, epoch=7, sequence=number - 3)
        assert errors(await engine.produce(again)) == {"NONE"}
    await check(engine, producers, partitions, 5)


@pytest.mark.parametrize(
    ("per_head", "fault", "call"),
    some(product([1, 32], [Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE, Fault.REPEATED], [1, 2, 3, 4])),
)
async def test_whichever_update_of_them_fails_each_batch_is_in_the_log_once(
    call: int, fault: Fault, per_head: int
) -> None:
    store = memory_store(per_head=per_head)
    engine = store.engine()
    await engine.topics.create("t", 12)
    producers = range(1_000, 1_030)
    assert errors(await engine.produce(requests(0, producers, 12))) == {"NONE"}
    store.log.script = {("update", store.log.count("update") + call): fault}
    assert errors(await engine.produce(requests(1, producers, 12))) == {"NONE"}
    await store.log.deliver_late()
    assert errors(await engine.produce(requests(1, producers, 12))) <= {"NONE", "DUPLICATE_SEQUENCE_NUMBER"}
    assert errors(await engine.produce(requests(2, producers, 12))) == {"NONE"}
    await check(engine, producers, 12, 3)


async def test_a_call_of_many_producers_takes_few_updates() -> None:
    store: Store = memory_store(per_head=32)
    engine = store.engine()
    await engine.topics.create("t", 24)
    producers = range(1_000, 1_016)
    for number in range(2):
        await engine.produce(requests(number, producers, 24))
    before = store.log.calls.count("update")
    results = await engine.produce(requests(2, producers, 24))
    assert {result.error for result in results} == {ErrorCode.NONE}
    # 384 comparisons, some 130 an update, and the updates that page the tail out.
    assert store.log.calls.count("update") - before <= 10
