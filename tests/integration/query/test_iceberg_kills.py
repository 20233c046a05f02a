"""SIGKILL of a maintainer of a table topic at each of its steps, over and over, on real files and a real catalog."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
from pathlib import Path

import pytest
from odradek.adapters.iceberg.catalog import embedded_properties
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from tests.integration.query.killed_maintenance import at_rest, round_of

ROUNDS = 50
CALLS = 130  # of a pass, about; a process that has fewer ends by itself


@pytest.mark.slow
def test_the_table_equals_the_topic_after_50_kills(tmp_path: Path) -> None:
    """Slow: 50 processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.integration.query.killed_maintenance"])
    rng = random.Random(17)
    data_dir = str(tmp_path / "store")
    killed = 0
    for number in range(ROUNDS):
        process = context.Process(target=round_of, args=(data_dir, number, rng.randrange(5, CALLS)))
        process.start()
        process.join(300)
        assert process.exitcode in (0, -9)
        killed += process.exitcode == -9
        for path in files_of_all_snapshots(data_dir):
            assert Path(path).exists(), f"round {number}: a snapshot has a file that is gone"
    assert killed > ROUNDS // 2
    problems, ends = asyncio.run(at_rest(data_dir))
    assert problems == []
    table = load_catalog("odradek", **embedded_properties(data_dir)).load_table("odradek.t")
    rows = table.scan(selected_fields=("partition", "offset", "n")).to_arrow().to_pylist()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    covered = json.loads(snapshot.summary.additional_properties["odradek.offsets"])
    offsets = sorted((row["partition"], row["offset"]) for row in rows)
    spans = [(int(number), first, end) for number, ranges in covered.items() for first, end in ranges]
    assert offsets == [(number, offset) for number, first, end in spans for offset in range(first, end)]
    assert all(row["n"] == row["offset"] % 10 for row in rows)
    for number, (start, _) in ends.items():
        ranges = covered[str(number)]
        assert ranges[0][0] <= start
        assert len(ranges) == 1, "no file was lost"
    there = {str(path) for path in Path(data_dir).glob("objects/topics/*/*/*.parquet")}
    assert there == set(files_of_all_snapshots(data_dir)), "none stays that the table does not have"


def files_of_all_snapshots(data_dir: str) -> list[str]:
    """Return the paths of the data files of every snapshot, as a reader of any of them would open them."""
    if not Path(data_dir, "iceberg", "catalog.db").exists():
        return []
    try:
        table = load_catalog("odradek", **embedded_properties(data_dir)).load_table("odradek.t")
    except NoSuchTableError:
        return []
    found: set[str] = set()
    for snapshot in table.snapshots():
        for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
            found.add(task.file.file_path.removeprefix("file://"))
    return sorted(found)
