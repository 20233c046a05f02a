"""A clock that goes by the store's time where this machine's is wrong.

Every answer of DynamoDB and S3 says what time it is there, to the second. A machine's own clock is finer, and usually
right: as long as the two are less than a minute apart it is taken as it is. Beyond that the store's time is, carried on
by the machine's monotonic clock: what a process with a wrong clock decides - floors, retention, time-outs, timestamps -
is then wrong by seconds, not by the error of its clock, and processes agree.

Before the first answer there is nothing to compare with. A store in this machine's own files has no other clock.
"""

from __future__ import annotations

from odradek.ports.clock import Clock

TRUSTED_APART_MS = 60_000


class StoreClock:
    """ports.clock.Clock over another one and the store's answers. Safe to tell from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: tuple[int, float] | None = None  # the store's time, ms, and the monotonic clock then

    def now_ms(self) -> int:
        own_ms, seen = self._clock.now_ms(), self._seen
        if seen is None:
            return own_ms
        store_ms = seen[0] + int((self._clock.monotonic() - seen[1]) * 1000)
        return own_ms if abs(own_ms - store_ms) < TRUSTED_APART_MS else store_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def wants_answer(self) -> bool:
        """Whether the last answer told of is older than a second, the resolution of what answers say."""
        return self._seen is None or self._clock.monotonic() - self._seen[1] > 1.0

    def answered(self, store_ms: int) -> None:
        """The store's time, as an answer that has just come says."""
        self._seen = (store_ms, self._clock.monotonic())
