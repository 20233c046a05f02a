"""A topic as a table of its keys: the latest value of each, as a DataFrame or as the stream of its changes.

A stream of changes, applied in order, is a table, and the changes of a table are a stream. The order of a key's changes
is that of the offsets in its partition; a null value removes the key. This is meant for topics whose keys choose the
partition (the default everywhere) and whose `cleanup.policy` is `compact`, so that reading costs the size of the table
and not of its history. Records without a key are not part of a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "key,value,partition,offset,timestamp"
_CHOSEN = ("subscribe", "subscribepattern", "assign", "ranges", "columns", "typedcolumns")


def latest(spark: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """Return the topic at the time of evaluation: key, value, timestamp, partition, offset; one row per key.

    Args:
        spark: a session that knows the source (`odradek.spark.register`).
        options: of the store; and startingOffsets, endingOffsets and other options of the source.

    Raises KafkaError(INVALID_CONFIG) for an option that would choose other records.
    """
    from pyspark.sql import functions as F

    records = spark.read.format("odradek").options(**_options(topic, options)).load()
    row = F.struct("value", "timestamp", "partition", "offset")
    newest = records.where("key IS NOT NULL").groupBy("key").agg(F.max_by(row, "offset").alias("row"))
    return newest.where("row.value IS NOT NULL").select("key", "row.*")


def changelog(spark: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """Return the changes of the table as a stream: key, value, timestamp, partition, offset and `deleted`.

    It begins at the topic's beginning, with the whole table, unless startingOffsets is set.
    """
    chosen = {"startingOffsets": "earliest", **_options(topic, options)}
    records = spark.readStream.format("odradek").options(**chosen).load()
    return records.where("key IS NOT NULL").selectExpr(
        "key", "value", "timestamp", "partition", "offset", "value IS NULL AS deleted"
    )


def _options(topic: str, options: Mapping[str, str]) -> dict[str, str]:
    wrong = [name for name in options if name.lower() in _CHOSEN]
    if wrong:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"a table contains all of its topic: omit the option {wrong[0]}")
    return {**options, "subscribe": topic, "columns": _COLUMNS}
