"""replay: writes a table to a topic in the order of its events, at their pace or faster: old data as live traffic.

    python -m odradek.glue_jobs.replay.job --store embedded:.odradek --bootstrap-servers URL \\
        --checkpoint-location DIR --output-topic flights --format parquet --path DIR \\
        --timestamp time_hour --key carrier --speed 3600 --slice "15 minutes"

The table is cut into slices of event time, and each is written when it is due: an hour of events takes a second at
--speed 3600, and --speed 0 does not wait. Each slice is written once. A run that was stopped continues where it was,
with its clock. Rows without a time are left out.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.import_table.job import FILE_FORMATS, file_options, read_files
from odradek.glue_jobs.import_table.transform import as_records, time_of
from odradek.glue_jobs.replay.transform import due_s
from odradek.spark.jobs.arguments import StoreArguments
from odradek.spark.jobs.durations import duration_us
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.slices import load_slices, numbered, save_slices
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StoreArguments):
    """See the module."""

    checkpoint_location: str  # folder or s3:// of the progress
    output_topic: str  # topic of the results
    format: str  # parquet, csv or json
    path: str  # a folder or a pattern
    timestamp: str  # the column of event time
    key: tuple[str, ...] = ()  # columns; none: records have no key
    header: bool = True  # CSV: the first line names the columns
    speed: float = 1.0  # seconds of event time per second; 0: without waiting
    slice: str = "1 minute"  # event time that is written at once


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Write all slices, or until a stop; return a summary."""
    if arguments.format not in FILE_FORMATS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--format must be one of {', '.join(FILE_FORMATS)}")
    options = file_options(arguments.format, header=arguments.header)
    table = read_files(spark, arguments.format, arguments.path, options)
    # Also checks the columns, before anything is read.
    as_records(table, key=arguments.key, timestamp=arguments.timestamp, topic=arguments.output_topic)
    timed = table.withColumn("_event_us", F.unix_micros(time_of(table, arguments.timestamp)))
    slices = load_slices(arguments.checkpoint_location, f"replay/{uuid.uuid4().hex}")
    if not slices.slices:
        low, high = timed.select(F.min("_event_us"), F.max("_event_us")).first() or (None, None)
        if low is None or high is None:
            return {"slices": 0}
        slices = slices.extended(int(low), int(high) + 1, duration_us(arguments.slice, name="--slice"))
        save_slices(arguments.checkpoint_location, slices)
    started = time.monotonic()
    began = slices.next[0] if slices.next else 0
    written = 0
    while slices.next is not None and not stop.is_set():
        low, high = slices.next
        wait_s = started + due_s(low, began, arguments.speed) - time.monotonic()
        if wait_s > 0 and stop.wait(wait_s):
            break
        rows = timed.where((F.col("_event_us") >= low) & (F.col("_event_us") < high)).orderBy("_event_us")
        records = as_records(
            rows.drop("_event_us"), key=arguments.key, timestamp=arguments.timestamp, topic=arguments.output_topic
        )
        records.write.format("odradek").mode("append").options(**numbered(arguments.sink(), slices)).save()
        slices = slices.written()
        save_slices(arguments.checkpoint_location, slices)
        written += 1
    return {"slices": written, "left": len(slices.slices) - slices.done}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
