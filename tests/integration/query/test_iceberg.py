"""Iceberg tables of topics, read as they lie by PyIceberg and DuckDB: every row is that of a Kafka consumer.

DuckDB reads the files that PyIceberg plans; its own Iceberg reader is in test_iceberg_duckdb.py, Spark's in
tests/java/test_iceberg.py, and tests/java/test_iceberg_rest.py runs these tests over a REST catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from odradek.format.record_batch import decode_batches
from odradek.model.log import DeleteRecordsPartition, FetchPartition
from odradek.model.record import CompressionType
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.support.spark.session import LiveLog

START_MS = 1_700_000_000_000
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "6000",
    "odradek.table.schema": "origin string, delay bigint",
    "odradek.table.iceberg.enable": "true",
    "retention.ms": "-1",
}
SMALL = {
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "table_group_bytes": 4_000,
    "head_bytes_max": 400,
    "paged_appends": 4,
}


def fill(log: LiveLog, first: int, stop: int) -> None:
    for start in range(first, stop, 10):
        rows: list[tuple[bytes | None, bytes | None]] = [
            (b"k%d" % i, b'{"origin": "%s", "delay": %d, "note": "%s"}' % ((b"JFK", b"EWR")[i % 2], i, b"n" * (i % 80)))
            for i in range(start, start + 10)
        ]
        rows[3] = (None, None)
        rows[4] = (b"", b"\x00 no JSON")
        log.produce(
            "flights",
            start // 10 % 2,
            rows,
            timestamp_ms=-5_000 if start % 70 == 0 else START_MS + start,
            headers=[("h", None), ("h", b"1")] if start % 3 else [],
            compression=list(CompressionType)[start // 10 % 5],
        )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLog]:
    with LiveLog(tmp_path_factory.mktemp("iceberg") / "store", **SMALL) as live:
        live.create("flights", 2, **TABLE)
        fill(live, 0, 1000)
        yield live


def maintained(log: LiveLog) -> dict[str, int]:
    report = log._run(log.engine.maintenance.run())
    assert report.failures == []
    return dict(report.done)


def iceberg(log: LiveLog, name: str = "odradek.flights") -> Table:
    return load_catalog("odradek", **log.catalog).load_table(name)


Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def consumed(log: LiveLog, covered: dict[int, range]) -> list[Row]:
    """Every record of these offsets, as a consumer has it."""
    rows_read: list[Row] = []
    for number, offsets in covered.items():
        at = offsets.start
        while at < offsets.stop:
            [result] = log._run(log.engine.fetch([FetchPartition("flights", number, at)], max_wait_ms=0, min_bytes=0))
            for record in decode_batches(b"".join(result.records)):
                if at <= record.offset < offsets.stop:
                    headers = tuple(record.headers)
                    rows_read.append((number, record.offset, record.timestamp_ms, record.key, record.value, headers))
                    at = record.offset + 1
    return sorted(rows_read, key=lambda row: row[:2])


def rows_of(table: Any) -> list[Row]:
    """The rows of an Arrow table, in the same form."""
    rows_read = []
    for row in table.to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row["headers"])
        ms = round(row["timestamp"].timestamp() * 1000)
        rows_read.append((row["partition"], row["offset"], ms, row["key"], row["value"], headers))
    return sorted(rows_read, key=lambda row: row[:2])


def covered(table: Table) -> dict[int, range]:
    """The offsets that the newest snapshot says it covers."""
    import json

    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = json.loads(snapshot.summary.additional_properties["odradek.offsets"])
    assert all(len(ranges) == 1 for ranges in said.values())
    return {int(number): range(*ranges[0]) for number, ranges in said.items()}


def check(log: LiveLog) -> Table:
    table = iceberg(log)
    covered_ranges = covered(table)
    expected = consumed(log, covered_ranges)
    assert rows_of(table.scan().to_arrow()) == expected
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    by_duckdb = duckdb.sql(f'SELECT partition, "offset", timestamp, key, value, headers FROM read_parquet({files})')
    assert rows_of(by_duckdb.to_arrow_table()) == expected
    return table


def test_every_row_is_that_of_a_consumer(log: LiveLog) -> None:
    done = maintained(log)
    assert done["table_files_added"] >= 4
    table = check(log)
    assert {field.name for field in table.schema().fields} >= {"origin", "delay", "partition", "offset", "timestamp"}
    assert "batch" not in {field.name for field in table.schema().fields}
    some = table.scan(row_filter="partition = 1 AND delay >= 690 AND delay < 720", selected_fields=("delay", "origin"))
    rows_read = some.to_arrow().to_pylist()
    assert {row["delay"] for row in rows_read} <= set(range(690, 720))
    assert len(rows_read) > 5
    late = table.scan(row_filter="timestamp < '1970-01-01T00:00:00+00:00'").to_arrow()
    assert 0 < late.num_rows < table.scan().to_arrow().num_rows
    assert table.properties["gc.enabled"] == "false"


def test_the_table_grows_and_forgets_with_the_log(log: LiveLog) -> None:
    maintained(log)
    before = covered(iceberg(log))
    fill(log, 1000, 1600)
    maintained(log)
    after = covered(check(log))
    assert after[0].stop > before[0].stop
    snapshots = len(iceberg(log).snapshots())
    assert snapshots >= 2
    files = sorted(Path(log.data_dir).glob("objects/topics/*/0/*.parquet"))
    first = int(files[1].name[:20])
    log._run(log.engine.delete_records([DeleteRecordsPartition("flights", 0, first)]))
    maintained(log)
    table = check(log)
    assert covered(table)[0].start == first
    assert len(table.snapshots()) == 1, "older ones had a file that is gone"
    metadata = list(Path(log.data_dir, "iceberg", "odradek", "flights", "metadata").glob("snap-*.avro"))
    assert len(metadata) == 1, "its metadata is gone, too"


def test_a_tag_on_what_is_gone_does_not_keep_it(log: LiveLog) -> None:
    maintained(log)
    table = iceberg(log)
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_tag(current.snapshot_id, "audit").commit()
    files = sorted(Path(log.data_dir).glob("objects/topics/*/1/*.parquet"))
    log._run(log.engine.delete_records([DeleteRecordsPartition("flights", 1, int(files[1].name[:20]))]))
    maintained(log)
    assert not files[0].exists()
    assert list(check(log).refs()) == ["main"]


def test_columns_are_added_and_a_change_that_iceberg_does_not_have_is_refused(log: LiveLog) -> None:
    maintained(log)
    alter = log.engine.topics.alter_configs
    log._run(alter("flights", set={"odradek.table.schema": "origin string, delay bigint, note string"}))
    fill(log, 1600, 2400)
    maintained(log)
    table = check(log)
    notes = table.scan(row_filter="note IS NOT NULL").to_arrow().column("note").to_pylist()
    assert {"n" * 5, "n" * 79} <= set(notes)
    assert table.scan(row_filter="note IS NULL AND delay IS NOT NULL").to_arrow().num_rows > 100, "older files"
    log._run(alter("flights", set={"odradek.table.schema": ""}))  # one that a table has does not go
    log._run(alter("flights", set={"odradek.table.schema": "delay string"}))
    fill(log, 2400, 3200)
    report = log._run(log.engine.maintenance.run())
    assert any("delay" in failure and "cannot become string" in failure for failure in report.failures)
    assert report.done["table_segments_written"] > 0, "the log goes on"
    [state] = log._run(log.engine.tables.states.all())
    assert "cannot become string" in str(state.behind_why)
    log._run(alter("flights", set={"odradek.table.schema": "origin string"}))
    report = log._run(log.engine.maintenance.run())
    [failure] = report.failures
    assert "delay is string, not bigint" in failure, "what was written meanwhile does not fit"
    assert covered_rows(log) > 0
    log._run(log.engine.topics.delete("flights"))
    maintained(log)
    assert not list(Path(log.data_dir).glob("objects/topics/**/*.parquet"))
    assert load_catalog("odradek", **log.catalog).list_tables("odradek") == []


def covered_rows(log: LiveLog) -> int:
    return iceberg(log).scan().to_arrow().num_rows


def test_values_that_files_do_not_have_are_null(log: LiveLog) -> None:
    log.create("lean", 1, **TABLE, **{"odradek.table.value.bytes": "false"})
    for start in range(0, 500, 10):
        rows = [(None, b'{"origin": "JFK", "delay": %d, "note": "n%d"}' % (i, i)) for i in range(start, start + 10)]
        rows[3] = (None, b"no JSON")
        log.produce("lean", 0, rows)
    assert maintained(log)["table_segments_with_recipes"] >= 1
    table = iceberg(log, "odradek.lean")
    names = {field.name for field in table.schema().fields}
    assert not {"batch", "value_recipe", "value_rest"} & names
    rows_read = table.scan().to_arrow().sort_by("offset").to_pylist()
    assert len(rows_read) > 300
    for row in rows_read:
        fits = row["offset"] % 10 != 3
        expected = (None, row["offset"], "JFK") if fits else (b"no JSON", None, None)
        assert (row["value"], row["delay"], row["origin"]) == expected
