"""A compacted topic as a table: the latest value of each key, updated between micro-batches.

    read the heads ── nothing new ──> the table unchanged
                   └─ more offsets ─> read the new records, apply them to the table, keep the result

A table that does not change costs a few item reads per micro-batch; one that changes also costs its changes. A
tombstone removes its key. The table is as of the beginning of the micro-batch, as in Kafka Streams' stream-table join.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from odradek.spark.available_now import latest_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "key,value,partition,offset,timestamp"
_KEPT = ("value", "partition", "offset", "timestamp")
_HEADERS = "headers"  # of sources that have them


def latest_per_key(records: DataFrame) -> DataFrame:
    """Return the newest record of each key, without tombstones. A key stays in one partition, so offsets order it."""
    return newest_per_key(records).where(F.col("value").isNotNull())


def newest_per_key(records: DataFrame) -> DataFrame:
    """Return the newest record of each key, including tombstones, which override older records."""
    columns = [F.col(name) for name in (*_KEPT, *(column for column in records.columns if column == _HEADERS))]
    newest = records.where(F.col("key").isNotNull()).groupBy("key")
    return newest.agg(F.max_by(F.struct(*columns), "offset").alias("newest")).select("key", "newest.*")


class LatestTable:
    """The table of a topic, for the driver of one query. Args: has_headers: its rows have the records' headers."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], *, has_headers: bool = False) -> None:
        self._spark = spark
        columns = f"{COLUMNS},{_HEADERS}" if has_headers else COLUMNS
        self._options = {**options, "columns": columns, "failOnDataLoss": "false"}
        self._end: str | None = None
        self._rows: DataFrame | None = None

    def fresh(self) -> DataFrame:
        """Return the records that arrived since the last call, at first all, tombstones included. Raises KafkaError."""
        end = latest_offsets(self._options)
        rows = self._read(self._end, end)
        self._end = end
        return rows

    def now(self) -> DataFrame:
        """Return the present table: key, value, partition, offset, timestamp, and headers. Raises KafkaError."""
        end = latest_offsets(self._options)
        if self._rows is None or end != self._end:
            fresh = self._read(self._end, end)
            rows = fresh if self._rows is None else self._rows.unionByName(fresh)
            before = self._rows
            self._rows = newest_per_key(rows).localCheckpoint(eager=True)
            self._end = end
            if before is not None:
                before.unpersist()
        return self._rows.where(F.col("value").isNotNull())

    def _read(self, start: str | None, end: str) -> DataFrame:
        options = {**self._options, "endingOffsets": end}
        if start is not None:
            offsets = json.loads(start)
            ends = json.loads(end)
            # A new partition is read from its beginning (-2).
            first = {
                topic: {partition: offsets.get(topic, {}).get(partition, -2) for partition in partitions}
                for topic, partitions in ends.items()
            }
            options["startingOffsets"] = json.dumps(first)
        return self._spark.read.format("odradek").options(**options).load()
