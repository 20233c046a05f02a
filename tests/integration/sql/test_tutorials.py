"""ksqlDB's quickstart and tutorials, typed into a server statement by statement, in the order in which one types them.

The statements are those of the conformance suite, which runs each as a batch; here queries run as streams. Streaming
queries are behind what was typed, so an answer is asked for until it is there, as a user does who looks again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek
import pytest
import yaml
from odradek.spark.admin import client_configs
from odradek.sql.on_spark import SparkEngine
from odradek.sql.running.registered import RegistryAddress, columns_of
from odradek.sql.server.app import ServerInfo, make_app
from odradek.sql.server.command_log import TopicCommandLog
from odradek.sql.server.service import SqlService
from odradek.sql.server.transient import Transients
from odradek.sql.topics import OpenTopics
from starlette.testclient import TestClient

from tests.integration.sql.test_server import Server
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = Path(__file__).parents[2] / "conformance" / "sql" / "scripts" / "tutorials.yaml"
AS_AVRO = "fraud"  # the tutorial whose values are in Avro as it stands
# Before a stream is joined to a table, one looks whether the table is there: a join takes it as it is then.
FULL = {"CUSTOMERS_BY_KEY": 2}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with ServedLog(tmp_path_factory.mktemp("tutorials") / "store") as served:
        yield served


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryAddress]:
    with odradek.local(registry_port=0) as service:
        yield RegistryAddress.of(service.registry_url)


@pytest.fixture(scope="module")
def server(
    spark: SparkSession, log: ServedLog, registry: RegistryAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    store = {"store": log.source["store"]}
    engine = SparkEngine(
        spark,
        store=store,
        sink=log.sink,
        checkpoints=str(tmp_path_factory.mktemp("checkpoints")),
        stop=threading.Event(),
        trigger="200 milliseconds",
        registry=registry,
    )
    with OpenTopics(store, log.bootstrap_servers) as topics:
        commands = TopicCommandLog("tutorials", client_configs(log.source, log.bootstrap_servers))
        service = SqlService(engine, topics, commands, schemas=partial(columns_of, registry.open()))
        service.open()
        app = make_app(service, Transients(engine, push_max=2, pull_max=2), ServerInfo("1", "c", "test", "", 1))
        with TestClient(app) as client:
            yield Server(client, service)
        service.close()
        engine.close()


def statements(script: str) -> list[str]:
    return [each.strip() + ";" for each in re.split(r";\s*\n", script.strip().rstrip(";") + "\n") if each.strip()]


def plain(value: Any) -> Any:
    """A decimal is a number in an answer of the server, a text in a case."""
    return float(value) if isinstance(value, str) and re.fullmatch(r"\d+\.\d+", value) else value


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", yaml.load(CASES.read_text(encoding="utf-8"), yaml.CSafeLoader), ids=lambda case: case["name"]
)
def test_a_tutorial_typed_into_a_server(server: Server, case: dict[str, Any]) -> None:
    """Slow: some streaming queries each."""
    wanted = iter(case["shown"])
    made: list[str] = []
    for typed in statements(case["script"]):
        if AS_AVRO in case["name"]:
            typed = typed.replace("value_format = 'json'", "value_format = 'avro'")
        first = typed.split()[0].upper()
        if first == "SET":
            continue  # a property of the session, which the client sends with each statement
        if first == "SELECT":
            rows = [list(map(plain, row.values())) for row in next(wanted)]
            server.rows_are(typed, sorted(rows))
            continue
        server.ksql(typed)
        if first == "CREATE":
            name = re.findall(r"\w+", typed)[2].upper()
            made.append(f"{typed.split()[1].upper()} {name}")
            for _ in range(100 if name in FULL else 0):
                if len(server.rows(f"SELECT * FROM {name};")) == FULL[name]:
                    break
                threading.Event().wait(0.5)
    assert next(wanted, None) is None
    for each in reversed(made):
        server.ksql(f"DROP {each} DELETE TOPIC;")
