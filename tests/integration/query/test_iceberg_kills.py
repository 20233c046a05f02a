"""SIGKILL of a maintainer of table topics at each of its steps, over and over, on real files and a real catalog.

The topics have typed columns by a configuration, and by schemas of Avro and of Protobuf.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
from pathlib import Path

import pytest
from odradek.adapters.iceberg.catalog import embedded_properties, parse_properties
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from tests.integration.query.killed_maintenance import TOPICS, at_rest, round_of

ROUNDS = 50
CALLS = 105  # of a pass, about; a process that has fewer ends by itself


@pytest.mark.slow
def test_the_tables_equal_the_topics_after_50_kills(tmp_path: Path) -> None:
    """Slow: 50 processes."""
    tables_equal_topics_after_kills(tmp_path / "store")


def tables_equal_topics_after_kills(data_dir: Path, setting: str = "") -> None:
    """Kill maintainers of a store, then compare tables and topics.

    Args:
        setting: table_catalog; empty: the embedded store's.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.integration.query.killed_maintenance"])
    rng = random.Random(17)
    killed = 0
    for number in range(ROUNDS):
        dies_at = rng.randrange(5, CALLS)
        process = context.Process(target=round_of, args=(str(data_dir), number, dies_at, setting))
        process.start()
        process.join(300)
        assert process.exitcode in (0, -9)
        killed += process.exitcode == -9
        for path in files_of_all_snapshots(data_dir, setting):
            assert Path(path).exists(), f"round {number}: a snapshot has a file that is gone"
    assert killed > ROUNDS * 0.7, killed
    problems, ends = asyncio.run(at_rest(str(data_dir), setting))
    assert problems == []
    for topic, partitions in ends.items():
        equals_topic(catalog_of(data_dir, setting), topic, partitions)
    files_present = {str(path) for path in data_dir.glob("objects/topics/*/*/*.parquet")}
    assert files_present == files_of_all_snapshots(data_dir, setting), "none stays that no table has"


def equals_topic(catalog: Catalog, topic: str, partitions: dict[int, tuple[int, int]]) -> None:
    """Check that a table has each record once, from the log's start on, and its typed column."""
    table = catalog.load_table(f"odradek.{topic}")
    rows = table.scan(selected_fields=("partition", "offset", "n")).to_arrow().to_pylist()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    covered = json.loads(snapshot.summary.additional_properties["odradek.offsets"])
    offsets = sorted((row["partition"], row["offset"]) for row in rows)
    spans = [(int(number), first, end) for number, ranges in covered.items() for first, end in ranges]
    assert offsets == [(number, offset) for number, first, end in spans for offset in range(first, end)]
    assert all(row["n"] == row["offset"] % 10 for row in rows), topic
    assert len(rows) > 200, topic
    for number, (start, _) in partitions.items():
        ranges = covered[str(number)]
        assert ranges[0][0] <= start
        assert len(ranges) == 1, "no file was lost"


def catalog_of(data_dir: Path, setting: str) -> Catalog:
    return load_catalog("odradek", **(parse_properties(setting) if setting else embedded_properties(data_dir)))


def files_of_all_snapshots(data_dir: Path, setting: str) -> set[str]:
    """Return the paths of the data files of every snapshot, as a reader of any of them would open them."""
    if not setting and not (data_dir / "iceberg" / "catalog.db").exists():
        return set()
    catalog = catalog_of(data_dir, setting)
    files: set[str] = set()
    for topic in TOPICS:
        try:
            table = catalog.load_table(f"odradek.{topic}")
        except NoSuchTableError:
            continue
        for snapshot in table.snapshots():
            for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
                files.add(task.file.file_path.removeprefix("file://"))
    return files
