"""flight_delays: Structured Streaming from the topics flights, weather and airlines to Parquet and the topic delays.

    here    python -m glue_jobs.flight_delays.job --checkpoint-location DIR --output DIR \\
                --store embedded:DIR --bootstrap-servers URL
    Glue    the same file and arguments, with --log_table, --catalog_table and --bucket in place of the last two

A run processes what is there when it starts (Trigger.AvailableNow) and ends; the next run goes on from the checkpoint.

    <output>/changes/batch_id=N/   Parquet: the windows that micro-batch N changed; replaced whole when N runs again
    <output>/windows/              Parquet: the windows as they stand after this run, made from changes/
    topic delays                   the same changes, keyed by window: compacted, its latest value per key is the window

Guarantees. A window is updated until the watermark passes it, so the last hours of the data are there without waiting
for later flights. changes/ and the topic are exactly once: a micro-batch that runs again replaces its files, and the
sink finds its number in the log (odradek.spark.write_once).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

import odradek.spark
from odradek.errors import OdradekError
from odradek.spark.available_now import process_available
from odradek.spark.exactly_once import write_once
from odradek.spark.sink_options import parse_sink_options
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from glue_jobs.flight_delays.transform import OBSERVED, as_records, flight_delays, latest_windows

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_NOTHING_WRITTEN = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the job takes; `--checkpoint-location` and `--checkpoint_location` are the same."""

    checkpoint_location: str
    output: str
    JOB_NAME: str = "flight_delays"
    store: str = ""  # embedded:<data dir>; empty with log_table and its like is AWS
    log_table: str = ""
    catalog_table: str = ""
    bucket: str = ""
    prefix: str = ""
    region: str = ""
    endpoint_url: str = ""
    bootstrap_servers: str = ""  # URL of an embedded store's service, its one writer
    flights_topic: str = "flights"
    weather_topic: str = "weather"
    airlines_topic: str = "airlines"
    delays_topic: str = "delays"  # "none" writes no topic
    # More than any two partitions may be apart in event time when a backlog is read in several micro-batches.
    watermark: str = "10 days"
    max_offsets_per_trigger: str = "200000"
    shuffle_partitions: str = "4"  # fixed by the first run on a checkpoint

    def store_options(self) -> dict[str, str]:
        """Options of source and sink that say where the store is."""
        options = {
            "store": self.store or "aws",
            "logTable": self.log_table,
            "catalogTable": self.catalog_table,
            "bucket": self.bucket,
            "prefix": self.prefix,
            "region": self.region,
            "endpointUrl": self.endpoint_url,
        }
        return {name: value for name, value in options.items() if value}

    def source(self, topic: str) -> dict[str, str]:
        """Options of the source for a topic, from its beginning."""
        return {**self.store_options(), "subscribe": topic, "startingOffsets": "earliest"}

    def sink(self) -> dict[str, str] | None:
        """Options of the sink for the delays; None where no topic is written."""
        if self.delays_topic == "none":
            return None
        servers = {"bootstrapServers": self.bootstrap_servers} if self.bootstrap_servers else {}
        return {**self.store_options(), **servers, "topic": self.delays_topic}


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """The arguments, by Glue's own parser where there is one; Glue passes more than the job asked for."""
    argv = [_underscored(word) for word in argv]
    try:
        from awsglue.utils import getResolvedOptions  # type: ignore[import-not-found]
    except ImportError:
        parser = argparse.ArgumentParser(prog="flight_delays", description=__doc__.splitlines()[0], allow_abbrev=False)
        for spec in fields(Arguments):
            parser.add_argument(f"--{spec.name}", required=spec.default is MISSING, default=spec.default)
        return Arguments(**vars(parser.parse_args(argv)))
    given = {word.removeprefix("--").partition("=")[0] for word in argv if word.startswith("--")}
    names = [spec.name for spec in fields(Arguments) if spec.default is MISSING or spec.name in given]
    resolved = getResolvedOptions(["job.py", *argv], names)
    return Arguments(**{name: resolved[name] for name in names})


def _underscored(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if word.startswith("--") else word


def make_session(arguments: Arguments) -> SparkSession:
    """A session in UTC that knows the source."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers must be this Python, whatever is on the PATH
    spark = (
        SparkSession.builder.appName(arguments.JOB_NAME)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", arguments.shuffle_partitions)
        .getOrCreate()
    )
    odradek.spark.register(spark)
    return spark


def run(spark: SparkSession, arguments: Arguments) -> dict[str, Any]:
    """Process what is there now and return a summary of the run."""
    weather = _table(spark, arguments, arguments.weather_topic, "value,offset,timestamp")
    airlines = _table(spark, arguments, arguments.airlines_topic, "key,value,offset")
    changes = f"{arguments.output.rstrip('/')}/changes"
    sent = _Sent()

    def start(flights: DataFrame) -> StreamingQuery:
        windows = flight_delays(flights, weather, airlines, watermark=arguments.watermark)
        return (
            windows.writeStream.outputMode("update")
            .foreachBatch(_write_batch(changes, arguments.sink(), sent))
            .option("checkpointLocation", arguments.checkpoint_location)
            .trigger(availableNow=True)
            .start()
        )

    options = arguments.source(arguments.flights_topic) | {
        "columns": "value,timestamp",
        "maxOffsetsPerTrigger": arguments.max_offsets_per_trigger,
    }
    progress = process_available(spark, options, start)
    return _summary(progress, _write_windows(spark, arguments.output), sent.records)


@dataclass(slots=True)
class _Sent:
    """What the micro-batches of this run have for the topic."""

    records: int = 0


def _table(spark: SparkSession, arguments: Arguments, topic: str, columns: str) -> DataFrame:
    """A topic as it is now, read once for all micro-batches."""
    frame = spark.read.format("odradek").options(**arguments.source(topic), columns=columns).load()
    return frame.persist()


def _write_batch(changes: str, sink: dict[str, str] | None, sent: _Sent) -> Callable[[DataFrame, int], None]:
    def write(windows: DataFrame, batch_id: int) -> None:
        windows = windows.persist()
        try:
            if batch_id and windows.isEmpty():
                return
            # A checkpoint's first micro-batch starts the output anew: what an older one left would count as newer.
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
    """Make windows/ from changes/ and return how many there are."""
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
    observed = [each.get("observedMetrics", {}).get(OBSERVED, {}) for each in progress]
    operators = [operator for each in progress for operator in each["stateOperators"]]
    return {
        "batches": len([each for each in progress if each["numInputRows"]]),
        "records": sum(each["numInputRows"] for each in progress),
        "malformed": sum(each.get("malformed", 0) for each in observed),
        "late_groups_dropped": sum(operator.get("numRowsDroppedByWatermark", 0) for operator in operators),
        "windows": windows,
        "window_updates_sent": sent,
    }


@contextmanager
def _stopping(spark: SparkSession) -> Iterator[SparkSession]:
    try:
        yield spark
    finally:
        spark.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; prints its summary as one JSON line. 1 after one line that says what went wrong."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    try:
        sink = arguments.sink()
        if sink is not None:
            parse_sink_options(sink, is_streaming=False)  # what is wrong there is said before Spark starts
        with _stopping(make_session(arguments)) as spark:
            summary = run(spark, arguments)
    except (OdradekError, PySparkException) as error:
        print(f"flight_delays: {reason(error)}", file=sys.stderr)
        return 1
    if summary["late_groups_dropped"]:
        print(
            f"flight_delays: {summary['late_groups_dropped']} groups of flights came after the watermark and were "
            "dropped: give a longer --watermark and a new checkpoint",
            file=sys.stderr,
        )
    print(json.dumps(summary), flush=True)
    return 0


def reason(error: Exception) -> str:
    """One line of an error: Spark wraps a source's own message in pages of stack."""
    text = str(error)
    own = re.findall(r"odradek\.errors\.\w+: (.+)", text)
    return own[-1] if own else text.strip().splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
