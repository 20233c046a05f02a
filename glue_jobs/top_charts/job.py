"""top_charts: maintains the most played items, overall and by genre, in a compacted topic that can be queried.

    python -m odradek.glue_jobs.top_charts.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --plays-topic plays --details-topic songs --output-topic charts \\
        --value-schema "song STRING" --item song --chart genre --n 5
    python -m odradek.glue_jobs.top_charts.ask --store embedded:.odradek --topic charts [--name all]

The topic `charts` has one key per chart, and the latest value is the chart, so any consumer can keep all of them, and
`ask` reads them without Spark. The state needs --state-store rocksdb, the default. The details are read when a query
starts: newer ones apply from the next start on (each run with --once, each wake-up from rest), and do not move plays
that were already counted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.top_charts.transform import as_records, plays_by_chart, top_charts
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.latest import COLUMNS, latest_per_key
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import PLACED, as_output, events_of, malformed_letters, read_schema, require_fields
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "top_charts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    plays_topic: str  # topic of plays
    output_topic: str  # compacted topic of the charts
    value_schema: str  # of plays, as DDL
    item: str  # the field of a play with the played item
    details_topic: str = ""  # compacted, keyed by item; empty: only the overall chart
    chart: str = ""  # the field of the details with the item's chart
    event_time: str = "timestamp"  # a timestamp: the record's, or a field of the value
    n: int = 5  # items of a chart


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process existing records, or all until a stop; return a summary."""
    schema = read_schema(arguments.value_schema)
    require_fields(schema, [arguments.item])
    if bool(arguments.details_topic) != bool(arguments.chart):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "set both --details-topic and --chart, or neither")
    if not 1 <= arguments.n <= 1_000:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--n must be from 1 to 1,000, not {arguments.n}")

    def build(records: DataFrame) -> DataFrame:
        events = events_of(records, schema, event_time=arguments.event_time)
        plays = plays_by_chart(events, _details(spark, arguments), item=arguments.item)
        output = as_output(as_records(top_charts(plays, arguments.n)), arguments.output_topic)
        if not arguments.dead_letter_topic:
            return output
        return output.unionByName(malformed_letters(records, schema, arguments.dead_letter_topic))

    return run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.plays_topic, PLACED)],
        build=build,
        output_mode="update",
        topic=arguments.output_topic,
    )


def _details(spark: SparkSession, arguments: Arguments) -> DataFrame | None:
    """Return item_key, chart; Spark reads the topic again for each micro-batch."""
    if not arguments.details_topic:
        return None
    records = spark.read.format("odradek").options(**arguments.source(arguments.details_topic), columns=COLUMNS).load()
    chart = F.get_json_object(F.col("value").cast("string"), f"$.{arguments.chart}")
    return latest_per_key(records).select(F.col("key").cast("string").alias("item_key"), chart.alias("chart"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
