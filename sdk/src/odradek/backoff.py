"""Exponential back-off with jitter: how long to wait before a failed call is tried again.

The bound doubles with each failed attempt, up to a maximum; the pause is drawn from the upper half of the bound ("equal
jitter"). Callers that failed together, because they met each other or the same throttle, so do not meet again. Half of
the bound is certain because the loops that use this end after a number of attempts: with "full jitter", a draw from 0,
a few short draws in a row would use the attempts up before the store has recovered. The clients' retries end at a
deadline and take full jitter (`client.retry`).

Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

_DOUBLINGS_MAX = 62  # a float holds far more; no maximum that anyone means is reached later


def bound_s(attempt: int, *, first_s: float, max_s: float) -> float:
    """Return the longest pause after a failed attempt, in seconds.

    Args:
        attempt: its number, from 0.
        first_s: the bound after attempt 0.
        max_s: the bound never exceeds it.
    """
    return min(max_s, first_s * 2.0 ** min(attempt, _DOUBLINGS_MAX))


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses between attempts.

    Args:
        clock: that `pause` sleeps by.
        rng: that the jitter is drawn from, once a pause.
        first_s: the longest pause after the first failed attempt, in seconds.
        max_s: the longest pause of all, in seconds.
    """

    clock: Clock
    rng: Rng
    first_s: float
    max_s: float

    def delay_s(self, attempt: int) -> float:
        """Draw a pause in seconds: from half the bound of that attempt (from 0) up to the bound. Does not sleep."""
        return bound_s(attempt, first_s=self.first_s, max_s=self.max_s) * (0.5 + self.rng.random() / 2)

    async def pause(self, attempt: int) -> None:
        """Sleep for `delay_s(attempt)`."""
        await self.clock.sleep(self.delay_s(attempt))
