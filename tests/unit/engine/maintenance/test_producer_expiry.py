"""Producers that are silent for long: their rows go, and what they send afterwards is as KIP-98 says."""

from __future__ import annotations

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.item_keys import PRODUCER_END, PRODUCER_PREFIX, partition_pk
from odradek.model.log import ProduceResult
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of

DAY_S = 86_400
SMALL = {"head_bytes_max": 400, "spill_entries": 1, "producers_in_head_max": 1, "sequence_wait_ms": 0}


@pytest.fixture
def store() -> Store:
    return memory_store()


async def send(engine: Engine, producer_id: int, sequence: int) -> ProduceResult:
    return await produce(
        engine, "t", 0, batch([b"%d-%d" % (producer_id, sequence)], producer=(producer_id, 0, sequence))
    )


async def crowded(store: Store) -> Engine:
    """Five producers with three batches each: most of them have left the head."""
    engine = store.engine(**SMALL)
    await engine.topics.create("t")
    for sequence in range(3):
        for producer_id in range(1, 6):
            store.clock.advance(1)
            assert not (await send(engine, producer_id, sequence)).error
    return engine


async def rows(store: Store, engine: Engine) -> set[int]:
    pk = partition_pk(await partition_of(engine, "t"))
    stored_rows = await store.log.query(pk, sk_from=PRODUCER_PREFIX, sk_to=PRODUCER_END)
    return {int(row.key.sk.removeprefix(PRODUCER_PREFIX)) for row in stored_rows}


async def test_rows_of_silent_producers_go_and_those_of_others_stay(store: Store) -> None:
    engine = await crowded(store)
    assert len(await rows(store, engine)) >= 4
    store.clock.advance(DAY_S - 100)
    await engine.maintenance.run()
    assert len(await rows(store, engine)) >= 4
    for sequence in range(3, 6):
        for producer_id in (1, 2):
            assert not (await send(engine, producer_id, sequence)).error
    store.clock.advance(200)
    report = await engine.maintenance.run()
    assert report.done["producers_expired"] >= 2
    assert not await rows(store, engine) & {3, 4}, "5 wrote last: it may have left the head only when 1 and 2 went on"
    for producer_id in (1, 2):
        assert not (await send(engine, producer_id, 6)).error


async def test_a_forgotten_producer_starts_at_zero_or_is_unknown_and_doubles_nothing(store: Store) -> None:
    engine = await crowded(store)
    store.clock.advance(2 * DAY_S)
    await engine.maintenance.run()
    forgotten = sorted({1, 2, 3, 4, 5} - {int(key) for key in (await head_producers(engine))})
    assert forgotten
    before = len(await read_all(engine, "t", 0))
    for sequence in (1, 2, 3):
        assert (await send(engine, forgotten[0], sequence)).error is ErrorCode.UNKNOWN_PRODUCER_ID
    assert len(await read_all(engine, "t", 0)) == before
    assert not (await send(engine, forgotten[0], 0)).error
    again = await send(engine, forgotten[0], 0)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, before), "known again: a duplicate is a duplicate"


async def head_producers(engine: Engine) -> list[int]:
    head = await engine.index.read_head(await partition_of(engine, "t"))
    assert head is not None
    return [*head.producers]


@pytest.mark.parametrize("fault", [*Fault])
async def test_a_deletion_that_fails_is_repeated_and_one_that_is_late_spares_a_producer_that_came_back(
    store: Store, fault: Fault
) -> None:
    engine = await crowded(store)
    store.clock.advance(2 * DAY_S)
    before = await rows(store, engine)
    done = store.log.count("delete")
    store.log.script = {("delete", done + n): fault for n in range(1, 3)}
    await engine.maintenance.run()
    store.log.script = {}
    if fault is Fault.LATE:
        # Those whose deletion is still on its way come back, are evicted again, and stay known.
        kept = sorted(before & await rows(store, engine))
        for sequence in range(3, 7):
            for producer_id in kept:
                store.clock.advance(1)
                assert not (await send(engine, producer_id, sequence)).error
        await store.log.deliver_late()
        for producer_id in kept:
            assert not (await send(engine, producer_id, 7)).error
    else:
        await engine.maintenance.run()
        assert await rows(store, engine) == set()
