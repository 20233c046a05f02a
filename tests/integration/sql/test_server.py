"""A server over Spark and an embedded service: what it answers, and what a restart leaves as it was.

Slow: starts, stops and starts streaming queries again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from odradek.errors import KafkaError
from odradek.spark.admin import client_configs
from odradek.sql.server.app import ServerInfo, make_app
from odradek.sql.server.command_log import Command, TopicCommandLog
from odradek.sql.server.service import SqlService
from odradek.sql.server.transient import Transients
from starlette.testclient import TestClient

from tests.support.spark.flights import append
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 180


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with ServedLog(tmp_path_factory.mktemp("server") / "store") as served:
        yield served


def command_log(log: ServedLog) -> TopicCommandLog:
    return TopicCommandLog("test", client_configs(log.source, log.bootstrap_servers))


class Server:
    """One run of a server."""

    def __init__(self, client: TestClient, service: SqlService) -> None:
        self.client = client
        self.service = service

    def ksql(self, text: str) -> list[Any]:
        given = {"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}}
        answer = self.client.post("/ksql", json=given)
        assert answer.status_code == 200, answer.text
        found: list[Any] = answer.json()
        return found

    def rows(self, text: str) -> list[Any]:
        answer = self.client.post("/query-stream", json={"sql": text, "properties": {"auto.offset.reset": "earliest"}})
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()[1:]]

    def rows_are(self, text: str, wanted: list[Any]) -> None:
        """Ask until the rows are these, or the time is over."""
        for _ in range(WAIT_S):
            if (found := sorted(self.rows(text))) == wanted:
                return
            threading.Event().wait(0.5)
        assert found == wanted


@contextmanager
def server(spark: SparkSession, log: ServedLog, checkpoints: Path) -> Iterator[Server]:
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.topics import OpenTopics

    store = {"store": log.source["store"]}
    engine = SparkEngine(
        spark,
        store=store,
        sink=log.sink,
        checkpoints=str(checkpoints),
        stop=threading.Event(),
        trigger="200 milliseconds",
    )
    with OpenTopics(store, log.bootstrap_servers) as topics:
        service = SqlService(engine, topics, command_log(log))
        service.open()
        app = make_app(service, Transients(engine, push_max=2, pull_max=2), ServerInfo("1", "c", "test", "", 1))
        with TestClient(app) as client:
            yield Server(client, service)
        service.close()
        engine.close()


@pytest.mark.slow
def test_a_server_answers_and_goes_on_after_a_restart(spark: SparkSession, log: ServedLog, tmp_path: Path) -> None:
    """Slow: two servers with two streaming queries, and a push query."""
    with server(spark, log, tmp_path) as it:
        it.ksql(
            "CREATE STREAM places (id VARCHAR KEY, x DOUBLE) "
            "WITH (KAFKA_TOPIC = 'places', VALUE_FORMAT = 'JSON', PARTITIONS = 2);"
            "CREATE TABLE visits AS SELECT id, COUNT(*) AS n, MAX(x) AS far FROM places GROUP BY id EMIT CHANGES;"
        )
        it.ksql("INSERT INTO places VALUES ('a', 1.5);")
        rows = [{"target": "places"}, {"id": "b", "x": 2}, {"id": "a", "x": 3.25}]
        acks = it.client.post("/inserts-stream", content="\n".join(map(json.dumps, rows))).text.splitlines()
        assert [json.loads(each)["status"] for each in acks] == ["ok", "ok"]
        it.rows_are("SELECT * FROM visits;", [["a", 2, 3.25], ["b", 1, 2.0]])
        assert it.rows("SELECT id, x FROM places WHERE x > 3 EMIT CHANGES LIMIT 1;") == [["a", 3.25]]
        written = sum(map(len, log.records("VISITS").values()))
    with server(spark, log, tmp_path) as it:
        [shown] = it.ksql("SHOW QUERIES;")
        assert [(each["id"], each["state"]) for each in shown["queries"]] == [("CTAS_VISITS_1", "RUNNING")]
        it.ksql("INSERT INTO places VALUES ('c', 9);")
        it.rows_are("SELECT * FROM visits;", [["a", 2, 3.25], ["b", 1, 2.0], ["c", 1, 9.0]])
        assert sum(map(len, log.records("VISITS").values())) == written + 1  # nothing was written twice
        it.ksql("DROP TABLE visits DELETE TOPIC; DROP STREAM places;")
        assert not (tmp_path / "CTAS_VISITS_1").exists()
        assert "VISITS" not in it.service.topics.partitions()
    assert command_log(log).load() == []


@pytest.mark.slow
def test_a_push_query_shows_what_left_a_table(spark: SparkSession, log: ServedLog, tmp_path: Path) -> None:
    """Slow: a push query on Spark."""
    log.create("people", 1, **{"cleanup.policy": "compact"})
    append(log, "people", [("a", {"AGE": 40}, 1), ("b", {"AGE": 7}, 2), ("b", None, 3), ("a", {"AGE": 41}, 4)])
    with server(spark, log, tmp_path) as it:
        it.ksql(
            "CREATE TABLE people (id VARCHAR PRIMARY KEY, age INT) "
            "WITH (KAFKA_TOPIC = 'people', VALUE_FORMAT = 'JSON');"
        )
        given = {
            "ksql": "SELECT id, age FROM people WHERE age > 30 EMIT CHANGES LIMIT 3;",
            "streamsProperties": {"auto.offset.reset": "earliest"},
        }
        found = it.client.post("/query", json=given).json()
        assert found[1:-1] == [
            {"row": {"columns": ["a", 40]}},
            {"row": {"columns": ["b", None], "tombstone": True}},
            {"row": {"columns": ["a", 41]}},
        ]


def test_of_two_servers_with_one_name_the_second_to_write_is_refused(log: ServedLog) -> None:
    configs = client_configs(log.source, log.bootstrap_servers)
    one, other = TopicCommandLog("twice", configs), TopicCommandLog("twice", configs)
    assert one.load() == other.load() == []
    first = Command(one.next_number, "CREATE TYPE a AS INT;", "type/A", {"auto.offset.reset": "latest"})
    one.write(first)
    with pytest.raises(KafkaError, match="another server wrote to _odradek_sql_twice_commands"):
        other.write(Command(other.next_number, "CREATE TYPE b AS INT;", "type/B"))
    second = Command(one.next_number, "CREATE TYPE c AS INT;", "type/C")
    one.write(second)
    one.erase([first.number])
    assert second.number > first.number
    again = TopicCommandLog("twice", configs)
    assert again.load() == [second]
    assert again.next_number == one.next_number == 3
    one.close()
    other.close()
