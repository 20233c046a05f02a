"""Which offsets of a table no file has, and what its files are called."""

from __future__ import annotations

from uuid import UUID

import pytest
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.spark.options import StoreOptions
from odradek.spark.source.log_view import TableFile
from odradek.spark.source.table_files import paths_of, uncovered

TOPIC = UUID(int=7)


def file(partition: int, base: int, end: int) -> TableFile:
    return TableFile(
        PartitionId(TOPIC, partition), base, end, f"topics/{TOPIC}/{partition}/{base}.parquet", 1, 0, False
    )


@pytest.mark.parametrize(
    ("files", "uncovered_spans"),
    [
        ([], ((5, 100),)),
        ([(5, 100)], ()),
        ([(5, 50)], ((50, 100),)),
        ([(50, 100)], ((5, 50),)),
        ([(40, 50), (10, 20), (20, 30)], ((5, 10), (30, 40), (50, 100))),
    ],
)
def test_the_rest_is_what_no_file_has(
    files: list[tuple[int, int]], uncovered_spans: tuple[tuple[int, int], ...]
) -> None:
    tp = TopicPartition("t", 0)
    spans_by_partition = uncovered({tp: (5, 100)}, {PartitionId(TOPIC, 0): tp}, [file(0, *ends) for ends in files])
    assert spans_by_partition.get(tp, ()) == uncovered_spans


def test_partitions_do_not_cover_each_other() -> None:
    places = {PartitionId(TOPIC, partition): TopicPartition("t", partition) for partition in range(3)}
    ranges = dict.fromkeys(places.values(), (0, 10)) | {TopicPartition("t", 2): (3, 3)}
    assert uncovered(ranges, places, [file(1, 0, 10)]) == {TopicPartition("t", 0): ((0, 10),)}


def test_paths_are_those_of_hadoop() -> None:
    files = [file(3, 0, 10)]
    key = f"topics/{TOPIC}/3/0.parquet"
    assert paths_of(StoreOptions("embedded:/data/a b"), files, "s3") == [f"file:///data/a b/objects/{key}"]
    aws = StoreOptions("aws", "log", "catalog", "bucket", "here/")
    assert paths_of(aws, files, "s3") == [f"s3://bucket/here/{key}"]
    assert paths_of(aws, files, "s3a") == [f"s3a://bucket/here/{key}"]
