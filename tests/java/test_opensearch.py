"""The sink into OpenSearch and Elasticsearch, against these: what tests/support/connect/search_server.py only imitates.

`make java`, which fetches them from Maven Central.
"""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.connect.connectors.opensearch import OpenSearchSinkConnector
from odradek.connect.data import INT64, STRING, Struct, struct
from odradek.connect.record import SinkRecord
from odradek.testing.connect import SINK_CHECKS, SinkDriver, SinkUnderTest
from odradek.testing.contract import check_id

from bench.peers.maven import ELASTICSEARCH, OPENSEARCH, NoJars, maven_jars
from tests.support.kafka.port import until
from tests.support.services.slow_service import free_ports

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

_PEERS = Path(__file__).parents[2] / "bench" / "peers"
ROW = struct({"id": INT64, "name": STRING}, name="Row")


class Search:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, method: str = "GET") -> Any:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{path}", method=method), timeout=60) as got:
                return json.loads(got.read())
        except urllib.error.HTTPError as error:
            return json.loads(error.read())

    def documents(self, index: str) -> dict[str, Any]:
        self.ask(f"{index}/_refresh", "POST")
        response = self.ask(f"{index}/_search?size=1000")
        return {document["_id"]: document["_source"] for document in response.get("hits", {}).get("hits", ())}


@pytest.fixture(scope="module", params=[OPENSEARCH, ELASTICSEARCH])
def search(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Search]:
    peer = request.param
    try:
        jars = maven_jars(peer)
    except NoJars as reason:
        pytest.skip(f"no {peer}: {reason}")
    folder = tmp_path_factory.mktemp(peer)
    [port] = free_ports(1)
    main = _PEERS / peer / "SearchNode.java"
    command = ["java", "-Xmx512m", "-cp", ":".join(map(str, jars)), str(main), str(folder / "node"), str(port)]
    with (folder / "node.log").open("w") as log:
        node = subprocess.Popen(command, stdout=log, stderr=log)
    engine = Search(f"http://127.0.0.1:{port}")

    def is_ready() -> bool:
        assert node.poll() is None, (folder / "node.log").read_text()[-2000:]
        try:
            return engine.ask("_cluster/health")["status"] in ("green", "yellow")
        except OSError:
            return False

    try:
        until(is_ready, 180, peer)
        yield engine
    finally:
        node.kill()
        node.wait()


def record(offset: int, key: Any = "k", value: Any = None, schema: Any = None) -> SinkRecord:
    return SinkRecord(topic="Rows", partition=0, offset=offset, key=key, value=value, value_schema=schema)


def sink(search: Search, index: str, **more: str) -> SinkDriver:
    configs = {"connection.url": search.url, "index": index, **more}
    driver = SinkDriver(SinkUnderTest(OpenSearchSinkConnector, configs, record, list), {})
    driver.start()
    return driver


@pytest.mark.parametrize("check", SINK_CHECKS, ids=check_id)
@pytest.mark.parametrize("method", ["INSERT", "UPSERT"])
def test_the_contract_of_sinks(search: Search, request: pytest.FixtureRequest, method: str, check: Any) -> None:
    index = f"rows-{abs(hash(request.node.nodeid))}"

    def row(number: int) -> SinkRecord:
        value = Struct(ROW, {"id": number, "name": f"row {number}"})
        return record(number, str(number), value, ROW)

    def read() -> list[int]:
        return [document["id"] for document in search.documents(index).values()]

    configs = {"connection.url": search.url, "index": index, "write.method": method}
    check(SinkUnderTest(OpenSearchSinkConnector, configs, row, read))


def test_late_writes_deletes_and_refusals(search: Search) -> None:
    driver = sink(search, "late")
    driver.put([record(5, value={"n": 5}), record(6, "other", {"n": 6})])
    driver.put([record(4, value={"n": 4})])  # from a task that was replaced
    assert search.documents("late") == {"k": {"n": 5}, "other": {"n": 6}}
    driver.put([record(7)])
    driver.put([record(6, value={"n": 6})])
    assert search.documents("late") == {"other": {"n": 6}}
    driver.put([record(9, value={"n": "text"})])
    assert [record.offset for record in driver.refused] == [9]
    driver.stop()


def test_an_index_has_the_mapping_of_the_schema(search: Search) -> None:
    driver = sink(search, "all-${topic}")
    driver.put([record(0, value=Struct(ROW, {"id": 1, "name": "x"}), schema=ROW)])
    properties = search.ask("all-rows/_mapping")["all-rows"]["mappings"]["properties"]
    assert {name: mapping["type"] for name, mapping in properties.items()} == {"id": "long", "name": "text"}
    driver.stop()
