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

_ADDED_MAX = 1000


class Tally:
    """A running sum of usage. It is added up when somebody asks, or when much has come: most requests ask nobody."""

    __slots__ = ("_sum", "calls")

    def __init__(self) -> None:
        self._sum: tuple[Usage, list[Usage]] = Usage(), []  # and what has come since
        self.calls: dict[str, int] = {}  # number of calls by AWS operation

    @property
    def usage(self) -> Usage:
        """The sum of what was added; any thread may ask."""
        usage, added = self._sum
        for one in tuple(added):
            usage += one
        return usage

    def add(self, operation: str, usage: Usage) -> None:
        """Count a call."""
        self._sum[1].append(usage)
        if len(self._sum[1]) >= _ADDED_MAX:
            self._sum = self.usage, []
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
