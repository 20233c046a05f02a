"""The clock and the chance of this machine, for clients that were given none."""

from __future__ import annotations

import asyncio
import os
import random
import time

from odradek.ports.clock import Clock


class SystemClock:
    """ports.clock.Clock over the operating system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRng:
    """ports.rng.Rng: ids from the operating system, jitter from a generator seeded by it."""

    def __init__(self) -> None:
        self._random = random.Random()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random(self) -> float:
        return self._random.random()


async def wait_for(event: asyncio.Event, seconds: float | None, clock: Clock) -> None:
    """Return when the event is set, or after that time by the clock (None: no limit)."""
    if event.is_set():
        return
    if seconds is None:
        await event.wait()
        return
    tasks = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
