"""A second upload for a slow one: an object store answers most PUTs in tens of milliseconds and a few in hundreds.

The percentage of uploads that may be sent twice is the operator's (`upload_hedge_percent`). It is both the share of
uploads that counts as slow (5: those slower than 95 of 100 before them) and the limit on what is spent: a store whose
every answer is late gets no more second uploads than that. Source: Dean and Barroso, "The Tail at Scale", CACM 2013.

Both uploads have the same name and content, so it does not matter which is stored: the other finds it there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.errors import ObjectExists
from odradek.ports.clock import Clock

_REMEMBERED: Final = 200  # durations of each class of sizes
_SAVED_MAX: Final = 2.0  # second uploads that a quiet time may save up


class HedgePolicy:
    """Decides when an upload is slow and whether another one may be paid for; no clock, no I/O.

    Args:
        percent: of the uploads; 0: never.
    """

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._durations: dict[int, deque[float]] = {}
        self._saved = 0.0

    def begin(self, size_bytes: int) -> float | None:
        """Count an upload. Returns the seconds after which it is slow, None if that is not known."""
        if not self._percent:
            return None
        self._saved = min(_SAVED_MAX, self._saved + self._percent / 100)
        known = self._durations.get(_size_class(size_bytes), ())
        if len(known) * self._percent < 100:
            return None
        # The smallest duration that at most `percent` of those known exceed.
        return sorted(known)[max(0, len(known) - 1 - len(known) * self._percent // 100)]

    def may_repeat(self) -> bool:
        """Take one second upload from what is saved up, if there is one."""
        if self._saved < 1:
            return False
        self._saved -= 1
        return True

    def done(self, size_bytes: int, seconds: float) -> None:
        """Note how long an upload took until one of its attempts was stored."""
        if self._percent:
            self._durations.setdefault(_size_class(size_bytes), deque(maxlen=_REMEMBERED)).append(seconds)


class Hedge:
    """Runs uploads under a policy."""

    def __init__(self, clock: Clock, percent: int) -> None:
        self._clock = clock
        self._policy = HedgePolicy(percent)
        self._late: set[asyncio.Future[None]] = set()  # attempts whose upload was stored by the other one

    async def upload(self, put: Callable[[], Awaitable[None]], size_bytes: int) -> None:
        """Call `put`, and once more while the first call is slow; return when one of them has succeeded.

        Args:
            put: an upload that may run twice at the same time; ObjectExists is success.

        Raises what `put` raises when no attempt succeeds: what the last one to end said.
        """
        began_s = self._clock.monotonic()
        slow_after_s = self._policy.begin(size_bytes)
        if slow_after_s is None:
            await _stored(put)
        else:
            await self._race(put, slow_after_s)
        self._policy.done(size_bytes, self._clock.monotonic() - began_s)

    async def _race(self, put: Callable[[], Awaitable[None]], slow_after_s: float) -> None:
        first = asyncio.ensure_future(_stored(put))
        timer = asyncio.ensure_future(self._clock.sleep(slow_after_s))
        attempts = {first}
        try:
            await asyncio.wait({first, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not first.done() and self._policy.may_repeat():
                attempts.add(asyncio.ensure_future(_stored(put)))
            running = set(attempts)
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                if not running or any(each.exception() is None for each in done):
                    break
        except BaseException:
            for each in attempts:
                each.cancel()
            raise
        finally:
            timer.cancel()
        for each in running:  # it cannot be called back; its outcome is of no interest
            self._late.add(each)
            each.add_done_callback(self._forget)
        succeeded = [each for each in done if each.exception() is None]
        (succeeded or list(done))[0].result()

    def _forget(self, late: asyncio.Future[None]) -> None:
        self._late.discard(late)
        if not late.cancelled():
            late.exception()  # asked for, so that asyncio does not log it


async def _stored(put: Callable[[], Awaitable[None]]) -> None:
    try:
        await put()
    except ObjectExists:
        return


def _size_class(size_bytes: int) -> int:
    """Uploads within a factor of four are compared with each other."""
    return size_bytes.bit_length() // 2
