"""The REST API: Kafka Connect's paths, JSON and status codes, and the same operations by the command line."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.cli import run
from odradek.connect.rest.server import RestServer
from odradek.connect.runtime.worker import Worker
from odradek.connect.state.cluster_state import ClusterState, ConnectorState

from tests.support.connect.plugins import COUNTER
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until

Call = Callable[..., tuple[int, Any]]
CONFIG = {"connector.class": COUNTER, "topic": "rest", "count": "10"}


@pytest.fixture(scope="module")
def call(running: RunningCluster) -> Iterator[Call]:
    with RestServer(running.cluster, "http://127.0.0.1:0") as server:

        def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(server.url + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status, json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read() or b"null")

        yield call


def test_a_connector_from_its_creation_to_its_end(call: Call, running: RunningCluster) -> None:
    assert call("GET", "/connectors") == (200, [])
    status, made = call("POST", "/connectors", {"name": "r1", "config": CONFIG})
    assert (status, made) == (
        201,
        {"name": "r1", "config": {**CONFIG, "name": "r1"}, "tasks": [], "type": "source"},
    )
    running.wait_running("r1")
    assert call("GET", "/connectors/r1")[1]["tasks"] == [{"connector": "r1", "task": 0}]
    assert call("GET", "/connectors/r1/status")[1] == {
        "name": "r1",
        "connector": {"state": "RUNNING", "worker_id": "worker-0"},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "worker-0"}],
        "type": "source",
    }
    assert call("GET", "/connectors/r1/tasks/0/status")[1]["state"] == "RUNNING"
    assert call("GET", "/connectors/r1/tasks")[1][0]["id"] == {"connector": "r1", "task": 0}
    assert set(call("GET", "/connectors?expand=status&expand=info")[1]["r1"]) == {"status", "info"}
    until(lambda: call("GET", "/connectors/r1/topics")[1] == {"r1": {"topics": ["rest"]}}, 20, "topics")
    assert call("PUT", "/connectors/r1/topics/reset")[0] == 200
    offsets = {"offsets": [{"partition": {"counter": "0"}, "offset": {"next": 10}}]}
    until(lambda: call("GET", "/connectors/r1/offsets") == (200, offsets), 20, "offsets")
    assert call("PATCH", "/connectors/r1/offsets", offsets)[0] == 400
    assert call("PUT", "/connectors/r1/config", {**CONFIG, "count": "20"})[0] == 200
    assert call("PATCH", "/connectors/r1/config", {"count": "30"})[1]["config"]["count"] == "30"
    until(lambda: call("GET", "/connectors/r1/offsets")[1]["offsets"][0]["offset"] == {"next": 30}, 20, "30")
    assert call("PUT", "/connectors/r1/pause")[0] == 202
    running.wait_states("r1", "PAUSED", "PAUSED")
    assert call("PUT", "/connectors/r1/resume")[0] == 202
    assert call("POST", "/connectors/r1/restart")[0] == 204
    assert call("POST", "/connectors/r1/restart?includeTasks=true")[0] == 202
    assert call("POST", "/connectors/r1/tasks/0/restart")[0] == 204
    assert call("PUT", "/connectors/r1/stop")[0] == 204
    running.wait_states("r1", "STOPPED")
    message = "The offsets for this connector have been altered successfully"
    assert call("PATCH", "/connectors/r1/offsets", offsets) == (200, {"message": message})
    assert call("DELETE", "/connectors/r1/offsets")[0] == 200
    assert call("GET", "/connectors/r1/offsets") == (200, {"offsets": []})
    assert call("DELETE", "/connectors/r1")[0] == 204
    assert call("GET", "/connectors/r1")[0] == 404


def test_requests_that_are_refused(call: Call) -> None:
    assert call("GET", "/connectors/none/status") == (
        404,
        {"error_code": 404, "message": "Connector none not found"},
    )
    assert call("POST", "/connectors", b"{")[0] == 400
    assert call("POST", "/connectors", {"name": "x"})[0] == 400
    assert call("POST", "/connectors", {"name": "", "config": CONFIG})[0] == 400
    status, answer = call("POST", "/connectors", {"name": "x", "config": {"connector.class": "Nothing"}})
    assert (status, answer["error_code"]) == (400, 400)
    assert "odradek connect plugins" in answer["message"]
    assert call("GET", "/nowhere")[0] == 404
    assert call("POST", "/connectors/x/tasks/y/restart")[0] == 400


def test_plugins_and_validation(call: Call) -> None:
    plugins = {each["class"]: each["type"] for each in call("GET", "/connector-plugins")[1]}
    assert plugins["io.confluent.connect.jdbc.JdbcSinkConnector"] == "sink"
    assert plugins["org.apache.kafka.connect.file.FileStreamSourceConnector"] == "source"
    everything = call("GET", "/connector-plugins?connectorsOnly=false")[1]
    assert {each["type"] for each in everything} == {"source", "sink", "converter", "transformation", "predicate"}
    name = "io.confluent.connect.jdbc.JdbcSinkConnector"
    bad = {"connector.class": name, "name": "x", "topics": "t", "insert.mode": "upsert", "batch.size": "many"}
    status, found = call("PUT", f"/connector-plugins/{name}/config/validate", bad)
    errors = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"] if each["value"]["errors"]}
    assert (status, found["name"], found["error_count"]) == (200, name, len(errors))
    assert set(errors) == {"connection.url", "pk.mode", "batch.size"}
    password = next(each for each in found["configs"] if each["value"]["name"] == "connection.password")
    assert set(password["definition"]) >= {"name", "type", "required", "default_value", "importance", "documentation"}
    definitions = call("GET", "/connector-plugins/Cast$Value/config")[1]
    assert [each["name"] for each in definitions] == ["spec", "replace.null.with.default"]


def test_loggers_and_health(call: Call) -> None:
    assert call("GET", "/")[1]["kafka_cluster_id"].startswith("connect-")
    assert call("GET", "/health")[1]["status"] == "healthy"
    assert call("PUT", "/admin/loggers/odradek.connect.worker", {"level": "DEBUG"})[0] == 200
    assert call("GET", "/admin/loggers/odradek.connect.worker")[1]["level"] == "DEBUG"
    assert call("PUT", "/admin/loggers/odradek.connect.worker?scope=cluster", {"level": "INFO"}) == (204, None)
    assert call("PUT", "/admin/loggers/odradek.connect.worker", {"level": "LOUD"})[0] == 404
    assert call("GET", "/admin/loggers/nobody")[0] == 404


def test_the_command_line_needs_no_worker_to_talk_to(
    running: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client, group = running.client, running.settings.group_id
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVERS", client["bootstrap_servers"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", client["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", client["aws_secret_access_key"])
    monkeypatch.setenv("AWS_REGION", client["aws_region"])

    def cli(*arguments: str) -> tuple[int, str]:
        code = run(["connect", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    described = tmp_path / "counter.json"
    described.write_text(json.dumps({"name": "cli", "config": {**CONFIG, "topic": "by-cli"}}))
    assert cli("validate", str(described)) == (0, "the configuration is valid\n")
    assert cli("create", str(described), "-g", group) == (0, "created cli\n")
    assert cli("create", str(described), "-g", group)[0] == 1
    running.wait_running("cli")
    assert "RUNNING" in cli("list", "-g", group)[1]
    assert cli("config", "cli", "count=12", "-g", group) == (0, "changed cli\n")
    until(lambda: '"next": 12' in cli("offsets", "show", "cli", "-g", group)[1], 20, "offsets")
    shown = json.loads(cli("describe", "cli", "-g", group, "--output", "json")[1])
    assert (shown["config"]["count"], shown["topics"]) == ("12", ["by-cli"])
    assert cli("stop", "cli", "-g", group)[0] == 0
    running.wait_states("cli", "STOPPED")
    assert cli("offsets", "reset", "cli", "--yes", "-g", group)[0] == 0
    assert cli("delete", "cli", "--yes", "-g", group) == (0, "deleted cli\n")
    code, text = cli("delete", "cli", "--yes", "-g", group)
    assert (code, text) == (1, "odradek: Connector cli not found\n")
    described.write_text(json.dumps({"name": "cli", "config": {"connector.class": "Datagen", "quickstart": "x"}}))
    code, text = cli("validate", str(described))
    assert code == 2
    assert "kafka.topic is required" in text
    assert "DatagenConnector" in cli("plugins")[1]


def test_a_state_that_goes_on_while_the_worker_reads_it_ends_no_worker(
    running: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread of the worker reads the topic, too: the tasks that were to begin may be no more."""
    gone: list[ConnectorState] = []

    def settled(worker: Worker, state: ClusterState) -> None:
        with worker._configs.log.lock:  # what other threads read meanwhile, such as the fencing, stays
            known = state.get("moving")
            if gone:
                if known.generation < 0:
                    before = gone[0]
                    state.connectors["moving"] = replace(
                        known,
                        tasks=before.tasks,
                        slots=before.slots,
                        generation=before.generation,
                        made_from=before.made_from,
                    )
            elif known.tasks and known.fenced == known.generation:  # nobody is about to fence
                gone.append(known)
                state.connectors["moving"] = replace(known, tasks=(), slots=(), generation=-1, made_from=-1)

    monkeypatch.setattr(Worker, "_settle_stopped", settled)
    running.cluster.create("moving", {**CONFIG, "topic": "moving"})
    running.wait_running("moving")
    assert gone
