"""The clock and the random numbers of this machine."""

from __future__ import annotations

import asyncio
import os
import random
import time


class SystemClock:
    """ports.clock.Clock over the operating system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # asked twenty times for a request: without a call in between

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRng:
    """ports.rng.Rng over the operating system's entropy.

    Nothing is seeded at import, so environments restored from one snapshot do not repeat each other's ids.
    """

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random(self) -> float:
        return self._random.random()
