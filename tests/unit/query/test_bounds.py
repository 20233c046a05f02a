"""The part of a topic that a pushed filter keeps."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from odradek.operations.query.bounds import conditions_of, names_in, narrowing_of
from odradek.spark.source.pushdown import Narrowing

OFFSET, PARTITION, TIMESTAMP, NAME = (pc.field(name) for name in ("offset", "partition", "timestamp", "name"))
TIME = pa.scalar(1_500, pa.timestamp("ms", tz="UTC"))


@pytest.mark.parametrize(
    ("filter", "kept"),
    [
        ((OFFSET >= 5) & (OFFSET < 9) & (PARTITION == 1), Narrowing(None, frozenset({1}), 5, 9)),
        ((OFFSET > 5) & ((NAME == ") and (offset >= 90") & (OFFSET <= 9)), Narrowing(first_offset=6, end_offset=10)),
        ((OFFSET > 5) | (PARTITION == 1), Narrowing()),
        ((NAME == 'a" and (offset >= 7)') & (OFFSET == 3), Narrowing(first_offset=3, end_offset=4)),
        (OFFSET.isin([7, 3]) & PARTITION.isin([0, 2]), Narrowing(None, frozenset({0, 2}), 3, 8)),
        ((TIMESTAMP > TIME) & (TIMESTAMP < TIME), Narrowing(timestamp_ms=1_500)),
        (~(OFFSET > 5), Narrowing()),
        (OFFSET > NAME, Narrowing()),
        (OFFSET.is_valid(), Narrowing()),
        (pc.field("my offset") > 5, Narrowing()),
    ],
)
def test_only_what_must_hold_narrows(filter: pc.Expression, kept: Narrowing) -> None:
    assert narrowing_of(str(filter)) == kept


def test_comparisons_that_must_hold_are_found_with_their_values() -> None:
    expression = (OFFSET >= 5) & (NAME == "x") & (pc.field("d") < 1.5) & (TIMESTAMP > TIME) & (NAME != "y")
    assert [tuple(condition)[:2] for condition in conditions_of(str(expression))] == [
        ("offset", ">="),
        ("name", "=="),
        ("d", "<"),
        ("timestamp", ">"),
    ]
    assert [condition.may_hold(6, 9) for condition in conditions_of(str(expression))] == [True, True, False, True]
    assert conditions_of(str((OFFSET > 5) | (OFFSET < 1))) == []
    assert not conditions_of(str(NAME == "x"))[0].may_hold("a", "w")


def test_columns_of_a_filter_are_found() -> None:
    assert names_in(str((OFFSET > 1) & (NAME == "x")), ["offset", "name", "other"]) == ["offset", "name"]
