"""Converts rows of any table to records. DataFrame in, DataFrame out, no I/O.

The value is all columns as one JSON object, the key the text of the key columns, joined by `|`, and the timestamp that
of a column, or of the writing.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.jobs.values import json_of, key_of
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def as_records(rows: DataFrame, *, key: Sequence[str] = (), timestamp: str = "", topic: str) -> DataFrame:
    """Return topic, key, value and, if a column is named for it, timestamp. Raises KafkaError(INVALID_CONFIG)."""
    missing = [name for name in (*key, *([timestamp] if timestamp else [])) if name not in rows.columns]
    if missing:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"unknown column {', '.join(missing)}: use {', '.join(rows.columns)}"
        )
    columns = [F.lit(topic).alias("topic"), json_of(rows.columns).alias("value")]
    if key:
        columns.append(key_of(key).alias("key"))
    if timestamp:
        columns.append(time_of(rows, timestamp).alias("timestamp"))
    return rows.select(*columns)


def time_of(rows: DataFrame, column: str) -> Column:
    """Return a column as a time: times and dates unchanged, numbers as ms since the epoch, text as parsed by Spark."""
    data_type = dict(rows.dtypes)[column]
    if data_type in {"timestamp", "timestamp_ntz", "date"}:
        return F.col(column).cast("timestamp")
    if data_type in {"bigint", "int"}:
        return F.timestamp_millis(F.col(column).cast("long"))
    return F.try_to_timestamp(F.col(column).cast("string"))
