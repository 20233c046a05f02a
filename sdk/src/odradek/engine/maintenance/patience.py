"""Asking again, for work of many calls: a pass of hundreds of requests must not fail whole because one of them did.

Only for calls that may be repeated: reads, deletes, and updates that only raise something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.errors import OutcomeUnknown, StoreUnavailable
from odradek.ports.clock import Clock

T = TypeVar("T")

_ATTEMPTS = 5
_BACKOFF_S = 0.1


async def patiently(clock: Clock, call: Callable[[], Awaitable[T]]) -> T:
    """Make the call, and again after a pause that doubles. Raises what the last attempt raises."""
    for attempt in range(_ATTEMPTS - 1):
        try:
            return await call()
        except (StoreUnavailable, OutcomeUnknown):
            await clock.sleep(_BACKOFF_S * 2**attempt)
    return await call()
