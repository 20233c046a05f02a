"""The fleet of bench/fleet.py: each limit throttles what it should, and what was refused comes in the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.fleet import MIB, Account, Plan, drive, main
from tests.simulation.loop import run

ACCOUNT = Account(concurrency=20, scale_per_s=20, table_units=4_000)
PLAN = Plan(steps=(20 * MIB, 60 * MIB), step_s=4, partitions=30)


def steps(account: Account, plan: Plan = PLAN) -> list[dict[str, Any]]:
    steps_run: list[dict[str, Any]] = run(drive(account, plan))
    return steps_run


def test_a_fleet_with_room_keeps_up() -> None:
    first, second = steps(ACCOUNT)
    assert first["taken_gib_s"] == pytest.approx(first["offered_gib_s"], rel=0.3)
    assert second["taken_gib_s"] == pytest.approx(second["offered_gib_s"], rel=0.3)
    for step in (first, second):
        assert step["refused_by_key_per_s"] == step["refused_by_table_per_s"] == step["refused_by_prefix_per_s"] == 0
    assert second["write_units_per_s"] > 2 * first["write_units_per_s"]
    assert second["given_up"] == 0


@pytest.mark.parametrize(
    ("tight", "refused"),
    [
        ({"concurrency": 1}, "429, concurrency"),
        ({"scale_per_s": 0.1}, "429, scaling"),
        ({"table_units": 20, "table_quota": 20}, "refused_by_table_per_s"),
        ({"key_units": 5, "burst_s": 1}, "refused_by_key_per_s"),
        ({"put_per_prefix": 1, "wal_prefixes": 2}, "refused_by_prefix_per_s"),
    ],
)
def test_what_is_tight_refuses_and_everything_comes_in_the_end(tight: dict[str, Any], refused: str) -> None:
    steps_run = steps(replace(ACCOUNT, **tight))
    counts = {**steps_run[1], **steps_run[1]["answers_per_s"]}
    assert counts[refused] > 0
    others = {"refused_by_table_per_s", "refused_by_key_per_s", "refused_by_prefix_per_s"} - {refused}
    assert all(steps_run[1][other] == 0 for other in others)
    assert steps_run[1]["given_up"] == 0
    assert steps_run[1]["drained_s"] > 0.5, "what was refused is sent again"


def test_the_command_prints_both_tables(capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("bench.fleet.RESULTS", tmp_path / "fleet.json")
    assert main(["--part", "0.02", "--step-s", "2", "--steps", "1", "--plain"]) == 0
    shown = capsys.readouterr().out
    assert "quotas of a new account" in shown
    assert "quotas raised" in shown
    assert (tmp_path / "fleet.json").exists()
