"""A topic as Spark's table: Parquet by Spark's own reader and the rest by our source, each record once."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek.spark
import pytest
from odradek.errors import KafkaError
from odradek.model.record import CompressionType

from tests.support.engine import read_all
from tests.support.spark.session import LiveLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START_MS = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "10000",
    "odradek.table.schema": "origin string, delay bigint",
    "retention.ms": "-1",
}
SMALL = {
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "table_group_bytes": 4_000,
    "head_bytes_max": 400,
    "paged_appends": 4,
}
RECORDS = 500  # of each partition


def fill(log: LiveLog, first: int, end: int, topic: str = "flights") -> None:
    for partition in range(2):
        for at in range(first, end, 10):
            rows: list[tuple[bytes | None, bytes | None]] = [
                (b"k%d" % i, json.dumps({"origin": ("JFK", "EWR")[i % 2], "delay": i, "note": "n" * (i % 80)}).encode())
                for i in range(at, at + 10)
            ]
            rows[3], rows[4] = (None, None), (b"", b"no JSON")
            log.produce(
                topic,
                partition,
                rows,
                timestamp_ms=START_MS + at if at else -1_500,
                headers=[("h", b"1"), ("n", None)] if at % 3 else [],
                compression=list(CompressionType)[at // 10 % 5],
            )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLog]:
    """Two partitions: two files or more each, then segments of batches, spilled rows and the tail."""
    with LiveLog(tmp_path_factory.mktemp("a %20,b:c d=1") / "store", **SMALL) as live:
        live.create("flights", 2, **TABLE)
        fill(live, 0, RECORDS)
        report = live._run(live.engine.maintenance.run())
        assert report.done["table_segments_written"] >= 4
        fill(live, RECORDS, RECORDS + 50)
        yield live


def consumed(log: LiveLog, topic: str = "flights") -> list[tuple[Any, ...]]:
    """Return the records of Kafka's consumers as rows of the table, in the order of partitions and offsets."""
    rows_read: list[tuple[Any, ...]] = []
    for partition in range(2):
        for record in log._run(read_all(log.engine, topic, partition)):
            is_object = record.value is not None and record.value.startswith(b"{")
            fields: dict[str, Any] = json.loads(record.value or b"") if is_object else {}
            at = EPOCH + timedelta(milliseconds=record.timestamp_ms)
            record_place = (topic, partition, record.offset)
            typed = (fields.get("origin"), fields.get("delay"))
            rows_read.append((record.key, record.value, *record_place, at, 0, list(record.headers), *typed))
    return rows_read


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(
        (
            (
                *(None if cell is None else bytes(cell) for cell in row[:2]),
                *row[2:5],
                row[5].astimezone(UTC),
                row[6],
                [(key, None if value is None else bytes(value)) for key, value in row[7]],
                *row[8:],
            )
            for row in frame.collect()
        ),
        key=lambda row: row[3:5],
    )


def files_read(frame: DataFrame) -> int:
    """How many files the scans of a query open."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = (plan.executedPlan() if "Adaptive" in plan.nodeName() else plan).collectLeaves()
    file_count = 0
    for at in range(leaves.size()):
        metrics = leaves.apply(at).metrics()
        if metrics.contains("numFiles"):
            file_count += metrics.apply("numFiles").value()
    return file_count


def plan_of(frame: DataFrame) -> str:
    """The plan as `explain("formatted")` prints it."""
    mode = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    return str(frame._jdf.queryExecution().explainString(mode))


@pytest.mark.parametrize(
    ("few_records", "is_here"),
    [(0, True), (100_000, False), (100_000, True)],
    ids=["rest by the source", "rest by the call", "rest as a file"],
)
def test_every_row_is_a_consumers_and_at_one_moment(
    spark: SparkSession, log: LiveLog, monkeypatch: pytest.MonkeyPatch, few_records: int, is_here: bool
) -> None:
    module = sys.modules["odradek.spark.table"]  # the name is the function, too
    monkeypatch.setattr(module, "_FEW_RECORDS", few_records)
    if not is_here:
        monkeypatch.setattr(module, "_reads_here", lambda _: False)
    wanted = consumed(log)
    frame = odradek.spark.table(spark, "flights", log.data_dir)
    assert frame.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "origin", "delay")
    ]
    assert rows(frame) == wanted
    plan = plan_of(frame)
    assert "Scan parquet" in plan
    assert ("Union" not in plan) is (few_records > 0 and is_here)
    fill(log, len(wanted) // 2, len(wanted) // 2 + 10)
    log._run(log.engine.maintenance.run())
    assert rows(frame) == wanted, "what is appended and merged afterwards is another moment"
    assert rows(odradek.spark.table(spark, "flights", log.options)) == consumed(log)


def test_filters_and_columns_reach_the_files(spark: SparkSession, log: LiveLog) -> None:
    frame = odradek.spark.table(spark, "flights", log.data_dir)
    assert "PythonDataSource" not in plan_of(frame), "a small rest is read by the call"
    narrow = frame.where("delay > 400 AND offset < 450 AND timestamp >= '2023-11-01'").select("origin", "partition")
    plan = plan_of(narrow)
    [pushed] = re.findall(r"PushedFilters: \[(.*)\]", plan)
    for filter_text in ("GreaterThan(delay,400)", "LessThan(offset,450)", "GreaterThanOrEqual(timestamp,2023-11-01"):
        assert filter_text in pushed
    assert "Batched: true" in plan, "rows pass in columns"
    [read] = re.findall(r"ReadSchema: struct<(.*)>", plan)
    assert read.startswith("offset:bigint,timestamp:timestamp,origin:string,delay:bigint"), "neither key nor value"
    assert len(narrow.collect()) == 2 * 49 - 2 * 2 * 5
    everything, one = files_read(frame), files_read(frame.where("partition = 1"))
    assert everything >= 4
    assert 0 < one < everything, "files of other partitions are not opened"


def test_as_of_offsets_or_a_time(spark: SparkSession, log: LiveLog) -> None:
    wanted = consumed(log)

    def found(as_of: Any) -> list[tuple[Any, ...]]:
        return rows(odradek.spark.table(spark, "flights", log.data_dir, as_of=as_of))

    assert found({0: 333}) == [row for row in wanted if row[3] == 0 and row[4] < 333]
    at = EPOCH + timedelta(milliseconds=START_MS + 123)
    assert found(at) == found(at.replace(tzinfo=None).isoformat()) == [row for row in wanted if row[5] <= at]
    assert found({0: 0, 1: 0}) == []


def test_a_column_that_files_lack_is_parsed(spark: SparkSession, log: LiveLog) -> None:
    log.create("late", 1, **{**TABLE, "odradek.table.schema": "delay double"})
    for at in range(0, 300, 10):
        log.produce("late", 0, [(b"k", b'{"delay": %d, "gate": "%d"}' % (i, i)) for i in range(at, at + 10)])
    assert log._run(log.engine.maintenance.run()).done["table_segments_written"]
    log._run(log.engine.topics.alter_configs("late", set={"odradek.table.schema": "delay bigint, gate string"}))
    frame = odradek.spark.table(spark, "late", log.data_dir, columns=["gate", "delay"])
    assert sorted(map(tuple, frame.collect()), key=lambda row: row[1]) == [(str(i), i) for i in range(300)]
    assert files_read(frame) == 0
    assert files_read(odradek.spark.table(spark, "late", log.data_dir, columns=["offset"])) > 0


def test_values_that_files_do_not_have_are_made(spark: SparkSession, log: LiveLog) -> None:
    log.create("lean", 2, **TABLE, **{"odradek.table.value.bytes": "false"})
    fill(log, 0, RECORDS, "lean")
    assert log._run(log.engine.maintenance.run()).done["table_segments_with_recipes"] >= 4
    wanted = consumed(log, "lean")
    whole = odradek.spark.table(spark, "lean", log.data_dir)
    assert files_read(whole) >= 4, "Spark reads the columns"
    assert "EvalPython" in plan_of(whole), "and Python makes the values"
    assert rows(whole) == wanted
    for lean in (
        whole.select("partition", "offset", "origin", "delay"),
        odradek.spark.table(spark, "lean", log.data_dir, columns=["partition", "offset", "origin", "delay"]),
    ):
        assert "EvalPython" not in plan_of(lean), "where a query needs them"
        assert sorted(map(tuple, lean.collect())) == [(*row[3:5], *row[8:]) for row in wanted]
    log._run(log.engine.topics.alter_configs("lean", set={"odradek.table.schema": "delay bigint"}))
    fewer = odradek.spark.table(spark, "lean", log.data_dir, columns=["offset", "partition", "value"])
    assert files_read(fewer) == 0, "recipes name a column that is no longer the topic's: the source makes the values"
    rows_read = [(row[1], row[0], None if row[2] is None else bytes(row[2])) for row in fewer.collect()]
    assert sorted(rows_read, key=lambda row: row[:2]) == [(*row[3:5], row[1]) for row in wanted]


def test_what_does_not_exist_is_named(spark: SparkSession, log: LiveLog, tmp_path: Path) -> None:
    for arguments, message in (
        ({"topic": "flight"}, "flight"),
        ({"topic": "flights", "columns": ["delai"]}, "no column 'delai': use key, value"),
        ({"topic": "flights", "as_of": {7: 1}}, "no partition 7"),
        ({"topic": "flights", "as_of": "yesterday"}, "ISO 8601"),
        ({"topic": "flights", "store": tmp_path}, "store"),
    ):
        with pytest.raises(KafkaError, match=re.escape(message)):
            odradek.spark.table(spark, **{"store": log.data_dir, **arguments})
