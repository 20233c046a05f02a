"""word_count: counts the occurrences of each word in a topic, as a compacted topic of counts, exactly once.

    python -m odradek.glue_jobs.word_count.job --store embedded:.odradek --bootstrap-servers URL --once \\
        --checkpoint-location DIR --input-topic lines --output-topic word_counts

A count is written whenever it changes; the latest value of a word is its count. The state has a row per word, forever.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.glue_jobs.word_count.transform import as_records, count_words
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams
from odradek.spark.jobs.values import as_output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "word_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic to read
    output_topic: str  # compacted topic of the counts
    field: str = ""  # of a JSON value; empty: the value is the text


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Process existing records, or all until a stop; return a summary."""
    return run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.input_topic, "value,timestamp")],
        build=lambda records: as_output(
            as_records(count_words(records, field=arguments.field)), arguments.output_topic
        ),
        output_mode="update",
        topic=arguments.output_topic,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
