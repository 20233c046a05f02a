"""DuckDB's own Iceberg reader reads the table of a topic as it lies: every row is that of a Kafka consumer.

The reader is an extension that DuckDB downloads at run time. Wheels of the package index carry its signed binary
(duckdb-extension-iceberg, MIT, by others than DuckDB), for another DuckDB than that of the lock, so a process of its
own reads with both.

Slow: both are installed from the package index.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from odradek.model.log import DeleteRecordsPartition

from tests.integration.query.test_iceberg import SMALL, START_MS, TABLE, consumed, covered, fill, iceberg, maintained
from tests.support.spark.session import LiveLog
from tools.package import run_uv

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DUCKDB = "1.5.5"
_READ = """
import duckdb, pickle, sys
from pathlib import Path
location, out = sys.argv[1:]
offline = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
database = duckdb.connect(config=offline)
for name in ("avro", "iceberg"):  # DuckDB loads what its own key has signed
    [path] = Path(duckdb.__file__).parent.parent.glob(f"duckdb_extension_{name}/extensions/*/*.duckdb_extension")
    database.execute(f"LOAD '{path}'")
found = database.sql(f'''
    SELECT partition, "offset", epoch_ms(timestamp), key, value, headers, epoch_us(timestamp) % 1000,
        origin, delay, note
    FROM iceberg_scan('{location}') ORDER BY partition, "offset"
''').fetchall()
def count(where):
    return database.sql(f"SELECT count(*) FROM iceberg_scan('{location}') WHERE {where}").fetchone()[0]
counts = {where: count(where) for where in (
    "delay >= 690 AND delay < 720", "partition = 1 AND \\"offset\\" BETWEEN 100 AND 130",
    "timestamp < TIMESTAMPTZ '1970-01-01 00:00:00+00'", "note IS NOT NULL",
)}
Path(out).write_bytes(pickle.dumps((duckdb.__version__, found, counts)))
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("duckdb")
    wanted = [f"{name}=={DUCKDB}" for name in ("duckdb", "duckdb-extension-iceberg", "duckdb-extension-avro")]
    run_uv("pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(folder), *wanted)
    return folder


def read(reader: Path, location: str, out: Path) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    command = [sys.executable, "-S", "-c", _READ, location, str(out)]
    run = subprocess.run(
        command, env={"PYTHONPATH": str(reader)}, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    version, rows, counts = pickle.loads(out.read_bytes())
    assert version == DUCKDB
    return rows, counts


def test_every_row_is_that_of_a_consumer(reader: Path, tmp_path: Path) -> None:
    with LiveLog(tmp_path / "store", **SMALL) as log:
        log.create("flights", 2, **TABLE)
        fill(log, 0, 1000)
        maintained(log)
        first = int(sorted(Path(log.data_dir).glob("objects/topics/*/0/*.parquet"))[1].name[:20])
        log._run(log.engine.delete_records([DeleteRecordsPartition("flights", 0, first)]))
        alter = log.engine.topics.alter_configs
        log._run(alter("flights", set={"odradek.table.schema": "origin string, delay bigint, note string"}))
        fill(log, 1000, 1600)
        maintained(log)
        table = iceberg(log)
        rows, counts = read(reader, table.metadata_location, tmp_path / "rows")
        expected = consumed(log, covered(table))
        in_our_form = [
            (*row[:5], tuple((header["key"], header["value"]) for header in row[5])) for row in rows if row[6] == 0
        ]
        assert in_our_form == expected
        typed = table.scan(selected_fields=("partition", "offset", "origin", "delay", "note")).to_arrow().to_pylist()
        assert [row[:2] + row[7:] for row in rows] == sorted(
            (tuple(row[name] for name in ("partition", "offset", "origin", "delay", "note")) for row in typed),
            key=lambda row: row[:2],
        )
        delay, offsets, early, notes = counts.values()
        assert delay == iceberg(log).scan(row_filter="delay >= 690 AND delay < 720").count() > 0
        assert offsets == sum(row[0] == 1 and 100 <= row[1] <= 130 for row in expected) > 0
        assert early == sum(row[2] < 0 for row in expected) > 0
        assert 0 < notes < len(rows), "older files have no such column"
        assert min(row[2] for row in expected if row[2] > 0) >= START_MS
