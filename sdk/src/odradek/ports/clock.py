"""Time as a parameter, so that a simulation can control it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch. May differ between machines; no safety depends on it."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after about that many seconds."""
        ...
