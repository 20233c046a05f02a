"""flight_delays: Structured Streaming from the topics flights, weather and airlines to Parquet and the topic delays.

    local   python -m odradek.glue_jobs.flight_delays.job --checkpoint-location DIR --output DIR \\
                --store embedded:DIR --bootstrap-servers URL
    Glue    the same file and arguments, with --log_table, --catalog_table and --bucket instead of the last two

A run processes the records that exist at its start (Trigger.AvailableNow) and ends; the next continues from its
checkpoint.

    <output>/changes/batch_id=N/   Parquet: the windows that micro-batch N changed; replaced if N runs again
    <output>/windows/              Parquet: the windows as of this run, computed from changes/
    topic delays                   the same changes, keyed by window: compacted, its latest value per key is the window

Guarantees: a window is updated until the watermark passes it, so the last hours of the data are included without
waiting for later flights. changes/ and the topic are exactly once: a repeated micro-batch replaces its files, and the
sink finds its number in the log (odradek.spark.write_once).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.glue_jobs.flight_delays.transform import OBSERVED, as_records, flight_delays, latest_windows
from odradek.spark.available_now import process_available
from odradek.spark.exactly_once import write_once
from odradek.spark.jobs.arguments import StoreArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.sink.options import parse_sink_options
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "flight_delays"
_NOTHING_WRITTEN = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StoreArguments):
    """See the module."""

    checkpoint_location: str  # folder or s3:// of the query's position and state
    output: str  # folder or s3:// prefix of changes/ and windows/
    flights_topic: str = "flights"  # topic of flights
    weather_topic: str = "weather"  # topic of the weather
    airlines_topic: str = "airlines"  # topic of the airlines' names
    delays_topic: str = "delays"  # topic of the results; "none" writes no topic
    # More than any two partitions may be apart in event time when a backlog is read in several micro-batches.
    watermark: str = "10 days"
    max_offsets_per_trigger: int = 200_000  # maximum number of records of a micro-batch

    def delays_sink(self) -> dict[str, str] | None:
        """Return options of the sink for the delays; None if no topic is written."""
        return None if self.delays_topic == "none" else self.sink(self.delays_topic)


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process the existing records and return a summary. The end is fixed at the start, so a stop waits for it."""
    sink = arguments.delays_sink()
    if sink is not None:
        parse_sink_options(sink, is_streaming=False)  # before anything is read
    weather = _table(spark, arguments, arguments.weather_topic, "value,offset,timestamp")
    airlines = _table(spark, arguments, arguments.airlines_topic, "key,value,offset")
    changes = f"{arguments.output.rstrip('/')}/changes"
    sent = _Sent()

    def start(flights: DataFrame) -> StreamingQuery:
        windows = flight_delays(flights, weather, airlines, watermark=arguments.watermark)
        return (
            windows.writeStream.outputMode("update")
            .foreachBatch(_write_batch(changes, sink, sent))
            .option("checkpointLocation", arguments.checkpoint_location)
            .trigger(availableNow=True)
            .start()
        )

    options = arguments.source(
        arguments.flights_topic,
        columns="value,timestamp",
        maxOffsetsPerTrigger=str(arguments.max_offsets_per_trigger),
    )
    progress = process_available(spark, options, start)
    summary = _summary(progress, _write_windows(spark, arguments.output), sent.records)
    if summary["late_groups_dropped"]:
        print(
            f"{NAME}: {summary['late_groups_dropped']} groups of flights came after the watermark and were "
            "dropped: set a longer --watermark and a new checkpoint",
            file=sys.stderr,
        )
    return summary


@dataclass(slots=True)
class _Sent:
    """The number of records that the micro-batches of this run wrote to the topic."""

    records: int = 0


def _table(spark: SparkSession, arguments: Arguments, topic: str, columns: str) -> DataFrame:
    """Return a topic as it is now, read once for all micro-batches."""
    frame = spark.read.format("odradek").options(**arguments.source(topic, columns=columns)).load()
    return frame.persist()


def _write_batch(changes: str, sink: dict[str, str] | None, sent: _Sent) -> Callable[[DataFrame, int], None]:
    def write(windows: DataFrame, batch_id: int) -> None:
        windows = windows.persist()
        try:
            if batch_id and windows.isEmpty():
                return
            # A checkpoint's first micro-batch clears the output: files of an older checkpoint would count as newer.
            mode = "static" if batch_id == 0 else "dynamic"
            (
                windows.withColumn("batch_id", F.lit(batch_id))
                .coalesce(1)
                .write.mode("overwrite")
                .option("partitionOverwriteMode", mode)
                .partitionBy("batch_id")
                .parquet(changes)
            )
            if sink is not None:
                write_once(as_records(windows), batch_id, sink)
                sent.records += windows.count()
        finally:
            windows.unpersist()

    return write


def _write_windows(spark: SparkSession, output: str) -> int:
    """Compute windows/ from changes/ and return the number of windows."""
    root = output.rstrip("/")
    try:
        changes = spark.read.parquet(f"{root}/changes")
    except AnalysisException as error:
        if error.getCondition() in _NOTHING_WRITTEN:
            return 0
        raise
    windows = latest_windows(changes).orderBy("window_start", "origin").coalesce(1)
    windows.write.mode("overwrite").parquet(f"{root}/windows")
    return spark.read.parquet(f"{root}/windows").count()


def _summary(progress: list[dict[str, Any]], windows: int, sent: int) -> dict[str, Any]:
    observed = [batch_progress.get("observedMetrics", {}).get(OBSERVED, {}) for batch_progress in progress]
    operators = [operator for batch_progress in progress for operator in batch_progress["stateOperators"]]
    return {
        "batches": len([batch_progress for batch_progress in progress if batch_progress["numInputRows"]]),
        "records": sum(batch_progress["numInputRows"] for batch_progress in progress),
        "malformed": sum(metrics.get("malformed", 0) for metrics in observed),
        "late_groups_dropped": sum(operator.get("numRowsDroppedByWatermark", 0) for operator in operators),
        "windows": windows,
        "window_updates_sent": sent,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
