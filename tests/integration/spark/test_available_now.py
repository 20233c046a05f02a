"""Trigger.AvailableNow with windows in append mode: what PySpark does for a Python source, and what we do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek.spark
import pytest
from odradek.spark.available_now import process_available, without_last
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.support.spark.session import LiveLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE_MS = 60_000
START_MS = 1_700_000_040_000
WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LiveLog]:
    with LiveLog(tmp_path / "store") as live:
        live.create("t", 2)
        yield live


class Windows:
    """A query that counts by the minute, in append mode: a window is written once, when it is over."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, stream: DataFrame) -> Any:
        counts = stream.withWatermark("timestamp", "0 seconds").groupBy(F.window("timestamp", "1 minute")).count()
        writer = counts.writeStream.outputMode("append").format("parquet").option("path", str(self._folder / "out"))
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    def written(self, spark: SparkSession) -> list[int]:
        """The minutes whose windows were written, from the first on."""
        rows = spark.read.schema("window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, count BIGINT").parquet(
            str(self._folder / "out")
        )
        starts = rows.select(F.unix_millis("window.start").alias("ms")).collect()
        return sorted((row.ms - START_MS) // MINUTE_MS for row in starts)


def produce(log: LiveLog, minutes: range) -> None:
    for minute in minutes:
        log.produce("t", minute % 2, [(b"k", b"v")] * 3, timestamp_ms=START_MS + minute * MINUTE_MS)


def test_the_last_run_always_has_data() -> None:
    assert json.loads(without_last('{"t": {"0": 5, "1": 0}, "u": {"0": 1}}')) == {
        "t": {"0": 4, "1": 0},
        "u": {"0": 0},
    }


@pytest.mark.slow
def test_pyspark_leaves_closed_windows_unwritten(spark: SparkSession, log: LiveLog, tmp_path: Path) -> None:
    """docs/reference.md says so of a plain trigger. Where this fails, PySpark has changed: see available_now.py.

    Slow: a streaming query takes Spark seconds to start and to end."""
    windows = Windows(tmp_path)
    produce(log, range(4))
    options = {**log.options, "subscribe": "t", "startingOffsets": "earliest"}
    spark.conf.set(WRAPPER, "false")
    try:
        odradek.spark.register(spark)
        windows.start(spark.readStream.format("odradek").options(**options).load()).awaitTermination()
    finally:
        spark.conf.unset(WRAPPER)
        odradek.spark.register(spark)
    assert windows.written(spark) == [], "three windows are over"


@pytest.mark.slow
def test_a_stream_of_ones_own_writes_the_windows_that_its_last_batch_closed(
    spark: SparkSession, log: LiveLog, tmp_path: Path
) -> None:
    """Slow: a streaming query takes Spark seconds to start and to end."""
    windows = Windows(tmp_path)
    options = {**log.options, "subscribe": "t", "startingOffsets": "earliest"}
    for minutes, written in ((range(4), [0, 1, 2]), (range(4, 6), [0, 1, 2, 3, 4]), (range(0), [0, 1, 2, 3, 4])):
        produce(log, minutes)
        windows.start(spark.readStream.format("odradek").options(**options).load()).awaitTermination()
        assert windows.written(spark) == written
    produce(log, range(6, 8))
    limited = spark.readStream.format("odradek").options(**options, maxOffsetsPerTrigger="2").load()
    with pytest.raises(StreamingQueryException, match="takes no maxOffsetsPerTrigger"):
        windows.start(limited).awaitTermination()


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, "5", "1000"])
def test_windows_that_are_over_are_written(
    limit: str | None, spark: SparkSession, log: LiveLog, tmp_path: Path
) -> None:
    """Slow: a streaming query takes Spark seconds to start and to end."""
    windows = Windows(tmp_path)
    options = {**log.options, "subscribe": "t", "startingOffsets": "earliest"}
    if limit is not None:
        options["maxOffsetsPerTrigger"] = limit
    produce(log, range(4))
    progress = process_available(spark, options, windows.start)
    assert sum(batch_progress["numInputRows"] for batch_progress in progress) == 12
    assert max(batch_progress["numInputRows"] for batch_progress in progress) <= (12 if limit is None else int(limit))
    assert windows.written(spark) == [0, 1, 2]
    process_available(spark, options, windows.start)
    assert windows.written(spark) == [0, 1, 2]
    produce(log, range(4, 7))
    progress = process_available(spark, options, windows.start)
    assert sum(batch_progress["numInputRows"] for batch_progress in progress) == 9
    assert windows.written(spark) == [0, 1, 2, 3, 4, 5]
    assert spark.conf.get(WRAPPER, "false") == "true", "as it was"
