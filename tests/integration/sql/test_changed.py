"""A script that was changed between two runs: beside its checkpoint is what that belongs to, from the run before."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from odradek.errors import KafkaError
from odradek.sql.session import Session, check

from tests.integration.sql.test_on_spark import Screen, producer_of
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = "CREATE STREAM s (k VARCHAR KEY, w VARCHAR) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServedLog]:
    with ServedLog(tmp_path / "store") as served:
        served.create("s", 1)
        yield served


@pytest.fixture
def run(spark: SparkSession, log: ServedLog, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.topics import OpenTopics

    topics = OpenTopics(log.source, log.bootstrap_servers)
    folder = str(tmp_path / "checkpoints")
    engine = SparkEngine(
        spark, store={"store": log.source["store"]}, sink=log.sink, checkpoints=folder, stop=threading.Event()
    )
    yield lambda script: Session(engine, topics, Screen(), once=True).run(check([("script", SOURCE + script)]))
    engine.close()
    topics.close()


def rows(log: ServedLog) -> list[tuple[bytes | None, dict[str, object]]]:
    records = (each for part in log.records("T").values() for each in part)
    return [(each.key, json.loads(each.value or b"null")) for each in records]


def test_a_change_is_compared_with_what_the_checkpoint_belongs_to(
    run: Callable[[str], None], log: ServedLog, tmp_path: Path
) -> None:
    basis = tmp_path / "checkpoints" / "CTAS_T" / "basis.json"

    def send(w: str) -> None:
        with producer_of(log) as producer:
            producer.send("s", json.dumps({"W": w}).encode(), key=b"a").result(30)

    send("x")
    run("CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
    before = basis.read_bytes()
    send("x")
    with pytest.raises(KafkaError, match="GROUP BY must stay the same: K, not W"):
        run("CREATE TABLE t AS SELECT w, COUNT(*) AS n FROM s GROUP BY w;")
    with pytest.raises(KafkaError, match="aggregate functions must stay the same"):
        run("CREATE OR REPLACE TABLE t AS SELECT k, MAX(w) AS n FROM s GROUP BY k;")
    assert rows(log) == [(b"a", {"N": 1})]
    assert basis.read_bytes() == before

    run("CREATE TABLE t AS SELECT k, COUNT(*) AS n, COUNT(*) * 10 AS tens FROM s GROUP BY k;")
    assert rows(log)[1:] == [(b"a", {"N": 2, "TENS": 20})], "goes on from its state, by the new statement"
    assert basis.read_bytes() != before
    with pytest.raises(KafkaError, match="TENS"):
        run("CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
