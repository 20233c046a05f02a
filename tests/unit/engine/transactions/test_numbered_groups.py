"""A numbered batch of more partitions than a transaction takes: group by group, each once, whoever goes on."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.engine.engine import Engine
from odradek.engine.transactions.items import PendingBatches
from odradek.engine.transactions.numbered_batches import WriterRow, decide_step, decode_writer, encode_writer
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import NUMBERED_GROUP_PARTITIONS, TRANSACTION_PLACES_MAX
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Check, Exists, Key, Put
from odradek.ports.tables import TableOperation
from odradek.testing.faults import Fault

from tests.support.clients.transactional_producer import values
from tests.support.engine import batch, memory_store

MANY = NUMBERED_GROUP_PARTITIONS * 2 + 20
TOPICS = [UUID(int=i) for i in range(3)]
partitions = st.sets(st.builds(PartitionId, st.sampled_from(TOPICS), st.integers(0, 250)), max_size=200)


async def uploaded(engine: Engine, value: bytes, count: int = MANY) -> list[PendingBatches]:
    requests = [ProducePartition("many", i, batch([value])) for i in range(count)]
    return await engine.numbered_batches.upload(requests)


async def holds(engine: Engine) -> set[tuple[bytes, ...]]:
    return {tuple(await values(engine, "many", i)) for i in range(MANY)}


async def test_all_of_them_are_added_once() -> None:
    engine = memory_store().engine()
    await engine.topics.create("many", MANY)
    numbered = engine.numbered_batches
    assert await numbered.commit("q", 0, await uploaded(engine, b"0")) is True
    assert await numbered.commit("q", 0, await uploaded(engine, b"0 again")) is False
    assert await numbered.commit("q", 1, await uploaded(engine, b"1")) is True
    assert await holds(engine) == {(b"0", b"1")}
    assert await numbered.last_committed("q") == 1


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_ANSWER, Fault.LATE])
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_one_that_stopped_half_way_goes_on(fault: Fault, step: int) -> None:
    store = memory_store()
    engine = store.engine(group_attempts_max=1)
    await engine.topics.create("many", MANY)
    tables = store.tables.across
    tables.script["transact", tables.count("transact") + step] = fault
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await engine.numbered_batches.commit("q", 0, await uploaded(engine, b"0"))
    again = store.engine(1)
    await again.numbered_batches.commit("q", 0, await uploaded(again, b"0"))
    await tables.deliver_late()
    assert await holds(again) == {(b"0",)}
    assert await again.numbered_batches.last_committed("q") == 0


async def test_one_that_began_in_groups_ends_in_groups_although_it_became_small() -> None:
    store = memory_store()
    engine = store.engine(group_attempts_max=1)
    await engine.topics.create("many", MANY)
    tables = store.tables.across
    tables.script["transact", tables.count("transact") + 2] = Fault.UNAVAILABLE
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await engine.numbered_batches.commit("q", 0, await uploaded(engine, b"0"))
    again = store.engine(1)
    assert await again.numbered_batches.commit("q", 0, await uploaded(again, b"small", 95)) is True
    assert [len(await values(again, "many", i)) for i in range(95)] == [1] * 95


async def test_too_many_batches_for_a_partition_say_what_to_do() -> None:
    engine = memory_store().engine()
    await engine.topics.create("many", 1)
    [one] = await uploaded(engine, b"0", 1)
    with pytest.raises(KafkaError, match="fewer tasks") as refused:
        await engine.numbered_batches.commit("q", 0, [one] * 1_001)
    assert refused.value.code is ErrorCode.TRANSACTION_ABORTABLE


async def test_what_must_hold_besides_is_a_condition_of_the_commit() -> None:
    store = memory_store()
    engine = store.engine()
    await engine.topics.create("many", 1)
    check = TableOperation("groups", Check(Key("here", "now"), Exists(("v",))))
    batches = await uploaded(engine, b"0", 1)
    before = store.clock.now_ms()
    with pytest.raises(KafkaError, match="no longer exists") as refused:
        await engine.numbered_batches.commit("q", 0, batches, checks=[check])
    assert refused.value.code is ErrorCode.TRANSACTION_ABORTABLE
    assert store.clock.now_ms() - before < 1_000, "said at once"
    await store.groups.put(Put(Key("here", "now"), {"v": 1}))
    assert await engine.numbered_batches.commit("q", 0, batches, checks=[check]) is True
    assert await values(engine, "many", 0) == [b"0"]


@given(partitions, st.lists(partitions, max_size=4))
def test_whatever_repetitions_hold_no_partition_is_added_twice(
    first: set[PartitionId], repetitions: list[set[PartitionId]]
) -> None:
    """Each repetition stops after one step; the last goes on to the end."""
    row, added = WriterRow(6), list[PartitionId]()
    attempts = [first, *repetitions]
    for number, attempt in enumerate(attempts):
        while (step := decide_step(row, 7, {partition: [] for partition in sorted(attempt)})) is not None:
            assert len(step.batches) <= TRANSACTION_PLACES_MAX
            assert decode_writer(encode_writer(step.row)) == step.row != row
            row = step.row
            added += step.batches
            if number < len(attempts) - 1:
                break
    assert row == WriterRow(7)
    assert len(added) == len(set(added))
    if all(attempt == first for attempt in repetitions):
        assert set(added) == first
