"""Usage per invocation, although one engine serves many at once.

On Lambda an environment serves one request at a time; in the embedded service hundreds of long polls share one engine
and one meter. A unit belongs to the request in whose context (contextvars) the adapter counts it. Units counted outside
of any invocation only reach the total.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from odradek.ports.meter import Meter, NullMeter, Usage


class Tally:
    """A running sum of usage."""

    __slots__ = ("calls", "usage")

    def __init__(self) -> None:
        self.usage = Usage()
        self.calls: dict[str, int] = {}  # number of calls by AWS operation

    def add(self, operation: str, usage: Usage) -> None:
        self.usage += usage
        self.calls[operation] = self.calls.get(operation, 0) + 1


_CURRENT: ContextVar[Tally | None] = ContextVar("odradek_invocation", default=None)


class InvocationMeter:
    """ports.meter.Meter: a total since the start, and a tally for each invocation.

    Args:
        parent: also gets every count.
    """

    def __init__(self, parent: Meter | None = None) -> None:
        self.total = Tally()
        self._parent = parent or NullMeter()
        self._lock = threading.Lock()  # adapters may count in the threads that do their I/O

    def add(self, operation: str, usage: Usage) -> None:
        current = _CURRENT.get()
        with self._lock:
            self.total.add(operation, usage)
            if current is not None:
                current.add(operation, usage)
        self._parent.add(operation, usage)

    @contextmanager
    def invocation(self) -> Iterator[Tally]:
        """Also add everything counted inside, by tasks and threads with this context, to the tally."""
        tally = Tally()
        token = _CURRENT.set(tally)
        try:
            yield tally
        finally:
            _CURRENT.reset(token)
