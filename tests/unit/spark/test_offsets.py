"""Positions: their JSON, how far a micro-batch goes, what counts as lost."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    Bounds,
    check_loss,
    decode_position,
    decode_topic_ids,
    encode_position,
    limit,
    made_anew,
    resolve,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
offsets = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 20)), st.integers(0, 10**9), max_size=8
)


@given(offsets, st.none() | offsets)
def test_a_position_survives_the_checkpoint(
    position: dict[TopicPartition, int], initial: dict[TopicPartition, int] | None
) -> None:
    text = json.dumps(encode_position(position, initial))
    assert decode_position(json.loads(text)) == (position, initial)
    # Spark compares texts, so equal positions have one text.
    assert json.dumps(encode_position(dict(reversed(position.items())), initial)) == text


def test_a_topic_that_was_made_anew_is_known_by_its_id() -> None:
    before, now = {"a": UUID(int=1), "b": UUID(int=2)}, {"a": UUID(int=3), "b": UUID(int=2), "c": UUID(int=4)}
    assert decode_topic_ids(json.loads(json.dumps(encode_position({A0: 5}, None, before)))) == before
    assert decode_topic_ids(encode_position({A0: 5}, None)) == {}  # of an older release
    assert made_anew(before, now) == {"a"}
    assert made_anew(before, {}) == frozenset()  # gone, which is another loss
    with pytest.raises(KafkaError, match="checkpoint"):
        decode_topic_ids({"topics": {"a": "x"}})


def test_a_checkpoint_of_another_source_is_refused() -> None:
    with pytest.raises(KafkaError, match="checkpoint"):
        decode_position({"a": {"0": 5}})


@given(offsets, offsets, st.integers(1, 10**6))
def test_a_limited_batch_moves_on_and_stays_in_bounds(
    start: dict[TopicPartition, int], more: dict[TopicPartition, int], offsets_max: int
) -> None:
    end = {tp: start.get(tp, 0) + count for tp, count in more.items()}
    start = {tp: start.get(tp, 0) for tp in end}
    reached = limit(start, end, offsets_max)
    assert reached.keys() == end.keys()
    for tp, offset in reached.items():
        assert start[tp] <= offset <= end[tp]
        assert offset > start[tp] or end[tp] == start[tp]  # no partition starves
    advanced = sum(reached.values()) - sum(start.values())
    assert advanced <= max(offsets_max, 0) + len(end)


def test_a_limit_is_shared_by_backlog() -> None:
    assert limit({A0: 0, A1: 100}, {A0: 900, A1: 200}, 100) == {A0: 90, A1: 110}
    assert limit({A0: 0, A1: 100}, {A0: 900, A1: 200}, None) == {A0: 900, A1: 200}
    assert limit({A0: 0}, {A0: 5}, 100) == {A0: 5}


def test_special_offsets_become_numbers() -> None:
    bounds = {A0: Bounds(3, 9), A1: Bounds(0, 4)}
    assert resolve("startingOffsets", {A0: EARLIEST, A1: LATEST}, bounds) == {A0: 3, A1: 4}


@pytest.mark.parametrize(
    ("offsets", "said"), [({A0: 1}, "lacks a-1"), ({A0: 1, A1: 1, B0: 1}, "names b-0"), ({A0: -3, A1: 0}, "-3")]
)
def test_offsets_must_name_the_partitions_that_are_read(offsets: dict[TopicPartition, int], said: str) -> None:
    with pytest.raises(KafkaError, match="option startingOffsets") as refused:
        resolve("startingOffsets", offsets, {A0: Bounds(0, 9), A1: Bounds(0, 9)})
    assert said in refused.value.message


LOST = [
    pytest.param({A0: 2}, {A0: 9}, {A0: Bounds(5, 9)}, {A0: (5, 9)}, "a-0 starts at 5, after 2", id="retention"),
    pytest.param({A0: 2}, {A0: 9}, {A0: Bounds(0, 4)}, {A0: (2, 4)}, "a-0 ends at 4, before 9", id="made anew"),
    pytest.param({A0: 2, A1: 0}, {A0: 4, A1: 3}, {A0: Bounds(0, 4)}, {A0: (2, 4)}, "a-1 no longer exists", id="gone"),
]


@pytest.mark.parametrize(("start", "end", "bounds", "readable", "said"), LOST)
def test_lost_offsets_fail_the_query_unless_told_otherwise(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    bounds: dict[TopicPartition, Bounds],
    readable: dict[TopicPartition, tuple[int, int]],
    said: str,
) -> None:
    with pytest.raises(KafkaError) as lost:
        check_loss(start, end, bounds, fail=True)
    assert lost.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert said in lost.value.message
    assert "failOnDataLoss" in lost.value.message
    assert check_loss(start, end, bounds, fail=False) == readable


def test_a_new_partition_is_read_from_its_beginning() -> None:
    bounds = {A0: Bounds(0, 9), A1: Bounds(2, 5)}
    assert check_loss({A0: 9}, {A0: 9, A1: 5}, bounds, fail=True) == {A1: (2, 5)}


def test_what_retention_took_from_a_finished_partition_is_no_loss() -> None:
    assert check_loss({A0: 4}, {A0: 4}, {A0: Bounds(7, 9)}, fail=True) == {}
