"""A slow upload is sent once more: when, how often, and what comes of either outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from odradek.engine.append.hedge import Hedge, HedgePolicy
from odradek.errors import ObjectExists, OutcomeUnknown, StoreUnavailable
from odradek.settings import Settings

from tests.simulation.loop import run
from tests.support.loop_clock import LoopClock

USUAL_S = 0.05


class Store:
    """Puts that take the given seconds, in the order of the calls, and then the usual ones."""

    def __init__(self) -> None:
        self.next: list[tuple[float, Exception | None]] = []
        self.calls = 0
        self.stored = 0

    async def put(self) -> None:
        self.calls += 1
        seconds, error = self.next.pop(0) if self.next else (USUAL_S, None)
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        self.stored += 1
        if self.stored > 1:
            raise ObjectExists("wal/1")


async def after_usual_uploads(percent: int, count: int = 40) -> tuple[Hedge, Store]:
    hedge, store = Hedge(LoopClock(), percent), Store()
    for _ in range(count):
        await hedge.upload(store.put, 1000)
        store.stored = 0
    assert store.calls == count
    store.calls = 0
    return hedge, store


async def timed(hedge: Hedge, store: Store, *puts: tuple[float, Exception | None], size_bytes: int = 1000) -> float:
    store.next += puts
    began = LoopClock().monotonic()
    await hedge.upload(store.put, size_bytes)
    return LoopClock().monotonic() - began


def test_a_slow_upload_is_sent_once_more_and_the_first_to_be_stored_counts() -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(5)
        assert await timed(hedge, store, (2.0, None)) == pytest.approx(2 * USUAL_S)
        assert store.calls == 2
        await asyncio.sleep(3)  # the slow one finds the object there: no error, no log
        assert store.stored == 2

    run(body())


def test_a_usual_upload_is_sent_once() -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(5)
        await timed(hedge, store)
        assert store.calls == 1

    run(body())


@pytest.mark.parametrize(("percent", "count"), [(50, 0), (50, 1), (5, 19)])
def test_without_a_past_nothing_is_slow(percent: int, count: int) -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(percent, count)
        assert await timed(hedge, store, (2.0, None)) == pytest.approx(2.0)
        assert store.calls == 1

    run(body())


def test_a_large_upload_is_not_compared_with_small_ones() -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(5)
        assert await timed(hedge, store, (0.5, None), size_bytes=1_000_000) == pytest.approx(0.5)
        assert store.calls == 1

    run(body())


def test_zero_percent_sends_everything_once() -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(0)
        assert await timed(hedge, store, (2.0, None)) == pytest.approx(2.0)
        assert store.calls == 1

    run(body())


def test_a_store_whose_every_answer_is_late_gets_no_more_than_the_percentage() -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(5)
        uploads = 200
        slower_s = USUAL_S
        for _ in range(uploads):
            slower_s *= 1.05  # slower than all before it, every time
            store.next = [(slower_s, None), (slower_s, None)]
            await hedge.upload(store.put, 1000)
            await asyncio.sleep(slower_s)
            store.stored = 0
        # And what the quiet time before has saved up.
        assert uploads * 0.04 <= store.calls - uploads <= uploads * 0.05 + 2

    run(body())


@pytest.mark.parametrize(
    ("puts", "outcome"),
    [
        ([(0.01, StoreUnavailable("early"))], "early"),  # no reason to wait for a second one: the WAL tries again
        ([(1.0, OutcomeUnknown("first")), (0.1, None)], None),
        ([(0.2, OutcomeUnknown("first")), (1.0, None)], None),
        ([(0.2, OutcomeUnknown("first")), (0.6, StoreUnavailable("second"))], "second"),
        ([(1.0, OutcomeUnknown("first")), (0.1, StoreUnavailable("second"))], "first"),
    ],
)
def test_either_attempt_may_fail(puts: Sequence[tuple[float, Exception | None]], outcome: str | None) -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(5)
        if outcome is None:
            await timed(hedge, store, *puts)
        else:
            with pytest.raises((StoreUnavailable, OutcomeUnknown), match=outcome):
                await timed(hedge, store, *puts)

    run(body())


def test_an_abandoned_upload_ends_with_its_request() -> None:
    async def body() -> None:
        hedge, store = await after_usual_uploads(5)
        store.next = [(2.0, None), (2.0, None)]
        task = asyncio.ensure_future(hedge.upload(store.put, 1000))
        await asyncio.sleep(1)
        assert store.calls == 2
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(5)
        assert store.stored == 0
        assert len(asyncio.all_tasks()) == 1

    run(body())


def test_the_slowest_uploads_are_those_beyond_the_percentage() -> None:
    policy = HedgePolicy(5)
    for milliseconds in range(1, 101):
        policy.done(1000, milliseconds / 1000)
    assert policy.begin(1000) == 0.095


def test_the_setting_is_a_percentage_up_to_half() -> None:
    with pytest.raises(Exception, match="upload_hedge_percent must be 0 to 50, not 51"):
        Settings(upload_hedge_percent=51)
