"""SQL and Spark's source over topics whose history is Parquet: the same answers, from fewer bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.record import CompressionType
from odradek.operations.query.statement import literal
from odradek.operations.query.topic import QueryLog
from odradek.spark.options import StoreOptions, Subscription
from odradek.spark.source import read as reading
from odradek.spark.source.log_view import LogView
from odradek.spark.source.plan import ReadRange

from tests.support.spark.session import LiveLog

START_MS = 1_700_000_000_000
TABLE = {"odradek.table.enable": "true", "odradek.table.segment.bytes": "20000", "retention.ms": "-1"}
SMALL = {
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "table_group_bytes": 4_000,
    "head_bytes_max": 400,
    "paged_appends": 4,
}
QUESTIONS = (
    'SELECT count(*), sum(delay), min(timestamp), max("offset") FROM flights',
    "SELECT origin, count(*), sum(delay) FROM flights GROUP BY origin ORDER BY origin",
    "SELECT offset, key, value, timestamp, headers, note FROM flights WHERE delay BETWEEN 690 AND 720 ORDER BY ALL",
    "SELECT count(*) FROM flights WHERE partition = 1 AND offset >= 300",
    "SELECT count(*), count(note) FROM flights WHERE timestamp >= make_timestamptz(1700000000900000)",
    "SELECT sum(delay) FROM flights AS OF '{\"0\": 333}'",
)


@pytest.fixture
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveLog]:
    """Parameter: configurations of the topic, beside the others."""
    with LiveLog(tmp_path / "o'neil, & co" / "store", **SMALL) as live:
        more: dict[str, str] = {"odradek.table.schema": "origin string, delay bigint", **getattr(request, "param", {})}
        live.create("flights", 2, **TABLE, **more)
        for first in range(0, 1000, 10):
            rows: list[tuple[bytes | None, bytes | None]] = [
                (b"k%d" % i, json.dumps({"origin": ("JFK", "EWR")[i % 2], "delay": i, "note": "n" * (i % 80)}).encode())
                for i in range(first, first + 10)
            ]
            rows[3] = (None, None)
            live.produce(
                "flights",
                first // 500,
                rows,
                timestamp_ms=START_MS + first,
                headers=[("h", b"1")] if first % 3 else [],
                compression=list(CompressionType)[first // 10 % 5],
            )
        yield live


def answers(log: LiveLog) -> list[Any]:
    return [odradek.query(sql, log.data_dir).to_pylist() for sql in QUESTIONS]


def merge(log: LiveLog) -> None:
    report = log._run(log.engine.maintenance.run())
    assert report.done["table_segments_written"] >= 2


@pytest.fixture
def as_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB opens no file itself."""
    monkeypatch.setattr("odradek.operations.query.history.has_plain_paths", lambda _: False)


def test_filters_skip_row_groups_of_objects(log: LiveLog, monkeypatch: pytest.MonkeyPatch, as_on_s3: None) -> None:
    before = answers(log)
    merge(log)
    assert answers(log) == before

    monkeypatch.setattr("odradek.spark.source.row_groups._RangedFile._TAIL_BYTES", 1)  # these files are small
    read: list[int] = []
    original = QueryLog.read_range

    def counted(self: QueryLog, key: str, position: int, length: int) -> bytes:
        if position:  # a footer of Arrow's 64 KiB is all of such a file
            read.append(length)
        return original(self, key, position, length)

    monkeypatch.setattr(QueryLog, "read_range", counted)
    columns: set[str] = set()
    read_row_groups = reading.read_row_groups

    def noted(*arguments: Any, **options: Any) -> Iterator[Any]:
        for batch, end in read_row_groups(*arguments, **options):
            columns.update(batch.schema.names)
            yield batch, end

    monkeypatch.setattr(reading, "read_row_groups", noted)
    sizes = []
    for sql in ("SELECT sum(delay) FROM flights", "SELECT sum(delay) FROM flights WHERE delay = 5"):
        read.clear()
        columns.clear()
        response = odradek.query(sql, log.data_dir).to_pylist()
        sizes.append(sum(read))
        assert columns == {"delay"}, "no value is read, not even for a sample"
    assert response[0] == {"sum(delay)": 5}
    assert sizes[1] < sizes[0], "row groups are skipped by their statistics"
    columns.clear()
    odradek.query("SELECT max(note) FROM flights", log.data_dir)
    assert columns == {"value"}, "no file has the column"


def test_duckdb_reads_files_itself_with_the_filter(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(log)
    merge(log)
    read: list[str] = []
    original = QueryLog.read_range

    def counted(self: QueryLog, key: str, position: int, length: int) -> bytes:
        read.append(key)
        return original(self, key, position, length)

    monkeypatch.setattr(QueryLog, "read_range", counted)
    assert [odradek.query(sql, log.data_dir).to_pylist() for sql in QUESTIONS[:2]] == before[:2]
    assert not [key for key in read if key.endswith(".parquet")], "nothing of a file passes through Python"
    assert answers(log) == before
    [row] = odradek.query("EXPLAIN SELECT sum(delay) FROM flights WHERE delay = 5", log.data_dir).to_pylist()
    plan = "".join(str(row["explain_value"]).split())
    assert "READ_PARQUET" in plan
    assert "Filters:delay=5" in plan
    everything = odradek.query("SELECT * FROM flights ORDER BY partition, flights.offset", log.data_dir)
    with LogView(StoreOptions(f"embedded:{log.data_dir}")) as view:
        ids = view.partitions(Subscription(topics=("flights",)))
        for tp, partition in ids.items():
            bounds = view.bounds(ids)[tp]
            pieces = tuple(view.pieces(partition, 0, bounds.next_offset))
            part = ReadRange("flights", partition.topic_id, tp.partition, 0, bounds.next_offset, pieces)
            rows = [row for batch in reading.read(part, reading.schema().names, view) for row in batch.to_pylist()]
            rows_there = [row for row in everything.to_pylist() if row["partition"] == tp.partition]
            assert [{name: row[name] for name in rows[0]} for row in rows_there] == rows


def test_a_query_whose_file_is_replaced_begins_again(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(log)
    merge(log)
    from odradek.operations.query import history

    paths_of = history.paths_of
    missing = [Path(str(log.data_dir)) / "objects" / "gone.parquet"]

    def first_gone(options: StoreOptions, files: Any, scheme: str) -> list[str]:
        """Return the sources that DuckDB opens, with a file that maintenance deletes after the index rows were read."""
        return [*paths_of(options, files, scheme), *(f"file://{missing.pop()}" for _ in missing[:])]

    monkeypatch.setattr(history, "paths_of", first_gone)
    assert answers(log) == before
    assert not missing


def test_sql_reaches_the_files_of_its_topics_alone(log: LiveLog, tmp_path: Path) -> None:
    merge(log)
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    objects = Path(str(log.data_dir)) / "objects"
    own = next((objects / "topics").rglob("*.index"), tmp_path / "secret.csv")
    for path in (tmp_path / "secret.csv", own, objects / "*"):
        with pytest.raises(KafkaError, match="file system operations are disabled") as refused:
            odradek.query(f"SELECT * FROM flights, read_text({literal(str(path))})", log.data_dir)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


without_bytes = pytest.mark.parametrize("log", [{}, {"odradek.table.value.bytes": "false"}], indirect=True, ids=str)


@without_bytes
def test_sparks_source_reads_the_same_records(log: LiveLog) -> None:
    columns = ("offset", "timestamp", "timestampType", "key", "value", "headers", "topic", "partition")

    def records(start: int, end: int) -> list[dict[str, Any]]:
        with LogView(StoreOptions(f"embedded:{log.data_dir}")) as view:
            ids = view.partitions(Subscription(topics=("flights",)))
            rows_read: list[dict[str, Any]] = []
            for tp, partition in ids.items():
                pieces = tuple(view.pieces(partition, start, end, 5_000))
                part = ReadRange(tp.topic, partition.topic_id, tp.partition, start, end, pieces)
                for batch in reading.read(part, columns, view, chunk_bytes=3_000):
                    assert tuple(batch.schema.names) == columns
                    rows_read += batch.to_pylist()
            return rows_read

    before = records(0, 500), records(123, 377)
    log._run(log.engine.maintenance.run())
    assert (records(0, 500), records(123, 377)) == before
    assert len(before[0]) == 1000


@pytest.mark.parametrize("log", [{"odradek.table.value.bytes": "false"}], indirect=True)
def test_queries_have_the_values_that_files_do_not(log: LiveLog) -> None:
    before = answers(log)
    report = log._run(log.engine.maintenance.run())
    assert report.done["table_segments_with_recipes"] == report.done["table_segments_written"] >= 2
    assert answers(log) == before
    sql = "SELECT decode(value) v, note FROM flights WHERE delay = 77"
    assert odradek.query(sql, log.data_dir).to_pylist() == [
        {"v": json.dumps({"origin": "EWR", "delay": 77, "note": "n" * 77}), "note": "n" * 77}
    ]


@pytest.mark.parametrize("damaged", ["footer", "index"])
def test_a_damaged_footer_or_index_changes_no_answer(log: LiveLog, damaged: str) -> None:
    before = answers(log)
    merge(log)
    suffix = ".parquet" if damaged == "footer" else ".index"
    path = max(path for path in log.data_dir.rglob("*") if path.name.endswith(suffix))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    if damaged == "footer":
        assert answers(log) == before
    else:  # DuckDB reads the file itself; a reader of batches says where the log cannot be read
        assert answers(log)[:2] == before[:2]
