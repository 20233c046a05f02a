"""Bounds of a compaction's memory and calls, and a reader's view of it through the engine."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from odradek.engine.compaction.offset_map import OffsetMap
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.errors import KafkaError
from odradek.model.log import EARLIEST_TIMESTAMP, MAX_TIMESTAMP, Buffer, ListOffsetsPartition
from odradek.settings import Settings

from tests.support.engine import batch, memory_store, produce, read_all
from tests.support.stores.compaction import Log, last_of_each_key


class OnlySizes:
    """An object store that notes how much is asked of it at once."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self.read: list[int] = []
        self.written: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        self.read.append(length)
        return bytes(await self._objects.get_range(key, start, length))

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        if key.endswith(".log"):
            self.written.append(sum(map(len, parts)))
        await self._objects.put(key, parts)


def test_the_map_takes_what_its_docstring_says() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        offsets = OffsetMap(100_000)
        for i in range(100_000):
            offsets.put(b"a key of no small length %d" % i, 10**12 + i)
        per_entry = tracemalloc.get_traced_memory()[0] / len(offsets)
    finally:
        tracemalloc.stop()
    assert 100 < per_entry < 160


def test_a_full_map_takes_known_keys_only() -> None:
    offsets = OffsetMap(2)
    assert offsets.put(b"a", 1)
    assert offsets.put(b"", 2)
    assert not offsets.put(b"c", 3)
    assert offsets.put(b"a", 4)
    assert (offsets.latest(b"a"), offsets.latest(b""), offsets.latest(b"c")) == (4, 2, -1)


async def test_memory_is_bounded_by_the_segment_size_and_not_by_the_log() -> None:
    log = Log()
    for i in range(120):
        at = log.next_offset
        await log.add_segment(*(log.batch([(b"%d" % (i * 7 + j), bytes(4_000))], at=at + j) for j in range(14)))
    sizes = OnlySizes(log.kept)
    total = sum(row.size_bytes for row in await log.rows())
    report = MaintenanceReport()
    maintenance = log.maintenance(objects=sizes, segment_bytes_max=300_000, compaction_read_bytes=20_000)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await maintenance.run_partition(log.topic, 0, report)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.failures == []
    assert report.done["records_dropped"] > 500
    assert max(sizes.read) <= 20_000
    assert max(sizes.written) <= 300_000
    # The store keeps the new segments (after - before), and joins the parts of one as it takes it.
    assert peak - before - max(after - before, 0) < 1_000_000 < total / 5
    assert len(await log.records()) == len(last_of_each_key(await log.records()))


async def test_requests_of_a_pass() -> None:
    """Two reads of what is dirty, one of what is clean; a segment that loses nothing is neither written nor moved."""
    log = Log()
    for i in range(18):
        await log.add(*((b"%d" % (i * 10 + j), bytes(100)) for j in range(10)))
    await log.compact(segment_bytes_max=8_000)
    await log.add(*((b"%d" % j, bytes(100)) for j in range(10)))
    clean = len(await log.rows()) - 1
    log.objects.calls.clear()
    log.table.calls.clear()
    report = await log.compact(segment_bytes_max=8_000)
    assert report.done["records_dropped"] == 10
    assert sorted(log.objects.calls) == ["delete", *["get_range"] * (2 + clean), "put", "put"]
    assert log.table.count("transact") == 3, "the swap, the state after it, the state at the end"


async def test_what_a_consumer_reads_before_and_after() -> None:
    """Produced, merged, compacted: through the engine, from any offset."""
    store = memory_store()
    engine = store.engine(head_bytes_max=400, spill_entries=1, merge_rows_min=1, merge_delay_ms=0, merge_age_ms=0)
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    topic = await engine.topics.create("t", 1, configs=configs)
    for i in range(60):
        keys = [b"k%d" % ((i * j) % 9) for j in range(3)]
        assert not (await produce(engine, "t", 0, batch([b"%d" % i] * 3, keys=keys))).error
    before = await read_all(engine, "t", 0)
    store.clock.advance(60)
    report = MaintenanceReport()
    await engine.maintenance.run_partition(topic, 0, report)
    assert report.failures == []
    assert report.done["records_dropped"] > 50
    reader = store.engine(1)  # the other one may read the WAL as long as it is there
    after = await read_all(reader, "t", 0)
    assert set(after) < set(before)
    assert last_of_each_key(after) == last_of_each_key(before)
    for offset in range(0, 181, 7):
        assert await read_all(reader, "t", 0, offset) == [record for record in after if record.offset >= offset]
    questions = [ListOffsetsPartition("t", 0, at) for at in (EARLIEST_TIMESTAMP, MAX_TIMESTAMP)]
    [earliest, largest] = await reader.list_offsets(questions)
    assert earliest.offset == 0
    assert largest.timestamp_ms == max(record.timestamp_ms for record in after)


@pytest.mark.parametrize("name", ["compaction_map_entries_max", "compaction_read_bytes"])
def test_bounds_that_let_nothing_through_are_refused(name: str) -> None:
    with pytest.raises(KafkaError, match=name):
        Settings(**{name: 0})
