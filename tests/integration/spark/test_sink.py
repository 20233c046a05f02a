"""The sink in a real Spark, over an embedded service: what is written is there, once.

Slow: a JVM, and streaming queries that start, end and start again; options are checked without (tests/unit/spark).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek.spark
import pytest
from odradek.client.producer.partitioner import partition_for_key
from odradek.spark.available_now import process_available

from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServedLog]:
    with ServedLog(tmp_path / "store") as served:
        served.create("out", 3)
        yield served


def numbers(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, numPartitions=2).selectExpr("CAST(id AS STRING) key", "CAST(id AS STRING) value")


def write(frame: DataFrame, log: ServedLog, **options: str) -> None:
    frame.write.format("odradek").mode("append").options(**{**log.sink, "topic": "out", **options}).save()


def as_bytes(ids: range) -> list[bytes]:
    return sorted(str(i).encode() for i in ids)


def test_records_are_written_as_the_sdk_would_write_them(spark: SparkSession, log: ServedLog) -> None:
    log.create("other", 2)
    frame = spark.sql(
        "SELECT * FROM VALUES"
        " (X'6B31', 'v1', CAST(NULL AS STRING), CAST(NULL AS INT), TIMESTAMP_MILLIS(1700000000123),"
        "  ARRAY(NAMED_STRUCT('key', 'h', 'value', X'01'), NAMED_STRUCT('key', 'n', 'value', CAST(NULL AS BINARY)))),"
        " (NULL, NULL, 'other', 1, TIMESTAMP_MILLIS(-1500), NULL)"
        " AS t(key, value, topic, partition, timestamp, headers)"
    )
    write(frame, log)
    [record] = log.records("out")[partition_for_key(b"k1", 3)]
    assert (record.key, record.value, record.timestamp_ms) == (b"k1", b"v1", 1_700_000_000_123)
    assert [tuple(header) for header in record.headers] == [("h", b"\1"), ("n", None)]
    [record] = log.records("other")[1]
    assert (record.key, record.value, record.timestamp_ms) == (None, None, -1_500)
    read = spark.read.format("odradek").options(**log.source, subscribe="out,other").load()
    assert sorted(row.timestamp.timestamp() for row in read.collect()) == [-1.5, 1_700_000_000.123]


def test_a_batch_is_all_or_nothing_and_once_by_its_number(spark: SparkSession, log: ServedLog) -> None:
    write(numbers(spark, 0, 1_000), log, uploadBytes="2000")
    assert log.values("out") == as_bytes(range(1_000))
    failing = numbers(spark, 0, 1_000).selectExpr("key", "IF(key = '999', RAISE_ERROR('late'), value) value")
    with pytest.raises(Exception, match="late"):
        write(failing, log, uploadBytes="100")
    assert len(log.values("out")) == 1_000
    for _ in range(2):
        write(numbers(spark, 1_000, 1_100), log, transactionalId="import", batchId="7")
    write(numbers(spark, 0, 5), log, transactionalId="import", batchId="6")
    assert log.values("out") == as_bytes(range(1_100))


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["value"], {"topc": "out"}, "did you mean topic?"),  # the driver's process says it
        (["value", "7 AS partition"], {}, "partitions 0 to 2, not 7"),  # a task's
    ],
)
def test_a_wrong_write_is_answered_by_name(
    spark: SparkSession, log: ServedLog, columns: list[str], options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=r"odradek\.errors\.KafkaError") as refused:
        write(numbers(spark, 0, 2).selectExpr(*columns), log, **options)
    assert said in str(refused.value)
    assert log.values("out") == []


class Copy:
    """A query from `in` to `out`, started again on one checkpoint."""

    def __init__(self, log: ServedLog, checkpoint: Path) -> None:
        self.log, self.checkpoint = log, checkpoint

    def start(self, stream: DataFrame) -> Any:
        writer = stream.select("key", "value").writeStream.format("odradek").queryName("copy")
        writer = writer.options(**self.log.sink, topic="out").option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def run(self, spark: SparkSession, **options: str) -> None:
        process_available(spark, {**self.log.source, "subscribe": "in", **options}, self.start)


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died after the sink's commit, before Spark noted it; the batch's number."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    return last


def test_a_micro_batch_that_runs_again_adds_nothing(spark: SparkSession, log: ServedLog, tmp_path: Path) -> None:
    log.create("in", 2)
    copy = Copy(log, tmp_path / "checkpoint")
    write(numbers(spark, 0, 100), log, topic="in")
    copy.run(spark)
    assert log.values("out") == as_bytes(range(100))
    again = forget_last_commit(copy.checkpoint)
    write(numbers(spark, 100, 150), log, topic="in")
    copy.run(spark)
    assert (copy.checkpoint / "commits" / str(again)).exists()  # it did run again
    assert log.values("out") == as_bytes(range(150))


def test_foreach_batch_writes_once_too(spark: SparkSession, log: ServedLog, tmp_path: Path) -> None:
    log.create("in", 2)
    log.create("second", 1)
    ran: list[int] = []

    def start(stream: DataFrame) -> Any:
        first = odradek.spark.exactly_once({**log.sink, "topic": "out"})

        def both(frame: DataFrame, batch_id: int) -> None:
            ran.append(batch_id)
            records = frame.select("key", "value")
            first(records, batch_id)
            odradek.spark.write_once(records, batch_id, {**log.sink, "topic": "second"}, name="second")

        writer = stream.writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path / "c"))
        return writer.trigger(availableNow=True).start()

    write(numbers(spark, 0, 50), log, topic="in")
    options = {**log.source, "subscribe": "in"}
    process_available(spark, options, start)
    forget_last_commit(tmp_path / "c")
    process_available(spark, options, start)
    assert len(ran) > len(set(ran)) >= 1
    assert log.values("out") == log.values("second") == as_bytes(range(50))
    with pytest.raises(odradek.KafkaError, match="foreachBatch"):
        odradek.spark.write_once(numbers(spark, 0, 1), 0, {**log.sink, "topic": "out"})
