"""deduplicate: copies a topic without its duplicate records, exactly once.

    python -m odradek.glue_jobs.deduplicate.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --input-topic orders --output-topic orders_once --by id --within "1 day"

Records keep key, value, headers and timestamp. A record that is older than `within` relative to the newest cannot be
checked for duplicates, and is dropped; the summary counts such records.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.glue_jobs.deduplicate.transform import deduplicate
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import as_output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "deduplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic to read
    output_topic: str  # topic of the results
    by: tuple[str, ...] = ("key",)  # fields of the value that identify a record; key is the record's key
    within: str = "1 hour"  # the largest distance of duplicates in event time


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process existing records, or all until a stop; return a summary."""
    return run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.input_topic, "key,value,timestamp,headers")],
        build=lambda records: as_output(
            deduplicate(records, arguments.by, within=arguments.within), arguments.output_topic
        ),
        topic=arguments.output_topic,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
