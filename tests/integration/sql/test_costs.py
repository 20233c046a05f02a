"""Work of a query on Spark: micro-batches, sorts and processes, which are counted, not timed.

Slow: three streaming queries.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from odradek.sql.plan import QueryPlan, Started
from odradek.sql.session import Session, check

from tests.integration.sql.test_on_spark import Screen, producer_of
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from odradek.sql.on_spark import SparkEngine
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SCRIPT = """
    CREATE STREAM s (k VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'KAFKA');
    CREATE TABLE counts AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k;
    CREATE TABLE latest WITH (VALUE_FORMAT = 'JSON')
        AS SELECT k, LATEST_BY_OFFSET(v) AS v, MAX(v) AS top FROM s GROUP BY k;
    CREATE TABLE final AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k EMIT FINAL;
"""


@pytest.fixture(scope="module")
def plans() -> dict[str, QueryPlan]:
    started = [step.action for step in check([("script", SCRIPT)]) if isinstance(step.action, Started)]
    return {each.source.name: each.plan for each in started if each.source is not None}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServedLog]:
    with ServedLog(tmp_path / "store") as served:
        served.create("s", 2)
        yield served


@pytest.fixture
def engine(spark: SparkSession, log: ServedLog, tmp_path: Path) -> Iterator[SparkEngine]:
    from odradek.sql.on_spark import SparkEngine

    checkpoints = str(tmp_path / "checkpoints")
    store = {"store": log.source["store"]}
    found = SparkEngine(spark, store=store, sink=log.sink, checkpoints=checkpoints, stop=threading.Event())
    yield found
    found.close()


def test_only_a_query_of_final_windows_runs_micro_batches_without_records(
    engine: SparkEngine, log: ServedLog, tmp_path: Path
) -> None:
    from odradek.sql.topics import OpenTopics

    with producer_of(log) as producer:
        for second in (1, 2, 31):
            producer.send("s", b"v", key=b"a", partition=0, timestamp_ms=second * 1000)
    with OpenTopics(log.source, log.bootstrap_servers) as topics:
        Session(engine, topics, Screen(), once=True).run(check([("script", SCRIPT)]))
    commits = {
        folder.name: sum(each.name.isdigit() for each in (folder / "commits").iterdir())
        for folder in (tmp_path / "checkpoints").iterdir()
    }
    assert commits == {"CTAS_COUNTS": 1, "CTAS_LATEST": 1, "CTAS_FINAL": 2}
    assert [each.key[:1] for part in log.records("FINAL").values() for each in part if each.key] == [b"a"]


@pytest.mark.parametrize("name", ["COUNTS", "LATEST"])
def test_an_aggregate_does_not_sort_the_records(
    engine: SparkEngine, spark: SparkSession, plans: dict[str, QueryPlan], name: str
) -> None:
    records = "key binary, value binary, timestamp timestamp, partition int, offset long"
    empty = spark.createDataFrame([], f"{records}, headers array<struct<key string, value binary>>")
    frame = engine._frame(spark, plans[name], [empty])
    executed = frame._jdf.queryExecution().executedPlan().toString()
    assert "ObjectHashAggregate" in executed
    assert "SortAggregate" not in executed


def test_a_checkpoint_on_this_machine_is_written_without_programs(spark: SparkSession) -> None:
    # Spark's default manager starts readlink for each path.
    assert "FileSystemBased" in spark.conf.get("spark.sql.streaming.checkpointFileManagerClass", "")
