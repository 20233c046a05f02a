"""user_sessions: writes sessions of users with their duration and path, each once, when it is over.

    python -m odradek.glue_jobs.user_sessions.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --input-topic visits --output-topic sessions \\
        --value-schema "user STRING, page STRING" --user user --page page --gap "30 minutes"

A session is written when the watermark has passed its last event by `gap`: nothing can be added to it any more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.glue_jobs.user_sessions.transform import as_records, user_sessions
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import PLACED, as_output, events_of, malformed_letters, read_schema, require_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "user_sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic to read
    output_topic: str  # topic of the results
    value_schema: str  # as DDL
    user: str = "user"  # field that identifies the user; record_key is the record's key
    page: str = "page"  # field with the page
    event_time: str = "timestamp"  # a timestamp: the record's, or a field of the value
    gap: str = "30 minutes"  # silence after which a session is over
    watermark: str = "10 minutes"  # the largest lateness of an event


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process existing records, or all until a stop; return a summary."""
    schema = read_schema(arguments.value_schema)
    require_fields(schema, [arguments.user, arguments.page])

    def build(records: DataFrame) -> DataFrame:
        sessions = user_sessions(
            events_of(records, schema, event_time=arguments.event_time),
            user=arguments.user,
            page=arguments.page,
            gap=arguments.gap,
            watermark=arguments.watermark,
        )
        output = as_output(as_records(sessions), arguments.output_topic)
        if not arguments.dead_letter_topic:
            return output
        return output.unionByName(malformed_letters(records, schema, arguments.dead_letter_topic))

    return run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.input_topic, PLACED)],
        build=build,
        topic=arguments.output_topic,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
