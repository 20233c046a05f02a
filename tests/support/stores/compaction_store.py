"""A compacted topic in an embedded store, made of several segments, and what is left of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from odradek.adapters.embedded import open_embedded
from odradek.engine.compaction.compactor import Compactor
from odradek.engine.compaction.state import decode_state, state_key
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import Maintenance, MaintenanceReport
from odradek.format.batch_header import iter_headers
from odradek.format.record_batch import decode_batches
from odradek.model.log import FetchPartition
from odradek.model.record import CompressionType, Record
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

from tests.support.engine import batch, produce

T = TypeVar("T")
TOPIC, PARTITIONS = "accounts", 2
CONFIGS = {
    "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "retention.ms": "-1", "segment.bytes": "1048576",
    "delete.retention.ms": "0",
}  # fmt: skip
SETTINGS = Settings(
    merge_rows_min=1, merge_delay_ms=0, spill_entries=1, head_bytes_max=400, default_partitions_per_head=1
)


class Opened:
    """An embedded store whose one writer is this process."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.engine = Engine(
            tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=SETTINGS
        )  # fmt: skip

    async def keep_up(self, *upkeeps: Any) -> MaintenanceReport:
        """Only these, on all partitions."""
        engine, report = self.engine, MaintenanceReport()
        maintenance = Maintenance(engine.tools, engine.index, engine.topics, engine.leases, [engine.orphans, *upkeeps])
        topic = await engine.topics.resolve(TOPIC)
        for number in range(PARTITIONS):
            await maintenance.run_partition(topic, number, report)
        return report

    def compactor(self) -> Compactor:
        engine = self.engine
        return Compactor(engine.tools, engine.index, engine.leases)


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
    read: list[Any] = []
    for number in range(PARTITIONS):
        item = await opened.store.log.get(state_key(PartitionId(topic.topic_id, number)))
        state = decode_state(item) if item else None
        read.append((await read_on(opened.engine, number), state and (state.first_dirty, state.pass_end)))
    return read


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
        records += [record for record in decode_batches(data, allow_truncated=False) if record.offset >= offset]
        offset = max(header.next_offset for _, header in iter_headers(data))


def make_store(folder: Path) -> None:
    """The topic, filled once."""

    async def fill(opened: Opened) -> None:
        await opened.engine.topics.create(TOPIC, PARTITIONS, CONFIGS)
        await add(opened, seed=1)

    using(folder, fill)


def compare(folder: Path, other: Path) -> None:
    """Compare a job's result with the engine's; tombstones may differ: they may stay longer (spark/compaction.py)."""
    for (ours, our_state), (theirs, state) in zip(using(folder, look), using(other, look), strict=True):
        assert our_state == state
        valued = [[record for record in some if record.value is not None] for some in (ours, theirs)]
        assert valued[0] == valued[1]
        assert {record.offset for record in theirs} <= {record.offset for record in ours}
        clean = [record.key for record in ours if record.offset < our_state[0]]
        assert len(set(clean)) == len(clean) > 200
        assert len(ours) < 1_000
