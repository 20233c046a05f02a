"""Splits records into rows of a table and records that cannot be rows. DataFrame in, DataFrame out, no I/O.

A row has the fields of the value, and the record's origin: record_key (text), record_topic, record_partition,
record_offset, record_timestamp. Tombstones (no value) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.glue_jobs.export_table.schema import merge, schema_of
from odradek.spark.jobs.values import parse_values
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = StructType(
    [
        StructField("record_key", StringType()),
        StructField("record_topic", StringType()),
        StructField("record_partition", IntegerType()),
        StructField("record_offset", LongType()),
        StructField("record_timestamp", TimestampType()),
    ]
)


def with_place(schema: StructType) -> StructType:
    """Return the schema of rows for a schema of values."""
    return StructType([*schema.fields, *PLACE.fields])


def without_place(schema: StructType) -> StructType:
    """Return the schema of values for a schema of rows."""
    return StructType([field for field in schema.fields if field.name not in PLACE.fieldNames()])


def seen_schema(records: DataFrame) -> StructType:
    """Infer the schema of the values of some records; reads all of them."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        merged_schema: StructType | None = None
        for batch in batches:
            merged = merge(merged_schema, schema_of(batch.column(0).to_pylist()))
            assert isinstance(merged, StructType)
            merged_schema = merged
        if merged_schema is not None:
            yield pa.RecordBatch.from_arrays([pa.array([merged_schema.json()])], ["schema"])

    merged_schema = StructType([])
    for row in records.select("value").mapInArrow(look, "schema STRING").collect():
        merged = merge(merged_schema, StructType.fromJson(_json(row.schema)))
        assert isinstance(merged, StructType)
        merged_schema = merged
    clash = set(PLACE.fieldNames())
    return StructType([field for field in merged_schema.fields if field.name.lower() not in clash])


def _json(text: str) -> dict[str, object]:
    import json

    document: dict[str, object] = json.loads(text)
    return document


def split_records(records: DataFrame, schema: StructType) -> tuple[DataFrame, DataFrame]:
    """Return the rows of a table with this schema, and the records that cannot be rows.

    Args:
        records: key, value, topic, partition, offset, timestamp.
        schema: of the values.
    """
    parsed = parse_values(records.where(F.col("value").isNotNull()), schema)
    rows = parsed.where(~F.col("is_malformed")).select(
        *(F.col("parsed").getField(name).alias(name) for name in schema.fieldNames()),
        F.col("key").cast("string").alias("record_key"),
        F.col("topic").alias("record_topic"),
        F.col("partition").alias("record_partition"),
        F.col("offset").alias("record_offset"),
        F.col("timestamp").alias("record_timestamp"),
    )
    return rows, parsed.where("is_malformed").drop("parsed", "is_malformed")
