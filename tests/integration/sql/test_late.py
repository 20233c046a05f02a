"""Late records through the service: stream time of each partition, kept between runs, the same after a crash.

Slow: three runs of two streaming queries. tests/unit/sql/test_stream_time.py asks the same of the decision.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from odradek.sql.session import Session, check

from tests.integration.sql.test_on_spark import Screen, producer_of
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
    CREATE STREAM s (k VARCHAR KEY, v INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
    CREATE TABLE counts AS SELECT k, COUNT(*) AS n
        FROM s WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k EMIT CHANGES;
    CREATE TABLE final AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k EMIT FINAL;
"""
Sent = tuple[int, str, int]  # partition, key, time in seconds


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServedLog]:
    with ServedLog(tmp_path / "store") as served:
        served.create("s", 3)  # the last one stays empty
        yield served


@pytest.fixture
def run(spark: SparkSession, log: ServedLog, tmp_path: Path) -> Iterator[Callable[..., None]]:
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.topics import OpenTopics

    topics = OpenTopics(log.source, log.bootstrap_servers)
    folder = str(tmp_path / "checkpoints")
    engine = SparkEngine(
        spark, store={"store": log.source["store"]}, sink=log.sink, checkpoints=folder, stop=threading.Event()
    )

    def send_and_run(*sent: Sent) -> None:
        with producer_of(log) as producer:
            for partition, key, second in sent:
                value = json.dumps({"V": 1}).encode()
                producer.send("s", value, key=key.encode(), partition=partition, timestamp_ms=second * 1000)
        Session(engine, topics, Screen(), once=True).run(check([("script", SCRIPT)]))

    yield send_and_run
    engine.close()
    topics.close()


def table(log: ServedLog, topic: str) -> dict[tuple[str, int], Any]:
    """Return the counts by key and start of the window, in seconds."""
    found = {}
    for each in (record for part in log.records(topic).values() for record in part):
        assert each.key is not None
        assert each.value is not None
        start = int.from_bytes(each.key[-8:], "big") // 1000
        found[each.key[:-8].decode(), start] = json.loads(each.value)["N"]
    return found


def crashed_before_commit(checkpoint: Path) -> None:
    """Forget that the last micro-batch was committed: Spark repeats it."""
    last = max((each for each in (checkpoint / "commits").iterdir() if each.name.isdigit()), key=lambda x: int(x.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.slow
def test_each_partition_has_its_own_stream_time_also_after_a_crash(
    run: Callable[..., None], log: ServedLog, tmp_path: Path
) -> None:
    """Slow: three runs of two streaming queries."""
    run((0, "a", 1), (0, "a", 100), (1, "b", 1))
    assert table(log, "COUNTS") == {("a", 0): 1, ("a", 100): 1, ("b", 0): 1}
    assert table(log, "FINAL") == {}, "the second partition may still have records of the first window"

    run((1, "b", 2), (0, "a", 3))  # in time for its partition; late
    assert table(log, "COUNTS") == {("a", 0): 1, ("a", 100): 1, ("b", 0): 2}

    for query in ("CTAS_COUNTS", "CTAS_FINAL"):
        crashed_before_commit(tmp_path / "checkpoints" / query)
    run((1, "b", 30), (1, "b", 9), (0, "a", 99))  # the others are late
    assert table(log, "COUNTS") == {("a", 0): 1, ("a", 100): 1, ("b", 0): 2, ("b", 30): 1}
    assert table(log, "FINAL") == {("a", 0): 1, ("b", 0): 2}
