"""sql_job: runs a script of stream SQL (docs/SQL.md), as `odradek sql` does.

    local   python -m odradek.glue_jobs.sql_job.job --script delays.sql --checkpoint-location DIR \\
                --store embedded:DIR --bootstrap-servers URL --once
    Glue    the same file, --script s3://..., with --log_table, --catalog_table and --bucket instead of the store

The script is checked completely before anything runs. Its persistent queries run until the job is stopped, or with
`--once` until everything that exists is processed. Each adds every micro-batch to its topic once, and continues from a
separate checkpoint under `--checkpoint-location`. Rows of SELECT are JSON lines of the log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.files import read_text
from odradek.spark.jobs.run import Stop, run_job
from odradek.sql.session import Session, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_DRAIN_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """The arguments of the job."""

    script: str  # path or s3://
    schema_registry: str = ""  # URL of the registry of AVRO, PROTOBUF and JSON_SR


class LogScreen:
    """Prints results as JSON lines of the job's log."""

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.rows(columns, rows)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False), flush=True)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def _metrics(spark: SparkSession, arguments: Arguments) -> Iterator[None]:
    """Write CloudWatch's metrics of each query meanwhile, with `--metrics emf`."""
    if arguments.metrics != "emf":
        yield
        return
    from odradek.spark.jobs.listener import QueryMetricsLines

    listener = QueryMetricsLines(arguments.JOB_NAME or "sql_job")
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        with suppress(Exception):  # what a query has just said is on its way: without this, its last lines are lost
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_DRAIN_MS)
        spark.streams.removeListener(listener)


def work(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Check the script, then run it."""
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.running.registered import RegistryAddress, columns_of
    from odradek.sql.topics import OpenTopics

    try:
        script = read_text(arguments.script)
    except OSError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"cannot read --script {arguments.script}: {error}") from None
    address = RegistryAddress.of(arguments.schema_registry) if arguments.schema_registry else None
    schemas = None if address is None else partial(columns_of, address.open())
    steps = check([(arguments.script, script)], schemas)
    with OpenTopics(arguments.store_options(), arguments.bootstrap_servers or None) as topics:
        engine = SparkEngine(
            spark,
            store=arguments.read_options(),
            sink=arguments.sink(),
            checkpoints=arguments.checkpoint_location,
            stop=stop,
            trigger=arguments.trigger,
            max_offsets_per_trigger=arguments.max_offsets_per_trigger,
            registry=address,
        )
        with _metrics(spark, arguments):
            Session(engine, topics, LogScreen(), once=arguments.once).run(steps)
    return {"statements": len(steps)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; after an error print one message with the position in the script, and return 1."""
    return run_job("sql_job", Arguments, work, argv, description=__doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
