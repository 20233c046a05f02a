"""An attempt of unknown outcome is remembered whatever the append does next, until it is certain that it never comes.

REQUEST_TIMED_OUT says that the batch may be in the log, NOT_ENOUGH_REPLICAS that nothing was appended: a producer
without idempotence sends again after the second without a doubt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from odradek.errors import ErrorCode
from odradek.model.log import ProducePartition
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce
from tests.support.stores.segments import merge_by_hand, partition_of

SPILLS = {"head_bytes_max": 300, "spill_entries": 1}
Step = Callable[[Store], Awaitable[None]]


async def others_write(store: Store) -> None:
    """The floor passes the commit time of the lost attempt, whose entry could be in rows now."""
    other = store.engine(2, **SPILLS)
    for number in range(8):
        await produce(other, "t", 0, batch([b"%d" % number]))


async def others_write_and_merge(store: Store) -> None:
    """A segment has lost the identity of its entries."""
    await others_write(store)
    engine = store.engine(3, **SPILLS)
    assert await merge_by_hand(engine, await partition_of(engine, "t"))


async def store_stays_away_from_the_second_update_on(store: Store) -> None:
    """The first is refused by the floor, and has rows searched."""
    count = store.log.count("update")
    store.log.script |= {("update", count + number): Fault.UNAVAILABLE for number in range(2, 100)}


async def rows_cannot_be_read(store: Store) -> None:
    count = store.log.count("query")
    store.log.script |= {("query", count + number): Fault.UNAVAILABLE for number in range(1, 100)}


@pytest.mark.parametrize(
    ("steps", "producer", "code"),
    [
        ([others_write], (-1, -1, -1), ErrorCode.NOT_ENOUGH_REPLICAS),  # it is in no row, and comes too late
        ([others_write], (7, 0, 0), ErrorCode.NOT_ENOUGH_REPLICAS),
        ([others_write_and_merge], (-1, -1, -1), ErrorCode.REQUEST_TIMED_OUT),
        ([others_write_and_merge], (7, 0, 0), ErrorCode.REQUEST_TIMED_OUT),
        ([others_write, rows_cannot_be_read], (-1, -1, -1), ErrorCode.REQUEST_TIMED_OUT),
        ([others_write, rows_cannot_be_read], (7, 0, 0), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_a_search_in_rows_forgets_a_lost_attempt_only_where_it_proves_that_it_is_not_there(
    steps: list[Step], producer: tuple[int, int, int], code: ErrorCode
) -> None:
    store = memory_store(per_head=1)
    engine = store.engine(1, append_attempts_max=3)
    await engine.topics.create("t", 1)
    original = store.clock.sleep

    async def others_are_faster(seconds: float) -> None:
        store.clock.sleep = original  # type: ignore[method-assign]
        for step in (*steps, store_stays_away_from_the_second_update_on):
            await step(store)

    store.log.script[("update", store.log.count("update") + 1)] = Fault.LOST_REQUEST
    store.clock.sleep = others_are_faster  # type: ignore[method-assign]
    result = await produce(engine, "t", 0, batch([b"mine"], producer=producer))
    assert result.error is code


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (Fault.UNAVAILABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (Fault.LOST_REQUEST, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_what_parts_from_an_append_remembers_its_lost_attempt(fault: Fault | None, code: ErrorCode) -> None:
    """Two partitions of one head: one has its turn, the other waits for a predecessor that does not come."""
    store = memory_store()
    engine = store.engine(1, sequence_wait_ms=0)
    await engine.topics.create("t", 2)
    for partition in range(2):
        assert not (await produce(engine, "t", partition, batch([b"a"], producer=(7, 0, 0)))).error
    if fault is not None:
        store.log.script[("update", store.log.count("update") + 1)] = fault
    sequences = {0: 1, 1: 5}
    results = await engine.produce(
        [ProducePartition("t", partition, batch([b"b"], producer=(7, 0, sequences[partition]))) for partition in (0, 1)]
    )
    assert [result.error for result in results] == [ErrorCode.NONE, code]
