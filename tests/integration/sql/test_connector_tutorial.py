"""The tutorial of a materialized cache as users run it: a server process, its Connect worker, and a database.

The connector's configuration has the names that Debezium 1 gave its options, as the tutorial has them.

Slow: a database, a server with Spark, and two streaming queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.cli.pipeline.sql_shell import own_server
from odradek.errors import KafkaError
from odradek.sql.server.client import RestClient

from tests.support.connect.mysql import Server, missing, mysql_server

WAIT_S = 120
CALLS = "('ada', 'purchase', 540), ('ada', 'help', 224), ('bob', 'help', 802), ('ada', 'help', 2030)"
EARLIEST = {"auto.offset.reset": "earliest"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing("mariadb") is not None, reason=str(missing("mariadb"))),
    pytest.mark.timeout(600),
]


@pytest.fixture
def database() -> Iterator[Server]:
    with mysql_server("mariadb") as server:
        server.execute(
            "CREATE USER 'caller'@'%' IDENTIFIED BY 'caller-pw'", "GRANT ALL PRIVILEGES ON *.* TO 'caller'@'%'",
            "CREATE DATABASE `call-center`", "USE `call-center`",
            "CREATE TABLE calls (name TEXT, reason TEXT, duration_seconds INT)", f"INSERT INTO calls VALUES {CALLS}",
        )  # fmt: skip
        yield server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RestClient]:
    store = tmp_path / "store"
    with odradek.local(store, registry_port=0) as service:
        arguments = ["--data-dir", str(store), "--bootstrap-servers", service.bootstrap_servers, "--connect-worker"]
        arguments += ["--schema-registry", service.registry_url, "--trigger", "200 milliseconds"]
        arguments += ["--connect-config", "value.converter=io.confluent.connect.avro.AvroConverter"]
        arguments += ["--connect-config", f"value.converter.schema.registry.url={service.registry_url}"]
        with own_server(arguments, tmp_path / "server.log") as url:
            yield RestClient(url)


def until(found: Callable[[], Any], wanted: Any) -> None:
    """Look again, as a user does, until an answer is there."""
    ends = time.monotonic() + WAIT_S
    while True:
        try:
            seen = found()
        except KafkaError as error:
            seen = error
        if seen == wanted:
            return
        assert time.monotonic() < ends, f"{seen!r}, not {wanted!r}"
        time.sleep(0.5)


def test_a_materialized_cache_of_a_database(database: Server, client: RestClient, tmp_path: Path) -> None:
    def run(text: str) -> dict[str, Any]:
        [found] = client.execute(text, EARLIEST, {})
        return found

    def rows(text: str) -> list[Any]:
        return sorted(each for each in client.rows(text, EARLIEST, {}) if isinstance(each, list))

    create = f"""
        CREATE SOURCE CONNECTOR IF NOT EXISTS calls_reader WITH (
            'connector.class' = 'io.debezium.connector.mysql.MySqlConnector',
            'database.hostname' = '127.0.0.1', 'database.port' = '{database.port}',
            'database.user' = 'caller', 'database.password' = 'caller-pw',
            'database.allowPublicKeyRetrieval' = 'true', 'database.server.id' = '184054',
            'database.server.name' = 'call-center-db', 'database.whitelist' = 'call-center',
            'database.history.kafka.bootstrap.servers' = 'broker:9092',
            'database.history.kafka.topic' = 'call-center',
            'table.whitelist' = 'call-center.calls', 'include.schema.changes' = 'false'
        );"""
    assert run(create)["@type"] == "connector_info"
    assert run(create)["@type"] == "warning_entity"
    topic = "call-center-db.call-center.calls"
    until(lambda: topic in [each["name"] for each in run("SHOW TOPICS;")["topics"]], True)
    [shown] = run("SHOW CONNECTORS;")["connectors"]
    assert (shown["name"], shown["state"]) == ("CALLS_READER", "RUNNING (1/1 tasks RUNNING)")
    assert run("SHOW SINK CONNECTORS;")["connectors"] == []
    until(lambda: run("DESCRIBE CONNECTOR calls_reader;")["topics"], [topic])
    plugins = {each["className"]: each["type"] for each in run("SHOW CONNECTOR PLUGINS;")["connectorsPlugins"]}
    assert plugins["io.debezium.connector.mysql.MySqlConnector"] == "source"
    run(f"CREATE STREAM calls WITH (kafka_topic = '{topic}', value_format = 'avro');")
    run("CREATE TABLE support_view AS SELECT after->name AS name, count_distinct(after->reason) AS distinct_reasons, "
        "latest_by_offset(after->reason) AS last_reason FROM calls GROUP BY after->name "
        "EMIT CHANGES;")  # fmt: skip
    run("CREATE TABLE lifetime_view AS SELECT after->name AS name, count(after->reason) AS total_calls, "
        "(sum(after->duration_seconds) / 60) AS minutes_engaged FROM calls GROUP BY after->name "
        "EMIT CHANGES;")  # fmt: skip
    asked = "SELECT name, distinct_reasons, last_reason FROM support_view WHERE name = 'ada';"
    until(lambda: rows(asked), [["ada", 2, "help"]])
    until(
        lambda: rows("SELECT name, total_calls, minutes_engaged FROM lifetime_view;"), [["ada", 3, 46], ["bob", 1, 13]]
    )
    database.execute("USE `call-center`", "INSERT INTO calls VALUES ('ada', 'refund', 60)")
    until(lambda: rows(asked), [["ada", 3, "refund"]])
    written = tmp_path / "views.txt"
    run(f"""
        CREATE SINK CONNECTOR views WITH (
            'connector.class' = 'org.apache.kafka.connect.file.FileStreamSinkConnector', 'topics' = 'LIFETIME_VIEW',
            'key.converter' = 'org.apache.kafka.connect.storage.StringConverter', 'file' = '{written}'
        );""")
    until(lambda: '{"TOTAL_CALLS":4,"MINUTES_ENGAGED":47}' in (written.read_text() if written.exists() else ""), True)
    assert [each["name"] for each in run("SHOW SINK CONNECTORS;")["connectors"]] == ["VIEWS"]
    run("DROP CONNECTOR views;")
    assert run("DROP CONNECTOR calls_reader;")["@type"] == "drop_connector"
    assert run("SHOW CONNECTORS;")["connectors"] == []
    assert run("DROP CONNECTOR IF EXISTS calls_reader;")["@type"] == "warning_entity"
