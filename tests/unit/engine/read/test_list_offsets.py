"""ListOffsets: exact to the record, over tail and index rows."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.errors import ErrorCode
from odradek.format.item_keys import INDEX_END, INDEX_PREFIX, partition_pk
from odradek.model.log import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    DeleteRecordsPartition,
    ListOffsetsPartition,
)
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key, Row
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce
from tests.support.stores.segments import partition_of, rows_of, upload_segment

T0 = 1_700_000_000_000


@pytest.fixture
async def store() -> Store:
    """40 batches of two records, 1 ms apart inside a batch, 10 ms between batches; the fifth is from the future."""
    store = memory_store()
    engine = store.engine(head_bytes_max=600, spill_entries=4)
    await engine.topics.create("t", 2)
    for i in range(40):
        await produce(engine, "t", 0, batch([b"a", b"b"], timestamp_ms=T0 + 10 * i if i != 4 else T0 + 205))
    return store


async def ask(store: Store, timestamp_ms: int, partition: int = 0) -> tuple[int, int]:
    [result] = await store.engine().list_offsets([ListOffsetsPartition("t", partition, timestamp_ms)])
    assert not result.error, result.message
    return result.offset, result.timestamp_ms


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (LATEST_TIMESTAMP, (80, -1)),
        (EARLIEST_TIMESTAMP, (0, -1)),
        (MAX_TIMESTAMP, (79, T0 + 391)),
        (0, (0, T0)),
        (T0, (0, T0)),
        (T0 + 1, (1, T0 + 1)),
        (T0 + 2, (2, T0 + 10)),
        (T0 + 100, (8, T0 + 205)),  # the first in offset order, though a later one is nearer
        (T0 + 206, (9, T0 + 206)),
        (T0 + 207, (42, T0 + 210)),
        (T0 + 391, (79, T0 + 391)),
        (T0 + 392, (-1, -1)),
    ],
)
async def test_lookups(store: Store, timestamp_ms: int, expected: tuple[int, int]) -> None:
    assert await ask(store, timestamp_ms) == expected


async def test_an_empty_partition(store: Store) -> None:
    assert await ask(store, LATEST_TIMESTAMP, 1) == (0, -1)
    assert await ask(store, EARLIEST_TIMESTAMP, 1) == (0, -1)
    assert await ask(store, MAX_TIMESTAMP, 1) == (-1, -1)
    assert await ask(store, T0, 1) == (-1, -1)


async def test_unknown_partitions_are_refused(store: Store) -> None:
    requested = [ListOffsetsPartition("t", 2, -1), ListOffsetsPartition("x", 0, -1), ListOffsetsPartition("t", 0, -99)]
    results = await store.engine().list_offsets(requested)
    assert [r.error for r in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_VERSION,
    ]


# --- requests ---------------------------------------------------------------------------------------------------------


async def long_log(count: int, *, is_merged: bool) -> Store:
    """A batch of two records every 10 ms, 8 KB each, in many rows or in segments of some 400 KB."""
    store = memory_store()
    engine = store.engine(1, head_bytes_max=400, spill_entries=1, item_bytes_max=0)
    await engine.topics.create("t", 1)
    for i in range(count):
        await produce(engine, "t", 0, batch([b"x" * 8_000, b"b"], timestamp_ms=T0 + 10 * i))
    if is_merged:
        store.clock.advance(61)
        merging = store.engine(2, merge_rows_min=1, segment_bytes_max=400_000)
        assert (await merging.maintenance.run()).failures == []
    return store


async def cost(store: Store, timestamp_ms: int, expected: tuple[int, int]) -> tuple[int, int]:
    """Requests to the log table and to the object store for one lookup by a new engine."""
    engine = store.engine(3)
    await engine.topics.resolve("t")
    store.log.calls.clear()
    store.objects.calls.clear()
    [result] = await engine.list_offsets([ListOffsetsPartition("t", 0, timestamp_ms)])
    assert (result.error, (result.offset, result.timestamp_ms)) == (0, expected)
    return len(store.log.calls), len(store.objects.calls)


@pytest.mark.parametrize("is_merged", [False, True])
async def test_a_lookup_costs_a_bisection_of_rows_one_index_and_one_read(is_merged: bool) -> None:
    for count in (100, 400):
        store = await long_log(count, is_merged=is_merged)
        most = [await cost(store, T0 + 10 * i - 5, (2 * i, T0 + 10 * i)) for i in range(1, count, count // 25)]
        # The head, a query for each halving down to 32 rows, and one or two for these.
        assert max(tables for tables, _ in most) <= 1 + (count // 32).bit_length() + 2
        assert max(objects for _, objects in most) <= 2
        last = 2 * count - 1, T0 + 10 * (count - 1) + 1
        assert await cost(store, MAX_TIMESTAMP, last) == (1, 1), "it lies in the tail"
        assert await cost(store, T0 + 10 * count, (-1, -1)) == (1, 0)


async def test_a_record_from_the_future_that_is_gone_costs_pages_of_rows_not_rows() -> None:
    store = memory_store()
    engine = store.engine(1, head_bytes_max=400, spill_entries=1)
    await engine.topics.create("t", 1, configs={"message.timestamp.after.max.ms": str(10**9)})
    await produce(engine, "t", 0, batch([b"future"], timestamp_ms=T0 + 10**9))
    for i in range(1, 400):
        await produce(engine, "t", 0, batch([b"x"], timestamp_ms=T0 + i))
    [deleted] = await engine.delete_records([DeleteRecordsPartition("t", 0, 5)])
    assert not deleted.error
    tables, objects = await cost(store, T0 + 350, (350, T0 + 350))
    assert tables <= 12
    assert objects == 0
    tables, _ = await cost(store, MAX_TIMESTAMP, (399, T0 + 399))
    assert tables <= 14


async def test_a_lookup_begins_at_the_log_start() -> None:
    store = await long_log(200, is_merged=True)
    [deleted] = await store.engine(4).delete_records([DeleteRecordsPartition("t", 0, 61)])
    assert not deleted.error
    assert await ask(store, T0) == (61, T0 + 301)
    assert await ask(store, T0 + 301) == (61, T0 + 301)
    assert await ask(store, T0 + 302) == (62, T0 + 310)


# --- rows of a swap that is visible in part ---------------------------------------------------------------------------


async def rows_before_and_after_a_merge(first_ms: int) -> tuple[Store, list[Row], list[Row]]:
    """A log of single records 10 ms apart whose newest rows become a segment; its index rows before and after that.

    The first record, which is deleted, has a timestamp of its own.
    """
    store = memory_store()
    engine = store.engine(1, head_bytes_max=400, spill_entries=1)
    await engine.topics.create("t", 1, configs={"message.timestamp.after.max.ms": str(10**10)})
    for i in range(14):
        sent = batch([b"x"], timestamp_ms=T0 + 10 * i if i else first_ms)
        assert not (await produce(engine, "t", 0, sent)).error
    assert not (await engine.delete_records([DeleteRecordsPartition("t", 0, 1)]))[0].error
    partition = await partition_of(engine, "t")
    rows = await rows_of(engine, partition)
    lease = await engine.leases.take(partition)
    assert lease is not None
    for some in (rows[:2], rows[2:4]):
        segment = await upload_segment(engine, partition, some)
        await engine.index.replace_rows(lease, some, [segment], merged_offset=segment.end_offset)
    before = await index_rows(store, partition)
    window = await rows_of(engine, partition)
    segment = await upload_segment(engine, partition, rows[4:])
    await engine.index.replace_rows(lease, window[2:], [segment], merged_offset=segment.end_offset)
    return store, before, await index_rows(store, partition)


async def index_rows(store: Store, partition: PartitionId) -> list[Row]:
    return await store.log.query(partition_pk(partition), sk_from=INDEX_PREFIX, sk_to=INDEX_END)


@pytest.mark.parametrize("first_ms", [T0, T0 + 10**9])  # the later one leads to the first row, and on from there
async def test_a_lookup_does_not_pass_over_records_whose_row_is_not_visible_yet(
    first_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a merge each row may be seen as before or as after it (docs/decisions/0010): never is a later record found."""
    store, before, after = await rows_before_and_after_a_merge(first_ms)
    old, new = ({row.key: row.item for row in rows} for rows in (before, after))
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    assert len(changed) > 4
    query = store.log._port.query
    views = [{changed[index]} for index in range(len(changed))] + [set(changed[:n]) for n in range(1, len(changed))]
    views += [set(changed) - view for view in views]
    for view in views:
        visible = old | {key: new.get(key) for key in view}

        async def torn(pk: str, visible_items: dict[Key, Item | None] = visible, **bounds: Any) -> list[Row]:
            if bounds.get("sk_from", "")[:2] != INDEX_PREFIX:
                return await query(pk, **bounds)
            rows = [Row(key, item) for key, item in sorted(visible_items.items()) if item is not None]
            rows = [row for row in rows if bounds["sk_from"] <= row.key.sk < bounds["sk_to"]]
            return rows[:: -1 if bounds.get("descending") else 1][: bounds.get("limit")]

        monkeypatch.setattr(store.log._port, "query", torn)
        requested = [ListOffsetsPartition("t", 0, T0 + 10 * i) for i in range(1, 14)]
        results = await store.engine(5).list_offsets(requested)
        for i, result in enumerate(results, 1):
            if not result.error:
                assert result.offset == i, sorted(key.sk for key in view)
            else:
                assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
                assert result.error.is_retryable
    monkeypatch.undo()
    for i in range(1, 14):
        assert await ask(store, T0 + 10 * i) == (i, T0 + 10 * i)


async def test_a_throttled_head_is_read_again_after_pauses(store: Store) -> None:
    engine = store.engine()
    await engine.topics.get("t")
    used = store.log.count("get")
    store.log.script = {("get", used + n): Fault.UNAVAILABLE for n in range(1, 5)}
    began_s = store.clock.monotonic()
    [result] = await engine.list_offsets([ListOffsetsPartition("t", 0, LATEST_TIMESTAMP)])
    assert (result.error, result.offset) == (ErrorCode.NONE, 80)
    assert store.clock.monotonic() - began_s >= (0.05 + 0.1 + 0.2 + 0.4) / 2
    store.log.script = {("get", store.log.count("get") + n): Fault.UNAVAILABLE for n in range(1, 100)}
    [result] = await engine.list_offsets([ListOffsetsPartition("t", 0, LATEST_TIMESTAMP)])
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
