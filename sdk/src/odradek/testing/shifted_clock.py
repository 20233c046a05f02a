"""The system's clock, moved by a test."""

from __future__ import annotations

import asyncio
import time


class ShiftedClock:
    """ports.clock.Clock of the system, ahead by what `advance` added. Any thread may advance it.

    A sleep takes as long as it takes: a clock that is moved does not wake it.
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + round(self._ahead_s * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Move the time forward. Raises ValueError for a negative number of seconds."""
        if seconds < 0:
            raise ValueError("time cannot go back")
        self._ahead_s += seconds
