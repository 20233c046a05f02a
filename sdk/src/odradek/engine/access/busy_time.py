"""The time in which one task keeps the event loop busy: the sum of its steps, without the waits between them."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

from odradek.ports.clock import Clock

T = TypeVar("T")


class BusyTime:
    """A measurement; tasks that the measured work starts do not count."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds = 0.0

    async def of(self, work: Awaitable[T]) -> T:
        """Await the work and add the time of its steps, whether it returns or raises."""
        result: T = await _Steps(self, work)
        return result

    def add(self, since_s: float) -> None:
        """Add the time since a moment of the monotonic clock."""
        self.seconds += self._clock.monotonic() - since_s

    def now_s(self) -> float:
        """Return the monotonic clock."""
        return self._clock.monotonic()


class _Steps:
    def __init__(self, time: BusyTime, work: Awaitable[Any]) -> None:
        self._time = time
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        """Forward each step, what it waits for, and an error that ends the wait (a cancellation)."""
        steps = self._work.__await__()
        raised: BaseException | None = None
        while True:
            began_s = self._time.now_s()
            try:
                waits_for = steps.send(None) if raised is None else steps.throw(raised)
            except StopIteration as done:
                return done.value
            finally:
                self._time.add(began_s)
            raised = None
            try:
                yield waits_for
            except BaseException as error:
                raised = error
