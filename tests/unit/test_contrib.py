"""What docs/contrib/ says is true of the service: options that exist, metrics that are served."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from odradek.cli import run
from odradek.engine.maintenance.backlog import Backlog
from odradek.functions.metrics import Metrics
from odradek.functions.telemetry import Invocation
from odradek.ports.meter import Usage

CONTRIB = Path(__file__).parents[2] / "docs" / "contrib"


@pytest.fixture
def known_options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setenv("COLUMNS", "200")
    run(["local", "--help"])
    return set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_the_unit_of_systemd_starts_the_command_as_it_is(known_options: set[str]) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(CONTRIB / "systemd/odradek.service")
    program, command, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, command) == ("odradek", "local")
    assert {word for word in words if word.startswith("--")} <= known_options
    assert unit["Service"]["RestartPreventExitStatus"] == "2", "what odradek.cli answers to wrong configuration"
    assert f"/var/lib/{unit['Service']['StateDirectory']}" in words


def test_the_container_starts_the_command_as_it_is(known_options: set[str]) -> None:
    text = (CONTRIB / "container/Containerfile").read_text()
    entry = json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.M)[0])
    command = json.loads(re.findall(r"^CMD (.*)$", text, re.M)[0])
    assert entry[:2] == ["odradek", "local"]
    assert {word for word in entry + command if word.startswith("--")} <= known_options


def test_every_metric_of_the_dashboard_is_served() -> None:
    metrics = Metrics(Usage)
    metrics.observe(Invocation("c", "fetch", "id", api="FETCH", status=500, error="UNKNOWN_SERVER_ERROR"))
    served = metrics.text(Backlog(group_lag={"g": 1}))
    names = set(re.findall(r"^(odradek_\w+)", served, re.M))
    dashboard = json.loads((CONTRIB / "grafana/odradek.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for each in expressions for name in re.findall(r"odradek_\w+", each)}
    assert used <= names
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    [scrape] = yaml.safe_load((CONTRIB / "prometheus/odradek.yml").read_text())["scrape_configs"]
    assert scrape["metrics_path"] == "/metrics"
