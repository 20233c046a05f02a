"""Options of the source, and errors for wrong ones."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.kinds import Kind
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import EARLIEST, LATEST
from odradek.spark.options import parse_options

EMBEDDED = {"store": "embedded:data"}


def test_defaults_are_those_of_the_kafka_source() -> None:
    options = parse_options({**EMBEDDED, "subscribe": "flights"})
    assert options.starting_offsets is None  # the reader decides: latest for streams, earliest for batches
    assert options.ending_offsets == LATEST
    assert options.max_offsets_per_trigger is None
    assert options.fail_on_data_loss
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.store.data_dir == "data"


def test_names_are_taken_in_any_case_as_spark_has_them() -> None:
    options = parse_options(
        {
            "STORE": "embedded:data",
            "Subscribe": "a, b,a",
            "startingoffsets": "EARLIEST",
            "MAXOFFSETSPERTRIGGER": "7",
            "failondataloss": "False",
            "includeheaders": "true",
        }
    )
    assert options.subscription.topics == ("a", "b")
    assert options.starting_offsets == EARLIEST
    assert options.max_offsets_per_trigger == 7
    assert not options.fail_on_data_loss
    assert options.columns[-1] == "headers"


def test_offsets_and_partitions_are_json() -> None:
    options = parse_options(
        {
            **EMBEDDED,
            "assign": '{"b": [1, 0], "a": [3]}',
            "startingOffsets": '{"a": {"3": 5}, "b": {"0": -2, "1": -1}}',
            "endingOffsets": '{"a": {"3": 9}, "b": {"0": -1, "1": 4}}',
        }
    )
    assert options.subscription.partitions == (TopicPartition("a", 3), TopicPartition("b", 0), TopicPartition("b", 1))
    assert options.starting_offsets == {("a", 3): 5, ("b", 0): EARLIEST, ("b", 1): LATEST}
    assert options.ending_offsets == {("a", 3): 9, ("b", 0): LATEST, ("b", 1): 4}


def test_exact_ranges_and_typed_columns() -> None:
    options = parse_options(
        {**EMBEDDED, "ranges": '{"a": {"1": [[20, 30], [0, 10]]}}', "typedColumns": "origin string, delay bigint"}
    )
    assert options.subscription.partitions == (TopicPartition("a", 1),)
    assert options.ranges == {TopicPartition("a", 1): ((0, 10), (20, 30))}
    assert options.typed_columns == (("origin", Kind("string")), ("delay", Kind("bigint")))


def test_aws_names_its_tables_and_bucket() -> None:
    options = parse_options(
        {"store": "aws", "logTable": "l", "catalogTable": "c", "bucket": "b", "region": "eu-west-1", "subscribe": "t"}
    )
    assert options.store.data_dir is None
    assert (options.store.log_table, options.store.catalog_table, options.store.bucket) == ("l", "c", "b")
    assert options.store.region == "eu-west-1"


@pytest.mark.parametrize(
    ("raw_options", "named"),
    [
        ({**EMBEDDED, "ranges": '{"a": {"0": [[0, 10], [9, 12]]}}'}, "do not overlap"),
        ({**EMBEDDED, "ranges": '{"a": {"0": [[-1, 10]]}}'}, "option ranges"),
        ({**EMBEDDED, "ranges": '{"a": {"0": [[0, 10]]}}', "endingOffsets": "latest"}, "omit the option endingOffsets"),
        ({**EMBEDDED, "subscribe": "a", "ranges": '{"a": {"0": [[0, 1]]}}'}, "exactly one"),
        ({**EMBEDDED, "subscribe": "a", "typedColumns": "delay number"}, "dep_delay bigint: 'number' is no type"),
        ({"subscribe": "t"}, "option store "),
        ({"store": "s3://bucket", "subscribe": "t"}, "option store "),
        ({"store": "embedded:", "subscribe": "t"}, "option store "),
        ({"store": "aws", "logTable": "l", "subscribe": "t"}, "catalogTable, bucket"),
        (EMBEDDED, "subscribePattern, assign and ranges, not none"),
        ({**EMBEDDED, "subscribe": "t", "assign": '{"t": [0]}'}, "not subscribe and assign"),
        ({**EMBEDDED, "subscribe": " , "}, "option subscribe "),
        ({**EMBEDDED, "subscribePattern": "("}, "option subscribePattern "),
        ({**EMBEDDED, "assign": "t"}, "option assign "),
        ({**EMBEDDED, "assign": '{"t": ["0"]}'}, "option assign "),
        ({**EMBEDDED, "subscribe": "t", "startingOffsets": "erliest"}, "option startingOffsets "),
        ({**EMBEDDED, "subscribe": "t", "startingOffsets": '{"t": {"0": "5"}}'}, "option startingOffsets "),
        ({**EMBEDDED, "subscribe": "t", "endingOffsets": "earliest"}, "option endingOffsets "),
        ({**EMBEDDED, "subscribe": "t", "endingOffsets": '{"t": {"0": -2}}'}, "option endingOffsets "),
        ({**EMBEDDED, "subscribe": "t", "startingTimestamp": "yesterday"}, "option startingTimestamp "),
        ({**EMBEDDED, "subscribe": "t", "maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger "),
        ({**EMBEDDED, "subscribe": "t", "failOnDataLoss": "no"}, "option failOnDataLoss "),
        ({**EMBEDDED, "subscribe": "t", "corruptBatches": "pass"}, "option corruptBatches must be fail, skip or mark"),
        ({**EMBEDDED, "subscribe": "t", "columns": "key,body"}, "option columns "),
        ({**EMBEDDED, "subscibe": "t"}, "did you mean subscribe?"),
        ({**EMBEDDED, "subscribe": "t", "kafka.bootstrap.servers": "x:9092"}, "without brokers"),
        ({**EMBEDDED, "subscribe": "t", "path": "x"}, "subscribe"),
    ],
)
def test_a_wrong_option_is_named(raw_options: dict[str, str], named: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_options(raw_options)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert named in refused.value.message
