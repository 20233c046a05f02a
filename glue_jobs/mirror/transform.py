"""Converts records of one installation to records of another. DataFrame in, DataFrame out, no I/O."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def as_mirrored(records: DataFrame, *, topic_prefix: str = "") -> DataFrame:
    """Return the records with key, value, headers, timestamp, partition and renamed topics, in the order of offsets."""
    topic = F.concat(F.lit(topic_prefix), "topic").alias("topic")
    # One task per topic and partition, so that the target has them in the source's order.
    ordered = records.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    return ordered.select(topic, "partition", "key", "value", "headers", "timestamp")


def stretches(records: DataFrame) -> DataFrame:
    """Return the range of each partition in a micro-batch: topic, partition, source_start, source_end, count."""
    return records.groupBy("topic", "partition").agg(
        F.min("offset").alias("source_start"),
        (F.max("offset") + 1).alias("source_end"),
        F.count(F.lit(1)).alias("count"),
    )
