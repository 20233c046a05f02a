"""A versioned table: the records of a topic that were valid at some time of its history, as of the records' times.

    record   A@10   B@20   tombstone@30          versions   A: [10, 20)   B: [20, 30)

Kept are the versions that were valid within the history before the newest record. Records may come out of order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from odradek.spark.available_now import latest_offsets
from odradek.spark.jobs.latest import LatestTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class HistoryTable(LatestTable):
    """The versions of a topic's records, for the driver of one query. Args: history_ms: how long back they are kept."""

    def __init__(
        self, spark: SparkSession, options: Mapping[str, str], history_ms: int, *, has_headers: bool = False
    ) -> None:
        super().__init__(spark, options, has_headers=has_headers)
        self._history_ms = history_ms

    def now(self) -> DataFrame:
        """Return all records that are kept, tombstones included. Raises KafkaError."""
        end = latest_offsets(self._options)
        if self._rows is None or end != self._end:
            fresh = self._read(self._end, end)
            rows = fresh if self._rows is None else self._rows.unionByName(fresh)
            self._rows = kept(rows, self._history_ms).localCheckpoint(eager=True)
            self._end = end
        return self._rows


def kept(records: DataFrame, history_ms: int) -> DataFrame:
    """Return the records that were valid within a time before the newest of all."""
    order = Window.partitionBy("key").orderBy("timestamp", "offset")
    everything = Window.partitionBy(F.lit(1))
    found = records.where(F.col("key").isNotNull()).withColumn("__until", F.lead("timestamp").over(order))
    found = found.withColumn("__newest", F.max("timestamp").over(everything))
    since = F.unix_millis("__newest") - history_ms
    valid = F.col("__until").isNull() | (F.unix_millis("__until") > since)
    return found.where(valid).select(*records.columns)
