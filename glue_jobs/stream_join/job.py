"""stream_join: joins records of two topics with the same key and close in time, exactly once.

    python -m odradek.glue_jobs.stream_join.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --left-topic arrivals --right-topic departures --output-topic turnarounds \\
        --left-schema "tailnum STRING, airport STRING" --right-schema "tailnum STRING, airport STRING" \\
        --on tailnum,airport --before "0 seconds" --after "12 hours" --watermark "1 day"

transform.py defines the pairs. State: records that may still find a partner, of the last `before + after + watermark`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.glue_jobs.stream_join.transform import Within, as_records, join_within
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import PLACED, as_output, events_of, malformed_letters, read_schema, require_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "stream_join"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    left_topic: str  # topic of one side
    right_topic: str  # topic of the other side
    output_topic: str  # topic of the results
    left_schema: str  # of the values, as DDL
    right_schema: str  # of the values, as DDL
    on: tuple[str, ...]  # fields of both sides; record_key is the record's key
    join: str = "inner"  # left, right, full
    before: str = "1 hour"  # the right record may be older than the left one by this
    after: str = "1 hour"  # the right record may be newer than the left one by this
    left_time: str = "timestamp"  # a timestamp: the record's, or a field of the value
    right_time: str = "timestamp"  # a timestamp: the record's, or a field of the value
    watermark: str = "10 minutes"  # the largest lateness of an event


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process existing records, or all until a stop; return a summary."""
    left_schema, right_schema = read_schema(arguments.left_schema), read_schema(arguments.right_schema)
    require_fields(left_schema, arguments.on)
    require_fields(right_schema, arguments.on)
    within = Within(arguments.before, arguments.after)

    def build(left: DataFrame, right: DataFrame) -> DataFrame:
        pairs = join_within(
            events_of(left, left_schema, event_time=arguments.left_time, name="left"),
            events_of(right, right_schema, event_time=arguments.right_time, name="right"),
            arguments.on,
            within,
            join_type=arguments.join,
            watermark=arguments.watermark,
        )
        output = as_output(as_records(pairs, arguments.on), arguments.output_topic)
        if not arguments.dead_letter_topic:
            return output
        for records, schema in ((left, left_schema), (right, right_schema)):
            output = output.unionByName(malformed_letters(records, schema, arguments.dead_letter_topic))
        return output

    return run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.left_topic, PLACED), arguments.stream(arguments.right_topic, PLACED)],
        build=build,
        topic=arguments.output_topic,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
