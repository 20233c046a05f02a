"""deduplicate: a topic without the records that came twice, as they were, exactly once.

    python -m glue_jobs.deduplicate.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --input-topic orders --output-topic orders_once --by id --within "1 day"

Records keep key, value, headers and timestamp. One that is older than `within` against the newest cannot be told from
one that came before, and is left out; the summary counts them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import as_output

from glue_jobs.deduplicate.transform import deduplicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "deduplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic that is read
    output_topic: str  # topic that results are written to
    by: tuple[str, ...] = ("key",)  # fields of the value that make a record the same; key is the record's key
    within: str = "1 hour"  # repetitions may come so much later, by event time


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process what there is, or until a stop; returns a summary."""
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
    """Run the job; prints its summary as one JSON line. 1 after one line that says what went wrong."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
