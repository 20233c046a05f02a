"""A clock that goes as the running loop does, which may be one of virtual time (tests/simulation/loop.py)."""

from __future__ import annotations

import asyncio

START_MS = 1_763_800_000_000  # 22 November 2025, 08:26:40 UTC


class LoopClock:
    """ports.clock.Clock of the running loop."""

    def now_ms(self) -> int:
        return START_MS + int(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
