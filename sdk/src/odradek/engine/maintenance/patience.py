"""Asking again, for work of many calls: a pass of hundreds of requests must not fail whole because one of them did.

Only for calls that may be repeated: reads, deletes, and updates that only raise something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.backoff import Backoff
from odradek.errors import OutcomeUnknown, StoreUnavailable
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

T = TypeVar("T")

_ATTEMPTS = 5


async def patiently(clock: Clock, rng: Rng, call: Callable[[], Awaitable[T]]) -> T:
    """Make the call, and again after a pause that doubles. Raises what the last attempt raises."""
    backoff = Backoff(clock, rng, first_s=0.1, max_s=1.0)
    for attempt in range(_ATTEMPTS - 1):
        try:
            return await call()
        except (StoreUnavailable, OutcomeUnknown):
            await backoff.pause(attempt)
    return await call()
