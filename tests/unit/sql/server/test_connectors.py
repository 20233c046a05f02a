"""CREATE, SHOW, DESCRIBE and DROP CONNECTOR, over a cluster that keeps what it is told."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.connect.errors import BadRequest, Conflict, NotFound
from odradek.errors import ErrorCode, KafkaError
from odradek.sql import SqlError
from odradek.sql.parse import parse
from odradek.sql.server.connectors import Connectors
from odradek.sql.session import check

from tests.support.sql_server import STREAM, World

SOURCE = "CREATE SOURCE CONNECTOR {} users WITH ('connector.class' = 'DatagenConnector', \"kafka.topic\" = 's');"


class FakeCluster:
    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[str, list[str]] = {}
        self.workers = True
        self.opened = 0

    def open(self) -> FakeCluster:
        self.opened += 1
        return self

    def _known(self, name: str) -> dict[str, str]:
        if name not in self.configs:
            raise NotFound(f"Connector {name} not found")
        return self.configs[name]

    def connectors(self) -> list[str]:
        return sorted(self.configs)

    def create(self, name: str, configs: dict[str, str]) -> dict[str, Any]:
        if name in self.configs:
            raise Conflict(f"Connector {name} already exists")
        if configs.get("tasks.max") == "0":
            raise BadRequest("tasks.max must be at least 1")
        self.configs[name] = {**configs, "name": name}
        return {"name": name, "config": self.configs[name], "tasks": [], "type": self._type(configs)}

    def delete(self, name: str) -> None:
        self._known(name)
        del self.configs[name]

    def config(self, name: str) -> dict[str, str]:
        return self._known(name)

    def _type(self, configs: dict[str, str]) -> str:
        return "sink" if "Sink" in configs["connector.class"] else "source"

    def status(self, name: str) -> dict[str, Any]:
        state, *tasks = self.states.get(name, ["RUNNING"])
        shown = [{"id": number, "state": each, "worker_id": "w"} for number, each in enumerate(tasks)]
        kind = self._type(self._known(name))
        return {"name": name, "connector": {"state": state, "worker_id": "w"}, "tasks": shown, "type": kind}

    def topics(self, name: str) -> dict[str, Any]:
        return {name: {"topics": ["s", "other"]}}

    def has_workers(self) -> bool:
        return self.workers

    def close(self) -> None: ...


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def world(cluster: FakeCluster) -> World:
    return World(connectors=Connectors(cluster.open, "connect"))


def test_a_connector_from_its_creation_to_its_end(world: World, cluster: FakeCluster) -> None:
    world.ksql(STREAM)
    assert cluster.opened == 0, "a server that sees no such statement needs no cluster"
    [made] = world.ksql(SOURCE.format(""))
    assert made["@type"] == "connector_info"
    config = {"connector.class": "DatagenConnector", "kafka.topic": "s", "name": "USERS"}
    assert made["info"] == {"name": "USERS", "config": config, "tasks": [], "type": "source"}
    assert made["warnings"] == []
    cluster.states["USERS"] = ["RUNNING", "RUNNING", "FAILED"]
    [listed] = world.ksql("SHOW CONNECTORS;")
    assert listed["@type"] == "connector_list"
    assert listed["connectors"] == [
        {"name": "USERS", "type": "source", "className": "DatagenConnector", "state": "WARNING (1/2 tasks RUNNING)"}
    ]
    assert world.ksql("LIST SINK CONNECTORS;")[0]["connectors"] == []
    [described] = world.ksql("DESCRIBE CONNECTOR users;")
    assert described["@type"] == "connector_description"
    assert (described["connectorClass"], described["topics"]) == ("DatagenConnector", ["other", "s"])
    assert described["status"] == cluster.status("USERS")
    assert [each["name"] for each in described["sources"]] == ["S"]
    [dropped] = world.ksql("DROP CONNECTOR users;")
    assert (dropped["@type"], dropped["connectorName"]) == ("drop_connector", "USERS")
    assert (cluster.configs, cluster.opened) == ({}, 1)
    assert len(world.log.commands) == 1, "connectors are not of the server: it does not create them again"


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (["RUNNING"], "RUNNING"),
        (["UNASSIGNED"], "UNASSIGNED"),
        (["RUNNING", "RUNNING", "RUNNING"], "RUNNING (2/2 tasks RUNNING)"),
        (["RUNNING", "FAILED"], "FAILED (0/1 tasks RUNNING)"),
        (["PAUSED", "PAUSED"], "PAUSED"),
    ],
)
def test_states_are_told_in_one_text(world: World, cluster: FakeCluster, states: list[str], shown: str) -> None:
    world.ksql(SOURCE.format(""))
    cluster.states["USERS"] = states
    assert world.ksql("SHOW SOURCE CONNECTORS;")[0]["connectors"][0]["state"] == shown


def test_what_exists_and_what_does_not(world: World) -> None:
    world.ksql(SOURCE.format(""))
    assert "already exists" in world.ksql(SOURCE.format(""), 400)["message"]
    [noted] = world.ksql(SOURCE.format("IF NOT EXISTS"))
    assert (noted["@type"], noted["message"]) == ("warning_entity", "Connector USERS already exists")
    [noted] = world.ksql("DROP CONNECTOR IF EXISTS `users`;")
    assert noted["message"] == "Connector 'users' does not exist."
    refused = world.ksql("DESCRIBE CONNECTOR `users`;", 404)
    assert (refused["@type"], refused["message"]) == ("statement_error", "Connector users not found")
    world.ksql("DROP CONNECTOR nobody;", 404)


def test_a_connector_that_nobody_runs_is_told(world: World, cluster: FakeCluster) -> None:
    cluster.workers = False
    [made] = world.ksql(SOURCE.format(""))
    [warning] = made["warnings"]
    assert "odradek connect run --group connect" in warning["message"]


def test_wrong_statements_change_nothing(world: World, cluster: FakeCluster) -> None:
    sink = SOURCE.format("").replace("SOURCE", "SINK")
    assert "is a source: CREATE SOURCE CONNECTOR" in world.ksql(sink, 400)["message"]
    assert "tasks.max" in world.ksql(SOURCE.format("").replace("WITH (", "WITH ('tasks.max' = 0, "), 400)["message"]
    assert "nonesuch" in world.ksql("CREATE SINK CONNECTOR x WITH ('connector.class' = 'nonesuch');", 400)["message"]
    for text in ("CREATE SINK CONNECTOR x WITH ('topics' = 's');", "CREATE CONNECTOR x WITH ('a' = 'b');"):
        world.ksql(text, 400)
    twice = "CREATE SINK CONNECTOR x WITH ('connector.class' = 'a', 'a' = 'b', 'a' = 'c');"
    assert "a is given twice" in world.ksql(twice, 400)["message"]
    assert cluster.configs == {}


def test_a_cluster_that_does_not_answer_is_an_error_of_the_statement_alone(cluster: FakeCluster) -> None:
    def away() -> FakeCluster:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody answers")

    world = World(connectors=Connectors(away, "connect"))
    assert "Connect cluster connect cannot be used: nobody answers" in world.ksql("SHOW CONNECTORS;", 500)["message"]
    world.ksql(STREAM)
    assert "odradek connect" in World().ksql("SHOW CONNECTORS;", 400)["message"], "a server without a cluster"


def test_plugins_are_listed(world: World) -> None:
    [found] = world.ksql("SHOW CONNECTOR PLUGINS;")
    assert found["@type"] == "connector_plugins_list"
    assert {"source", "sink"} == {each["type"] for each in found["connectorsPlugins"]}
    assert set(found["connectorsPlugins"][0]) == {"className", "type", "version"}


def test_a_script_without_a_server_is_refused_before_anything_runs() -> None:
    from odradek.sql.session import Session

    steps = check([("x.sql", STREAM + SOURCE.format(""))])
    done: list[Any] = []

    class Nothing:
        def __getattr__(self, name: str) -> Any:
            return lambda *given, **_: done.append((name, given))

    with pytest.raises(SqlError, match=r"for a server: odradek sql --server"):
        Session(Nothing(), Nothing(), Nothing(), once=True).run(steps)
    assert done == []


def test_words_of_connectors_are_names_elsewhere() -> None:
    text = "CREATE STREAM connector (sink VARCHAR KEY, connector INT, source INT) WITH (KAFKA_TOPIC = 's', "
    assert len(parse(text + "VALUE_FORMAT = 'JSON'); SELECT sink, connector FROM connector EMIT CHANGES;")) == 2
