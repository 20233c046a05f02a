"""Injected latencies: the distribution that was asked for, around calls that are otherwise themselves."""

from __future__ import annotations

import pytest
from odradek.adapters.memory import MemoryStore
from odradek.errors import ConditionFailed
from odradek.ports.table import Absent, Key, Put
from odradek.testing.latency import Latency, Outliers, SlowTables
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


async def test_every_nth_call_is_an_outlier_whichever_port_it_meets() -> None:
    clock = ManualClock(auto_advance=True)
    outliers = Outliers(every=3, late_ms=800)
    tables = SlowTables(MemoryStore(), None, clock, SeededRng(), outliers)
    for number in range(1, 7):
        began_s = clock.monotonic()
        table = tables.log if number % 2 else tables.groups
        await table.put(Put(KEY, {"n": number}))
        await table.get(KEY)  # reads are not counted
        assert clock.monotonic() - began_s == pytest.approx(0.0 if number % 3 else 0.8)
    assert (outliers.calls, outliers.late) == (6, 2)


@pytest.mark.parametrize(("every", "late_ms"), [(0, 1), (1, -1)])
def test_outliers_that_cannot_be(every: int, late_ms: float) -> None:
    with pytest.raises(ValueError, match="every >= 1"):
        Outliers(every, late_ms)
