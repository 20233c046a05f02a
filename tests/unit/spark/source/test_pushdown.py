"""Filters narrow what is read, and never leave out a row that they keep."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.model.topic_partition import TopicPartition
from odradek.spark.source.plan import range_bytes_of
from odradek.spark.source.pushdown import Narrowing, narrow
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

COMPARISONS: dict[Callable[..., Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
comparisons = st.tuples(
    st.sampled_from(["partition", "offset"]), st.sampled_from(list(COMPARISONS)), st.integers(-2, 12)
)


@given(st.lists(comparisons, max_size=5))
def test_what_all_filters_keep_is_read(filters: list[tuple[str, Callable[..., Filter], int]]) -> None:
    narrowing = narrow([filter_class((column,), value) for column, filter_class, value in filters])
    for partition in range(4):
        first, end = narrowing.bounds(3, 10)
        for offset in range(3, 10):
            row = {"partition": partition, "offset": offset}
            if all(COMPARISONS[filter_class](row[column], value) for column, filter_class, value in filters):
                assert narrowing.has(TopicPartition("t", partition))
                assert first <= offset < end


def test_they_do_narrow() -> None:
    narrowing = narrow([In(("topic",), ("a", "b")), EqualTo(("partition",), 2), GreaterThan(("offset",), 4)])
    assert [narrowing.has(TopicPartition(*tp)) for tp in (("a", 2), ("a", 1), ("c", 2))] == [True, False, False]
    assert narrowing.bounds(0, 10) == (5, 10)
    assert narrow([LessThanOrEqual(("offset",), 4)]).bounds(0, 10) == (0, 5)
    assert narrow([LessThan(("offset",), 4)]).bounds(6, 10) == (6, 6)
    at = datetime(2024, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC)
    assert narrow([GreaterThanOrEqual(("timestamp",), at)]).timestamp_ms == 1_704_067_200_001


@pytest.mark.parametrize(
    "useless",
    [
        IsNotNull(("offset",)),
        Not(EqualTo(("offset",), 1)),
        EqualTo(("headers", "key"), "x"),
        LessThan(("timestamp",), datetime(2024, 1, 1, tzinfo=UTC)),
        GreaterThan(("timestamp",), datetime(2024, 1, 1)),  # of which zone?
        EqualTo(("key",), b"k"),
    ],
)
def test_other_filters_narrow_nothing(useless: Filter) -> None:
    assert narrow([useless]) == Narrowing()


def test_ranges_become_smaller_where_more_tasks_are_asked_for() -> None:
    assert range_bytes_of([100, 50], 1_000, None) == 1_000
    assert range_bytes_of([100, 50], 1_000, 2) == 1_000
    assert range_bytes_of([100, 50], 1_000, 5) == 30
    assert range_bytes_of([3], 1_000, 50) == 1
    assert range_bytes_of([10_000] * 3, 100, 4) == 100
