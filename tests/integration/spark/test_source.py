"""The source in a real Spark, over a store that its service holds open for writing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek.spark
import pytest
from odradek.glue_jobs.word_count import job as word_count_job
from odradek.model.record import CompressionType
from odradek.spark.available_now import latest_offsets, process_available, run_to_end

from tests.support.engine import batch
from tests.support.engine import produce as append
from tests.support.kafka.poison import garbage
from tests.support.spark.jobs import Job
from tests.support.spark.session import LiveLog
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


START_MS = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LiveLog]:
    with LiveLog(tmp_path / "store", item_bytes_max=500) as live:
        yield live


def load(spark: SparkSession, log: LiveLog, **options: str) -> DataFrame:
    return spark.read.format("odradek").options(**log.options, **options).load()


def rows(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def test_records_come_as_the_kafka_source_gives_them(spark: SparkSession, log: LiveLog) -> None:
    log.create("t", 2)
    log.produce(
        "t", 0, [(b"k", b"v"), (None, b""), (b"", None)], timestamp_ms=START_MS, headers=[("h", b"1"), ("n", None)]
    )
    log.produce("t", 1, [(b"old", b"x")], timestamp_ms=-1_500, compression=CompressionType.LZ4)
    frame = load(spark, log, subscribe="t", includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows_read = [
        (row.partition, row.offset, row.key, row.value, [tuple(header) for header in row.headers], row.timestampType)
        for row in rows(frame)
    ]
    headers = [("h", bytearray(b"1")), ("n", None)]
    assert rows_read == [
        (0, 0, b"k", b"v", headers, 0),
        (0, 1, None, b"", headers, 0),
        (0, 2, b"", None, headers, 0),
        (1, 0, b"old", b"x", [], 0),
    ]
    stamps = [row[0] for row in frame.selectExpr("unix_millis(timestamp) AS ms").orderBy("ms").collect()]
    assert stamps == [-1_500, START_MS, START_MS + 1, START_MS + 2]


def test_every_record_once_from_items_objects_tail_and_index_rows(spark: SparkSession, log: LiveLog) -> None:
    log.create("t", 2)
    wanted = []
    for i in range(60):
        # Small requests lie in items, larger ones in objects; so many of them that the heads have spilled.
        value = b"%d" % i if i % 3 else b"%d" % i + bytes(1_000)
        compression = list(CompressionType)[i % 5]
        offset = log.produce("t", i % 2, [(b"a", value), (b"b", value)], compression=compression)
        wanted += [("t", i % 2, offset, b"a", value), ("t", i % 2, offset + 1, b"b", value)]
    frame = load(spark, log, subscribe="t", rangeBytes="2000")
    assert frame.rdd.getNumPartitions() > 4  # several tasks a partition
    assert [(r.topic, r.partition, r.offset, r.key, r.value) for r in rows(frame)] == sorted(wanted)


def test_a_batch_reads_what_it_is_told(spark: SparkSession, log: LiveLog) -> None:
    log.create("one", 2)
    log.create("two", 1)
    for partition in (0, 1):
        log.produce("one", partition, [(b"k", b"%d" % i) for i in range(10)], timestamp_ms=START_MS)
    log.produce("two", 0, [(b"k", b"x")])

    def offsets(**options: str) -> list[tuple[str, int, int]]:
        return [(r.topic, r.partition, r.offset) for r in rows(load(spark, log, **options))]

    assert offsets(
        subscribe="one", startingOffsets='{"one":{"0":8,"1":-1}}', endingOffsets='{"one":{"0":-1,"1":10}}'
    ) == [("one", 0, 8), ("one", 0, 9)]
    assert offsets(assign='{"one":[1]}', startingTimestamp=str(START_MS + 7)) == [
        ("one", 1, 7),
        ("one", 1, 8),
        ("one", 1, 9),
    ]
    assert offsets(subscribePattern="t.*") == [("two", 0, 0)]
    assert offsets(subscribePattern="nothing.*") == []
    frame = load(spark, log, subscribe="one", columns="offset,value")
    assert frame.columns == ["offset", "value"]
    assert frame.where("offset = 3").first().value == b"3"


@pytest.mark.slow
def test_filters_reach_the_offsets_and_more_tasks_may_be_asked_for(spark: SparkSession, log: LiveLog) -> None:
    """Slow: a dozen Spark jobs; how filters become offsets is checked without Spark (tests/unit/spark)."""
    log.create("t", 2)
    for partition in (0, 1):
        for i in range(20):
            log.produce("t", partition, [(b"k", b"%d" % i)], timestamp_ms=START_MS + i * 1_000)
    assert load(spark, log, subscribe="t").rdd.getNumPartitions() == 1  # little data
    assert load(spark, log, subscribe="t", minPartitions="2").rdd.getNumPartitions() == 2
    assert load(spark, log, subscribe="t", minPartitions="8").rdd.getNumPartitions() >= 8
    frame = load(spark, log, subscribe="t", rangeBytes="1")  # a task a batch: how many are planned shows what is read
    narrow = frame.where(
        "partition = 1 AND offset >= 5 AND offset < 15 AND timestamp >= TIMESTAMP_MILLIS(1700000010000)"
    )
    assert narrow.rdd.getNumPartitions() == 5
    assert [row.offset for row in rows(narrow)] == [10, 11, 12, 13, 14]
    assert frame.where("partition = 7").count() == 0


@pytest.mark.slow
def test_a_topic_is_a_table_and_its_changes_a_stream(spark: SparkSession, log: LiveLog, tmp_path: Path) -> None:
    """Slow: a streaming query takes Spark seconds to start and to end."""
    log.create("t", 2)
    log.produce("t", 0, [(b"a", b"1"), (b"b", b"1"), (None, b"no row"), (b"a", b"2")])
    log.produce("t", 1, [(b"c", b"1"), (b"c", None), (b"d", b"1")])
    table = odradek.spark.latest(spark, "t", log.options)
    assert {(bytes(row.key), bytes(row.value), row.offset) for row in table.collect()} == {
        (b"a", b"2", 3),
        (b"b", b"1", 1),
        (b"d", b"1", 2),
    }
    changes_read: list[Any] = []
    changes = odradek.spark.changelog(spark, "t", log.options)
    writer = changes.writeStream.foreachBatch(lambda frame, _: changes_read.extend(frame.collect()))
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    assert len(changes_read) == 6
    assert [bytes(row.key) for row in changes_read if row.deleted] == [b"c"]
    state = {
        bytes(row.key): None if row.deleted else bytes(row.value)
        for row in sorted(changes_read, key=lambda r: r.offset)
    }
    assert {key for key, value in state.items() if value is not None} == {b"a", b"b", b"d"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "missing"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"subscribe": "t", "colums": "key"}, "did you mean columns?"),
        ({"assign": '{"t": [7]}'}, "t-7"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":0}}'}, "option startingOffsets lacks t-1"),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":0,"1":99}}', "endingOffsets": '{"t":{"0":0,"1":100}}'},
            "failOnDataLoss",
        ),
    ],
)
def test_a_wrong_wish_is_answered_by_name(
    spark: SparkSession, log: LiveLog, options: dict[str, str], said: str
) -> None:
    log.create("t", 2)
    with pytest.raises(Exception, match=r"odradek\.errors\.KafkaError") as refused:
        load(spark, log, **options).count()
    assert said in str(refused.value)


class Query:
    """A streaming query into a list, started again on one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: list[list[tuple[int, int, str]]] = []
        self.fail_in: int | None = None  # after so many micro-batches were seen

    def start(self, stream: DataFrame) -> Any:
        def take(frame: DataFrame, batch_id: int) -> None:
            self.batches.append(sorted((r.partition, r.offset, r.value.decode()) for r in frame.collect()))
            if self.fail_in is not None and len(self.batches) > self.fail_in:
                raise RuntimeError("as a test wants it")

        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def run(self, spark: SparkSession, options: dict[str, str]) -> None:
        """One query, as a user starts it."""
        run_to_end(self.start, spark.readStream.format("odradek").options(**options).load())

    def take(self) -> list[list[tuple[int, int, str]]]:
        """Return the micro-batches since the last call, without empty ones."""
        batches, self.batches = [batch for batch in self.batches if batch], []
        return batches


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "checkpoint")


def produce(log: LiveLog, count: int, start: int = 0, partitions: int = 2) -> list[tuple[int, int, str]]:
    places = []
    for i in range(start, start + count):
        partition = i % partitions
        places.append((partition, log.produce("t", partition, [(b"k", b"%d" % i)]), str(i)))
    return sorted(places)


@pytest.mark.slow
def test_available_now_takes_what_is_there_in_bounded_batches_and_goes_on_from_there(
    spark: SparkSession, log: LiveLog, query: Query
) -> None:
    """Slow: a streaming query takes Spark seconds to start and to end."""
    log.create("t", 2)
    first = produce(log, 20)
    options = {**log.options, "subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    process_available(spark, options, query.start)
    batches = query.take()
    assert [len(batch) for batch in batches] == [8, 8, 2, 2], "the last one of each partition comes by itself"
    assert sorted(row for batch in batches for row in batch) == first

    process_available(spark, options, query.start)
    assert query.take() == []

    log.grow("t", 3)
    second = produce(log, 6, start=20)
    third = (2, log.produce("t", 2, [(b"k", b"new")]), "new")
    process_available(spark, options, query.start)
    assert sorted(row for batch in query.take() for row in batch) == sorted([*second, third])


@pytest.mark.slow
def test_a_batch_that_failed_is_run_again_with_the_same_records(
    spark: SparkSession, log: LiveLog, query: Query
) -> None:
    """Slow: a streaming query takes Spark seconds to start and to end."""
    log.create("t", 2)
    produce(log, 4)
    # "latest" is where the stream began, not where it is when it runs again.
    options = {**log.options, "subscribe": "t", "startingOffsets": "latest", "endingOffsets": "latest"}
    began = json.loads(latest_offsets(options))
    assert began == {"t": {"0": 2, "1": 2}}
    batches_read: list[list[tuple[int, int, str]]] = []

    def run() -> None:
        query.run(spark, options)
        batches_read.extend(query.take())

    run()
    assert batches_read == []
    later = produce(log, 4, start=4)
    query.fail_in = 0
    with pytest.raises(Exception, match="as a test wants it"):
        query.run(spark, options)
    batches_read.extend(query.take())
    query.fail_in = None
    newest = produce(log, 4, start=8)
    run()
    assert batches_read == [later, later, newest]
    run()
    assert len(batches_read) == 3


@pytest.mark.slow
def test_the_first_batch_keeps_its_beginning_over_a_crash(spark: SparkSession, log: LiveLog, query: Query) -> None:
    """Slow: a streaming query takes Spark seconds to start and to end."""
    log.create("t", 1)
    log.produce("t", 0, [(b"k", b"%d" % i) for i in range(5)], timestamp_ms=START_MS)
    options = {**log.options, "subscribe": "t", "startingTimestamp": str(START_MS + 3)}
    query.fail_in = 0
    with pytest.raises(Exception, match="as a test wants it"):
        query.run(spark, options)
    assert query.take() == [[(0, 3, "3"), (0, 4, "4")]]
    # By the option alone the stream would now begin elsewhere: nothing is as late as that.
    query.fail_in = None
    moved = {**options, "startingTimestamp": str(START_MS + 1_000_000)}
    query.run(spark, moved)
    assert query.take() == [[(0, 3, "3"), (0, 4, "4")]]


@pytest.mark.slow
def test_a_topic_made_anew_is_data_loss(spark: SparkSession, log: LiveLog, query: Query) -> None:
    """Slow: a streaming query takes Spark seconds to start and to end."""
    log.create("t", 1)
    log.produce("t", 0, [(b"k", b"%d" % i) for i in range(5)])
    options = {**log.options, "subscribe": "t", "startingOffsets": "earliest"}
    process_available(spark, options, query.start)
    assert [len(batch) for batch in query.take()] == [5]
    log.delete("t")
    log.create("t", 1)
    log.produce("t", 0, [(b"k", b"again")])
    with pytest.raises(Exception, match="failOnDataLoss"):
        query.run(spark, options)
    log.produce("t", 0, [(b"k", b"%d" % i) for i in range(9)])  # more than there were: offsets alone say nothing
    with pytest.raises(Exception, match="deleted and recreated"):
        query.run(spark, options)
    query.run(spark, {**options, "failOnDataLoss": "false"})
    assert [len(batch) for batch in query.take()] == [10]


def test_spark_counts_windows_over_a_stream(spark: SparkSession, log: LiveLog, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    log.create("t", 2)
    for partition in (0, 1):
        values = [(b"k", b"x")] * 100
        log.produce("t", partition, values, timestamp_ms=START_MS + partition * 60_000)
    taken: list[Any] = []

    def start(stream: DataFrame) -> Any:
        counts = stream.withWatermark("timestamp", "1 hour").groupBy(F.window("timestamp", "1 minute")).count()
        sink: Callable[[DataFrame, int], None] = lambda frame, _: taken.extend(frame.collect())  # noqa: E731
        writer = counts.writeStream.outputMode("update").foreachBatch(sink)
        return writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()

    options = {**log.options, "subscribe": "t", "startingOffsets": "earliest", "columns": "timestamp"}
    process_available(spark, options, start)
    counts_by_window = {row.window.start.astimezone(UTC): row["count"] for row in taken}
    minute = EPOCH + timedelta(milliseconds=START_MS - START_MS % 60_000)
    assert counts_by_window == {minute: 100, minute + timedelta(minutes=1): 100}


def test_a_corrupt_batch_fails_a_query_is_marked_and_a_job_skips_and_counts_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ServedLog(tmp_path / "served") as served:
        served.create("lines", **{"record.validation": "header"})
        served.create("counts")
        for batch_written in (batch([b"a b"]), garbage(3), batch([b"b"])):
            assert not served.run(append(served.engine, "lines", 0, batch_written)).error

        def load(how: str) -> list[Any]:
            options = {**served.source, "subscribe": "lines", "corruptBatches": how}
            return rows(spark.read.format("odradek").options(**options).load())

        with pytest.raises(Exception, match=r"lines-0 with the offsets 1 to 3 .* corruptBatches"):
            load("fail")
        assert [row.offset for row in load("skip")] == [0, 4]
        assert [(row.offset, row.value, row.timestampType) for row in load("mark")][1] == (1, None, -1)
        job = Job(
            spark, served, word_count_job, tmp_path, input_topic="lines", output_topic="counts",
            corrupt_batches="skip",
        )  # fmt: skip
        assert job.run()["corrupt_batches"] == 1
        assert [json.loads(value) for value in served.values("counts")] == [
            {"word": "a", "count": 1},
            {"word": "b", "count": 2},
        ]
