"""Damage and maintenance: merges go on around it, nothing intact is lost, a repair skips exactly what is damaged."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from odradek.engine.audit.decisions import FindingKind
from odradek.engine.audit.store import audit_store
from odradek.format.object_keys import index_key, segment_key
from odradek.format.record_batch import iter_headers
from odradek.model.log import ProducePartition

from tests.support.engine import Store, batch, memory_store, produce
from tests.support.stores.damage import damage, fetch, offsets, readable, uploads_of
from tests.support.stores.segments import merge_by_hand, partition_of, rows_of

SPILLING = {"head_bytes_max": 600, "spill_entries": 2, "merge_rows_min": 1, "item_bytes_max": 0}
BIG = b"x" * 20_000
T0 = 1_700_000_000_000
DAMAGES = ["missing", "truncated", "zeros", "one bit"]


async def log_of(count: int, *, per_head: int | None = 1, start: int = 0, store: Store | None = None) -> Store:
    """Single records, each in an upload of its own; a minute later they may be merged."""
    if store is None:
        store = memory_store(per_head=per_head)
        await store.engine(1, **SPILLING).topics.create("t", 2)
    engine = store.engine(1 + start, **SPILLING)
    for i in range(start, start + count):
        assert not (await produce(engine, "t", 0, batch([b"%04d" % i + BIG], timestamp_ms=T0 + i))).error
        store.clock.advance(0.01)
    store.clock.advance(61)
    return store


async def keep_up(store: Store, **settings: int) -> None:
    report = await store.engine(7, **{**SPILLING, **settings}).maintenance.run()
    assert report.failures == []


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("broken", [[0], [4], [3, 4, 8], [9]])
async def test_a_merge_goes_on_around_damaged_uploads(how: str, broken: list[int]) -> None:
    store = await log_of(20)
    keys = await uploads_of(store)
    for number in broken:
        await damage(store, keys[number], how)
    await keep_up(store)
    engine = store.engine(8)
    rows = await rows_of(engine, await partition_of(engine, "t"))
    assert all(row.is_segment for row in rows)
    assert [n for row in rows if row.is_damaged for n in range(row.base_offset, row.end_offset)] == broken
    expected = [n for n in range(20) if n not in broken]
    assert await readable(engine, 20) == (expected, broken)
    # Later rounds neither read it again nor lose what was merged, and the sweep takes the uploads.
    await log_of(20, start=20, store=store)
    store.clock.advance(3 * 3600)
    await keep_up(store)
    store.clock.advance(3 * 3600)
    await keep_up(store)
    assert await readable(store.engine(9), 40) == (expected + list(range(20, 40)), broken)


async def test_a_merge_goes_on_around_a_damaged_segment() -> None:
    store = await log_of(20)
    engine = store.engine(8)
    partition = await partition_of(engine, "t")
    first, *_ = await merge_by_hand(engine, partition, rows_per_segment=1)
    assert first.segment_id is not None
    await damage(store, segment_key(partition, 0, first.segment_id), "missing")
    await log_of(20, start=20, store=store)
    await keep_up(store)
    lost = list(range(first.base_offset, first.end_offset))
    assert await readable(store.engine(9), 40) == ([n for n in range(40) if n not in lost], lost)
    assert [row.base_offset for row in await rows_of(engine, partition) if row.is_damaged] == [0]


async def test_partitions_that_share_uploads_are_merged_but_for_what_is_damaged() -> None:
    store = memory_store()
    engine = store.engine(1, **SPILLING)
    await engine.topics.create("t", 2)
    for i in range(60):
        results = await engine.produce([ProducePartition("t", n, batch([b"%d" % i + BIG])) for n in range(2)])
        assert not any(result.error for result in results)
        store.clock.advance(0.01)
    head = await engine.index.read_head(await partition_of(engine, "t"))
    assert head is not None
    await engine.index.spill_to_rows(await partition_of(engine, "t"), head)
    await damage(store, (await uploads_of(store))[5], "truncated")
    store.clock.advance(61)
    await keep_up(store)
    damaged_rows = []
    for number in range(2):
        rows = await rows_of(engine, await partition_of(engine, "t", number))
        assert rows
        assert all(row.is_segment for row in rows)
        damaged_rows.append([row.base_offset for row in rows if row.is_damaged])
    assert sorted(damaged_rows) == [[], [5]], "the slice at the end of the upload"


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("damaged_part", ["tail", "rows", "set apart"])
async def test_a_repair_skips_exactly_the_damaged_range(how: str, damaged_part: str) -> None:
    store = await log_of(8 if damaged_part == "tail" else 20)
    broken = [7] if damaged_part == "tail" else [4, 5, 9]
    keys = await uploads_of(store)
    for number in broken:
        await damage(store, keys[number], how)
    if damaged_part == "set apart":
        await keep_up(store)
    engine = store.engine(8, **SPILLING)
    report = await audit_store(engine)
    assert {finding.kind for finding in report.findings} <= {FindingKind.MISSING, FindingKind.DAMAGED}
    assert report.findings
    untouched = await audit_store(store.engine(9, **SPILLING), repair=True)
    assert untouched.findings, "a repair that was not asked to skip keeps all"
    repaired = await audit_store(store.engine(10, **SPILLING), repair=True, skip_damaged=True)
    assert repaired.findings == []
    assert repaired.skipped == (["t-0 [7, 8)"] if damaged_part == "tail" else ["t-0 [4, 6)", "t-0 [9, 10)"])
    end = 8 if damaged_part == "tail" else 20
    if damaged_part == "tail":  # a reader at the end of the log gets past it
        assert [
            header.next_offset for _, header in iter_headers(b"".join((await fetch(store.engine(11), 7)).records))
        ] == [8]
        await log_of(1, start=8, store=store)
        end = 9
    assert await readable(store.engine(11), end) == ([n for n in range(end) if n not in broken], [])
    assert (await audit_store(store.engine(12, **SPILLING), repair=True, skip_damaged=True)).skipped == []


@pytest.mark.parametrize("how", [*DAMAGES, "middle"])
async def test_of_a_damaged_segment_only_the_batch_is_skipped(how: str) -> None:
    store = await log_of(30)
    engine = store.engine(8)
    partition = await partition_of(engine, "t")
    row, *_ = await merge_by_hand(engine, partition)
    assert row.segment_id is not None
    key = segment_key(partition, 0, row.segment_id)
    if how == "middle":
        data = bytearray(await store.objects.get(key))
        data[10 * row.size_bytes // row.end_offset + 5_000] ^= 1
        await store.objects.delete([key])
        await store.objects.put(key, [bytes(data)])
    else:
        await damage(store, key, how)
    repaired = await audit_store(store.engine(10, **SPILLING), repair=True, skip_damaged=True)
    last = row.end_offset - 1
    lost = {"missing": (0, row.end_offset), "zeros": (0, row.end_offset), "middle": (10, 11)}.get(how, (last, last + 1))
    assert repaired.skipped == [f"t-0 [{lost[0]}, {lost[1]})"]
    assert repaired.findings == []
    assert await readable(store.engine(11), 30) == ([n for n in range(30) if not lost[0] <= n < lost[1]], [])


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_index_is_made_again_and_nothing_skipped(how: str) -> None:
    store = await log_of(30)
    engine = store.engine(8)
    partition = await partition_of(engine, "t")
    row, *_ = await merge_by_hand(engine, partition)
    assert row.segment_id is not None
    await damage(store, index_key(partition, 0, row.segment_id), how)
    repaired = await audit_store(store.engine(10, **SPILLING), repair=True, skip_damaged=True)
    assert (repaired.findings, repaired.skipped) == ([], [])
    assert await readable(store.engine(11), 30) == (list(range(30)), [])


async def test_what_writers_may_look_up_is_skipped_later() -> None:
    store = await log_of(20)
    await log_of(4, start=20, store=store)
    engine = store.engine(3, **SPILLING)
    await produce(engine, "t", 0, batch([b"new" + BIG]))
    newest = (await uploads_of(store))[-1]
    await damage(store, newest, "missing")
    store.clock.advance(1)
    report = await audit_store(store.engine(4, **SPILLING), repair=True, skip_damaged=True)
    assert report.skipped == []
    assert report.findings
    store.clock.advance(120)
    report = await audit_store(store.engine(5, **SPILLING), repair=True, skip_damaged=True)
    assert (report.findings, report.skipped) == ([], ["t-0 [24, 25)"])
    assert offsets(await fetch(store.engine(6), 23))[-1] == 23


def test_a_damaged_row_is_stored_with_its_flag() -> None:
    from odradek.engine.partition.index_row import IndexRow, decode_index_row, encode_index_row

    row = IndexRow(3, 9, 5, 100, 1, segment_id=bytes(16), index_bytes=7)
    for flag in (False, True):
        item = encode_index_row(changed(row, is_damaged=flag))
        assert decode_index_row(3, item) == changed(row, is_damaged=flag)
        assert ("d" in item) == flag
