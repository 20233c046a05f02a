"""The estimate of `odradek cost estimate` beside what bench/cost.py counts with real clients and functions."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.cost.measure import measure as coefficients
from odradek.cost.model import MEMORY_MB, Workload, own_cost
from odradek.cost.tables import TableMode
from odradek.cost.wal import WalClass

from bench import cost
from bench.cost import CASES, KEPT, KEPT_SINGLE, Case
from tests.support.counted import at_least

# Rows are merged every ten minutes at this rate: the window has two such merges.
SMALL = Case("small", 64 * 1024, 0, partitions=6, configs={"linger_ms": 1000}, minutes=20, warm_up_s=780)


def estimated(case: Case) -> dict[TableMode, dict[str, float]]:
    """The dollars of each component, in each mode of the log table."""
    load = Workload(
        case.bytes_per_s,
        record_bytes=case.record_bytes,
        producers=case.producers,
        consumers=case.groups,
        linger_ms=case.configs.get("linger_ms"),
        partitions=case.partitions,
        wal=WalClass.EXPRESS if case.express else WalClass.STANDARD,
        memory_mb=case.memory_mb.get("produce", MEMORY_MB),
    )
    measured = asyncio.run(coefficients(load))
    return {mode: dict(own_cost(replace(load, tables=mode), measured)) for mode in TableMode}


@pytest.mark.slow
def test_the_estimate_is_what_real_clients_and_functions_use() -> None:
    """Slow: half an hour of simulated time, every call of it counted."""
    counted = cost.measure(SMALL)
    by_component, guessed = counted["by_component"], estimated(SMALL)[TableMode.ON_DEMAND]
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
        assert guessed[component] == pytest.approx(by_component[component], rel=near, abs=0.1), component
    assert {name for name, dollars in by_component.items() if dollars > 0.01} <= set(guessed)


def _comparable() -> list[dict[str, Any]]:
    """Kept results that the estimate speaks of: of the stage prod, without gateways and settings of consumers."""
    kept: list[dict[str, Any]] = json.loads(KEPT.read_text())
    cases = [(measured, measured["case"]) for measured in kept]
    return [
        measured
        for measured, case in cases
        if case["stage"] == "prod" and not case["consumer_configs"] and not case.get("gateways")
    ]


def _cases() -> list[Any]:
    """One in `make test`; the estimate counts what a workload calls for, which takes some seconds each."""
    named = ((measured["case"]["name"], measured) for measured in _comparable())
    return [
        pytest.param(measured, id=name, marks=() if name == "default" else pytest.mark.slow) for name, measured in named
    ]


@pytest.mark.parametrize("result", _cases())
def test_the_committed_results_are_what_the_estimate_says(result: dict[str, Any]) -> None:
    case = CASES[result["case"]["name"]]
    guessed = estimated(case)
    assert sum(guessed[TableMode.ON_DEMAND].values()) == pytest.approx(result["dollars"], rel=0.3)
    assert sum(guessed[TableMode.PROVISIONED].values()) == pytest.approx(result["provisioned"]["dollars"], rel=0.3)


@pytest.mark.parametrize("path", [KEPT, KEPT_SINGLE], ids=lambda path: str(path.stem))
def test_the_second_price_is_of_the_committed_units(path: Path) -> None:
    for result in at_least(1, json.loads(path.read_text())):
        assert result["provisioned"] == cost.rounded(cost.provisioned(result)), "python -m bench.cost --kept --keep"


def test_what_is_kept_is_printed_without_a_measurement(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "measure", lambda case: pytest.fail("measured"))
    before = KEPT.read_bytes()
    assert cost.main(["--kept", "--case", "large"]) == 0
    printed = capsys.readouterr().out
    [large] = [case_kept for case_kept in json.loads(before) if case_kept["case"]["name"] == "large"]
    assert f"{large['dollars']:,.2f}" in printed
    assert f"{large['provisioned']['dollars']:,.2f}" in printed
    assert "linger-16" not in printed
    assert KEPT.read_bytes() == before
