"""A topic as a table: the latest value of each key, as a DataFrame or as the stream of its changes.

Stream and table are two sides of one thing: the changes, applied in order, are the table; a table that is watched is
the stream of its changes. A key's order is that of its partition's offsets; a null value takes the key away. Meant for
topics whose keys choose the partition (the default everywhere) and whose `cleanup.policy` is `compact`, so that a table
costs what it holds and not what it went through. Records without a key are no rows of a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "key,value,partition,offset,timestamp"
_CHOSEN = ("subscribe", "subscribepattern", "assign", "columns")


def table(spark: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """The topic as it is when the DataFrame is evaluated: key, value, timestamp, partition, offset; one row a key.

    Args:
        spark: a session that knows the source (`odradek.spark.register`).
        options: where the store is; startingOffsets, endingOffsets and others of the source where wanted.

    Raises KafkaError(INVALID_CONFIG) for an option that would choose other records.
    """
    from pyspark.sql import functions as F

    records = spark.read.format("odradek").options(**_options(topic, options)).load()
    row = F.struct("value", "timestamp", "partition", "offset")
    latest = records.where("key IS NOT NULL").groupBy("key").agg(F.max_by(row, "offset").alias("row"))
    return latest.where("row.value IS NOT NULL").select("key", "row.*")


def changelog(spark: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """The changes of the table as a stream: key, value, timestamp, partition, offset and `deleted`.

    Begins with the topic's beginning unless startingOffsets says otherwise: the whole table comes first.
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
