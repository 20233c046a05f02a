"""HAVING of a table over a stream: a group that does not meet it has a tombstone if its row was there, else nothing.

The state of such a query does not say whether a row was written. Its topic does: a micro-batch with tombstones
asks for the latest record of their keys (spark/jobs/latest.py). A micro-batch that is repeated after a crash may find
its own records there; the sink drops it then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.spark.jobs.latest import LatestTable

_PLACE, _BEFORE, _THERE = "__place", "__before", "__there"


def without_needless(
    write: Callable[[DataFrame, int], None], open_table: Callable[[SparkSession], LatestTable]
) -> Callable[[DataFrame, int], None]:
    """Return a function for foreachBatch that writes as the given one does, without tombstones of rows that are not
    there. Args: open_table: opens the table of the topic that is written."""
    tables: list[LatestTable] = []

    def write_needed(records: DataFrame, batch_id: int) -> None:
        records = records.localCheckpoint(eager=True)
        if not records.where("value IS NULL").isEmpty():
            if not tables:
                tables.append(open_table(records.sparkSession))
            records = _needed(records, tables[0].now())
        write(records, batch_id)

    return write_needed


def _needed(records: DataFrame, table: DataFrame) -> DataFrame:
    """Return the records of a micro-batch without tombstones of rows that are not there.

    Args:
        records: with key and value; those of a key are in one partition of the frame, in order.
        table: the present rows of the topic, with their key.
    """
    placed = records.withColumn(_PLACE, F.monotonically_increasing_id())
    order = Window.partitionBy("key").orderBy(_PLACE)
    placed = placed.withColumn(_BEFORE, F.lag(F.col("value").isNotNull()).over(order))
    there = table.select(F.col("key").alias("k"), F.lit(True).alias(_THERE))
    found = placed.join(there, placed["key"] == there["k"], "left")
    found = found.where(F.col("value").isNotNull() | F.coalesce(_BEFORE, _THERE, F.lit(False)))
    return found.sortWithinPartitions(_PLACE).select(*records.columns)
