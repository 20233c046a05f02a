"""The estimate of `odradek cost estimate` beside what bench/cost.py counts with real clients and functions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from odradek.cost.measure import measure as coefficients
from odradek.cost.model import Workload, own_cost

from bench import cost
from bench.cost import CASES, KEPT, Case

# Rows are merged every ten minutes at this rate: the window has two such merges.
SMALL = Case("small", 64 * 1024, 0, partitions=6, configs={"linger_ms": 1000}, minutes=20, warm_up_s=780)


def estimated(case: Case) -> dict[str, float]:
    load = Workload(
        case.bytes_per_s,
        record_bytes=case.record_bytes,
        producers=case.producers,
        consumers=case.groups,
        linger_ms=case.configs.get("linger_ms"),
        partitions=case.partitions,
    )
    return dict(own_cost(load, asyncio.run(coefficients(load))))


@pytest.mark.slow
def test_the_estimate_is_what_real_clients_and_functions_use() -> None:
    """Slow: half an hour of simulated time, every call of it counted."""
    counted = cost.measure(SMALL)
    found, guessed = counted["by_component"], estimated(SMALL)
    assert counted["records_per_s"] == pytest.approx(64, rel=0.05)
    assert sum(guessed.values()) == pytest.approx(counted["dollars"], rel=0.25)
    for component in (
        "table writes",
        "table reads",
        "object puts",
        "object gets",
        "function time",
        "function requests",
    ):
        # To a third, or to ten cents; of the two merges one may fall out of the window.
        near = 0.6 if component == "table writes" else 0.35
        assert guessed[component] == pytest.approx(found[component], rel=near, abs=0.1), component
    assert {name for name, dollars in found.items() if dollars > 0.01} <= set(guessed)


def _comparable() -> list[dict[str, Any]]:
    """Kept results that the estimate speaks of: of the stage prod, without settings of consumers."""
    kept: list[dict[str, Any]] = json.loads(KEPT.read_text())
    return [each for each in kept if each["case"]["stage"] == "prod" and not each["case"]["consumer_configs"]]


@pytest.mark.parametrize("result", _comparable(), ids=lambda result: str(result["case"]["name"]))
def test_the_committed_results_are_what_the_estimate_says(result: dict[str, Any]) -> None:
    case = CASES[result["case"]["name"]]
    assert sum(estimated(case).values()) == pytest.approx(result["dollars"], rel=0.3)
