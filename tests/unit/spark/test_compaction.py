"""The compaction of many hands, with its shuffles done by dictionaries: what it leaves, and that a lost lease ends it.

tests/integration/spark has the same on a real Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.engine.audit.store import audit_store
from odradek.engine.maintenance.maintenance import HeldPartition, MaintenanceReport
from odradek.engine.partition.maintenance_lease import lease_key
from odradek.ports.table import Set, Update
from odradek.spark import compaction
from odradek.spark.compaction import Rewriting, SparkCompactor, rewrite_group, segment_keys
from odradek.spark.options import parse_store

from tests.support.stores.compaction_store import PARTITIONS, Opened, add, compare, look, make_store, using


class Frame:
    """As much of a DataFrame as the driver uses."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows

    def persist(self) -> Frame:
        return self

    def unpersist(self) -> None: ...

    def count(self) -> int:
        return len(self.rows)

    def collect(self) -> Sequence[Any]:
        return self.rows


def keys_frame(_: Any, plan: Rewriting) -> Frame:
    return Frame([row for i in range(len(plan.segments)) for row in segment_keys(plan, i).to_pylist()])


def latest_frame(keys: Frame) -> Frame:
    latest: dict[bytes, int] = {}
    for row in keys.rows:
        if row["latest"] >= 0:
            latest[row["digest"]] = max(latest.get(row["digest"], -1), row["latest"])
    wanted = {(row["grp"], row["digest"]) for row in keys.rows if row["grp"] >= 0}
    return Frame([(group, digest, latest[digest]) for group, digest in wanted if digest in latest])


def rewritten_frame(latest: Frame, plan: Rewriting, groups: Sequence[int]) -> Frame:
    by_group = {group: {row[1]: row[2] for row in latest.rows if row[0] == group} for group in groups}
    return Frame([SimpleNamespace(**row) for group in groups for row in rewrite_group(plan, group, by_group[group])])


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    for frame in (keys_frame, latest_frame, rewritten_frame):
        monkeypatch.setattr(compaction, frame.__name__, frame)
    nothing = lambda tag: None  # noqa: E731
    context = SimpleNamespace(addJobTag=nothing, removeJobTag=nothing, cancelJobsWithTag=nothing)
    return SimpleNamespace(sparkContext=context)


def run_hands(spark: Any, folder: Path, compactor_class: type[SparkCompactor] = SparkCompactor) -> MaintenanceReport:
    async def run(opened: Opened) -> MaintenanceReport:
        options = parse_store({"store": f"embedded:{folder}"})
        return await opened.keep_up(compactor_class(spark, opened.engine, options, groups_at_once=2))

    return using(folder, run)


def test_what_is_left_is_what_the_engine_leaves(spark: Any, tmp_path: Path) -> None:
    folder, other = tmp_path / "store", tmp_path / "other"
    make_store(folder)
    shutil.copytree(folder, other)
    for seed in (2, 3):  # the second time only a part is dirty, and tombstones have had their time
        assert not using(other, lambda opened: opened.keep_up(opened.compactor())).failures
        report = run_hands(spark, folder)
        assert not report.failures
        assert report.done["compaction_passes"] == PARTITIONS
        assert report.done["segments_compacted"] > PARTITIONS
        compare(folder, other)
        for store in (folder, other):
            using(store, lambda opened, seed=seed: add(opened, seed))  # type: ignore[misc]
    audit = using(folder, lambda opened: audit_store(opened.engine))
    assert not audit.findings, audit


class Cut(SparkCompactor):
    """Dies after the first wave."""

    waves = 0

    async def _rewrite(self, *args: Any) -> Any:
        Cut.waves += 1
        if Cut.waves % 2 == 0:
            raise compaction.KafkaError(compaction.ErrorCode.KAFKA_STORAGE_ERROR, "cut short")
        return await super()._rewrite(*args)


def test_a_pass_that_was_cut_short_is_finished_by_the_next_even_by_the_engine(spark: Any, tmp_path: Path) -> None:
    folder, other = tmp_path / "store", tmp_path / "other"
    make_store(folder)
    shutil.copytree(folder, other)
    assert len(run_hands(spark, folder, Cut).failures) == PARTITIONS
    done = using(folder, lambda opened: opened.keep_up(opened.compactor()))
    assert not done.failures
    assert using(other, lambda opened: opened.keep_up(opened.compactor())).done["compaction_passes"] == PARTITIONS
    compare(folder, other)


class Robbed(SparkCompactor):
    """Somebody else takes the lease while the hands work."""

    async def _spark_does(self, held: HeldPartition, work: Any) -> Any:
        result = await super()._spark_does(held, work)
        actions = (Set(("e",), held.lease.epoch + 1), Set(("h",), b"x" * 16))
        await self._log.update(Update(lease_key(held.partition), actions))
        return result


def test_a_driver_that_lost_its_lease_changes_nothing(spark: Any, tmp_path: Path) -> None:
    make_store(tmp_path)
    before = using(tmp_path, look)
    report = run_hands(spark, tmp_path, Robbed)
    assert [failure.partition(": ")[2].startswith("LeaseLost") for failure in report.failures] == [True] * PARTITIONS
    assert not report.done["segments_compacted"]
    assert using(tmp_path, look) == before
