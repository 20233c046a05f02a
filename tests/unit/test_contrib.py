"""The files of docs/contrib/ are true of the service: options that exist, metrics that are served."""

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


def served() -> str:
    metrics = Metrics(Usage)
    metrics.observe(Invocation("c", "fetch", "id", api="FETCH", status=500, error="UNKNOWN_SERVER_ERROR"))
    metrics.observe_kafka(0, 1.0, 1, 1)
    return metrics.text(Backlog(group_lag={"g": 1}))


def test_every_metric_of_the_dashboard_is_served() -> None:
    names = set(re.findall(r"^(odradek_\w+)", served(), re.M))
    dashboard = json.loads((CONTRIB / "grafana/odradek.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in re.findall(r"odradek_\w+", expression)}
    assert used <= names
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    [scrape] = yaml.safe_load((CONTRIB / "prometheus/odradek.yml").read_text())["scrape_configs"]
    assert scrape["metrics_path"] == "/metrics"


def test_every_metric_and_label_of_an_alert_is_served() -> None:
    """A rule over a name that nobody serves never fires, and nobody notices."""
    series = set(re.findall(r"^(odradek_\w+)(?:\{(.*?)\})? ", served(), re.M))
    names = {name for name, _ in series}
    labels = {label for _, text in series for label in re.findall(r'(\w+)="', text)} | {"instance", "job"}
    values = set(re.findall(r'(\w+="[^"]*")', served()))
    scrape = yaml.safe_load((CONTRIB / "prometheus/odradek.yml").read_text())
    assert scrape["rule_files"] == ["alerts.yml"]
    [group] = yaml.safe_load((CONTRIB / "prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]:
        expression = rule["expr"]
        assert set(re.findall(r"odradek_\w+", expression)) <= names, rule["alert"]
        grouped = {label for each in re.findall(r"by \((.*?)\)", expression) for label in each.split(", ")}
        told = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert grouped | told <= labels, rule["alert"]
        assert told <= grouped or not grouped, f"{rule['alert']} tells a label that its expression sums up"
        exact = {each for each in re.findall(r'(\w+="[^"]*")', expression) if not each.startswith("job=")}
        assert exact <= values, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])
