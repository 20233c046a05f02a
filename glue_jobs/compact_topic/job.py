"""compact_topic: keeps the last record of each key, for partitions too large for the maintenance function.

    here    python -m odradek.glue_jobs.compact_topic.job --store embedded:.odradek --topic accounts  (service stopped)
    Glue    the same file, with --log_table, --catalog_table and --bucket in place of the store

The job applies the rules of the engine's compaction under the engine's lease, with the keys spread over a cluster
(odradek/spark/compaction.py). It compacts if the topic's configuration says that compaction is due, and either of the
two continues what the other has begun. An embedded store has one writer: its service must not run meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.compaction import compact
from odradek.spark.jobs.arguments import StoreArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.options import parse_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "compact_topic"
_POLL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StoreArguments):
    """See the module."""

    topic: str  # the compacted topic
    partitions: tuple[str, ...] = ()  # numbers; none: all
    groups_at_once: int = 64  # segments that are rewritten before any is swapped in
    wait_seconds: float = 150.0  # for another maintainer to leave a partition


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Compact the partitions that are due, and return a summary."""
    if not all(partition.isdigit() for partition in arguments.partitions):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "--partitions must be numbers, separated by commas")
    if arguments.groups_at_once < 1:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "--groups-at-once must be at least 1")
    left_s = arguments.wait_seconds
    done: dict[str, int] = {}
    while True:
        report = asyncio.run(
            compact(
                spark,
                parse_store(arguments.store_options()),
                arguments.topic,
                [int(partition) for partition in arguments.partitions],
                groups_at_once=arguments.groups_at_once,
            )
        )
        busy = report.done.pop("partitions_busy", 0)
        for name, count in report.done.items():
            done[name] = done.get(name, 0) + count
        if report.failures:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "; ".join(report.failures))
        if not busy:
            return done
        if left_s <= 0 or stop.wait(_POLL_S):
            return {**done, "partitions_busy": busy}
        left_s -= _POLL_S


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
