"""The Spark source and sink: `format("odradek")` reads and writes topics straight at the store, exactly once.

    options.py        the options of source and store, checked before Spark plans anything
    opened_store.py   a store that options name, opened for synchronous use
    offsets.py        positions as JSON, admission control, data loss: pure
    source/           reading: plan, pushdown, ranges to Arrow, the adapter of PySpark 4.1's Python Data Source API
    sink/             writing: partitioning, uploads in tasks, the commit, the adapter
    exactly_once.py   the sink from foreachBatch
    table.py          a topic as a table: its columnar history by Spark's own Parquet reader, and the rest
    latest.py         the latest value of each key, and its changes
    available_now.py  Trigger.AvailableNow in several bounded micro-batches
    compaction.py     the log cleaner for huge partitions
    admin.py          an admin client for a job's driver
    local.py          a Spark on this machine
    slow_start.py     queries whose Python worker was too slow to start are started again
    workers/          the Python of Spark's workers
    jobs/             what the jobs of glue_jobs/ share

Only source/data_source.py and sink/writers.py need pyspark: the same core serves other engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.extras import extra
from odradek.spark.exactly_once import exactly_once, write_once
from odradek.spark.latest import changelog, latest
from odradek.spark.table import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["changelog", "exactly_once", "latest", "register", "table", "write_once"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_LAST_BATCH = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
_TIMES = "spark.sql.timeType.enabled"  # without it no file that has a column of times can be read


def register(spark: SparkSession) -> None:
    """Register `format("odradek")` with a session, and let filters reach its sources. May be called again.

    Queries with Trigger.AvailableNow end with a micro-batch without data, as those of Spark's own sources do: it writes
    the windows that the data closed. Columns may be of the type TIME. A session that has set these otherwise keeps its
    settings (source/data_source.py).

    Raises KafkaError: INVALID_CONFIG if the workers of a Spark on this machine run a Python without odradek.
    """
    with extra("spark"):
        from odradek.spark.source.data_source import NarrowingDataSource
        from odradek.spark.workers.python import check_workers

    check_workers(spark)
    spark.conf.set(_PUSHDOWN, "true")
    for name in (_LAST_BATCH, _TIMES):
        if spark.conf.get(name, None) is None:
            spark.conf.set(name, "true")
    spark.dataSource.register(NarrowingDataSource)
