"""A clock that follows the store's time if this machine's clock is wrong.

Every response of DynamoDB and S3 contains its time, to the second. A machine's clock is finer and usually right, so it
is used while the two differ by less than a minute. Beyond that the clock continues from the store's time with the
machine's monotonic clock. Decisions of a process with a wrong clock (floors, retention, timeouts, timestamps) are then
wrong by seconds, not by the error of its clock, and processes agree.

Before the first response there is nothing to compare with. A store in this machine's files has no other clock.
"""

from __future__ import annotations

from odradek.ports.clock import Clock

TRUSTED_APART_MS = 60_000


class StoreClock:
    """ports.clock.Clock over another clock and the store's responses. `answered` may be called from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: tuple[int, float] | None = None  # the store's time, ms, and the monotonic clock then

    def now_ms(self) -> int:
        own_ms, last_seen = self._clock.now_ms(), self._seen
        if last_seen is None:
            return own_ms
        store_ms = last_seen[0] + int((self._clock.monotonic() - last_seen[1]) * 1000)
        return own_ms if abs(own_ms - store_ms) < TRUSTED_APART_MS else store_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def wants_answer(self) -> bool:
        """True if the last response seen is older than a second, the resolution of the time in responses."""
        return self._seen is None or self._clock.monotonic() - self._seen[1] > 1.0

    def answered(self, store_ms: int) -> None:
        """Note the store's time from a response that has just arrived."""
        self._seen = (store_ms, self._clock.monotonic())
