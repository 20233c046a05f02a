"""Injected latencies: the distribution that was asked for, around calls that are otherwise themselves."""

from __future__ import annotations

import pytest
from odradek.adapters.memory import MemoryStore
from odradek.errors import ConditionFailed
from odradek.ports.table import Absent, Key, Put
from odradek.testing.latency import Latency, SlowTables
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

KEY = Key("p", "s")


def test_draws_have_the_median_and_the_99th_percentile_that_were_asked_for() -> None:
    latency, rng = Latency(60, 200), SeededRng(1)
    draws = sorted(latency.draw_s(rng) for _ in range(20_000))
    assert draws[10_000] == pytest.approx(0.060, rel=0.03)
    assert draws[19_800] == pytest.approx(0.200, rel=0.06)


def test_a_constant_latency() -> None:
    assert Latency(5, 5).draw_s(SeededRng()) == pytest.approx(0.005)


@pytest.mark.parametrize(("p50", "p99"), [(0, 1), (-1, 1), (5, 4)])
def test_a_latency_that_cannot_be(p50: float, p99: float) -> None:
    with pytest.raises(ValueError, match="p50 <= p99"):
        Latency(p50, p99)


async def test_calls_last_and_answer_as_ever() -> None:
    clock = ManualClock(auto_advance=True)
    tables = SlowTables(MemoryStore(), Latency(10, 10), clock, SeededRng())
    await tables.log.put(Put(KEY, {"n": 1}))
    assert clock.monotonic() == pytest.approx(0.010)
    assert await tables.log.get(KEY) == {"n": 1}
    with pytest.raises(ConditionFailed):
        await tables.log.put(Put(KEY, {"n": 2}, Absent(("n",))))
    assert clock.monotonic() == pytest.approx(0.030)
