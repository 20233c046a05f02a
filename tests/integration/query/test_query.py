"""SQL over topics of an embedded store that its service holds open for writing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.record import CompressionType
from odradek.operations.query import run_query
from odradek.operations.query.topic import QueryLog

from tests.support.spark.session import LiveLog

START_MS = 1_700_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LiveLog]:
    with LiveLog(tmp_path / "store", item_bytes_max=500) as live:
        yield live


def ask(log: LiveLog, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in odradek.query(sql, log.data_dir, **options).to_pylist()]


def flights(log: LiveLog, count: int, *, first: int = 0, partition: int = 0) -> None:
    rows = [
        (b"k%d" % i, json.dumps({"origin": ("JFK", "EWR")[i % 2], "delay": i, "offset": -i}).encode())
        for i in range(first, first + count)
    ]
    log.produce("flights", partition, rows, timestamp_ms=START_MS + first, compression=CompressionType.ZSTD)


def test_typed_columns_are_found_and_what_was_acknowledged_is_in_the_answer(log: LiveLog) -> None:
    log.create("flights", 2)
    for first in range(0, 100, 10):
        flights(log, 10, first=first, partition=first // 10 % 2)
        sql = "SELECT count(*), sum(delay), sum(value_offset) FROM flights"
        record_count = first + 10
        assert ask(log, sql) == [(record_count, sum(range(record_count)), -sum(range(record_count)))]
    sql = "SELECT origin, count(*) FROM flights WHERE partition = 1 AND offset >= 10 GROUP BY origin ORDER BY origin"
    assert ask(log, sql) == [("EWR", 20), ("JFK", 20)]


def test_every_column_of_a_record_is_there(log: LiveLog) -> None:
    log.create("t")
    log.produce(
        "t", 0, [(None, None), (b"", b"\xff"), (b"k", b"text")], timestamp_ms=-1_500, headers=[("h", b"1"), ("h", None)]
    )
    [first, second, third] = odradek.query("SELECT * FROM t ORDER BY offset", log.data_dir).to_pylist()
    assert list(first) == ["offset", "partition", "timestamp", "key", "value", "headers", "timestampType", "topic"]
    assert first["timestamp"] == datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)
    assert (first["key"], first["value"], second["key"], second["value"]) == (None, None, b"", b"\xff")
    assert third["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert ask(log, "SELECT topic, offset FROM t WHERE key = 'k'") == [("t", 2)]


def test_topics_join_and_a_topic_with_a_dash_is_quoted(log: LiveLog) -> None:
    log.create("flights", 2)
    log.create("air-ports.v1")
    flights(log, 10)
    log.produce("air-ports.v1", 0, [(b"JFK", b'{"faa": "JFK", "place": {"city": "New York"}}')])
    sql = 'SELECT place.city, count(*) FROM flights JOIN "air-ports.v1" ON origin = faa GROUP BY ALL'
    assert ask(log, sql) == [("New York", 5)]
    assert ask(log, "WITH flights2 AS (SELECT delay FROM flights) SELECT max(delay) FROM flights2") == [(9,)]
    assert len(ask(log, "DESCRIBE flights")) == 8 + 3


def test_as_of_offsets_and_a_time(log: LiveLog) -> None:
    log.create("flights", 2)
    flights(log, 10)
    flights(log, 10, first=10, partition=1)
    count = "SELECT count(*), max(flights.delay) FROM flights AS OF {}"
    assert ask(log, count.format(START_MS + 12)) == [(13, 12)]
    assert ask(log, count.format("'2023-11-14T22:13:20.003'")) == [(4, 3)]
    assert ask(log, count.format("""'{"0": 2, "1": 1}'""")) == [(3, 10)]
    assert ask(log, "SELECT count(*) FROM flights a JOIN flights AS OF '{\"0\": 1}' b USING (partition)") == [(10,)]


def test_values_that_do_not_fit_are_nulls_and_counted(log: LiveLog) -> None:
    log.create("t")
    values = [b'{"a": 1, "b": "x"}', b"not json", None, b'{"a": 2}\n', b'{"a": 3} {"a": 4}', b'{"a": 5, "c": [1, {}]}']
    log.produce("t", 0, [(b"", value) for value in values])
    result = run_query("SELECT a, b, c FROM t ORDER BY offset", log.data_dir)
    assert [tuple(row.values()) for row in result.table.to_pylist()] == [
        (1, "x", None),
        (None, None, None),
        (None, None, None),
        (2, None, None),
        (None, None, None),
        (5, None, ["1", "{}"]),
    ]
    assert result.misfits == {"t": 2}
    assert result.ends == {"t": {0: 6}}


def test_filters_on_offset_partition_and_timestamp_leave_objects_unread(
    log: LiveLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create("flights", 4)
    for first in range(0, 4000, 100):
        flights(log, 100, first=first, partition=first // 100 % 4)
    read: list[int] = []
    original = QueryLog.read

    def counted(self: QueryLog, pieces: Any) -> Any:
        read.extend(piece.base_offset for piece in pieces)
        return original(self, pieces)

    monkeypatch.setattr(QueryLog, "read", counted)
    monkeypatch.setattr("odradek.operations.query.run.SAMPLE_RECORDS", 1)
    assert ask(log, "SELECT count(delay) FROM flights") == [(4000,)]
    everything = len(read)
    for where, rows, pieces in (
        ("partition = 3", 1000, 10),
        ("partition IN (0, 1) AND offset BETWEEN 100 AND 299", 400, 4),
        (f"timestamp >= make_timestamptz({(START_MS + 3_600) * 1000})", 400, 4),
        ("offset < 0", 0, 0),
    ):
        read.clear()
        assert ask(log, f"SELECT count(delay) FROM flights WHERE {where}") == [(rows,)]
        assert len(read) == pieces + everything - 40, where  # those of the sample are read every time


def test_only_the_columns_that_are_asked_for_are_decoded(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create("flights")
    flights(log, 10)
    columns_asked: list[tuple[str, ...]] = []
    from odradek.operations.query import topic

    original = topic.read

    def noted(part: Any, columns: Any, source: Any, typed: Any = (), **options: Any) -> Any:
        columns_asked.append((*columns, *typed.names) if typed else tuple(columns))
        return original(part, columns, source, **({"typed": typed} if typed else {}), **options)

    monkeypatch.setattr(topic, "read", noted)
    sample = ("value",)
    for sql, columns in (
        ("SELECT count(*) FROM flights", ("offset",)),
        ("SELECT max(timestamp) FROM flights WHERE partition = 0", ("partition", "timestamp")),
        ("SELECT sum(delay) FROM flights", ("delay",)),
    ):
        columns_asked.clear()
        ask(log, sql)
        assert [columns_read for columns_read in columns_asked if columns_read != sample] == [columns], sql


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("SELECT * FROM flight", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic 'flight': did you mean flights"),
        ("SELECT * FROM nothing_like_it", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "odradek topics list"),
        ("SELECT * FROM flights AS OF '{\"7\": 1}'", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no partition 7"),
        ("SELECT orign FROM flights", ErrorCode.INVALID_REQUEST, r'"orign" not found[^^]*"origin"'),
        ("SELEC 1", ErrorCode.INVALID_REQUEST, r"syntax error at or near"),
        ("SELECT 1; SELECT 2", ErrorCode.INVALID_REQUEST, "one statement"),
        ("DROP TABLE flights", ErrorCode.INVALID_REQUEST, "DROP is not a query"),
        ("INSERT INTO flights VALUES (1)", ErrorCode.INVALID_REQUEST, "odradek produce"),
        ("COPY (SELECT 1) TO '/tmp/odradek-no.csv'", ErrorCode.INVALID_REQUEST, "COPY is not a query"),
        ("SELECT * FROM read_text('/etc/hostname')", ErrorCode.INVALID_REQUEST, "--allow-files"),
        ("SELECT * FROM '/etc/hostname'", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic '/etc/hostname'"),
        ("SELECT delay / origin FROM flights", ErrorCode.INVALID_REQUEST, "No function matches|Could not convert"),
    ],
)
def test_a_query_that_cannot_run_says_why(log: LiveLog, sql: str, code: ErrorCode, message: str) -> None:
    log.create("flights", 2)
    flights(log, 4)
    with pytest.raises(KafkaError, match=message) as raised:
        ask(log, sql)
    assert raised.value.code is code


def test_files_can_be_read_only_where_the_caller_allows_it(log: LiveLog, tmp_path: Path) -> None:
    log.create("flights")
    flights(log, 4)
    (tmp_path / "airports.csv").write_text("faa,city\nJFK,New York\n")
    sql = f"SELECT city, count(*) FROM flights JOIN '{tmp_path}/airports.csv' ON faa = origin GROUP BY city"
    assert ask(log, sql, allow_files=True) == [("New York", 2)]
    with pytest.raises(KafkaError):
        ask(log, sql)


def test_no_store_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="option store"):
        odradek.query("SELECT 1", tmp_path / "none")
    with pytest.raises(KafkaError, match="unknown option bukket"):
        odradek.query("SELECT 1", {"store": "aws", "bukket": "b"})
