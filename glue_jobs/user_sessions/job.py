"""user_sessions: sessions of users with their length and path, each once, when it is over.

    python -m glue_jobs.user_sessions.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --input-topic visits --output-topic sessions \\
        --value-schema "user STRING, page STRING" --user user --page page --gap "30 minutes"

A session is sent when the watermark has passed its last event by `gap`: nothing can be added to it then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import PLACED, as_output, events_of, malformed_letters, read_schema, require_fields

from glue_jobs.user_sessions.transform import as_records, user_sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "user_sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic that is read
    output_topic: str  # topic that results are written to
    value_schema: str  # as DDL
    user: str = "user"  # fields of the value; record_key is the record's key
    page: str = "page"  # field that names the page
    event_time: str = "timestamp"  # a timestamp: the record's, or a field of the value
    gap: str = "30 minutes"  # silence after which a session is over
    watermark: str = "10 minutes"  # events may come so much later than the newest


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process what there is, or until a stop; returns a summary."""
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
    """Run the job; prints its summary as one JSON line. 1 after one line that says what went wrong."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
