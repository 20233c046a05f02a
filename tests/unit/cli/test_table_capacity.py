"""Provisioned tables: the text between stack and doctor, and what the doctor says of their scaling and their load."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.operations.health.capacity import TableCapacity, TableUse, faults_of_scaling, faults_of_use

CAPACITY = TableCapacity(100, 1000, 200, 2000)


@pytest.mark.parametrize("capacity", [CAPACITY, TableCapacity(1, 1, 1, 1, 20), TableCapacity(5, 40_000, 6, 7, 90)])
def test_the_text_of_a_capacity_is_read_back(capacity: TableCapacity) -> None:
    assert TableCapacity.parse(str(capacity)) == capacity


@pytest.mark.parametrize("text", ["", "writes=1-2 reads=1-2", "writes=2-1 reads=1-2 target=70", f"{CAPACITY} more"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no capacity of a table|must be from 1 unit"):
        TableCapacity.parse(text)


def target(dimension: str, least: int, most: int) -> dict[str, Any]:
    return {"ScalableDimension": f"dynamodb:table:{dimension}CapacityUnits", "MinCapacity": least, "MaxCapacity": most}


def test_what_scales_otherwise_than_the_stage_says_is_told() -> None:
    writes, reads = target("Write", 100, 1000), target("Read", 200, 2000)
    assert list(faults_of_scaling([reads, writes], CAPACITY)) == []
    assert list(faults_of_scaling([reads], CAPACITY)) == ["has writes that nothing scales: deploy again"]
    [fault] = faults_of_scaling([writes, target("Read", 5, 40_000)], CAPACITY)
    assert fault == "scales its reads from 5 to 40,000, its stage says 200 to 2,000"


def test_a_load_that_has_outgrown_its_table_is_told() -> None:
    def faults(writes: float, reads: float, throttled: float = 0) -> list[str]:
        return list(faults_of_use(TableUse({"writes": writes, "reads": reads}, throttled), CAPACITY))

    assert faults(700, 1400) == [], "both can have what their target asks for"
    [writes] = faults(701, 1400)
    assert writes.startswith("is at the maximum of its writes: 701 units a second are 70% of more than 1,000")
    [reads] = faults(700, 1401)
    assert reads.startswith("is at the maximum of its reads")
    [throttled] = faults(0, 0, 12)
    assert throttled.startswith("throttled 12 requests in the last hour")
