"""Rows of queries against acknowledged records, while writers and maintenance are at work."""

from __future__ import annotations

import threading
from pathlib import Path

import odradek
import pytest

from tests.support.spark.session import LiveLog

PARTITIONS = 3
SMALL = {
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "table_group_bytes": 4_000,
    "head_bytes_max": 2_000,
    "paged_appends": 8,
}
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "20000",
    "odradek.table.schema": "n bigint",
    "retention.ms": "-1",
}


@pytest.mark.slow
@pytest.mark.parametrize("keeps", ["true", "false"], ids=["bytes", "no bytes"])
def test_a_query_sees_what_was_acknowledged_when_it_began(tmp_path: Path, keeps: str) -> None:
    """Slow: a dozen queries and more under load."""
    acknowledged = [0] * PARTITIONS
    failures: list[BaseException] = []
    stop = threading.Event()
    with LiveLog(tmp_path / "store", **SMALL) as log:
        log.create("t", PARTITIONS, **TABLE, **{"odradek.table.value.bytes": keeps})

        def write(partition: int) -> None:
            try:
                while not stop.is_set():
                    first = acknowledged[partition]
                    rows = [(b"k", b'{"n": %d, "pad": "%s"}' % (first + i, b"x" * 50)) for i in range(20)]
                    base = log.produce("t", partition, rows)
                    assert base == first
                    acknowledged[partition] = first + 20
                    stop.wait(0.03)
            except BaseException as error:
                failures.append(error)

        def maintain() -> None:
            try:
                while not stop.wait(0.2):
                    log._run(log.engine.maintenance.run())
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(PARTITIONS)]
        threads.append(threading.Thread(target=maintain))
        for thread in threads:
            thread.start()
        try:
            over_files = 0
            for queries in range(300):
                if queries >= 12 and over_files >= 4:
                    break
                over_files += bool(list(Path(log.data_dir).glob("objects/topics/*/*/*.parquet")))
                before = list(acknowledged)
                columns = "partition, count(*) c, max(n) m, count(DISTINCT n) d, count(value) v"
                rows = odradek.query(f"SELECT {columns} FROM t GROUP BY partition", log.data_dir).to_pylist()
                after = list(acknowledged)
                counts = {row["partition"]: row["c"] for row in rows}
                for number in range(PARTITIONS):
                    assert before[number] <= counts.get(number, 0) <= after[number] + 20
                assert all(row["c"] == row["d"] == row["v"] == row["m"] + 1 for row in rows), "each record once"
                assert failures == []
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert failures == []
        report = log._run(log.engine.maintenance.run())
        assert report.failures == []
        assert over_files >= 4, "history was merged meanwhile"
