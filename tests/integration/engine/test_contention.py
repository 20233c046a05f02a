"""Many writers of one partition, by the bench that measures them, in virtual time."""

from __future__ import annotations

import pytest
from odradek.testing.latency import Latency

from bench.engine.append import Latencies
from bench.engine.contention import measure
from tests.simulation.loop import run

LATENCIES = Latencies(table=Latency(7.6, 16), put=Latency(30, 100))


@pytest.mark.parametrize("faults", [0.0, 0.05])
def test_many_writers_of_one_partition_pay_for_their_own_records(faults: float) -> None:
    """In virtual time, 64 of them on warm functions: had each a try at every spill, a record would cost 25 calls."""
    figures = run(measure(64, 1, faults, 640, 0.1, LATENCIES))
    assert figures["calls"] < 4
    assert figures["in_vain"] < 0.1
    assert figures["units"] < 20, "the tail is kept short"
    assert figures["p50_ms"] < 30, "an upload and an update"
    assert figures["p100_ms"] < (250 if not faults else 4_000), "a spill; with faults, stalls of a second"
