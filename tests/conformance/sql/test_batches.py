"""One micro-batch of many records and the same records one by one: equal tables, and streams of equal rows.

For every kind of statement that tests/peers/streams compares with Kafka Streams, over records that Hypothesis draws.
Slow are all but a ninth: a statement is some twenty micro-batches on Spark.
An example has several inputs, each in a partition of its own, so that a few runs of a statement ask it often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance.sql.streamed import Row, Sent, rows_of
from tests.peers.streams.topologies import (
    OVER_A_STREAM,
    OVER_A_STREAM_AND_A_TABLE,
    OVER_A_TABLE,
    OVER_TWO_STREAMS,
    TOPOLOGIES,
    in_one_batch,
    script,
    variants,
)
from tests.support.examples import some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = [
    *("list", "partition by", "explode", "insert into", "count", "tumbling list, grace", "filter", "latest"),
    *("tumbling count, grace", "tumbling count having", "sum having", "session list, grace", "hopping list, grace"),
    *("tumbling list final, grace", "hopping count final, grace", "full join", "left join", "inner join with grace"),
    *("full join with grace", "right join with grace, before and after", "join and count", "stream left join versions"),
    *("table where", "table count having", "tables full", "tables left by a foreign key"),
]
"""Not a join of a stream with a table that is read when the micro-batch runs, and not sessions with EMIT FINAL, which
are Spark's own."""


def topics_of(name: str) -> str:
    if name in OVER_A_STREAM:
        return "a"
    if name in OVER_A_TABLE:
        return "t"
    return "ab" if name in OVER_TWO_STREAMS else "au" if name in OVER_A_STREAM_AND_A_TABLE else "tu"


@st.composite
def records(draw: st.DrawFn, topics: str) -> str:
    """Draw a record as topologies.py writes it. Joins find something: there are few keys and texts, and short times."""
    topic = draw(st.sampled_from(topics))
    key = draw(st.sampled_from(["k", "l", "x"]))
    text, number = draw(st.sampled_from(["k", "x", "y"])), draw(st.integers(0, 3))
    value = f"{text},{number}" if draw(st.integers(0, 6)) else "-"
    return f"{topic} {key} {value} {draw(st.integers(0, 60))}"


def inputs(topics: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.lists(records(topics), min_size=4, max_size=6).map("; ".join), min_size=8, max_size=8)


def final(name: str, rows: list[Row]) -> list[tuple[bytes | None, str | None]]:
    """Return the rows of a table, or those of a stream in any order."""
    if "CREATE STREAM r" in TOPOLOGIES[name]:
        found = [(key, value) for key, value, *_ in rows]
    else:
        found = [(key, value) for key, value in {key: value for key, value, *_ in rows}.items() if value is not None]
    return sorted(found, key=repr)


@pytest.mark.parametrize("name", some(KINDS, every=9))
def test_one_batch_is_as_many(spark: SparkSession, name: str) -> None:
    @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(inputs(topics_of(name)))
    def ask(drawn: list[str]) -> None:
        sent = variants(name, {text: text for text in drawn})
        arriving: list[list[Sent]] = [in_one_batch(each) for each in sent]
        one, many = (final(name, rows_of(spark, script(name), arriving, one_by_one=is_one)) for is_one in (True, False))
        assert one == many

    ask()
