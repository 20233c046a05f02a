"""Counts the occurrences of each word in the text of records. DataFrame in, DataFrame out, no I/O."""

from __future__ import annotations

from odradek.spark.jobs.values import json_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def count_words(records: DataFrame, *, field: str = "") -> DataFrame:
    """Return word, count, and the time of its newest occurrence. Words are runs of letters and digits, in lower case.

    Args:
        field: of a JSON value; empty: the value is the text.
    """
    text = F.col("value").cast("string")
    text = F.get_json_object(text, f"$.{field}") if field else text
    words = records.select(
        F.explode(F.regexp_extract_all(F.lower(text), F.lit(r"([\p{L}\p{N}]+)"))).alias("word"), "timestamp"
    )
    return words.groupBy("word").agg(F.count(F.lit(1)).alias("count"), F.max("timestamp").alias("timestamp"))


def as_records(counts: DataFrame) -> DataFrame:
    """Return counts as records of a compacted topic, keyed by the word."""
    return counts.select(
        F.col("word").cast("binary").alias("key"), json_of(["word", "count"]).alias("value"), "timestamp"
    )
