"""Stores with latency: wrap a port and choose the duration of its calls.

A latency is log-normal, given by its median and its 99th percentile, as cloud stores publish theirs. Half of it passes
before the call takes effect and half after, as on a network. The clock is the caller's: with a virtual one, an hour of
slow calls takes only the time of their computation.

`Outliers` are calls far beyond the p99: a throttled key, a paused node, a retried connection. Every n-th call is one,
so that a short run has the intended number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.tables import TableOperation, Tables

_Z99 = NormalDist().inv_cdf(0.99)
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Latency:
    """The distribution of the duration of a call."""

    p50_ms: float
    p99_ms: float  # at least p50_ms

    def __post_init__(self) -> None:
        if not 0 < self.p50_ms <= self.p99_ms:
            raise ValueError(f"a latency needs 0 < p50 <= p99, not {self.p50_ms} and {self.p99_ms}")

    def draw_s(self, rng: Rng) -> float:
        """Draw the seconds of one call."""
        uniform = min(max(rng.random(), 1e-12), 1 - 1e-12)
        sigma = math.log(self.p99_ms / self.p50_ms) / _Z99
        return self.p50_ms / 1000 * math.exp(sigma * _NORMAL.inv_cdf(uniform))


@dataclass(slots=True)
class Outliers:
    """Makes every n-th call of the named methods, counted over all ports that share this, last `late_ms` longer."""

    every: int  # at least 1
    late_ms: float
    methods: frozenset[str] = frozenset({"put", "update"})  # what an append waits for
    calls: int = 0  # so far, of these methods
    late: int = 0  # number of late calls

    def __post_init__(self) -> None:
        if self.every < 1 or self.late_ms < 0:
            raise ValueError(f"outliers need every >= 1 and late_ms >= 0, not {self.every} and {self.late_ms}")

    def next_s(self, method: str) -> float:
        """Count a call and return its additional seconds."""
        if method not in self.methods:
            return 0.0
        self.calls += 1
        if self.calls % self.every:
            return 0.0
        self.late += 1
        return self.late_ms / 1000


class Slow:
    """A port (Table, ObjectStore) whose calls last as long as drawn, and regularly much longer.

    Args:
        latency: of each call; None: only the port's own.
        outliers: additional delays; None: none.
    """

    def __init__(
        self, port: Any, latency: Latency | None, clock: Clock, rng: Rng, outliers: Outliers | None = None
    ) -> None:
        self._port = port
        self._latency = latency
        self._outliers = outliers
        self._clock = clock
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            half_s = 0.0 if self._latency is None else self._latency.draw_s(self._rng) / 2
            if self._outliers is not None:
                half_s += self._outliers.next_s(name) / 2
            if not half_s:
                return await method(*args, **kwargs)
            await self._clock.sleep(half_s)
            try:
                return await method(*args, **kwargs)
            finally:
                await self._clock.sleep(half_s)

        return call


class SlowTables:
    """The tables of one store, each of them and the transactions across them `Slow`."""

    def __init__(
        self, tables: Tables, latency: Latency | None, clock: Clock, rng: Rng, outliers: Outliers | None = None
    ) -> None:
        self.log: Any = Slow(tables.log, latency, clock, rng, outliers)
        self.groups: Any = Slow(tables.groups, latency, clock, rng, outliers)
        self.catalog: Any = Slow(tables.catalog, latency, clock, rng, outliers)
        self._across = Slow(tables, latency, clock, rng, outliers)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        """Implement `Tables.transact`."""
        await self._across.transact(operations)
