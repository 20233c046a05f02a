"""Time as a parameter, so that a simulation can own it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch. May differ between machines; no safety rests on it."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward, for durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after about that many seconds."""
        ...
