"""compact_topic on a real Spark leaves what the engine's own compactor leaves, and nothing once its lease is lost."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from odradek.adapters.embedded import open_embedded
from odradek.adapters.system import SystemClock, SystemRng
from odradek.engine.audit_store import audit_store
from odradek.engine.compaction import Compactor
from odradek.engine.compaction_state import decode_state, state_key
from odradek.engine.engine import Engine
from odradek.engine.maintenance import HeldPartition, Maintenance, MaintenanceReport
from odradek.engine.maintenance_lease import lease_key
from odradek.errors import KafkaError
from odradek.format.batch_header import iter_headers
from odradek.format.record_batch import decode_batches
from odradek.model.log import FetchPartition
from odradek.model.record import CompressionType, Record
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Set, Update
from odradek.settings import Settings
from odradek.spark.compaction import SparkCompactor
from odradek.spark.options import parse_store

import glue_jobs.compact_topic.job
from tests.support.engine import batch, produce
from tests.support.spark import in_one_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [in_one_worker, pytest.mark.slow]

T = TypeVar("T")
TOPIC, PARTITIONS = "accounts", 2
CONFIGS = {
    "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "retention.ms": "-1", "segment.bytes": "1048576",
    "delete.retention.ms": "0",
}  # fmt: skip
SETTINGS = Settings(merge_rows_min=1, merge_delay_ms=0, spill_entries=1, head_bytes_max=400)


class Opened:
    """An embedded store whose one writer is this test."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.engine = Engine(
            tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=SETTINGS
        )  # fmt: skip

    async def keep_up(self, *upkeeps: Any) -> MaintenanceReport:
        """Only these, on all partitions."""
        engine, report = self.engine, MaintenanceReport()
        catalog, objects = self.store.catalog, self.store.objects
        maintenance = Maintenance(
            catalog, engine.index, objects, engine.topics, engine.leases, SETTINGS, [engine.orphans, *upkeeps]
        )
        topic = await engine.topics.resolve(TOPIC)
        for number in range(PARTITIONS):
            await maintenance.run_partition(topic, number, report)
        return report

    def compactor(self) -> Compactor:
        engine = self.engine
        return Compactor(
            self.store.log, engine.index, self.store.objects, engine.leases, engine.clock, SystemRng(), SETTINGS
        )  # fmt: skip


def using(folder: Path, work: Callable[[Opened], Awaitable[T]]) -> T:
    async def run() -> T:
        store = open_embedded(folder, synchronous="NORMAL")
        try:
            return await work(Opened(store))
        finally:
            await store.aclose()

    return asyncio.run(run())


async def add(opened: Opened, seed: int) -> None:
    """Batches with a few hundred keys, a fifth of them tombstones; then segments of them."""
    chance = random.Random(seed)
    for _ in range(60):
        for number in range(PARTITIONS):
            keys = [b"k%d" % chance.randrange(300) for _ in range(40)]
            values = [None if chance.random() < 0.2 else chance.randbytes(2_000) for _ in keys]
            compression = chance.choice([CompressionType.NONE, CompressionType.ZSTD])
            records = batch(values, keys=keys, compression=compression)
            assert not (await produce(opened.engine, TOPIC, number, records)).error
    assert (await opened.keep_up(opened.engine.merger)).done["segments_merged"] > PARTITIONS


async def look(opened: Opened) -> list[Any]:
    """All that a reader finds in each partition, and how far its compaction is."""
    topic = await opened.engine.topics.resolve(TOPIC)
    found: list[Any] = []
    for number in range(PARTITIONS):
        item = await opened.store.log.get(state_key(PartitionId(topic.topic_id, number)))
        state = decode_state(item) if item else None
        found.append((await read_on(opened.engine, number), state and (state.first_dirty, state.pass_end)))
    return found


async def read_on(engine: Engine, number: int) -> list[Record]:
    """All records, going on after the last batch as clients do: compaction leaves batches that end before they end."""
    records: list[Record] = []
    offset = 0
    while True:
        [result] = await engine.fetch([FetchPartition(TOPIC, number, offset)])
        assert not result.error, result
        data = b"".join(result.records)
        if not data:
            assert offset == result.high_watermark
            return records
        records += [each for each in decode_batches(data, allow_truncated=False) if each.offset >= offset]
        offset = max(header.next_offset for _, header in iter_headers(data))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    async def fill(opened: Opened) -> None:
        await opened.engine.topics.create(TOPIC, PARTITIONS, CONFIGS)
        await add(opened, seed=1)

    using(tmp_path / "store", fill)
    return tmp_path / "store"


def run_job(spark: SparkSession, folder: Path, **arguments: Any) -> dict[str, Any]:
    made = glue_jobs.compact_topic.job.Arguments(store=f"embedded:{folder}", topic=TOPIC, **arguments)
    return glue_jobs.compact_topic.job.run(spark, made, threading.Event())


def test_what_is_left_is_what_the_engine_leaves(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    for seed in (2, 3):  # the second time only a part is dirty, and tombstones have had their time
        report = using(other, lambda opened: opened.keep_up(opened.compactor()))
        assert not report.failures
        done = run_job(spark, folder, groups_at_once=2)
        assert done["compaction_passes"] == PARTITIONS
        assert done["segments_compacted"] > PARTITIONS
        ours, engines = using(folder, look), using(other, look)
        # A tombstone stays an hour longer here, so that a reader surely comes by (spark/compaction.py).
        for (mine, my_state), (theirs, state) in zip(ours, engines, strict=True):
            assert my_state == state
            assert [each for each in mine if each.value is not None] == [
                each for each in theirs if each.value is not None
            ]
            assert {each.offset for each in theirs} <= {each.offset for each in mine}
            clean = [each.key for each in mine if each.offset < my_state[0]]
            assert len(set(clean)) == len(clean) > 200
        assert len(ours[0][0]) < 1_000
        for store in (folder, other):
            using(store, lambda opened, seed=seed: add(opened, seed))  # type: ignore[misc]
    assert run_job(spark, folder, partitions=("1",))["compaction_passes"] == 1
    with pytest.raises(KafkaError, match="partitions 0 to 1, not 7"):
        run_job(spark, folder, partitions=("7",))
    using(folder, lambda opened: opened.keep_up())  # removes what nothing refers to, if there were anything
    report = using(folder, lambda opened: audit_store(opened.engine, opened.store))
    assert not report.findings, report


class Robbed(SparkCompactor):
    """Somebody else takes the lease while Spark works."""

    async def _spark_does(self, held: HeldPartition, work: Any) -> Any:
        result = await super()._spark_does(held, work)
        actions = (Set(("e",), held.lease.epoch + 1), Set(("h",), b"x" * 16))
        await self._log.update(Update(lease_key(held.partition), actions))
        return result


def test_a_driver_that_lost_its_lease_changes_nothing(spark: SparkSession, folder: Path) -> None:
    before = using(folder, look)

    async def compact(opened: Opened) -> MaintenanceReport:
        options = parse_store({"store": f"embedded:{folder}"})
        return await opened.keep_up(Robbed(spark, opened.engine, opened.store.log, options, groups_at_once=100))

    report = using(folder, compact)
    assert [failure.partition(": ")[2].startswith("LeaseLost") for failure in report.failures] == [True] * PARTITIONS
    assert not report.done["segments_compacted"]
    assert using(folder, look) == before
