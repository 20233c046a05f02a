"""The swap of segments that merge and compaction share: what it writes, and what stays where its outcome is unknown."""

from __future__ import annotations

from uuid import UUID

import pytest
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.engine.maintenance.swap_decisions import merged_offset_after, object_keys, row_in_place_of
from odradek.engine.partition.index_row import IndexRow
from odradek.format.object_keys import index_key, segment_key
from odradek.format.tail_entry import TailEntry
from odradek.model.topic_partition import PartitionId
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of, rows_of

SPILLING = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1}
PARTITION = PartitionId(UUID(int=1), 0)
SEGMENT = IndexRow(0, 10, 50, 1_000, 7, segment_id=b"s" * 16, running_max_timestamp_ms=60, segment_started_ms=5)
SPILLED = IndexRow(
    10, 12, 40, 80, 9, entries=(TailEntry(b"o" * 16, 0, 80, 2, 40, commit_ms=8),), running_max_timestamp_ms=61
)  # fmt: skip


def test_the_row_of_a_segment_says_of_the_old_rows_what_it_does_not_know_itself() -> None:
    row = row_in_place_of(
        [SEGMENT, SPILLED],
        b"n" * 16,
        base_offset=3,
        end_offset=12,
        max_timestamp_ms=45,
        size_bytes=900,
        index_bytes=33,
    )
    assert row == IndexRow(
        3, 12, 45, 900, 9, segment_id=b"n" * 16, index_bytes=33, running_max_timestamp_ms=61, segment_started_ms=5
    )


def test_the_merged_offset_rises_where_a_spilled_row_is_replaced() -> None:
    assert merged_offset_after([SEGMENT, SPILLED]) == 12
    assert merged_offset_after([SPILLED]) == 12
    assert merged_offset_after([SEGMENT]) is None


def test_a_spilled_row_has_no_objects_of_its_own() -> None:
    assert object_keys(PARTITION, SPILLED) == []
    assert object_keys(PARTITION, SEGMENT) == [
        segment_key(PARTITION, 0, b"s" * 16),
        index_key(PARTITION, 0, b"s" * 16),
    ]


@pytest.fixture
async def store() -> Store:
    store = memory_store()
    await store.engine(**SPILLING).topics.create("t")
    return store


async def fill(store: Store) -> None:
    engine = store.engine(1, **SPILLING)
    for i in range(16):
        assert not (await produce(engine, "t", 0, batch([b"%d" % i]))).error
    store.clock.advance(61)


async def merge(store: Store, seed: int) -> MaintenanceReport:
    return await store.engine(seed, **SPILLING).maintenance.run()


@pytest.mark.parametrize("arrives", [False, True])
async def test_of_a_swap_whose_outcome_is_unknown_both_sides_stay(store: Store, arrives: bool) -> None:
    await fill(store)
    assert (await merge(store, 7)).failures == []
    await fill(store)
    before = await read_all(store.engine(), "t", 0)
    partition = await partition_of(store.engine(), "t")
    old = await rows_of(store.engine(), partition)
    assert old[0].is_segment, "so that the swap replaces objects"
    first = store.log.count("transact")
    for nth in range(1, 5):  # all attempts are on their way when the swap gives up
        store.log.script[("transact", first + nth)] = Fault.LATE
    report = await merge(store, 8)
    assert any("OutcomeUnknown" in failure for failure in report.failures), report
    if arrives:
        store.log.script.clear()
        await store.log.deliver_late()
    assert await read_all(store.engine(), "t", 0) == before
    kept = {info.key for info in await store.objects.list("", limit=1_000)}
    assert kept.issuperset(object_keys(partition, old[0]))
    store.clock.advance(100)
    assert (await merge(store, 9)).failures == []
    assert await read_all(store.engine(), "t", 0) == before
    assert all(row.is_segment for row in await rows_of(store.engine(), partition))
