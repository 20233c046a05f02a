"""A load is measured once in a process: what is kept, read or paid for a request does not change what is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.cost import measure as measuring
from odradek.cost.measure import measure
from odradek.cost.model import Measured, Workload
from odradek.ports.meter import Usage

LOAD = Workload(1_000, linger_ms=1000, partitions=1)


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the runs of the engine."""
    made: list[object] = []

    async def run(shape: object) -> Measured:
        made.append(shape)
        return Measured(per_append=Usage(table_write_units=len(made)))

    monkeypatch.setattr(measuring, "_measured", {})
    monkeypatch.setattr(measuring, "_measure", run)
    return made


async def test_what_the_engine_does_not_see_is_not_measured_again(runs: list[object]) -> None:
    first = await measure(LOAD)
    for same in (replace(LOAD, retention_s=1), replace(LOAD, consumers=9), replace(LOAD, keep_deleted_s=5)):
        assert await measure(same) is first
    assert len(runs) == 1


@pytest.mark.parametrize(
    "other", [replace(LOAD, partitions=2), replace(LOAD, producers=2), replace(LOAD, bytes_per_s=9_000)], ids=str
)
async def test_what_the_engine_sees_is_measured(other: Workload) -> None:
    assert await measure(LOAD) != await measure(other)


async def test_no_more_are_kept_than_a_console_needs(runs: list[object]) -> None:
    loads = [replace(LOAD, producers=number) for number in range(1, measuring._KEPT_MAX + 2)]
    for load in loads:
        await measure(load)
    await measure(loads[-1])
    assert len(runs) == len(loads)
    await measure(loads[0])
    assert len(runs) == len(loads) + 1
    assert len(measuring._measured) == measuring._KEPT_MAX
