"""A clock that a test moves."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

START_MS = 1_700_000_000_000


class ManualClock:
    """ports.clock.Clock whose time moves only on request.

    Args:
        now_ms: the initial time, ms since the epoch.
        auto_advance: a sleep moves the time by itself and returns after one turn of the loop, so that code with
            back-offs runs at once. Otherwise a sleeper waits for `advance`.
    """

    def __init__(self, now_ms: int = START_MS, *, auto_advance: bool = False) -> None:
        self._now_ms = float(now_ms)
        self._start_ms = float(now_ms)
        self._auto_advance = auto_advance
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic(self) -> float:
        return (self._now_ms - self._start_ms) / 1000

    async def sleep(self, seconds: float) -> None:
        if self._auto_advance or seconds <= 0:
            self.advance(max(seconds, 0.0))
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_ms + seconds * 1000, next(self._order), woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake sleepers whose deadline has passed, in the order of their deadlines."""
        if seconds < 0:
            raise ValueError("time cannot go back")
        self._now_ms += seconds * 1000
        while self._sleepers and self._sleepers[0][0] <= self._now_ms:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)

    @property
    def sleeping(self) -> int:
        """Return the number of waiting sleepers."""
        return sum(not woken.done() for _, _, woken in self._sleepers)
