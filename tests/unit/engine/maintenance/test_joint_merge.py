"""Merges of partitions that share a head: what they have of an upload in common is one read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from odradek.engine.engine import Engine
from odradek.engine.maintenance.merge_decisions import MergePolicy, choose_windows
from odradek.engine.partition.index_row import IndexRow
from odradek.format.object_keys import wal_key
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId

from tests.support.engine import Store, batch, memory_store, read_all

PARTITIONS = 8
SPILLING = {
    "item_bytes_max": 0,
    "paged_appends": 4,
    "head_bytes_max": 400,
    "spill_entries": 1,
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "catalog_cache_ms": 0,
}
RECORD = bytes(3_000)


@pytest.fixture
def store() -> Store:
    return memory_store(per_head=PARTITIONS)


async def write(store: Store, requests: int, numbers: Sequence[int] = range(PARTITIONS)) -> Engine:
    """So many uploads, each with a batch of these partitions, and all of them in index rows."""
    engine = store.engine(1, **SPILLING)
    if await engine.topics.get("t") is None:
        await engine.topics.create("t", PARTITIONS)
    for _ in range(requests):
        results = await engine.produce([ProducePartition("t", number, batch([RECORD])) for number in numbers])
        assert not any(result.error for result in results)
    topic = await engine.topics.resolve("t")
    first = PartitionId(topic.topic_id, 0)
    head = await engine.index.read_head(first)
    assert head is not None
    await engine.index.spill_to_rows(first, head)
    store.clock.advance(61)
    return engine


async def values_of(store: Store) -> list[list[bytes | None]]:
    return [[record.value for record in await read_all(store.engine(9), "t", n)] for n in range(PARTITIONS)]


async def is_merged(store: Store, number: int) -> bool:
    engine = store.engine(8)
    partition = PartitionId((await engine.topics.resolve("t")).topic_id, number)
    rows = await engine.index.newest_rows(partition, 100)
    return bool(rows) and all(row.is_segment for row in rows)


async def test_an_upload_is_read_once_for_all_partitions_of_a_head(store: Store) -> None:
    await write(store, 20)
    before = await values_of(store)
    store.objects.calls.clear()
    report = await store.engine(2, **SPILLING).maintenance.run()
    assert not report.failures
    assert report.done["segments_merged"] == PARTITIONS
    assert store.objects.count("get_range") == 20
    assert await values_of(store) == before == [[RECORD] * 20] * PARTITIONS
    assert all([await is_merged(store, number) for number in range(PARTITIONS)])


async def test_items_are_read_once_as_well(store: Store) -> None:
    settings = {**SPILLING, "item_bytes_max": 4_000}
    engine = store.engine(1, **settings)
    await engine.topics.create("t", PARTITIONS)
    for _ in range(6):
        await engine.produce([ProducePartition("t", number, batch([b"small"])) for number in range(PARTITIONS)])
    first = PartitionId((await engine.topics.resolve("t")).topic_id, 0)
    head = await engine.index.read_head(first)
    assert head is not None
    await engine.index.spill_to_rows(first, head)
    store.clock.advance(61)
    merging = store.engine(2, **settings)
    wal = merging.merger._pieces._wal
    read_item, read = wal.read_item, []

    async def counted(object_id: bytes) -> bytes:
        read.append(object_id)
        return await read_item(object_id)

    wal.read_item = counted  # type: ignore[method-assign]
    assert not (await merging.maintenance.run()).failures
    assert len(read) == len(set(read)) == 6
    assert await values_of(store) == [[b"small"] * 6] * PARTITIONS


@pytest.mark.parametrize("bytes_max", [12_500, 40_000, 120_000])
async def test_memory_bounds_what_is_read_together(store: Store, bytes_max: int) -> None:
    await write(store, 12)
    merging = store.engine(2, **{**SPILLING, "merge_bytes_max": bytes_max})
    held: list[int] = []
    memory = merging.merger._memory
    hold = memory.hold

    def watched(size: int) -> object:
        held.append(size)
        return hold(size)

    memory.hold = watched  # type: ignore[method-assign, assignment]
    store.objects.calls.clear()
    for _ in range(6):
        assert not (await merging.maintenance.run()).failures
    assert max(held) <= bytes_max
    assert await values_of(store) == [[RECORD] * 12] * PARTITIONS
    assert all([await is_merged(store, number) for number in range(PARTITIONS)])


async def test_a_missing_upload_is_set_apart_and_stops_no_partition(store: Store) -> None:
    await write(store, 4, range(3))
    engine = await write(store, 4, [3])
    topic = await engine.topics.resolve("t")
    partition = PartitionId(topic.topic_id, 3)
    [row] = await engine.index.with_entries([(partition, (await engine.index.newest_rows(partition, 10))[0])])
    await store.objects.delete([wal_key(row.entries[0].object_id)])
    report = await store.engine(2, **SPILLING).maintenance.run()
    assert (report.failures, report.done["rows_set_apart"]) == ([], 1)
    assert [await is_merged(store, number) for number in range(4)] == [True, True, True, True]


async def test_nothing_of_another_topic_stands_between_the_partitions_of_one(store: Store) -> None:
    """A request has another topic's megabyte between two small batches of this one; the merge reads them as one."""
    engine = await write(store, 1)
    await engine.topics.create("other", 1)
    large = ProducePartition("other", 0, batch([bytes(900_000)]))
    for _ in range(3):
        small = [ProducePartition("t", number, batch([RECORD])) for number in (0, 1)]
        results = await engine.produce([small[0], large, small[1]])
        assert not any(result.error for result in results)
    await write(store, 0)
    store.objects.calls.clear()
    assert not (await store.engine(2, **SPILLING).maintenance.run()).failures
    others = 1 + 3  # the first upload, and at most the other topic's own reads, where they are rows by now
    assert 1 + 3 <= store.objects.count("get_range") <= 3 + others
    assert await values_of(store) == [[RECORD] * 4] * 2 + [[RECORD]] * (PARTITIONS - 2)


def _row(base: int, size: int, *, is_segment: bool = False) -> IndexRow:
    row = IndexRow(
        base_offset=base,
        end_offset=base + 10,
        max_timestamp_ms=0,
        size_bytes=size,
        spill_floor_ms=1_000 + base,
        entries=(),
    )
    return replace(row, segment_id=bytes(16)) if is_segment else row


def test_windows_of_unlike_partitions_are_of_the_same_time() -> None:
    policy = MergePolicy(10_000, 10**9, rows_min=1, age_ms=0, delay_ms=0, rows_max=90)
    hot = [_row(10 * at, 1_000) for at in range(8)]
    cold = [_row(10 * at, 50) for at in range(8)]
    assert choose_windows([(hot, policy), (cold, policy)], 100_000, 10_000) == [(0, 8), (0, 8)]
    assert choose_windows([(hot, policy), (cold, policy)], 4_200, 10_000) == [(0, 2), (0, 2)]
    assert choose_windows([(hot, policy), (cold, policy)], 10, 10_000) == [(0, 1), (0, 1)], "a row at least"
