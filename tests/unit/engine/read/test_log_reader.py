"""Reads of segments: which bytes, how many requests, and gaps that compaction leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import pytest
from odradek.engine.engine import Engine
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.read.log_reader import _RowCache
from odradek.engine.read.segment_reader import UNBOUNDED, WHOLE_BYTES, Piece
from odradek.errors import ErrorCode, ObjectMissing
from odradek.format.item_keys import index_sk, partition_pk
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import encode_offset_index
from odradek.format.record_batch import decode_batches, iter_headers
from odradek.format.segment import SegmentBuilder
from odradek.model.log import FetchPartition, FetchResult, ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Delete, Key
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of, rows_of

SPILLING = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1}
VALUE = b"x" * 10_000


async def log_of(batches: int, *, segment_bytes: int = 64 << 20) -> Store:
    """A merged log of batches of two records, 20 KB each, some left in the tail."""
    store = memory_store(per_head=1)
    engine = store.engine(1, **SPILLING)
    await engine.topics.create("t", 2)
    for i in range(batches):
        await produce(engine, "t", 0, batch([b"%d" % i, VALUE], timestamp_ms=1_700_000_000_000 + i))
        await produce(engine, "t", 0, batch([b"%d" % i + VALUE], timestamp_ms=1_700_000_000_000 + i))
    store.clock.advance(61)
    merging = store.engine(2, **SPILLING, segment_bytes_max=segment_bytes)
    assert (await merging.maintenance.run()).failures == []
    return store


async def fetch(engine: Engine, offset: int, max_bytes: int = 1 << 20, **limits: int) -> FetchResult:
    [result] = await engine.fetch([FetchPartition("t", 0, offset, max_bytes=max_bytes)], **limits)
    assert not result.error, result.message
    return result


def calls(store: Store) -> dict[str, int]:
    """Return the calls of the log table and the object store since the last time."""
    counts = Counter(store.log.calls) + Counter(f"object {name}" for name in store.objects.calls)
    store.log.calls.clear()
    store.objects.calls.clear()
    return dict(counts)


# --- requests ---------------------------------------------------------------------------------------------------------

COLD = {"get": 1, "query": 2, "object get": 1, "object get_range": 1}


@pytest.mark.parametrize("batches", [60, 200])
@pytest.mark.parametrize("max_bytes", [1, 100_000, 300_000])
async def test_a_cold_fetch_costs_the_same_at_any_offset_of_a_log_of_any_size(batches: int, max_bytes: int) -> None:
    store = await log_of(batches, segment_bytes=700_000)
    [*segments, _] = [row for row in await rows_of(store.engine(), await _partition(store)) if row.is_segment]
    assert all(row.size_bytes > WHOLE_BYTES for row in segments)
    for offset in range(0, segments[-1].end_offset, 23):
        engine = store.engine()
        await engine.topics.resolve("t")
        calls(store)
        result = await fetch(engine, offset, max_bytes)
        counts = calls(store)
        assert counts == COLD, (offset, counts)
        headers = [header for _, header in iter_headers(b"".join(result.records))]
        assert headers[0].base_offset <= offset < headers[0].next_offset
        assert len(headers) == 1 or result.size_bytes <= max_bytes
        assert max_bytes < 100_000 or result.size_bytes > 15_000

        again = await fetch(engine, offset, max_bytes)
        assert calls(store) == {"get": 1, "object get_range": 1}, "the head and the bytes"
        assert b"".join(again.records) == b"".join(result.records)


async def test_at_the_head_of_a_quiet_log_a_fetch_is_one_item_read() -> None:
    store = await log_of(60)
    engine = store.engine()
    await engine.topics.resolve("t")
    calls(store)
    assert (await fetch(engine, 180)).size_bytes == 0
    assert calls(store) == {"get": 1}


async def test_reading_a_whole_log_costs_its_bytes_and_each_index_once() -> None:
    store = await log_of(240, segment_bytes=1_500_000)
    engine = store.engine()
    await engine.topics.resolve("t")
    segments = [row for row in await rows_of(engine, await _partition(store)) if row.is_segment]
    calls(store)
    offset, fetches = 0, 0
    while offset < segments[-1].end_offset:
        result = await fetch(engine, offset, 500_000)
        offset = [header for _, header in iter_headers(b"".join(result.records))][-1].next_offset
        fetches += 1
    counts = calls(store)
    assert counts["query"] == 2
    assert counts["object get"] <= len(segments)
    assert fetches <= sum(row.size_bytes for row in segments) / 400_000 + len(segments) + 1


async def test_a_small_segment_is_read_without_its_index() -> None:
    store = await log_of(8)
    engine = store.engine()
    await engine.topics.resolve("t")
    calls(store)
    result = await fetch(engine, 10)
    assert calls(store) == {"get": 1, "query": 2, "object get_range": 1}
    assert next(decode_batches(b"".join(result.records))).offset == 9


async def test_a_fetch_across_index_rows_reads_them_once_and_ends_where_it_would_ask_again() -> None:
    store = memory_store(per_head=1)
    engine = store.engine(1, head_bytes_max=400, spill_entries=1)
    await engine.topics.create("t", 1)
    for i in range(300):
        await produce(engine, "t", 0, batch([b"%d" % i]))
    reading = store.engine(2)
    await reading.topics.resolve("t")
    calls(store)
    result = await fetch(reading, 10, 10_000_000)
    assert store.log.count("query") == 2
    assert len(list(decode_batches(b"".join(result.records)))) == 65


# --- bytes ------------------------------------------------------------------------------------------------------------


async def test_limits_hold_over_partitions_and_the_first_batch_comes_however_large() -> None:
    store = await log_of(60)
    other = store.engine(5)
    await produce(other, "t", 1, batch([VALUE]))
    engine = store.engine(3)
    [one, two] = await engine.fetch([FetchPartition("t", 0, 30, max_bytes=10), FetchPartition("t", 1, 0)])
    assert len([*iter_headers(b"".join(one.records))]) == 1
    assert one.size_bytes > 10_000
    assert two.size_bytes > 10_000
    [two, one] = await engine.fetch([FetchPartition("t", 1, 0), FetchPartition("t", 0, 30, max_bytes=10)])
    assert (two.size_bytes > 10_000, one.size_bytes) == (True, 0)
    [two, one] = await engine.fetch(
        [FetchPartition("t", 1, 0), FetchPartition("t", 0, 31, max_bytes=50_000)], max_bytes=60_000
    )
    assert one.size_bytes <= 60_000 - two.size_bytes
    assert next(decode_batches(b"".join(one.records))).offset == 30


async def test_who_waits_for_more_than_a_segment_has_left_does_not_wait() -> None:
    store = await log_of(60, segment_bytes=700_000)
    engine = store.engine()
    first = next(row for row in await rows_of(engine, await _partition(store)) if row.is_segment)
    started = store.clock.monotonic()
    await fetch(engine, first.end_offset - 1, 1 << 20, min_bytes=1 << 20, max_wait_ms=60_000)
    assert store.clock.monotonic() == started


async def test_a_segment_is_cut_at_stretches_and_covered_once() -> None:
    store = await log_of(60)
    engine = store.engine()
    partition = await _partition(store)
    head = await engine.index.read_head(partition)
    assert head is not None
    whole = await engine.reader.pieces(partition, head, 0)
    [segment] = [piece for piece in whole if piece.is_segment]
    store.objects.calls.clear()
    assert await store.engine().reader.pieces(partition, head, 0) == whole
    assert store.objects.calls == [], "all of it needs no index"
    cut = await engine.reader.pieces(partition, head, 0, piece_bytes=200_000)
    parts = [piece for piece in cut if piece.is_segment]
    assert len(parts) > 4
    assert all(piece.length <= 200_000 for piece in parts)
    assert _joined(parts) == [(segment.base_offset, segment.end_offset, segment.position, segment.length)]
    middle = await engine.reader.pieces(partition, head, 50, end_offset=60, piece_bytes=UNBOUNDED)
    assert middle[0].base_offset <= 50 < 60 <= middle[-1].end_offset
    assert sum(piece.length for piece in middle) < 200_000


def _joined(pieces: list[Piece]) -> list[tuple[int, int, int, int]]:
    joined = [(p.base_offset, p.end_offset, p.position, p.length) for p in pieces[:1]]
    for piece in pieces[1:]:
        base, end, position, length = joined[-1]
        if (piece.base_offset, piece.position) == (end, position + length):
            joined[-1] = (base, piece.end_offset, position, length + piece.length)
        else:
            joined.append((piece.base_offset, piece.end_offset, piece.position, piece.length))
    return joined


async def _partition(store: Store) -> PartitionId:
    return await partition_of(store.engine(), "t")


# --- gaps -------------------------------------------------------------------------------------------------------------


async def compacted(store: Store, keep: range, *, rows: int = 1) -> list[IndexRow]:
    """Rewrite the first segments as a compaction would that keeps only the batches at these offsets."""
    engine = store.engine(77)
    partition = await _partition(store)
    old = [row for row in await rows_of(engine, partition) if row.is_segment][:rows]
    new = []
    lease = await engine.leases.take(partition)
    assert lease is not None
    for number, row in enumerate(old):
        assert row.segment_id is not None
        builder = SegmentBuilder(row.base_offset)
        data = memoryview(await store.objects.get(segment_key(partition, row.base_offset, row.segment_id)))
        for position, header in iter_headers(data):
            if header.base_offset in keep:
                batch_bytes = data[position : position + header.size_bytes]
                builder.append(batch_bytes, header.base_offset, header.partition_leader_epoch)
        segment = builder.build(row.end_offset)
        index = encode_offset_index(segment.index)
        segment_id = bytes([number]) * 16
        await store.objects.put(segment_key(partition, row.base_offset, segment_id), segment.parts)
        await store.objects.put(index_key(partition, row.base_offset, segment_id), [index])
        new.append(
            replace(
                row,
                segment_id=segment_id,
                size_bytes=segment.index.size_bytes,
                index_bytes=len(index),
                max_timestamp_ms=segment.index.max_timestamp_ms,
            )
        )
    await engine.index.replace_rows(lease, old, new)
    for row in old:
        assert row.segment_id is not None
        keys = [make(partition, row.base_offset, row.segment_id) for make in (segment_key, index_key)]
        await store.objects.delete(keys)
    await engine.leases.release(lease, clean=True)
    return new


@pytest.mark.parametrize("keep", [range(0), range(40), range(60, 90), range(0, 400, 30), range(75)])
async def test_a_fetch_into_a_gap_gets_what_comes_next(keep: range) -> None:
    store = await log_of(120, segment_bytes=900_000)
    batches = [(base, end) async for base, end in _walk(store.engine(9))]
    rows = await compacted(store, keep, rows=2)
    end = rows[-1].end_offset
    left = [offset for base, next_ in batches if base in keep or base >= end for offset in range(base, next_)]
    engine = store.engine(3)
    for offset in [*range(0, rows[-1].end_offset, 5), rows[0].end_offset - 1, rows[-1].end_offset - 1]:
        result = await fetch(engine, offset, 50_000)
        got = [record.offset for record in decode_batches(b"".join(result.records)) if record.offset >= offset]
        assert got == [offset_left for offset_left in left if offset_left >= offset][: max(1, len(got))]
        headers = [header for _, header in iter_headers(b"".join(result.records))]
        assert headers[0].last_offset >= offset, "nothing that lies wholly before"
    assert [offset async for base, end in _walk(store.engine(4)) for offset in range(base, end)] == left


async def _walk(engine: Engine) -> AsyncIterator[tuple[int, int]]:
    """Base and end offset of each batch, by fetches from the beginning to the end."""
    offset = 0
    while True:
        result = await fetch(engine, offset, 50_000)
        headers = [header for _, header in iter_headers(b"".join(result.records))]
        for header in headers:
            yield header.base_offset, header.next_offset
        if not headers:
            return
        offset = headers[-1].next_offset


# --- what goes away ---------------------------------------------------------------------------------------------------


async def test_a_reader_whose_segment_was_replaced_plans_again() -> None:
    store = await log_of(60, segment_bytes=700_000)
    reader = store.engine(3)
    result = await fetch(reader, 39, 1)
    await compacted(store, range(1_000), rows=3)
    again = await fetch(reader, 40, 1)
    assert b"".join(again.records) == b"".join(result.records)
    fresh = store.engine(4)
    await fetch(fresh, 0, 1)
    partition = await _partition(store)
    for info in await store.objects.list(f"topics/{partition.topic_id}/"):
        await store.objects.delete([info.key])
    [result] = await fresh.fetch([FetchPartition("t", 0, 41, max_bytes=1)])
    assert result.error is ErrorCode.CORRUPT_MESSAGE


async def test_an_index_that_is_not_the_segments_own_is_made_from_the_segment() -> None:
    store = await log_of(60)
    partition = await _partition(store)
    [row] = [row for row in await rows_of(store.engine(), partition) if row.is_segment]
    assert row.segment_id is not None
    key = index_key(partition, row.base_offset, row.segment_id)
    data = await store.objects.get(key)
    await store.objects.delete([key])
    await store.objects.put(key, [data[:-1] + bytes([data[-1] ^ 1])])
    engine = store.engine()
    assert next(iter_headers(b"".join((await fetch(engine, 41, 1)).records)))[1].base_offset == 41
    store.objects.calls.clear()
    await fetch(engine, 44, 1)
    assert store.objects.calls == ["get_range"], "it is made once"


async def test_a_busy_store_is_a_retryable_error() -> None:
    store = await log_of(60)
    store.objects.script[("get", store.objects.count("get") + 1)] = Fault.UNAVAILABLE
    [result] = await store.engine().fetch([FetchPartition("t", 0, 41)])
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert result.error.is_retryable
    assert (await fetch(store.engine(), 41)).size_bytes


# --- rows that moved since the head was read --------------------------------------------------------------------------


async def test_a_tail_that_was_merged_since_is_read_once() -> None:
    store = memory_store(per_head=1)
    engine = store.engine(head_bytes_max=100_000)
    await engine.topics.create("t", 1)
    partition = await partition_of(engine, "t")
    for _ in range(4):
        await produce(engine, "t", 0, batch([b"x"]))
    await store.engine(**SPILLING).index.spill(partition, await _head(engine, partition))
    for _ in range(4):
        await produce(engine, "t", 0, batch([b"x"]))
    head_before = await _head(engine, partition)
    assert 0 < head_before.tail_base_offset < head_before.next_offset
    for _ in range(4):
        await produce(store.engine(**SPILLING), "t", 0, batch([b"x"]))
    store.clock.advance(61)
    assert (await store.engine(2, **SPILLING).maintenance.run()).failures == []
    pieces = await store.engine().reader.pieces(partition, head_before, 0)
    assert pieces[0].is_segment
    assert pieces[0].end_offset > head_before.tail_base_offset
    assert all(before.end_offset == after.base_offset for before, after in pairwise(pieces))


async def test_rows_that_are_merged_while_a_range_is_planned_are_not_read_twice() -> None:
    """A Spark task reads what its driver planned: a record in two pieces would be counted twice."""
    store = memory_store(per_head=1)
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1)
    partition = await partition_of(engine, "t")
    for _ in range(140):
        await produce(engine, "t", 0, batch([b"x"]))
    reader = store.engine().reader
    await reader.pieces(partition, await _head(engine, partition), 0, end_offset=1)  # keeps a page of rows
    store.clock.advance(61)
    assert (await store.engine(2, **SPILLING).maintenance.run()).failures == []
    with pytest.raises(ObjectMissing):
        await reader.pieces(partition, await _head(engine, partition), 0)
    reader.forget(partition)
    pieces = await reader.pieces(partition, await _head(engine, partition), 0)
    assert all(before.end_offset == after.base_offset for before, after in pairwise(pieces))


async def test_a_row_that_is_gone_since_is_not_passed_over() -> None:
    store = memory_store(per_head=1)
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1)
    partition = await partition_of(engine, "t")
    for _ in range(30):
        await produce(engine, "t", 0, batch([b"x"]))
    [first, *_] = await rows_of(engine, partition)
    await store.log.delete(Delete(Key(partition_pk(partition), index_sk(first.base_offset))))
    with pytest.raises(ObjectMissing):
        await store.engine().reader.pieces(partition, await _head(engine, partition), 0)


@pytest.mark.parametrize("settings", [{}, {"item_bytes_max": 0}])
async def test_batches_of_one_upload_are_read_each_from_its_place(settings: dict[str, int]) -> None:
    store = memory_store(per_head=1)
    engine = store.engine(**settings)
    await engine.topics.create("t", 2)
    chunks = [[batch([b"%d/%d" % (number, i)]) for i in range(3)] for number in range(2)]
    wanted = [ProducePartition("t", number, b"".join(chunk)) for number, chunk in enumerate(chunks)]
    assert [result.error for result in await engine.produce(wanted)] == [ErrorCode.NONE] * 2
    for number in range(2):
        assert [record.value for record in await read_all(engine, "t", number)] == [
            b"%d/%d" % (number, i) for i in range(3)
        ]


async def _head(engine: Engine, partition: PartitionId) -> PartitionHead:
    head = await engine.index.read_head(partition)
    assert head is not None
    return head


def test_rows_that_a_merge_replaced_are_not_kept() -> None:
    cache = _RowCache()
    row = IndexRow(0, 4, max_timestamp_ms=1, size_bytes=1, spill_floor_ms=1, running_max_timestamp_ms=1)
    assert cache.add([row, replace(row, base_offset=4, end_offset=8), replace(row, base_offset=8, end_offset=9)]) == 3
    merged = replace(row, end_offset=8, segment_id=bytes(16))
    assert cache.add([merged]) == -1
    assert [cache.find(offset) for offset in (0, 4, 7)] == [merged] * 3
