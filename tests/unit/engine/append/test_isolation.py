"""Readers of more than one item, while a transaction becomes visible item by item (docs/decisions/0010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from odradek.engine.append.row_search import Search, find_entry
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index_row import IndexRow, without_ghosts
from odradek.engine.partition.maintenance_lease import LeaseLost
from odradek.engine.partition.spill_decisions import oldest_row
from odradek.errors import ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable, TransactionConflict
from odradek.format.tail_entry import TailEntry
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.ports.table import Item, Key
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import merge_by_hand, partition_of, rows_of

SPILLING = {"head_bytes_max": 400, "spill_entries": 1}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def store() -> Store:
    return memory_store(per_head=1)


def conflicting(store: Store, monkeypatch: pytest.MonkeyPatch, held: set[str], table: str = "groups") -> list[int]:
    """Transactional reads of items with these sort keys conflict; returns how many were tried, in a list."""
    port = getattr(store.tables, table)._port
    original, tried = port.transact_get, [0]

    async def transact_get(keys: Sequence[Key]) -> list[Item | None]:
        tried[0] += 1
        if any(key.sk in held for key in keys):
            raise TransactionConflict("being applied")
        items: list[Item | None] = await original(keys)
        return items

    monkeypatch.setattr(port, "transact_get", transact_get)
    return tried


# --- committed offsets --------------------------------------------------------------------------------------------


async def test_an_offset_that_a_transaction_is_being_applied_to_is_unstable(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = store.engine()
    await engine.topics.create("t", 2)
    await engine.offsets.commit("g", {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(4)})
    topic = await engine.topics.resolve("t")
    held = {f"o#{topic.topic_id}#0"}
    conflicting(store, monkeypatch, held)
    first, second = await engine.offsets.fetch("g", [T0, T1], require_stable=True)
    assert (first.committed, first.error) == (None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert (second.committed, second.error) == (OffsetAndMetadata(4), ErrorCode.NONE)
    everything = await engine.offsets.fetch("g", None, require_stable=True)
    assert [result.error for result in everything] == [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE]
    with pytest.raises(KafkaError) as refused:
        await engine.offsets.fetch("g", [T0, T1])
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE, "older clients do not know the other code"
    held.clear()
    assert [result.committed for result in await engine.offsets.fetch("g", [T0, T1])] == [
        OffsetAndMetadata(3),
        OffsetAndMetadata(4),
    ]


async def test_a_fetch_of_many_offsets_reads_each_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.engine()
    await engine.topics.create("t", 60)
    places = [TopicPartition("t", number) for number in range(60)]
    await engine.offsets.commit("g", {tp: OffsetAndMetadata(tp.partition) for tp in places})
    tried = conflicting(store, monkeypatch, set())
    results = await engine.offsets.fetch("g", [*places, places[0]], require_stable=True)
    assert [result.committed.offset for result in results if result.committed] == [*range(60), 0]
    assert tried == [3]


# --- rows that an append looks for its entry in -----------------------------------------------------------------


def entry(commit_ms: int) -> TailEntry:
    return TailEntry(
        object_id=commit_ms.to_bytes(16, "big"),
        position=0,
        length=100,
        offset_count=1,
        max_timestamp_ms=5,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        commit_ms=commit_ms,
    )


def spilled(base: int, *commits_ms: int) -> IndexRow:
    entries = tuple(map(entry, commits_ms))
    return IndexRow(base, base + len(entries), 5, 100, max(commits_ms), entries)


def segment(base: int, end: int, floor_ms: int) -> IndexRow:
    return IndexRow(base, end, 5, 100, floor_ms, segment_id=bytes(16))


SOUGHT = entry(80)


@pytest.mark.parametrize(
    ("rows", "head", "expected"),
    [
        ([spilled(2, 80), segment(0, 2, 10)], PartitionHead(tail_base_offset=3, merged_offset=2), 2),
        ([segment(0, 3, 79)], PartitionHead(tail_base_offset=3, merged_offset=3), Search.ABSENT),
        ([segment(0, 3, 90)], PartitionHead(tail_base_offset=3, merged_offset=3), Search.UNKNOWABLE),
        # a ghost: its floor is older than the entry, which is in the segment around it
        ([spilled(1, 50), segment(0, 3, 90)], PartitionHead(tail_base_offset=3, merged_offset=3), Search.UNKNOWABLE),
        # the same before the swap that made it a ghost had reached the head that was read
        ([spilled(1, 50), segment(0, 3, 90)], PartitionHead(tail_base_offset=3, merged_offset=0), Search.AGAIN),
        # a swap of segments that is half visible: the newest row is gone, the one in its place not there yet
        ([segment(0, 2, 10)], PartitionHead(tail_base_offset=3, merged_offset=3), Search.AGAIN),
        ([spilled(3, 95), segment(0, 2, 10)], PartitionHead(tail_base_offset=4, merged_offset=3), Search.AGAIN),
        # a spill under way, and one that came after the head was read
        ([spilled(3, 95), spilled(0, 10, 20, 30)], PartitionHead(tail_base_offset=3), Search.ABSENT),
        ([], PartitionHead(), Search.ABSENT),
        ([], PartitionHead(tail_base_offset=3), Search.UNKNOWABLE),
        ([spilled(1, 90)], PartitionHead(tail_base_offset=2), Search.UNKNOWABLE),
    ],
)
def test_what_rows_say_of_an_entry(rows: list[IndexRow], head: PartitionHead, expected: int | Search) -> None:
    assert find_entry(SOUGHT, head, rows, is_all=True) == expected


def test_more_rows_are_asked_for_where_these_do_not_tell() -> None:
    head = PartitionHead(tail_base_offset=9)
    assert find_entry(SOUGHT, head, [spilled(8, 90)], is_all=False) is Search.MORE


async def test_a_plain_append_that_meets_a_ghost_is_not_applied_twice(store: Store) -> None:
    """The answer is lost; the entry is spilled, merged, and a spiller that slept writes its row again, shorter."""
    engine = store.engine(spill_entries=1, head_bytes_max=100_000)
    await engine.topics.create("t", 1)
    partition = await partition_of(engine, "t")
    for number in range(3):
        store.clock.advance(1)
        await produce(engine, "t", 0, batch([b"%d" % number]))
    head = await engine.index.read_head(partition)
    assert head is not None
    ghost = oldest_row(replace(head, tail=head.tail[1:], tail_base_offset=1), 1)
    store.clock.advance(1)
    calls = store.log.count("update")
    store.log.script = {("update", calls + 1): Fault.LOST_ANSWER}
    original = engine.clock.sleep

    async def meanwhile(seconds: float) -> None:
        engine.clock.sleep = original  # type: ignore[method-assign]
        other = store.engine(5, spill_entries=8, head_bytes_max=100)
        now = await other.index.read_head(partition)
        assert now is not None
        await other.index.spill(partition, now)
        await merge_by_hand(other, partition, rows_per_segment=8)
        lease = await other.leases.take(partition)
        assert lease is not None
        await other.index.replace_rows(lease, [], [ghost])
        await other.leases.release(lease, clean=True)
        await original(seconds)

    engine.clock.sleep = meanwhile  # type: ignore[method-assign]
    result = await produce(engine, "t", 0, batch([b"sought"]))
    values = [record.value for record in await read_all(store.engine(6), "t", 0)]
    assert values.count(b"sought") == 1
    assert result.error is ErrorCode.REQUEST_TIMED_OUT


# --- maintenance --------------------------------------------------------------------------------------------------


async def test_a_new_holder_waits_until_the_last_swap_is_visible(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1)
    for number in range(8):
        store.clock.advance(1)
        await produce(engine, "t", 0, batch([b"%d" % number]))
    partition = await partition_of(engine, "t")
    rows = await rows_of(engine, partition)
    lease = await engine.leases.take(partition)
    assert lease is not None
    store.log.script = {("transact", store.log.count("transact") + n): Fault.LOST_REQUEST for n in range(1, 5)}
    with pytest.raises(OutcomeUnknown):
        await engine.index.replace_rows(lease, rows[:1], rows[:1])
    store.log.script = {}
    await engine.index.replace_rows(lease, rows[:2], rows[:2])
    await engine.leases.release(lease, clean=False)
    held = {f"i#{rows[1].base_offset:020d}"}
    tried = conflicting(store, monkeypatch, held, "log")
    with pytest.raises(StoreUnavailable):
        await engine.leases.take(partition)
    assert tried[0] > 1
    held.clear()
    store.clock.advance(3600)
    assert await engine.leases.take(partition) is not None


async def test_rows_with_a_gap_are_not_merged(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1)
    for number in range(9):
        store.clock.advance(1)
        await produce(engine, "t", 0, batch([b"%d" % number]))
    partition = await partition_of(engine, "t")
    first, second, third, *_ = await rows_of(engine, partition)
    lease = await engine.leases.take(partition)
    assert lease is not None
    whole = replace(third, base_offset=first.base_offset)
    for old, new in (([first, third], [whole]), ([first, second], [first]), ([first], [first, second])):
        with pytest.raises(LeaseLost):
            await engine.index.replace_rows(lease, old, new)
    assert [record.value for record in await read_all(engine, "t", 0)] == [b"%d" % number for number in range(9)]


def test_rows_that_begin_within_the_one_before_are_passed_over() -> None:
    rows = [segment(0, 10, 9), spilled(4, 5, 6), spilled(9, 5, 6, 7), segment(10, 20, 19), spilled(20, 21)]
    assert without_ghosts(rows) == [rows[0], rows[3], rows[4]]
