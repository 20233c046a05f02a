"""Rows go where the SDK would send them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.producer.partitioner import murmur2, partition_for_key
from odradek.errors import ErrorCode, KafkaError
from odradek.spark.sink.partitioning import murmur2_column, split_by_partition


@given(st.lists(st.binary(max_size=300)), st.integers(0, 3))
def test_the_hash_of_a_column_is_that_of_each_key(keys: list[bytes], first: int) -> None:
    column = pa.array(keys, pa.binary())[first:]
    assert murmur2_column(column).tolist() == [murmur2(key) for key in keys[first:]]


def split(sticky: int = 0, default: str = "t", **columns: Any) -> dict[Any, Any]:
    rows = pa.RecordBatch.from_pydict(columns)
    counts = {"t": 3, "u": 5}
    return {
        (name, partition): part.column("value").to_pylist()
        for name, partition, part in split_by_partition(rows, default, counts.__getitem__, sticky)
    }


@given(st.lists(st.none() | st.binary(max_size=6), min_size=1, max_size=50), st.integers(0, 100))
def test_keys_choose_and_rows_keep_their_order(keys: list[bytes | None], sticky: int) -> None:
    wanted: dict[tuple[str, int], list[int]] = {}
    for i, key in enumerate(keys):
        partition = sticky % 3 if key is None else partition_for_key(key, 3)
        wanted.setdefault(("t", partition), []).append(i)
    assert split(sticky, key=pa.array(keys, pa.binary()), value=list(range(len(keys)))) == wanted


def test_a_partition_or_a_topic_may_be_given_row_by_row() -> None:
    split_rows = split(
        key=["a", "a", None, "a"], value=[0, 1, 2, 3], topic=["u", None, "t", "u"], partition=[4, None, 2, None]
    )
    by_key = ("u", partition_for_key(b"a", 5))
    wanted: dict[tuple[str, int], list[int]] = {("u", 4): [0], ("t", partition_for_key(b"a", 3)): [1]}
    wanted.setdefault(("t", 2), []).append(2)
    wanted.setdefault(by_key, []).append(3)
    assert split_rows == wanted


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"value": [1], "partition": [3]}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"value": [1], "partition": [-1]}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"value": [1], "default": ""}, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_row_that_has_no_place_is_refused(columns: dict[str, Any], code: ErrorCode) -> None:
    default = columns.pop("default", "t")
    with pytest.raises(KafkaError) as refused:
        split(default=default, **columns)
    assert refused.value.code is code


def test_a_null_topic_is_refused_where_there_is_no_default() -> None:
    rows = pa.RecordBatch.from_pydict({"topic": ["t", None], "value": [1, 2]})
    with pytest.raises(KafkaError, match="a row has no topic"):
        list(split_by_partition(rows, "", lambda topic: 1, 0))
