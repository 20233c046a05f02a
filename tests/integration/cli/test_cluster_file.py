"""`odradek apply` and `odradek export` on an embedded service."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.cli import run
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.cluster import Cluster
from odradek.operations.cluster_file.applying import ApplyFailed, apply_plan
from odradek.operations.cluster_file.plan import make_plan
from odradek.operations.cluster_file.present import present
from odradek.operations.cluster_file.reading import read
from odradek.sql.server.app import ServerInfo
from odradek.sql.server.serving import Listening, serve_sql

from tests.support.sql_server import STREAM, TABLE, World

Cli = Callable[..., tuple[int, str, str]]

FILE = """
topics:
  orders: {partitions: 3, configs: {cleanup.policy: compact}}
users:
  ada: {password_env: ADA_PASSWORD}
quotas:
  - {user: ada, producer_byte_rate: 1000000}
schemas:
  orders-value: {compatibility: FULL, schema: '{"type": "string"}'}
connectors:
  connect:
    sink: {connector.class: HttpSink, http.api.url: "http://127.0.0.1:1/", topics: orders, connection.password: s3cret}
acls:
  - {principal: "User:*", allow: all, topic: "*"}
  - {principal: "User:*", allow: all, group: "*"}
  - {principal: "User:*", allow: all, cluster: true}
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Any]:
    with odradek.local(tmp_path / "data") as service:  # type: ignore[operator]
        yield service


@pytest.fixture
def cli(service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run a command as a user would; (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODRADEK_DATA_DIR", str(service.data_dir))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO())  # there is no terminal
        code = run(list(arguments))
        return code, *capfd.readouterr()

    return call


def test_a_file_is_applied_once_and_exported(
    cli: Cli, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster.yaml").write_text(FILE)
    code, shown, said = cli("apply", "-f", "cluster.yaml")
    assert (code, "user ada: the environment has no ADA_PASSWORD: set it\nnothing was changed" in said) == (1, True)
    monkeypatch.setenv("ADA_PASSWORD", "correct horse battery staple")

    assert cli("apply", "-f", "cluster.yaml", "--check")[0] == 1
    assert cli("topics", "list")[1] == "", "a dry run changes nothing, and creates no topic of Connect"
    code, shown, said = cli("apply", "-f", "cluster.yaml")
    assert code == 0, said
    assert "+ topic orders\n    partitions: 3\n    cleanup.policy: compact\n" in shown
    assert "8 to create, 0 to change, 0 to delete" in shown
    assert "created subject orders-value" in shown
    assert "s3cret" not in shown
    assert "from the first ACL on" in said

    assert cli("apply", "-f", "cluster.yaml", "--check", "--prune") == (
        0, "nothing to change: the service is as the file says\n", "",
    )  # fmt: skip
    code, exported, said = cli("export")
    assert (code, said) == (0, "")
    assert "s3cret" not in exported
    (tmp_path / "exported.yaml").write_text(exported)
    assert cli("apply", "-f", "exported.yaml", "--check", "--prune")[0] == 0, "secrets stay as they are"

    (tmp_path / "changed.yaml").write_text(exported.replace("partitions: 3", "partitions: 6").replace("string", "int"))
    code, _, said = cli("apply", "-f", "changed.yaml")
    assert (code, "subject orders-value: " in said, "nothing was changed" in said) == (1, True, True)
    assert "3 partitions" in cli("topics", "describe", "orders")[1]


def test_pruning_asks_and_deletes(cli: Cli, service: Any, tmp_path: Path) -> None:
    cli("topics", "create", "old")
    cli("topics", "create", "kept", "-c", "retention.ms=1")
    (tmp_path / "cluster.yaml").write_text("topics: {kept: }\n")
    code, shown, _ = cli("apply", "-f", "cluster.yaml")
    assert (code, "not in the file, and kept without --prune" in shown, "topic old" in shown) == (0, True, True)
    code, shown, said = cli("apply", "-f", "cluster.yaml", "--prune")
    assert (code, "add --yes; nothing was done" in said) == (1, True)
    code, shown, said = cli("apply", "-f", "cluster.yaml", "--prune", "--yes", "--output", "json")
    assert code == 0, said
    assert [(change["action"], change["name"]) for change in json.loads(shown)] == [
        ("change", "topic kept"), ("delete", "topic old"),
    ]  # fmt: skip
    assert cli("topics", "list")[1] == "kept\n"
    assert cli("apply", "-f", "cluster.yaml", "--prune", "--check")[0] == 0


def test_mistakes_are_told_before_anything_is_done(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("topics:\n  a: {configs: {no.such: 1}}\n  b: {}\n")
    code, _, said = cli("apply", "-f", "cluster.yaml")
    assert (code, "topic a: " in said, "no.such" in said, "nothing was changed" in said) == (1, True, True, True)
    (tmp_path / "cluster.yaml").write_text("topics:\n  a: {partitons: 1}\n")
    code, _, said = cli("apply", "-f", "cluster.yaml")
    assert (code, said) == (
        2, "odradek: INVALID_CONFIG: cluster.yaml:2: topics.a has no 'partitons': did you mean partitions?\n",
    )  # fmt: skip
    assert cli("apply", "-f", "nowhere.yaml")[0] == 1
    assert cli("topics", "list")[1] == ""


async def test_a_change_that_fails_says_what_was_made_before_it(service: Any) -> None:
    async with Cluster(service.client_config) as cluster:
        wanted = read("topics: {a: , b: , c: }")
        present_contents = await present(cluster, wanted)
        plan = make_plan(wanted, present_contents)
        await cluster.admin.create_topics(["b"])
        done: list[str] = []
        with pytest.raises(ApplyFailed, match="1 of 3 changes were made before it, and 1 after it were not") as caught:
            await apply_plan(cluster, plan, wanted, present_contents, {}, lambda change: done.append(change.name))
        assert (caught.value.code, done) == (ErrorCode.TOPIC_ALREADY_EXISTS, ["topic a"])
        again = make_plan(wanted, await present(cluster, wanted))
        assert [change.name for change in again.changes] == ["topic c"]


async def test_statements_are_applied_changed_and_dropped_on_a_server(service: Any) -> None:
    world = World()
    async with (
        Cluster(service.client_config) as cluster,
        serve_sql(world.service, ServerInfo("1", "c", "default_", "", 1), Listening()) as url,
    ):

        async def applied(script: str) -> list[str]:
            wanted = read(f"sql:\n  server: {url}\n  statements: |\n    {script}\n")
            present_contents = await present(cluster, wanted)
            plan = make_plan(wanted, present_contents, prune=True)
            await apply_plan(cluster, plan, wanted, present_contents, {})
            return [f"{change.action} {change.name}" for change in plan.changes]

        other = "CREATE STREAM u (id VARCHAR KEY, c BIGINT) WITH (KAFKA_TOPIC = 't', FORMAT = 'JSON');"
        insert = "INSERT INTO u SELECT id, CAST(a AS BIGINT) AS c FROM s;"
        assert await applied(f"{TABLE} {insert} {other} {STREAM}") == [
            "create stream S", "create table N", "create stream U", "create insert into U",
        ]  # fmt: skip
        assert await applied(f"{STREAM} {other} {insert} {TABLE}") == []
        changed = TABLE.replace("FROM s", "FROM s WHERE a > 0")
        assert await applied(f"{STREAM} {other} {insert} {changed}") == ["change table N"]
        assert await applied(STREAM) == ["delete insert into U", "delete table N", "delete stream U"]
        with pytest.raises(KafkaError, match="no server of stream SQL"):
            await present(cluster, read("sql: {server: 'http://127.0.0.1:1', statements: ''}"))
    await asyncio.to_thread(world.service.close)
