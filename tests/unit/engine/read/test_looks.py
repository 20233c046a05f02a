"""Long polls of one process share their looks: what they cost, what wakes them, and that none misses anything."""

from __future__ import annotations

import asyncio

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.log import FetchPartition, FetchResult
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce

POLLS = 50
WAIT_MS = 5_000
LARGE = b"a" * 20_000  # so that the batch is in the object store, and what is read of the log is heads


@pytest.fixture(params=[1, 4], ids=["alone", "shared"])
async def store(request: pytest.FixtureRequest) -> Store:
    store = memory_store(per_head=request.param)
    await store.engine().topics.create("t", 8)
    return store


async def poll(engine: Engine, partitions: range = range(8), offset: int = 0) -> list[FetchResult]:
    requested = [FetchPartition("t", number, offset) for number in partitions]
    return await engine.fetch(requested, max_wait_ms=WAIT_MS)


def values(results: list[FetchResult]) -> int:
    assert {result.error for result in results} == {ErrorCode.NONE}
    return sum(bool(result.size_bytes) for result in results)


async def waiting(engine: Engine, count: int = POLLS) -> list[asyncio.Task[list[FetchResult]]]:
    """So many polls that have looked once."""
    polls = [asyncio.create_task(poll(engine)) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return polls


def reads(store: Store) -> int:
    return store.log.count("get") + store.log.count("get_many")


async def test_many_polls_cost_hardly_more_looks_than_one(store: Store) -> None:
    costs = []
    for count in (1, POLLS):
        engine, before = store.engine(), reads(store)
        results = await asyncio.gather(*(poll(engine) for _ in range(count)))
        assert not any(map(values, results))
        costs.append(reads(store) - before - count)  # each poll looks once for itself
    alone, together = costs
    assert 5 < alone <= 40
    assert together <= alone + 2


async def test_an_append_of_the_same_process_wakes_them_without_a_look(store: Store) -> None:
    engine = store.engine()
    polls = await waiting(engine)
    store.log.calls.clear()
    await produce(engine, "t", 3, batch([LARGE]))
    results = await asyncio.gather(*polls)
    assert [values(result) for result in results] == [1] * POLLS
    assert reads(store) <= 2, "whatever was due in that moment"


async def test_an_append_of_another_process_is_found_by_one_look(store: Store) -> None:
    engine = store.engine()
    polls = await waiting(engine)
    before_s = store.clock.monotonic()
    await produce(store.engine(), "t", 3, batch([LARGE]))
    store.log.calls.clear()
    results = await asyncio.gather(*polls)
    assert [values(result) for result in results] == [1] * POLLS
    assert store.clock.monotonic() - before_s < 1
    assert reads(store) <= 10


async def test_a_poll_that_joins_others_goes_back_to_no_older_look(store: Store) -> None:
    """It has seen a log that is longer than at the last look of the others."""
    engine = store.engine()
    others = await waiting(engine, 3)
    await produce(store.engine(), "t", 0, batch([b"a"]))
    late = asyncio.create_task(poll(engine, range(1), offset=1))
    assert values(await late) == 0
    assert store.clock.monotonic() >= WAIT_MS / 1000
    assert [values(result) for result in await asyncio.gather(*others)] == [1] * 3


async def test_a_poll_for_more_bytes_waits_on_until_there_are_enough(store: Store) -> None:
    engine = store.engine()
    requested = [FetchPartition("t", 0, 0)]
    waits = asyncio.create_task(engine.fetch(requested, max_wait_ms=WAIT_MS, min_bytes=1_000))
    for value in (b"x" * 100, b"y" * 2_000):
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waits.done()
        await produce(engine, "t", 0, batch([value]))
    [result] = await waits
    assert result.high_watermark == 2
    assert result.size_bytes > 2_000


async def test_a_topic_that_is_deleted_ends_the_polls(store: Store) -> None:
    engine = store.engine()
    polls = await waiting(engine, 3)
    await store.engine().topics.delete("t")
    for results in await asyncio.gather(*polls):
        assert {result.error for result in results} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert store.clock.monotonic() < 1


async def test_a_look_that_fails_is_made_again_by_the_polls_themselves(store: Store) -> None:
    engine = store.engine()
    polls = await waiting(engine, 3)
    call = "get_many" if store.log.count("get_many") else "get"
    store.log.script[(call, store.log.count(call) + 1)] = Fault.UNAVAILABLE
    await produce(store.engine(), "t", 0, batch([b"a"]))
    assert [values(result) for result in await asyncio.gather(*polls)] == [1] * 3


async def test_nobody_looks_when_nobody_waits_any_more(store: Store) -> None:
    engine = store.engine()
    polls = await waiting(engine, 3)
    before = len(asyncio.all_tasks())
    for waiting_poll in polls:
        waiting_poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before - 4
    store.log.calls.clear()
    for _ in range(50):
        await asyncio.sleep(0)
    assert store.log.calls == []
    assert values(await poll(engine)) == 0, "and the next one is looked for again"


async def test_what_no_look_handles_reaches_everybody_who_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.engine()
    polls = await waiting(engine, 3)

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(engine.index, "read_images", broken)
    outcomes = await asyncio.gather(*polls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 3
    monkeypatch.undo()
    assert values(await poll(engine)) == 0
