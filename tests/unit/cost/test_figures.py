"""Figures of README and docs are those that `odradek cost estimate` prints."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from odradek.cli import run
from odradek.operations.costs import Saving, best_saving

ROOT = Path(__file__).parents[3]


def page(name: str) -> str:
    """Return a page on one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


@pytest.fixture
def estimated(capsys: pytest.CaptureFixture[str]) -> Any:
    def estimate(options: str) -> Any:
        assert run(["cost", "estimate", *shlex.split(options), "--output", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    return estimate


def total(found: Any, number: int = 0) -> float:
    return float(sum(found["odradek"][number]["dollars_month"].values()))


def test_an_idle_stage_costs_what_the_pages_say(estimated: Any) -> None:
    dev = total(estimated("--rate 0 --consumers 0 --stage dev"))
    prod = total(estimated("--rate 0 --consumers 0 --stage prod"))
    assert f"An idle stage costs ${dev:.2f} a month" in page("README.md")
    assert f"${dev:.2f} a month for `dev` and ${prod:.2f} for `prod`" in page("docs/DEPLOY.md")


def test_a_load_costs_what_readme_says(estimated: Any) -> None:
    text = page("README.md")
    found = estimated("--rate 1MiB/s --record-bytes 1024")
    assert f"Odradek {total(found):.0f}, with `linger_ms=1000` {total(found, 2):.0f}" in text
    told = dict(
        re.findall(r"((?:Kinesis on demand|Kafka in three zones|MSK provisioned|MSK Serverless)) (\d[\d,]*\d)", text)
    )
    assert told == {name: f"{dollars:,.0f}" for name, dollars in found["others"].items()}
    assert found["saving"]["change"].startswith("linger_ms=1000")
    assert found["saving"]["percent"] == int(100 - 100 * total(found, 2) / total(found))


def test_an_estimate_ends_with_what_saves_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", "estimate", "--rate", "1MiB/s"]) == 0
    assert re.fullmatch(
        r"linger_ms=1000 of producers saves \d\d %: [\d.,]+ dollars a month", capsys.readouterr().out.splitlines()[-1]
    )


def test_a_saving_is_worth_telling_from_a_twentieth_on() -> None:
    assert best_saving(100, {"a": 96, "b": 95, "c": 97}) == Saving("b", 5, 5)
    assert best_saving(100, {"a": 96}) is None
    assert best_saving(100, {"a": 120}) is None
    assert best_saving(0, {"a": 0}) is None
    assert best_saving(1, {}) is None
