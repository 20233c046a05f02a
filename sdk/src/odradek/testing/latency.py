"""Stores that take their time: wrap a port, say how long its calls last.

A latency is log-normal, given by its median and its 99th percentile, as cloud stores publish theirs. Half of it passes
before the call takes effect and half after, as on a network. The clock is the caller's: with a virtual one, an hour of
slow calls takes as long as their computing.
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
    """How long a call lasts."""

    p50_ms: float
    p99_ms: float  # at least p50_ms

    def __post_init__(self) -> None:
        if not 0 < self.p50_ms <= self.p99_ms:
            raise ValueError(f"a latency needs 0 < p50 <= p99, not {self.p50_ms} and {self.p99_ms}")

    def draw_s(self, rng: Rng) -> float:
        """Seconds of one call."""
        uniform = min(max(rng.random(), 1e-12), 1 - 1e-12)
        sigma = math.log(self.p99_ms / self.p50_ms) / _Z99
        return self.p50_ms / 1000 * math.exp(sigma * _NORMAL.inv_cdf(uniform))


class Slow:
    """A port (Table, ObjectStore) whose calls last as long as drawn."""

    def __init__(self, port: Any, latency: Latency, clock: Clock, rng: Rng) -> None:
        self._port = port
        self._latency = latency
        self._clock = clock
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            half_s = self._latency.draw_s(self._rng) / 2
            await self._clock.sleep(half_s)
            try:
                return await method(*args, **kwargs)
            finally:
                await self._clock.sleep(half_s)

        return call


class SlowTables:
    """The tables of one store, each of them and the transactions across them `Slow`."""

    def __init__(self, tables: Tables, latency: Latency, clock: Clock, rng: Rng) -> None:
        self.log: Any = Slow(tables.log, latency, clock, rng)
        self.groups: Any = Slow(tables.groups, latency, clock, rng)
        self.catalog: Any = Slow(tables.catalog, latency, clock, rng)
        self._across = Slow(tables, latency, clock, rng)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        """As `Tables.transact`."""
        await self._across.transact(operations)
