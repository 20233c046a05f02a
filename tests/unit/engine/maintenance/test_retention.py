"""Retention: what is dropped, what stays, and that a pass cut short anywhere is finished by the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import Maintenance
from odradek.engine.maintenance.retention import Retention
from odradek.engine.partition.index_row import IndexRow, encode_index_row
from odradek.errors import OutcomeUnknown
from odradek.format.item_keys import index_sk, partition_pk
from odradek.format.object_keys import topic_prefix
from odradek.model.log import DeleteRecordsPartition
from odradek.ports.table import Key, Put
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import START_MS, ManualClock

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.examples import some
from tests.support.stores.segments import merge_by_hand, partition_of, rows_of

DAY_MS = 86_400_000
SPILLING: dict[str, int] = {"head_bytes_max": 400, "spill_entries": 1, "retention_delay_ms": 0}


@pytest.fixture
def store() -> Store:
    return memory_store()


async def filled(
    store: Store, configs: Mapping[str, str], ages_ms: list[int], *, merged: bool = True, size: int = 100
) -> Engine:
    """A topic `t` with a batch of one record for each age; all but the newest few in segments of two batches."""
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1, configs)
    for age_ms in ages_ms:
        result = await produce(engine, "t", 0, batch([b"x" * size], timestamp_ms=store.clock.now_ms() - age_ms))
        assert not result.error
    if merged:
        await merge_by_hand(engine, await partition_of(engine, "t"), rows_per_segment=2)
    return engine


async def log_start(engine: Engine) -> int:
    head = await engine.index.read_head(await partition_of(engine, "t"))
    assert head is not None
    return head.log_start_offset


def maintenance(engine: Engine) -> Maintenance:
    """Retention and what it relies on, without merges and sweep."""
    retention = Retention(engine.index, engine.objects, engine.leases, engine.clock, engine.settings.retention_delay_ms)
    upkeeps = [engine.orphans, retention]
    return Maintenance(engine.tools, engine.index, engine.topics, engine.leases, upkeeps)


async def run(engine: Engine) -> None:
    report = await maintenance(engine).run()
    assert report.failures == []


@pytest.mark.parametrize("merged", [True, False])
async def test_old_rows_go_and_the_first_that_is_not_old_stays_with_all_after_it(store: Store, merged: bool) -> None:
    old, young = 2 * DAY_MS, DAY_MS // 2
    engine = await filled(store, {"retention.ms": str(DAY_MS)}, [old] * 4 + [young, old] + [old] * 12, merged=merged)
    await run(engine)
    assert await log_start(engine) == 4
    partition = await partition_of(engine, "t")
    assert (await rows_of(engine, partition))[0].base_offset == 4
    assert [record.offset for record in await read_all(engine, "t", 0, 4)] == [*range(4, 18)]
    kept = {row.segment_id for row in await rows_of(engine, partition) if row.is_segment}
    names = [info.key for info in await store.objects.list(topic_prefix(partition))]
    assert len(names) == 2 * len(kept), "nothing of dropped segments is left, nothing of kept ones is gone"
    store.clock.advance(2 * DAY_MS / 1000)
    await run(engine)
    head = await engine.index.read_head(partition)
    assert head is not None
    assert head.log_start_offset == head.tail_base_offset < head.next_offset, "the tail is the active segment"
    assert await rows_of(engine, partition) == []
    assert await store.objects.list(topic_prefix(partition)) == []
    assert (await read_all(engine, "t", 0, head.log_start_offset))[-1].offset == 17


async def test_a_row_is_dropped_only_when_its_age_exceeds_the_limit(store: Store) -> None:
    engine = await filled(store, {"retention.ms": str(DAY_MS)}, [DAY_MS - 10_000] * 12)
    await run(engine)
    assert await log_start(engine) == 0
    store.clock.advance(11)
    await run(engine)
    assert await log_start(engine) > 0


async def test_what_was_just_written_stays_for_as_long_as_a_broker_may_leave_it(store: Store) -> None:
    """Events of a tutorial, with times of years ago: a broker looks for expired segments every five minutes."""
    engine = store.engine(**{**SPILLING, "retention_delay_ms": 300_000})
    await engine.topics.create("t", 1, {"retention.ms": str(DAY_MS)})
    for _ in range(12):
        await produce(engine, "t", 0, batch([b"x"], timestamp_ms=store.clock.now_ms() - 900 * DAY_MS))
    await run(engine)
    store.clock.advance(290)
    await run(engine)
    assert await log_start(engine) == 0
    store.clock.advance(11)
    await run(engine)
    assert await log_start(engine) > 0


async def test_commit_times_of_a_clock_that_is_hours_ahead_keep_nothing_for_long(store: Store) -> None:
    settings = {**SPILLING, "retention_delay_ms": 300_000}
    engine = store.engine(**settings)
    await engine.topics.create("t", 1, {"retention.ms": str(DAY_MS)})
    ahead = ManualClock(auto_advance=True)
    ahead.advance(5 * 3600)
    wrong = Store(store.tables, store.objects, ahead).engine(1, **settings)
    for _ in range(12):
        await produce(wrong, "t", 0, batch([b"x"], timestamp_ms=store.clock.now_ms() - 900 * DAY_MS))
    await run(engine)
    assert await log_start(engine) > 0


async def test_timestamps_ahead_keep_a_log_and_without_timestamps_the_commit_time_counts(store: Store) -> None:
    engine = await filled(
        store,
        {"retention.ms": str(DAY_MS), "message.timestamp.after.max.ms": str(9 * DAY_MS)},
        [-5 * DAY_MS] + [2 * DAY_MS] * 12,
    )
    await run(engine)
    assert await log_start(engine) == 0
    other = memory_store()
    engine = await filled(other, {"retention.ms": str(DAY_MS)}, [START_MS + 2 * DAY_MS] * 12)
    await run(engine)
    assert await log_start(engine) == 0
    other.clock.advance(2 * DAY_MS / 1000)
    await run(engine)
    assert await log_start(engine) > 0


@pytest.mark.parametrize("configs", [{"retention.ms": "-1"}, {"cleanup.policy": "compact", "retention.ms": "1"}])
async def test_without_a_limit_and_without_the_policy_nothing_goes(store: Store, configs: dict[str, str]) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1, {**configs, "retention.bytes": "1" if "cleanup.policy" in configs else "-1"})
    for n in range(12):
        await produce(engine, "t", 0, batch([b"x"], keys=[b"%d" % n], timestamp_ms=1))
    rows = await rows_of(engine, await partition_of(engine, "t"))
    await run(engine)
    assert await log_start(engine) == 0
    assert len(rows) > 3


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("batches_kept", [0, 5, 9, 10, 40])
async def test_by_size_a_row_goes_if_what_is_newer_is_enough(store: Store, merged: bool, batches_kept: int) -> None:
    one = len(batch([b"x" * 100]))
    configs = {"retention.ms": "-1", "retention.bytes": str(one * batches_kept)}
    engine = await filled(store, configs, [0] * 20, merged=merged)
    partition = await partition_of(engine, "t")
    before = await rows_of(engine, partition)
    head = await engine.index.read_head(partition)
    assert head is not None
    expected = 0
    for row in before:
        if head.next_offset - row.end_offset >= batches_kept:
            expected = row.end_offset
    await run(engine)
    assert await log_start(engine) == expected
    assert await rows_of(engine, partition) == [row for row in before if row.base_offset >= expected]
    await run(engine)
    assert await log_start(engine) == expected


async def test_deleted_records_go_whatever_the_policy_is_by_then(store: Store) -> None:
    engine = await filled(store, {"retention.ms": "-1"}, [0] * 20)
    await engine.delete_records([DeleteRecordsPartition("t", 0, 7)])
    await engine.topics.alter_configs("t", set={"cleanup.policy": "compact"})
    partition = await partition_of(engine, "t")
    await run(engine)
    rows = await rows_of(engine, partition)
    assert rows[0].base_offset <= 7 < rows[0].end_offset
    assert [record.offset for record in await read_all(engine, "t", 0, 7)] == [*range(7, 20)]


async def test_a_row_spilled_again_after_it_was_dropped_is_removed_and_never_read(store: Store) -> None:
    engine = await filled(store, {"retention.ms": "-1"}, [0] * 20, merged=False)
    partition = await partition_of(engine, "t")
    stale = (await rows_of(engine, partition))[2]
    await engine.delete_records([DeleteRecordsPartition("t", 0, 9)])
    await run(engine)
    lease = await engine.leases.take(partition)
    assert lease is not None
    await engine.index.replace_rows(lease, [], [stale])  # as a spill that slept since then
    await engine.leases.release(lease, clean=True)
    assert [record.offset for record in await read_all(engine, "t", 0, 9)] == [*range(9, 20)]
    await run(engine)
    assert stale not in await rows_of(engine, partition)


async def test_the_row_of_a_spill_under_way_stays_although_its_records_are_deleted(store: Store) -> None:
    engine = store.engine(spill_entries=1)
    await engine.topics.create("t")
    for n in range(4):
        store.clock.advance(1)
        await produce(engine, "t", 0, batch([b"%d" % n]))
    partition = await partition_of(engine, "t")
    head_before = await engine.index.read_head(partition)
    assert head_before is not None
    # One spill writes its row and sleeps; all records are deleted; another one would take more entries at once.
    store.log.script = {("update", store.log.count("update") + 1): Fault.LATE}
    with pytest.raises(OutcomeUnknown):
        await engine.index.spill(partition, head_before)
    await engine.delete_records([DeleteRecordsPartition("t", 0, -1)])
    await run(engine)
    for n in range(4, 7):
        store.clock.advance(1)
        await produce(engine, "t", 0, batch([b"%d" % n]))
    large = store.engine(1, spill_entries=5)
    now = await large.index.read_head(partition)
    assert now is not None
    await large.index.spill(partition, now)
    await store.log.deliver_late()
    for _ in range(2):
        await run(engine)
        assert [record.value for record in await read_all(store.engine(2), "t", 0, 4)] == [b"4", b"5", b"6"]


@pytest.mark.parametrize(
    ("port_name", "fault"),
    some(product(["log", "objects"], [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE])),
)
async def test_cut_short_at_any_call_it_is_finished_by_the_next_pass(port_name: str, fault: Fault) -> None:
    """Fail the n-th call of each method, for n = 1, 2 ... until none is left to fail; then run calmly."""
    methods = ("get", "query", "update", "put", "transact") if port_name == "log" else ("list", "delete")
    tried = 0
    for method in methods:
        for n in range(1, 100):
            store = memory_store()
            engine = await filled(store, {"retention.ms": str(DAY_MS)}, [2 * DAY_MS] * 8 + [0] * 12)
            expected = [record.value for record in await read_all(engine, "t", 0)][8:]
            port = store.log if port_name == "log" else store.objects
            # Every later call fails too: the run dies there.
            done = port.count(method)
            port.script = {(method, done + n + later): fault for later in range(30)}
            await maintenance(engine).run()
            reached = port.count(method) >= done + n
            port.script = {}
            store.clock.advance(3600)
            calm = store.engine(1, **SPILLING)
            await run(calm)
            await port.deliver_late()
            store.clock.advance(3600)
            await run(calm)
            partition = await partition_of(calm, "t")
            rows = await rows_of(calm, partition)
            assert await log_start(calm) == rows[0].base_offset == 8
            assert [record.value for record in await read_all(calm, "t", 0, 8)] == expected
            names = [info.key for info in await store.objects.list(topic_prefix(partition))]
            assert len(names) == 2 * sum(row.is_segment for row in rows), (method, n, names)
            tried += 1
            if not reached:
                break
    assert tried > len(methods)


# --- ghosts that end in a live row ------------------------------------------------------------------------------------


async def late_spill(store: Store) -> tuple[Engine, IndexRow]:
    """Retention has removed the first row; who slept since before writes it again, with entries of the second too."""
    engine = store.engine(head_bytes_max=400, spill_entries=2, merge_rows_min=1)
    await engine.topics.create("t", 1, {"retention.ms": "-1"})
    for i in range(20):
        assert not (await produce(engine, "t", 0, batch([b"%d" % i, b"second"]))).error
    partition = await partition_of(engine, "t")
    first, second, *_ = await rows_of(engine, partition)
    await engine.delete_records([DeleteRecordsPartition("t", 0, second.base_offset + 1)])
    await run(engine)
    assert (await rows_of(engine, partition))[0] == second
    end_offset = second.base_offset + second.entries[0].offset_count
    assert second.base_offset + 1 < end_offset < second.end_offset
    ghost = replace(first, end_offset=end_offset, entries=(*first.entries, second.entries[0]))
    await store.log.put(Put(Key(partition_pk(partition), index_sk(ghost.base_offset)), encode_index_row(ghost)))
    return engine, ghost


async def test_a_merge_removes_a_ghost_and_not_the_row_in_which_it_ends(store: Store) -> None:
    engine, ghost = await late_spill(store)
    kept = await read_all(engine, "t", 0, await log_start(engine))
    store.clock.advance(61)
    report = await engine.maintenance.run()
    assert (report.failures, report.done["ghosts_removed"]) == ([], 1)
    assert report.done["segments_merged"] > 0
    rows = await rows_of(engine, await partition_of(engine, "t"))
    assert rows[0].base_offset > ghost.base_offset
    assert await read_all(store.engine(5), "t", 0, await log_start(engine)) == kept


async def test_retention_that_drops_a_ghost_does_not_make_one_of_the_row_in_which_it_ends(store: Store) -> None:
    engine, ghost = await late_spill(store)
    await engine.delete_records([DeleteRecordsPartition("t", 0, ghost.end_offset)])
    kept = await read_all(engine, "t", 0, ghost.end_offset)
    await run(engine)
    assert ghost not in await rows_of(engine, await partition_of(engine, "t"))
    assert await read_all(store.engine(5), "t", 0, ghost.end_offset) == kept
    assert kept[0].offset == ghost.end_offset


async def test_the_row_of_a_spill_under_way_stays_where_older_rows_go(store: Store) -> None:
    engine = store.engine(spill_entries=2)
    await engine.topics.create("t")
    partition = await partition_of(engine, "t")
    for _ in range(4):
        await produce(engine, "t", 0, batch([b"x"]))
    head_before = await engine.index.read_head(partition)
    assert head_before is not None
    await engine.index.spill(partition, head_before)
    head_before = await engine.index.read_head(partition)
    assert head_before is not None
    store.log.script = {("update", store.log.count("update") + 1): Fault.LATE}
    with pytest.raises(OutcomeUnknown):
        await engine.index.spill(partition, head_before)
    await engine.delete_records([DeleteRecordsPartition("t", 0, -1)])
    await run(engine)
    assert [row.base_offset for row in await rows_of(engine, partition)] == [2]
