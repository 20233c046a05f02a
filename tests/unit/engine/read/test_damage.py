"""Damage hides nothing but itself: what lies before it is read, the error names the offset, what lies after is read."""

from __future__ import annotations

import logging

import pytest
from odradek.cost.metering import UsageMeter
from odradek.engine.partition.head import head_key
from odradek.errors import ErrorCode
from odradek.format.item_keys import index_sk, partition_pk
from odradek.format.object_keys import index_key, segment_key
from odradek.model.log import FetchPartition, ListOffsetsPartition, ProducePartition
from odradek.ports.table import Key, Set, Update
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce
from tests.support.stores.damage import damage, fetch, offsets, readable, replace, uploads_of
from tests.support.stores.segments import merge_by_hand, partition_of, rows_of

BIG = b"x" * 20_000
T0 = 1_700_000_000_000
SMALL_SPILLS = {"head_bytes_max": 600, "spill_entries": 2, "item_bytes_max": 0}


async def log_of(count: int, topic_config: dict[str, str] | None = None, **settings: int) -> Store:
    """A log of single records, each in an upload of its own."""
    store = memory_store(per_head=1)
    engine = store.engine(1, item_bytes_max=0, **settings)
    await engine.topics.create("t", 2, topic_config or {})
    for i in range(count):
        await produce(engine, "t", 0, batch([b"%04d" % i + BIG], timestamp_ms=T0 + i))
        store.clock.advance(0.01)  # ids of uploads begin with their time
    return store


@pytest.mark.parametrize("how", ["missing", "truncated", "zeros", "one bit"])
@pytest.mark.parametrize("settings", [{}, {"head_bytes_max": 600, "spill_entries": 2}], ids=["tail", "rows"])
async def test_a_damaged_upload_hides_no_other(how: str, settings: dict[str, int]) -> None:
    store = await log_of(9, **settings)
    await damage(store, (await uploads_of(store))[4], how)
    assert await readable(store.engine(), 9) == ([0, 1, 2, 3, 5, 6, 7, 8], [4])


@pytest.mark.parametrize("how", ["missing", "truncated", "zeros"])
async def test_batches_before_the_end_of_a_damaged_upload_are_read(how: str) -> None:
    """Of one upload: a producer's request of several partitions."""
    store = memory_store()
    engine = store.engine(item_bytes_max=0)
    await engine.topics.create("t", 2)

    await engine.produce([ProducePartition("t", n, batch([b"%d" % n + BIG])) for n in range(2)])
    [key] = await uploads_of(store)
    data = await store.objects.get(key)
    await replace(store, key, {"missing": None, "truncated": data[:-2], "zeros": data[:-2] + b"\0\0"}[how])
    results = await store.engine().fetch([FetchPartition("t", n, 0) for n in range(2)])
    expected = [ErrorCode.CORRUPT_MESSAGE if how == "missing" else ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE]
    assert sorted(result.error for result in results) == sorted(expected)


@pytest.mark.parametrize("how", ["missing", "truncated", "one bit", "middle"])
async def test_intact_batches_of_a_damaged_segment_are_read(how: str) -> None:
    store = await log_of(20, head_bytes_max=600, spill_entries=2)
    engine = store.engine(2)
    partition = await partition_of(engine, "t")
    rows = await merge_by_hand(engine, partition)
    assert rows[0].segment_id is not None
    key = segment_key(partition, 0, rows[0].segment_id)
    end = rows[0].end_offset
    if how == "middle":
        data = bytearray(await store.objects.get(key))
        data[len(data) // 2] ^= 1
        await replace(store, key, bytes(data))
    else:
        await damage(store, key, how)
    offsets_read, damaged = await readable(store.engine(3), 20)
    assert sorted(offsets_read + damaged) == list(range(20))
    if how == "missing":
        assert damaged == list(range(end))
    else:
        assert len(damaged) == 1


@pytest.mark.parametrize("how", ["missing", "truncated", "zeros", "one bit"])
async def test_a_damaged_index_hides_nothing(how: str) -> None:
    store = await log_of(20, head_bytes_max=600, spill_entries=2)
    engine = store.engine(2)
    partition = await partition_of(engine, "t")
    rows = await merge_by_hand(engine, partition)
    assert rows[0].segment_id is not None
    assert rows[0].size_bytes > 256 * 1024, "it is read by its index"
    await damage(store, index_key(partition, 0, rows[0].segment_id), how)
    assert await readable(store.engine(3), 20) == (list(range(20)), [])


async def test_a_damaged_row_hides_neither_the_rows_before_nor_those_after() -> None:
    store = await log_of(12, head_bytes_max=600, spill_entries=2)
    engine = store.engine(2)
    partition = await partition_of(engine, "t")
    rows = await rows_of(engine, partition)

    bad = rows[2]
    await store.log.update(Update(Key(partition_pk(partition), index_sk(bad.base_offset)), (Set(("e",), b"\1\2"),)))
    expected = [n for n in range(12) if not bad.base_offset <= n < bad.end_offset]
    offsets_read, damaged = await readable(store.engine(3), 12)
    assert (offsets_read, damaged) == (expected, list(range(bad.base_offset, bad.end_offset)))


async def test_damage_is_logged_and_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    store = await log_of(5)
    await damage(store, (await uploads_of(store))[2], "missing")
    meter = UsageMeter()
    engine = store.engine().count_damage(meter)
    for _ in range(3):
        await readable(engine, 5)
    [line] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "offset 2 of t-0 cannot be read: " in line.getMessage()
    assert "is missing" in line.getMessage()
    assert meter.total().damaged_ranges == 1


async def test_a_store_that_does_not_answer_is_not_damage() -> None:
    store = await log_of(3)
    await damage(store, (await uploads_of(store))[1], "missing")
    engine = store.engine(4)
    await fetch(engine, 0)
    for number in range(1, 40):
        store.objects.script[("get_range", store.objects.count("get_range") + number)] = Fault.UNAVAILABLE
    result = await fetch(engine, 0)
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert "try again" in (result.message or "")


@pytest.mark.parametrize("how", ["missing", "zeros"])
@pytest.mark.parametrize("merged", [False, True])
async def test_offsets_are_found_by_time_beside_damage(how: str, *, merged: bool) -> None:
    """Damaged pieces count from their first offset on, so that a reader meets them and passes over nothing."""
    store = await log_of(16, head_bytes_max=600, spill_entries=2)
    engine = store.engine(2)
    key = (await uploads_of(store))[4]
    if merged:
        partition = await partition_of(engine, "t")
        rows = await merge_by_hand(engine, partition, rows_per_segment=1)
        row = next(row for row in rows if row.base_offset <= 4 < row.end_offset)
        assert row.segment_id is not None
        first, key = row.base_offset, segment_key(partition, row.base_offset, row.segment_id)
    else:
        first = 4
    await damage(store, key, how)
    results = await store.engine(3).list_offsets([ListOffsetsPartition("t", 0, T0 + n) for n in (1, 4, 7)])
    assert [(result.error, result.offset) for result in results] == [(ErrorCode.NONE, n) for n in (1, first, 7)]


async def test_one_damaged_head_fails_its_partitions_alone() -> None:
    store = await log_of(3)
    engine = store.engine(2)
    await produce(engine, "t", 1, batch([b"fine"]))

    await store.log.update(Update(head_key(await partition_of(engine, "t")), (Set(("t",), b"no list"),)))
    lost, fine = await store.engine(3).fetch([FetchPartition("t", n, 0) for n in range(2)])
    assert (lost.error, fine.error) == (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE)
    assert offsets(fine) == [0]
