"""The clock that tests move."""

from __future__ import annotations

import asyncio

import pytest
from odradek.testing import ManualClock, SeededRng


async def test_time_goes_forward_only_when_told() -> None:
    clock = ManualClock(1000)
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.ensure_future(sleeper(name, s)) for name, s in (("late", 3), ("early", 1), ("middle", 2))]
    await asyncio.sleep(0)
    assert clock.sleeping == 3
    clock.advance(2.5)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert woken == ["early", "middle"]
    assert (clock.now_ms(), clock.monotonic()) == (3500, 2.5)
    clock.advance(0.5)
    await asyncio.gather(*tasks)
    assert woken[-1] == "late"
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


async def test_a_clock_that_advances_by_itself() -> None:
    clock = ManualClock(1000, auto_advance=True)
    await clock.sleep(60)
    assert clock.now_ms() == 61_000


def test_the_same_seed_repeats_itself() -> None:
    first, second, other = SeededRng(7), SeededRng(7), SeededRng(8)
    assert [first.random_bytes(10), first.random()] == [second.random_bytes(10), second.random()]
    assert first.random_bytes(10) != other.random_bytes(10)
