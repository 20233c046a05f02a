"""Joins events with the current rows of a table. DataFrame in, DataFrame out, no I/O.

events {"carrier": "UA", ...}  +  table  UA -> {"name": "United Air Lines Inc."}
    -> {"carrier": "UA", ..., "table": {"name": "United Air Lines Inc."}}
"""

from __future__ import annotations

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.jobs.values import EVENT_TIME, RECORD_KEY, json_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

TABLE = "table"
KINDS = ("inner", "left")


def table_rows(latest: DataFrame, schema: StructType) -> DataFrame:
    """Return the latest records of a table as rows: table_key (text) and `table`, a struct; drop malformed ones."""
    parsed = F.from_json(F.col("value").cast("string"), schema, {"mode": "PERMISSIVE"})
    return latest.select(F.col("key").cast("string").alias("table_key"), parsed.alias(TABLE)).where(
        F.col(TABLE).isNotNull()
    )


def join_table(events: DataFrame, rows: DataFrame, *, on: str = RECORD_KEY, join_type: str = "left") -> DataFrame:
    """Return the events with the column `table`.

    Args:
        on: the field whose text is the table's key.
        join_type: left keeps events without a row in the table, inner does not.

    Raises KafkaError(INVALID_CONFIG).
    """
    if join_type not in KINDS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"--join must be inner or left, not {join_type!r}: a row of a table alone has no time",
        )
    return events.join(rows, F.col(on).cast("string") == F.col("table_key"), join_type).drop("table_key")


def as_records(joined: DataFrame) -> DataFrame:
    """Return rows as records with the key of the event."""
    fields = [name for name in joined.columns if name not in (EVENT_TIME, RECORD_KEY)]
    return joined.select(
        F.col(RECORD_KEY).cast("binary").alias("key"),
        json_of(fields).alias("value"),
        F.col(EVENT_TIME).alias("timestamp"),
    )
