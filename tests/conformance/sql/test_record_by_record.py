"""Rows when each record has a micro-batch of its own: rows that come when they are due, and no others.

tests/peers/streams asks much more, beside Kafka Streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.sql.streamed import Row, rows_of
from tests.peers.streams.topologies import script, variants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def written(spark: SparkSession, topology: str, records: str) -> list[tuple[str, str | None, int]]:
    """Return key, value and time of what a topology writes for records, a micro-batch each."""
    sent = [each for each in variants(topology, {"": records})[0] if each.time_ms < 100_000_000]  # not the closing ones
    rows: list[Row] = rows_of(spark, script(topology), [sent], one_by_one=True)
    return [((key or b"").decode(), value, ms) for key, value, ms, _ in rows]


def test_having_deletes_what_was_there_and_nothing_else(spark: SparkSession) -> None:
    """SUM(n) < 4."""
    records = "a k x,1 1; a k x,2 2; a k x,3 3; a k x,4 4; a l x,9 5; a m x,3 6"
    rows = [("0k", "1", 1_000), ("0k", "3", 2_000), ("0k", None, 3_000), ("0m", "3", 6_000)]
    assert written(spark, "sum having", records) == rows


def test_a_row_without_a_match_waits_for_its_window_and_the_grace_period(spark: SparkSession) -> None:
    """WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS: the first record's row comes when stream time is after 15."""
    records = "a k x,1 0; b l r,1 7; a m y,2 15; a l z,3 12"
    assert written(spark, "left join with grace", records) == [("0l", "0z,0r", 12_000)]
    assert written(spark, "left join with grace", f"{records}; b n s,2 15.001") == [
        ("0l", "0z,0r", 12_000), ("0k", "0x,", 0),
    ]  # fmt: skip
