"""Merge: what becomes segments, that readers see no difference, and what every fault leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import HeldPartition, MaintenanceReport
from odradek.engine.partition.head import head_key
from odradek.engine.partition.index_row import IndexRow, encode_index_row
from odradek.engine.partition.maintenance_lease import MaintenanceLease
from odradek.format.item_keys import index_sk, partition_pk, wal_item_key
from odradek.format.object_keys import index_key, partition_prefix, segment_key
from odradek.format.offset_index import decode_offset_index
from odradek.format.record_batch import decode_batches
from odradek.format.segment import verify_segment
from odradek.model.log import DeleteRecordsPartition, FetchPartition, ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Delete, Key, Put
from odradek.testing.faults import Fault

from tests.support.counted import at_least
from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.examples import some
from tests.support.stores.segments import partition_of, rows_of

SPILLING = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1}
BIG = b"x" * 20_000
T0 = 1_700_000_000_000


@pytest.fixture
async def store() -> Store:
    store = memory_store(per_head=1)
    await store.engine(**SPILLING).topics.create("t", 2)
    return store


async def fill(store: Store, count: int, *, value: bytes = b"", start: int = 0) -> None:
    """One batch of two records each; every third is large enough for an object. A minute later it may be merged."""
    engine = store.engine(100 + start, **SPILLING)
    for i in range(start, start + count):
        padding = value or (BIG if i % 3 == 0 else b"")
        result = await produce(engine, "t", 0, batch([b"%d" % i + padding, b"second"], timestamp_ms=T0 + i))
        assert not result.error
    store.clock.advance(61)


async def merge(store: Store, seed: int = 7, **settings: int) -> MaintenanceReport:
    """One maintenance run by a new engine."""
    return await store.engine(seed, **{**SPILLING, **settings}).maintenance.run()


async def contents(store: Store) -> list[tuple[int, int, bytes | None]]:
    records = await read_all(store.engine(), "t", 0)
    return [(record.offset, record.timestamp_ms, record.value) for record in records]


async def test_a_partition_under_steady_writes_is_merged(store: Store) -> None:
    """More rows a minute than a look reads, all of them too young: the old ones behind them are not forgotten."""
    engine = store.engine(**SPILLING)
    for pause_s in (55, 55, 0):
        for i in range(300):
            assert not (await produce(engine, "t", 0, batch([b"%d" % i]))).error
        store.clock.advance(pause_s)
    report = await engine.maintenance.run()
    assert report.done["segments_merged"], report
    rows = await rows_of(engine, await partition_of(engine, "t"))
    assert rows[0].is_segment
    assert not rows[-1].is_segment, "the young ones stay"


async def names(store: Store, partition: PartitionId) -> set[str]:
    return {info.key for info in await store.objects.list(partition_prefix(partition))}


async def check_store(store: Store, engine: Engine) -> list[IndexRow]:
    """Rows are neighbours, segments before spilled rows; each segment is whole, and there is no other object."""
    partition = await partition_of(engine, "t")
    rows = await rows_of(engine, partition)
    head = await engine.index.read_head(partition)
    assert head is not None
    ends = [0, *(row.end_offset for row in rows)]
    assert [row.base_offset for row in rows] == ends[:-1]
    assert ends[-1] == head.tail_base_offset
    assert [row.is_segment for row in rows] == sorted((row.is_segment for row in rows), reverse=True)
    segments = [row for row in rows if row.is_segment]
    assert head.merged_offset == (segments[-1].end_offset if segments else 0)
    assert max((row.running_max_timestamp_ms for row in rows), default=head.running_max_timestamp_ms) == (
        head.running_max_timestamp_ms
    )
    expected = set()
    for row in segments:
        assert row.segment_id is not None
        log_key, index_object = (make(partition, row.base_offset, row.segment_id) for make in (segment_key, index_key))
        data = await store.objects.get(index_object)
        index = decode_offset_index(data)
        verify_segment(await store.objects.get(log_key), index)
        assert (index.base_offset, index.end_offset, index.size_bytes) == (
            row.base_offset,
            row.end_offset,
            row.size_bytes,
        )
        assert (index.max_timestamp_ms, len(data)) == (row.max_timestamp_ms, row.index_bytes)
        expected |= {log_key, index_object}
    assert await names(store, partition) == expected
    return rows


async def test_rows_become_a_segment_and_nobody_sees_a_difference(store: Store) -> None:
    await fill(store, 40)
    before = await contents(store)
    report = await merge(store)
    assert report.failures == []
    rows = await check_store(store, store.engine())
    assert [row.is_segment for row in rows] == [True], "all that is below the tail"
    assert rows[0].end_offset > 70
    assert await contents(store) == before
    for offset in range(80):
        [result] = await store.engine().fetch([FetchPartition("t", 0, offset)])
        first = next(decode_batches(b"".join(result.records)))
        assert first.offset == offset - offset % 2, "the batch that holds the offset, and none before it"


async def test_the_wal_is_not_read_again(store: Store) -> None:
    await fill(store, 40)
    before = await contents(store)
    await merge(store)
    head = await store.engine().index.read_head(await partition_of(store.engine(), "t"))
    assert head is not None
    needed = {entry.object_id for _, entry in head.entries()}
    uploads = await store.objects.list("wal/")
    await store.objects.delete([info.key for info in uploads if bytes.fromhex(info.key[-32:]) not in needed])
    assert await contents(store) == before


async def test_later_rows_are_taken_into_what_is_small(store: Store) -> None:
    for start in range(0, 120, 12):
        await fill(store, 12, start=start)
        assert (await merge(store)).failures == []
    rows = await check_store(store, store.engine())
    assert len(rows) <= 6
    assert [value for _, _, value in await contents(store)][::2] == [
        b"%d" % i + (BIG if i % 3 == 0 else b"") for i in range(120)
    ]


async def test_a_backlog_is_merged_in_one_run(store: Store) -> None:
    await fill(store, 320, value=b"small")
    before = await contents(store)
    partition = await partition_of(store.engine(), "t")
    assert len(await rows_of(store.engine(), partition)) > 128, "more than a page"
    assert (await merge(store)).failures == []
    rows = await check_store(store, store.engine())
    assert all(row.is_segment for row in rows)
    assert len(rows) < 4
    assert await contents(store) == before


async def test_segments_end_at_the_size_that_is_set(store: Store) -> None:
    await fill(store, 60, value=BIG)
    await merge(store, segment_bytes_max=200_000)
    rows = await check_store(store, store.engine())
    assert len(rows) > 5
    assert all(80_000 <= row.size_bytes <= 200_000 for row in rows[:-1])


async def test_one_row_larger_than_a_segment_becomes_several(store: Store) -> None:
    engine = store.engine(1, head_bytes_max=3_000, spill_entries=20)
    for i in range(70):
        await produce(engine, "t", 0, batch([b"%d" % i + BIG]))
    store.clock.advance(61)
    before = await contents(store)
    assert all(row.size_bytes > 400_000 for row in await rows_of(engine, await partition_of(engine, "t")))
    assert (await merge(store, segment_bytes_max=100_000, merge_bytes_max=100_000)).failures == []
    rows = await check_store(store, engine)
    assert len(rows) > 3
    assert all(row.size_bytes <= 100_000 for row in rows)
    assert await contents(store) == before


async def test_what_is_below_the_log_start_does_not_become_a_segment_of_its_own(store: Store) -> None:
    engine = store.engine(1, head_bytes_max=3_000, spill_entries=20)
    for i in range(70):
        await produce(engine, "t", 0, batch([b"%d" % i + BIG]))
    await engine.delete_records([DeleteRecordsPartition("t", 0, 13)])
    store.clock.advance(61)
    assert (await merge(store, segment_bytes_max=100_000)).failures == []
    rows = await rows_of(engine, await partition_of(engine, "t"))
    assert 0 < rows[0].base_offset <= 13 < rows[0].end_offset
    assert [record.offset for record in await read_all(store.engine(), "t", 0, 13)] == list(range(13, 70))


async def test_what_a_merge_holds_at_once_is_bounded(store: Store) -> None:
    engine = store.engine(1, **SPILLING)
    for i in range(60):
        await engine.produce([ProducePartition("t", p, batch([b"%d" % i + BIG])) for p in (0, 1)])
    store.clock.advance(61)
    merging = store.engine(2, **SPILLING, merge_bytes_max=250_000, segment_bytes_max=250_000)
    held, most = 0, 0
    read, put = merging.pieces.read, store.objects.put

    async def reading(pieces: Sequence[object]) -> list[memoryview]:
        nonlocal held, most
        data = await read(pieces)  # type: ignore[arg-type]
        held += sum(map(len, data))
        most = max(most, held)
        return data

    async def putting(key: str, parts: Sequence[bytes]) -> None:
        nonlocal held
        await put(key, parts)
        held -= sum(map(len, parts)) if key.endswith(".log") else 0

    merging.pieces.read = reading  # type: ignore[method-assign]
    store.objects.put = putting
    report = await merging.maintenance.run()
    assert report.failures == []
    assert report.done["segments_merged"] > 6
    assert 100_000 < most <= 250_000, "both partitions together"


async def test_a_quiet_partition_costs_one_query(store: Store) -> None:
    await fill(store, 40)
    await merge(store)
    engine = store.engine(9, **SPILLING)
    partition = await partition_of(engine, "t")
    lease = await engine.leases.take(partition)
    assert lease is not None
    topic = await engine.topics.resolve("t")
    held = HeldPartition(
        topic, TopicConfig.of(topic, engine.settings), partition, lease, MaintenanceReport(), engine.tables
    )
    store.log.calls.clear()
    store.objects.calls.clear()
    await engine.merger.run(held)
    assert (store.log.calls, store.objects.calls) == (["query"], [])


async def test_young_rows_wait_and_old_ones_do_not(store: Store) -> None:
    await fill(store, 14)
    await merge(store, merge_rows_min=50)
    engine = store.engine()
    young = await rows_of(engine, await partition_of(engine, "t"))
    assert not any(row.is_segment for row in at_least(1, young))
    store.clock.advance(601)
    await merge(store, merge_rows_min=50)
    assert all(row.is_segment for row in at_least(1, await check_store(store, engine)))


async def test_log_append_time_is_patched_with_a_right_crc(store: Store) -> None:
    engine = store.engine(1, **SPILLING, catalog_cache_ms=0)
    await engine.topics.alter_configs("t", set={"message.timestamp.type": "LogAppendTime"})
    for i in range(20):
        store.clock.advance(1)
        await produce(engine, "t", 0, batch([b"%d" % i, b"b"], timestamp_ms=5))
    store.clock.advance(61)
    before = await contents(store)
    assert len({timestamp for _, timestamp, _ in before}) == 20
    await merge(store)
    await check_store(store, engine)
    assert await contents(store) == before


async def test_rows_whose_spill_is_not_finished_are_left(store: Store) -> None:
    """A spiller died between the row and the head; then it is merged, and the spill finished by another."""
    await fill(store, 9, value=b"small")
    engine = store.engine(3, **SPILLING)
    partition = await partition_of(engine, "t")
    head = await engine.index.read_head(partition)
    assert head is not None
    assert head.tail
    store.log.script[("update", store.log.count("update") + 1)] = Fault.UNAVAILABLE
    with pytest.raises(Exception, match="made to fail"):
        await engine.index.spill(partition, head)
    assert (await rows_of(engine, partition))[-1].base_offset == head.tail_base_offset
    assert (await merge(store)).failures == []
    rows = await rows_of(engine, partition)
    assert rows[0].is_segment
    assert not rows[-1].is_segment
    assert rows[-1].base_offset == head.tail_base_offset
    await engine.index.spill(partition, head)
    await check_store(store, engine)


# --- ghosts -----------------------------------------------------------------------------------------------------------


async def make_ghost(store: Store, row: IndexRow) -> None:
    """The put of a spiller that slept since before the merge."""
    partition = await partition_of(store.engine(), "t")
    await store.log.put(Put(Key(partition_pk(partition), index_sk(row.base_offset)), encode_index_row(row)))


async def test_a_ghost_is_passed_over_and_removed(store: Store) -> None:
    await fill(store, 40, value=b"small")
    before = await contents(store)
    engine = store.engine()
    partition = await partition_of(engine, "t")
    old = await rows_of(engine, partition)
    await merge(store)
    for row in old[1:6]:
        await make_ghost(store, row)
        for entry in row.entries:  # the sweep was there
            await store.log.delete(Delete(Key(*wal_item_key(entry.object_id))))
    for offset in (0, 3, 5, 9, 17, 30):
        [result] = await store.engine().fetch([FetchPartition("t", 0, offset)])
        assert result.error == 0, (offset, result.message)
    assert await contents(store) == before
    report = await merge(store)
    assert report.done["ghosts_removed"] == 5
    assert report.failures == []
    await check_store(store, engine)


# --- faults -----------------------------------------------------------------------------------------------------------

WRITES = [("objects", "put"), ("objects", "delete"), ("log", "transact"), ("log", "update")]


@pytest.mark.parametrize(
    ("port", "method", "nth", "fault"),
    some(
        (port, method, nth, fault)
        for port, method in WRITES
        for nth in (1, 2, 3)
        for fault in (Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.UNAVAILABLE, Fault.REPEATED)
    ),
)
async def test_a_fault_anywhere_loses_nothing_and_the_next_pass_tidies_up(
    store: Store, port: str, method: str, nth: int, fault: Fault
) -> None:
    await fill(store, 16)
    await merge(store)
    await fill(store, 16, start=16)
    before = await contents(store)
    faulty = getattr(store, port)
    faulty.script[(method, faulty.count(method) + nth)] = fault
    await merge(store, 8)
    assert await contents(store) == before
    store.clock.advance(100)
    assert (await merge(store, 9)).failures == []
    rows = await check_store(store, store.engine())
    assert all(row.is_segment for row in rows)
    assert await contents(store) == before


@pytest.mark.parametrize("is_released", [True, False])
async def test_a_swap_may_arrive_late_until_the_lease_has_moved_on(store: Store, is_released: bool) -> None:
    await fill(store, 16)
    before = await contents(store)
    first = store.log.count("transact")
    # The first transaction is the lease's; the other partition is at rest, and nobody takes its lease.
    for nth in range(2, 6):
        store.log.script[("transact", first + nth)] = Fault.LATE
    merging = store.engine(7, **SPILLING)
    release = merging.leases.release
    applied: list[int] = []

    async def releasing(lease: MaintenanceLease, *, clean: bool) -> None:
        if not is_released:
            applied.append(await store.log.deliver_late())
        await release(lease, clean=clean)

    merging.leases.release = releasing  # type: ignore[method-assign]
    report = await merging.maintenance.run()
    assert any("OutcomeUnknown" in failure for failure in report.failures)
    assert sum(applied) == (0 if is_released else 1), "of all attempts; what was uploaded is referred to"
    assert await store.log.deliver_late() == 0
    assert await contents(store) == before
    store.clock.advance(100)
    assert (await merge(store, 9)).failures == []
    await check_store(store, store.engine())


async def test_a_merger_that_lost_its_lease_changes_nothing(store: Store) -> None:
    await fill(store, 16)
    before = await contents(store)
    slow = store.engine(5, **SPILLING)
    put = store.objects.put

    async def putting(key: str, parts: Sequence[bytes]) -> None:
        await put(key, parts)
        if key.endswith(".index"):
            store.objects.put = put
            store.clock.advance(120)
            assert (await merge(store, 6)).failures == []

    store.objects.put = putting
    report = await slow.maintenance.run()
    assert any("LeaseLost" in failure for failure in report.failures)
    assert await contents(store) == before
    engine = store.engine()
    rows = await rows_of(engine, await partition_of(engine, "t"))
    assert [row.is_segment for row in rows] == [True]


async def test_a_deleted_topic_is_left_alone(store: Store) -> None:
    await fill(store, 16)
    engine = store.engine(5, **SPILLING)
    partition = await partition_of(engine, "t")
    lease = await engine.leases.take(partition)
    assert lease is not None
    topic = await engine.topics.resolve("t")
    await store.log.delete(Delete(head_key(partition)))
    held = HeldPartition(
        topic, TopicConfig.of(topic, engine.settings), partition, lease, MaintenanceReport(), engine.tables
    )
    await engine.merger.run(held)
    assert await names(store, partition) == set()


async def test_a_merged_row_has_the_floor_of_all_that_it_holds(store: Store) -> None:
    """Entries with a commit time at or below the floor may be in the segment."""
    for start in range(40):
        await fill(store, 1, start=start)
        store.clock.advance(1)
    partition = await partition_of(store.engine(), "t")
    before = await rows_of(store.engine(), partition)
    assert before[0].spill_floor_ms < before[-1].spill_floor_ms
    await merge(store)
    after = await rows_of(store.engine(), partition)
    assert after[0].is_segment
    [last] = [row for row in before if row.end_offset == after[0].end_offset]
    assert after[0].spill_floor_ms == last.spill_floor_ms


async def test_a_late_upload_of_a_segment_that_is_gone_is_removed_by_the_next_pass(store: Store) -> None:
    """Its answer was lost, so it was sent again; the first request arrives when the segment has been compacted away."""
    engine = store.engine(1, **SPILLING)
    await engine.topics.create("c", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    for i in range(20):
        await produce(engine, "c", 0, batch([b"%d" % i], keys=[b"key"]))
    store.clock.advance(61)
    store.objects.script = {("put", store.objects.count("put") + 1): Fault.LATE}
    report = await merge(store)
    assert report.failures == []
    assert report.done["segments_merged"] == report.done["segments_compacted"] == 1
    assert await store.objects.deliver_late() == 1
    partition = await partition_of(engine, "c")
    assert len(await names(store, partition)) == 3, "a segment and its index, and what came late"
    report = await merge(store, seed=8)
    assert (report.failures, report.done["orphans_removed"]) == ([], 1)
    assert len(await names(store, partition)) == 2
