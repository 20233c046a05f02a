"""Options of the sink, and errors for others."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.record import CompressionType
from odradek.spark.sink.options import parse_sink_options
from odradek.spark.sink.writers import BatchWriter, Uploaded, check_schema, stream_key
from odradek.spark.sink.writers import _query_id as query_id
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

LOCAL = {"store": "embedded:/data", "bootstrapServers": "http://localhost:1"}
AWS = {"store": "aws", "logTable": "l", "catalogTable": "c", "bucket": "b"}


def test_options_are_read_whatever_their_case_and_sparks_own_are_left_alone() -> None:
    raw_options = {**LOCAL, "TOPIC": "t", "compressiontype": "lz4", "checkpointLocation": "x", "queryName": "q"}
    sink_options = parse_sink_options(raw_options, is_streaming=True)
    assert (sink_options.topic, sink_options.compression_type) == ("t", CompressionType.LZ4)
    numbered = parse_sink_options({**AWS, "transactionalId": "i", "batchId": "3"}, is_streaming=False)
    assert (numbered.transactional_id, numbered.batch_id) == ("i", 3)


@pytest.mark.parametrize(
    ("raw_options", "said"),
    [
        ({"store": "embedded:/data"}, "bootstrapServers is required"),
        ({**AWS, "bootstrapServers": "http://x"}, "for embedded stores"),
        ({**LOCAL, "topc": "t"}, "did you mean topic?"),
        ({**LOCAL, "subscribe": "t"}, "the sink's option is topic"),
        ({**LOCAL, "kafka.bootstrap.servers": "x"}, "set the option store"),
        ({**LOCAL, "path": "t"}, "without a path"),
        ({**LOCAL, "compressionType": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({**LOCAL, "batchId": "1"}, "or neither"),
        ({**LOCAL, "batchId": "-1", "transactionalId": "x"}, "whole number"),
        ({**LOCAL, "transactionalId": "x", "batchId": "1"}, "the checkpoint numbers"),
        ({"store": "s3"}, "embedded:<data dir> or aws"),
    ],
)
def test_a_wrong_option_is_named(raw_options: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_sink_options(raw_options, is_streaming=True)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert said in refused.value.message


HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


@pytest.mark.parametrize(
    ("schema", "topic", "said"),
    [
        (columns(key=BinaryType()), "t", "a column value is required"),
        (columns(value=StringType()), "", "option topic"),
        (columns(value=StringType(), partition=LongType()), "t", "column partition bigint is not one of type integer"),
        (columns(value=IntegerType()), "t", "column value int"),
        (columns(value=BinaryType(), color=LongType()), "t", "column color bigint is not one that a record has"),
    ],
)
def test_columns_that_no_record_has_are_refused(schema: StructType, topic: str, said: str) -> None:
    options = parse_sink_options({**LOCAL, "topic": topic}, is_streaming=True)
    with pytest.raises(KafkaError) as refused:
        check_schema(schema, options)
    assert said in refused.value.message


def test_what_the_source_gives_may_be_written() -> None:
    options = parse_sink_options(LOCAL, is_streaming=False)
    schema = columns(
        key=BinaryType(),
        value=BinaryType(),
        topic=StringType(),
        partition=IntegerType(),
        offset=LongType(),
        timestamp=TimestampType(),
        timestampType=IntegerType(),
        headers=HEADERS,
    )
    check_schema(schema, options)
    with pytest.raises(KafkaError, match="cannot be overwritten"):
        BatchWriter(options, schema, overwrite=True)


def test_tasks_that_name_no_query_or_another_batch_are_not_committed() -> None:
    assert query_id([Uploaded([], 0, "q", "3"), None, Uploaded([], 0, "q", "3")], 3) == "q"
    for wrong in ([Uploaded([], 0, None, None)], [Uploaded([], 0, "q", "2")], [Uploaded([], 0, q, "3") for q in "ab"]):
        with pytest.raises(KafkaError, match="foreachBatch"):
            query_id(wrong, 3)
    assert stream_key("q") != stream_key("q", "main")
