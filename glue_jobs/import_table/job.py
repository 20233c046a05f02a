"""import_table: imports Parquet, CSV and JSON files, or a JDBC table, into a topic, exactly once.

    files   python -m odradek.glue_jobs.import_table.job --store embedded:.odradek --bootstrap-servers URL --once \\
                --checkpoint-location DIR --output-topic orders --format csv --path DIR --key id
    JDBC    the same with --format jdbc --jdbc-url URL --jdbc-table orders --incrementing id

Files are a stream: each is imported once, and without --once also new files as they arrive. A file must not change.

A JDBC table is read in slices of its incrementing column, a whole number. The next run imports rows added since then,
not changed ones. Without such a column the table is imported completely, once per checkpoint. The driver's jar is given
to Spark as for any JDBC source (on Glue: --extra-jars).
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.import_table.transform import as_records
from odradek.spark.exactly_once import exactly_once
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.slices import check_order, load_slices, numbered, quantile_step, save_slices
from odradek.spark.jobs.streams import run_query
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "import_table"
FILE_FORMATS = ("parquet", "csv", "json")
_JDBC_POLL_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    output_topic: str  # topic of the results
    format: str  # parquet, csv, json or jdbc
    path: str = ""  # of files: a folder or a pattern
    key: tuple[str, ...] = ()  # columns; none: records have no key
    timestamp: str = ""  # a column; empty: the time of writing
    value_schema: str = ""  # as DDL; empty: inferred from the existing files
    header: bool = True  # CSV: the first line names the columns
    max_files_per_trigger: int = 100  # maximum number of files of a micro-batch
    jdbc_url: str = ""  # jdbc:..., for format jdbc
    jdbc_table: str = ""  # a name, or a query in parentheses with an alias
    jdbc_user: str = ""  # user of the database
    jdbc_password: str = ""  # of that user
    jdbc_driver: str = ""  # a class; empty: by the URL
    incrementing: str = ""  # JDBC: a growing column of whole numbers; empty: the table is imported completely, once
    rows_per_slice: int = 100_000  # JDBC: rows that are read at once


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Import existing rows, or all until a stop; return a summary."""
    if arguments.format == "jdbc":
        return run_jdbc(spark, arguments, stop)
    if arguments.format not in FILE_FORMATS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--format must be {', '.join(FILE_FORMATS)} or jdbc, not {arguments.format!r}"
        )
    if not arguments.path:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "required: --path")
    options = file_options(arguments.format, header=arguments.header)
    schema = arguments.value_schema or read_files(spark, arguments.format, arguments.path, options).schema
    write = exactly_once(arguments.sink())

    def start() -> StreamingQuery:
        rows = (
            spark.readStream.format(arguments.format)
            .schema(schema)
            .options(**options, maxFilesPerTrigger=arguments.max_files_per_trigger)
            .load(arguments.path)
        )
        records = as_records(rows, key=arguments.key, timestamp=arguments.timestamp, topic=arguments.output_topic)
        writer = records.writeStream.queryName(arguments.JOB_NAME or NAME).foreachBatch(write)
        writer = writer.option("checkpointLocation", arguments.checkpoint_location)
        if arguments.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=arguments.trigger).start()

    return run_query(spark, arguments, stop, name=NAME, start=start)


def file_options(file_format: str, *, header: bool) -> dict[str, str]:
    """Return options of Spark's file reader."""
    return {"header": str(header).lower(), "inferSchema": "true"} if file_format == "csv" else {}


def read_files(spark: SparkSession, file_format: str, path: str, options: Mapping[str, str]) -> DataFrame:
    """Return the existing files as a frame."""
    return spark.read.format(file_format).options(**options).load(path)


def run_jdbc(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Import a JDBC table in slices."""
    if not arguments.jdbc_url or not arguments.jdbc_table:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "required: --jdbc-url and --jdbc-table")
    table = _jdbc(spark, arguments)
    order = arguments.incrementing
    if order and check_order(table.dtypes, order) != "bigint":
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--incrementing {order} must be a column of whole numbers")
    slices = load_slices(arguments.checkpoint_location, f"import/{uuid.uuid4().hex}")
    written = 0
    while not stop.is_set():
        if slices.next is None:
            if not order:
                slices = slices.extended(0, 1, 1)  # only one slice: nothing tells which rows are new
            else:
                low, high, rows = table.select(F.min(order), F.max(order), F.count(F.lit(1))).first() or (None, None, 0)
                if low is not None and high is not None:
                    first = int(low) if slices.high is None else max(int(low), slices.high)
                    step = quantile_step(int(low), int(high) + 1, int(rows), arguments.rows_per_slice)
                    slices = slices.extended(first, int(high) + 1, step)
            if slices.next is None:
                if arguments.once:
                    break
                stop.wait(_JDBC_POLL_S)
                continue
            save_slices(arguments.checkpoint_location, slices)
        low, high = slices.next
        rows = table.where((F.col(order) >= low) & (F.col(order) < high)) if order else table
        records = as_records(rows, key=arguments.key, timestamp=arguments.timestamp, topic=arguments.output_topic)
        records.write.format("odradek").mode("append").options(**numbered(arguments.sink(), slices)).save()
        slices = slices.written()
        save_slices(arguments.checkpoint_location, slices)
        written += 1
    return {"slices": written}


def _jdbc(spark: SparkSession, arguments: Arguments) -> DataFrame:
    options = {
        "url": arguments.jdbc_url,
        "dbtable": arguments.jdbc_table,
        "user": arguments.jdbc_user,
        "password": arguments.jdbc_password,
        "driver": arguments.jdbc_driver,
    }
    return spark.read.format("jdbc").options(**{name: value for name, value in options.items() if value}).load()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
