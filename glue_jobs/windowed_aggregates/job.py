"""windowed_aggregates: aggregates events per group and window of event time, from one topic to another.

    python -m odradek.glue_jobs.windowed_aggregates.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --input-topic flights --output-topic delays \\
        --value-schema "origin STRING, dep_delay INT" --group-by origin --window tumbling --size "1 hour" \\
        --aggregates "flights=count(), mean_delay=mean(dep_delay), p95=percentile(dep_delay, 0.95)"

transform.py defines the windows and the aggregates. Results are records keyed by group and window start, so that in a
compacted topic the latest value of a key is the window. `--emit update` (the default) writes a window whenever it
changes; `append` writes it once, when the watermark has passed its end. Session windows support only `append`, because
they are not final, and have no key, before.

With --dead-letter-topic, records that do not parse and events that are too late for one of their windows go there, with
the starts of the missed windows in the header odradek.missed-windows. Results and dead letters of a micro-batch are one
commit, so each is written exactly once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.windowed_aggregates.transform import Aggregate, WindowSpec, as_records, parse_aggregate, windowed
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.late import with_watermark_of_batch
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import (
    EVENT_TIME,
    MALFORMED,
    PLACED,
    as_output,
    dead_letters,
    events_of,
    iso,
    parse_values,
    read_schema,
    require_fields,
    time_of,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "windowed_aggregates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic to read
    output_topic: str  # topic of the results
    value_schema: str  # as DDL
    aggregates: tuple[str, ...]  # name=function(field), such as flights=count()
    event_time: str = "timestamp"  # the record's, or a field: a timestamp, or ms since the epoch
    group_by: tuple[str, ...] = ()  # fields; record_key is the record's key
    window: str = "tumbling"  # tumbling, sliding or session
    size: str = "1 hour"  # of a tumbling or sliding window
    advance: str = ""  # of sliding windows: from one start to the next
    gap: str = ""  # of session windows: silence that ends one
    watermark: str = "10 minutes"  # the largest lateness of an event
    emit: str = "update"  # update: a window whenever it changes; append: once, when it is over

    def window_spec(self) -> WindowSpec:
        """Return the windows. Raises KafkaError(INVALID_CONFIG)."""
        return WindowSpec(self.window, self.size, self.advance, self.gap)


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process existing records, or all until a stop; return a summary."""
    schema = read_schema(arguments.value_schema)
    aggregates = [parse_aggregate(text) for text in arguments.aggregates]
    require_fields(schema, [*arguments.group_by, *(name for aggregate in aggregates for name in aggregate.fields)])
    window = arguments.window_spec()
    emit = "append" if window.kind == "session" else arguments.emit
    if emit not in {"append", "update"}:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--emit must be update or append, not {emit!r}")
    return run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.input_topic, PLACED)],
        build=lambda records: results(records, arguments, schema, window, aggregates),
        output_mode=emit,
        topic=arguments.output_topic,
    )


def results(
    records: DataFrame, arguments: Arguments, schema: StructType, window: WindowSpec, aggregates: Sequence[Aggregate]
) -> DataFrame:
    """Return records for the topics of results and of dead letters."""
    events = events_of(records, schema, event_time=arguments.event_time)
    windows = windowed(events, window, arguments.group_by, aggregates, watermark=arguments.watermark)
    output = as_output(as_records(windows, arguments.group_by), arguments.output_topic)
    if not arguments.dead_letter_topic:
        return output
    return output.unionByName(unused_records(records, arguments, schema, window))


def unused_records(records: DataFrame, arguments: Arguments, schema: StructType, window: WindowSpec) -> DataFrame:
    """Return the records that do not parse, and the events that are too late for at least one of their windows."""
    parsed = parse_values(with_watermark_of_batch(records, arguments.checkpoint_location), schema)
    timed = parsed.withColumn(EVENT_TIME, F.when(~F.col("is_malformed"), time_of(schema, arguments.event_time)))
    no_time = F.col(EVENT_TIME).isNull()
    missed = timed.withColumn("missed", F.when(~no_time, window.missed())).where(no_time | (F.size("missed") > 0))
    reason = F.when(F.col("is_malformed"), MALFORMED).when(no_time, "the event has no time").otherwise("too late")
    starts = F.array_join(F.transform("missed", iso), ",")
    return dead_letters(missed, arguments.dead_letter_topic, reason, more={"odradek.missed-windows": starts})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
