"""table_join: joins the records of a topic with the values of a compacted topic (stream-table join).

    python -m odradek.glue_jobs.table_join.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --input-topic flights --table-topic airlines --output-topic named_flights \\
        --value-schema "carrier STRING, flight INT" --table-schema "name STRING" --on carrier

A record is joined with the table as of the beginning of its micro-batch. As in Kafka Streams, later changes of the
table do not affect joined records. A repeated micro-batch may see a newer table; it adds nothing if its first run did.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.glue_jobs.table_join.transform import as_records, join_table, table_rows
from odradek.spark.exactly_once import write_once
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.latest import LatestTable
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import (
    PLACED,
    RECORD_KEY,
    as_output,
    events_of,
    malformed_letters,
    read_schema,
    require_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "table_join"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic to read
    table_topic: str  # compacted topic of the table
    output_topic: str  # topic of the results
    value_schema: str  # as DDL
    table_schema: str  # of the table's values, as DDL
    on: str = RECORD_KEY  # the field of the value that is the table's key
    event_time: str = "timestamp"  # a timestamp: the record's, or a field of the value
    join: str = "left"  # or inner


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process existing records, or all until a stop; return a summary."""
    schema, table_schema = read_schema(arguments.value_schema), read_schema(arguments.table_schema)
    require_fields(schema, [arguments.on])
    table = LatestTable(spark, arguments.source(arguments.table_topic))

    def write(records: DataFrame, batch_id: int) -> None:
        rows = table_rows(table.now(), table_schema)
        events = events_of(records, schema, event_time=arguments.event_time)
        joined = join_table(events, rows, on=arguments.on, join_type=arguments.join)
        output = as_output(as_records(joined), arguments.output_topic)
        if arguments.dead_letter_topic:
            output = output.unionByName(malformed_letters(records, schema, arguments.dead_letter_topic))
        write_once(output, batch_id, arguments.sink())

    return run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.input_topic, PLACED)],
        build=lambda records: records,
        write_batch=write,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
