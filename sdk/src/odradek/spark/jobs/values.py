"""Records to columns and back: JSON values, keys, dead letters. DataFrame in, DataFrame out, batch and streaming alike.

    records   key, value, timestamp ... as the source returns them
    events    the fields of the value, beside event_time and record_key (the key as text)
    letters   records that a job could not use, unchanged, with headers that name the reason and the origin

A job writes results and dead letters as one frame, distinguished by the column topic: one sink, one commit, exactly
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, NumericType, StructType, TimestampType

from odradek.errors import ErrorCode, KafkaError

EVENT_TIME, RECORD_KEY = "event_time", "record_key"
RECORD_COLUMNS = ("topic", "key", "value", "timestamp", "headers")
PLACED = "key,value,topic,partition,offset,timestamp"  # columns of the source for a dead letter
ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_ISO_SECONDS = "yyyy-MM-dd'T'HH:mm:ss'Z'"
MALFORMED = "the value is not a JSON object of the schema"
_CORRUPT = "_odradek_corrupt"
_JSON = {"timestampFormat": ISO, "timeZone": "UTC", "ignoreNullFields": "false"}
_HEADERS = "array<struct<key:string,value:binary>>"


def read_schema(text: str) -> StructType:
    """Parse the schema of a value, as DDL: `origin STRING, dep_delay INT`. Raises KafkaError(INVALID_CONFIG)."""
    from pyspark.errors import PySparkException

    try:
        schema = StructType.fromDDL(text)
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{text!r} is not a schema: {first}") from None
    if not isinstance(schema, StructType):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{text!r} is not a schema: write name TYPE, name TYPE ...")
    taken = {EVENT_TIME, RECORD_KEY} & set(schema.fieldNames())
    if taken:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"a field cannot be called {taken.pop()}: rename it")
    return schema


def parse_values(records: DataFrame, schema: StructType) -> DataFrame:
    """Add columns `parsed` (a struct) and `is_malformed`: not a JSON object, or a field has another type."""
    nullable = StructType.fromJson(schema.jsonValue()).add(_CORRUPT, "string")
    parsed = F.from_json(
        F.col("value").cast("string"), nullable, {"columnNameOfCorruptRecord": _CORRUPT, "timeZone": "UTC"}
    )
    with_parsed = records.withColumn("parsed", parsed)
    return with_parsed.withColumn(
        "is_malformed", F.col("parsed").isNull() | F.col(f"parsed.{_CORRUPT}").isNotNull()
    ).withColumn("parsed", F.col("parsed").dropFields(_CORRUPT))


def events_of(
    records: DataFrame, schema: StructType, *, event_time: str = "timestamp", name: str = "events"
) -> DataFrame:
    """Return the fields of well-formed records, with event_time and record_key; others are counted and dropped.

    Args:
        event_time: `timestamp` for the record's own, else a field: a timestamp, text, or ms since the epoch.
        name: distinguishes the count of malformed records; a query of two streams has two.
    """
    parsed = parse_values(records, schema)
    malformed = F.count(F.when(F.col("is_malformed"), 1)).alias("malformed")
    return (
        parsed.observe(f"odradek_parsed_{name}", malformed)
        .where(~F.col("is_malformed"))
        .select(
            time_of(schema, event_time).alias(EVENT_TIME),
            F.col("key").cast("string").alias(RECORD_KEY),
            "parsed.*",
        )
        .where(F.col(EVENT_TIME).isNotNull())
    )


def time_of(schema: StructType, event_time: str) -> Column:
    """Return the event time of records with the column `parsed`. Raises KafkaError(INVALID_CONFIG): unknown field."""
    if event_time == "timestamp" and "timestamp" not in schema.fieldNames():
        return F.col("timestamp")
    require_fields(schema, [event_time])
    field = F.col("parsed").getField(event_time)
    data_type = schema[event_time].dataType
    if isinstance(data_type, TimestampType):
        return field
    if isinstance(data_type, LongType):
        return F.timestamp_millis(field)
    if isinstance(data_type, NumericType):
        return F.timestamp_millis((field * 1).cast("long"))
    return F.try_to_timestamp(field.cast("string"))


def require_fields(schema: StructType, names: Sequence[str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) that names the fields missing from the schema."""
    known_fields = {*schema.fieldNames(), RECORD_KEY, EVENT_TIME}
    missing = [name for name in names if name not in known_fields]
    if missing:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the values have no field {', '.join(missing)}: use {', '.join([*schema.fieldNames(), RECORD_KEY])}",
        )


def key_of(names: Sequence[str | Column]) -> Column:
    """Return a record's key from several columns: their texts joined by `|`; times in ISO 8601, null as empty text."""
    parts = [F.coalesce((F.col(name) if isinstance(name, str) else name).cast("string"), F.lit("")) for name in names]
    return F.concat_ws("|", *parts).cast("binary")


def iso(column: str | Column) -> Column:
    """Return a time as text to the second, in a session in UTC."""
    return F.date_format(column, _ISO_SECONDS)


def json_of(columns: Sequence[str | Column]) -> Column:
    """Return a JSON value of columns; nulls are kept, so that every value has every field."""
    return F.to_json(F.struct(*columns), _JSON).cast("binary")


def as_output(frame: DataFrame, topic: str) -> DataFrame:
    """Return rows of key, value and timestamp (and headers) for one topic."""
    headers = F.col("headers") if "headers" in frame.columns else F.lit(None)
    return frame.select(
        F.lit(topic).alias("topic"), "key", "value", "timestamp", headers.cast(_HEADERS).alias("headers")
    )


def dead_letters(
    records: DataFrame, topic: str, reason: str | Column, more: Mapping[str, Column] | None = None
) -> DataFrame:
    """Return records unchanged, for a topic, with headers that name the error and their origin."""
    why = F.lit(reason) if isinstance(reason, str) else reason
    header_texts = {
        "odradek.error": why,
        "odradek.topic": F.col("topic"),
        "odradek.partition": F.col("partition").cast("string"),
        "odradek.offset": F.col("offset").cast("string"),
        **(more or {}),
    }
    headers = F.array(
        *(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in header_texts.items())
    )
    return records.select(
        F.lit(topic).alias("topic"), "key", "value", "timestamp", headers.cast(_HEADERS).alias("headers")
    )


def malformed_letters(records: DataFrame, schema: StructType, topic: str) -> DataFrame:
    """Return the records that `events_of` drops as dead letters."""
    parsed = parse_values(records, schema)
    return dead_letters(parsed.where("is_malformed"), topic, MALFORMED)
