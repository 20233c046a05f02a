"""The Spark source and sink: `format("odradek")` reads and writes topics straight at the store, exactly once.

    options.py        what a user may ask for, checked before Spark plans anything
    local.py          a Spark on this machine
    store.py          where the store is, and a synchronous view of it
    offsets.py        positions as JSON, admission control, data loss: pure
    plan.py           offsets -> ranges, plain data that is shipped to executors: pure
    pushdown.py       filters -> offsets: pure
    read.py           a range -> Arrow record batches
    table.py          a topic as a table: the latest value of each key, and its changes
    source.py         the thin adapter of reading for PySpark 4.1's Python Data Source API
    workers_python.py whether the workers' Python has odradek
    available_now.py  Trigger.AvailableNow in several bounded micro-batches
    sink_options.py   what a user may ask for who writes
    partitioning.py   rows -> topics and partitions: pure
    sink_write.py     Arrow record batches -> uploads, in a task
    sink_commit.py    the store to write to: uploads, and the commit
    sink.py           the thin adapter of writing
    exactly_once.py   the sink from foreachBatch

Only source.py and sink.py need pyspark: the same core serves other engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.extras import extra
from odradek.spark.exactly_once import exactly_once, write_once
from odradek.spark.table import changelog, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["changelog", "exactly_once", "register", "table", "write_once"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make `format("odradek")` known to a session, and let filters reach its sources. May be repeated.

    Raises KafkaError: INVALID_CONFIG where the workers of a Spark on this machine run a Python that has no odradek.
    """
    with extra("spark"):
        from odradek.spark.source import NarrowingDataSource
        from odradek.spark.workers_python import check_workers

    check_workers(spark)
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(NarrowingDataSource)
