"""Heads of hundreds of producers and long tails: they are spilled within DynamoDB's limits, wedged ones heal."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest
from odradek.engine.partition.head import PartitionHead, ProducerState, encode_head, head_key
from odradek.engine.partition.index_row import encode_index_row
from odradek.engine.partition.spill_decisions import oldest_row
from odradek.errors import ErrorCode, OutcomeUnknown, StoreRejected, StoreUnavailable
from odradek.format.item_keys import index_sk, partition_pk
from odradek.format.item_size import item_size
from odradek.format.tail_entry import encode_tail_entry
from odradek.limits import HEAD_BYTES_MAX, SPILL_ENTRIES_MAX, TABLE_ITEM_BYTES_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key, Put, Update
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.examples import some

PRODUCERS = 150


@pytest.fixture
async def store() -> Store:
    store = memory_store()
    await store.engine().topics.create("t", 1)
    return store


async def partition_of(store: Store) -> PartitionId:
    return PartitionId((await store.engine().topics.resolve("t")).topic_id, 0)


async def head_of(store: Store) -> PartitionHead:
    head = await store.engine().index.read_head(await partition_of(store))
    assert head is not None
    return head


def size_of(partition: PartitionId, head: PartitionHead) -> int:
    return item_size(*head_key(partition), encode_head(head))


async def never_spilled(store: Store, producers: int, batches: int) -> PartitionHead:
    """The head that so many producers leave which are kept from spilling."""
    engine = store.engine(head_bytes_max=HEAD_BYTES_MAX)
    for number in range(batches):
        for producer_id in range(producers):
            result = await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, number)))
            assert result.error is ErrorCode.NONE
    return await head_of(store)


async def grown(store: Store, head: PartitionHead, bytes_max: int) -> PartitionHead:
    """The head with as many entries more as fit, of which every one repeats the last object."""
    partition = await partition_of(store)
    entries = [entry for _, entry in head.entries()]
    last, tail, producers = entries[-1], list(head.tail), dict(head.producers)
    room = (bytes_max - size_of(partition, head)) // 61
    for number in range(room):
        producer_id = number % len(producers)
        state = producers[producer_id]
        entry = last._replace(producer_id=producer_id, base_sequence=state.next_sequence)
        tail.append(encode_tail_entry(entry))
        producers[producer_id] = ProducerState(0, state.next_sequence + 1)
    head = replace(head, tail=tuple(tail), producers=producers, next_offset=head.next_offset + room)
    await store.log.put(Put(head_key(partition), encode_head(head)))
    return head


async def duplicates_are_known(store: Store, producers: int, sequence: int, offsets: int) -> None:
    for producer_id in range(producers):
        again = await produce(store.engine(), "t", 0, batch([b"x"], producer=(producer_id, 0, sequence)))
        assert again.error is ErrorCode.NONE
        assert again.base_offset < offsets, "a duplicate is not appended"


async def test_a_tail_of_hundreds_of_producers_is_spilled(store: Store) -> None:
    before = await never_spilled(store, PRODUCERS, 1)
    assert len(before.tail) == PRODUCERS
    engine = store.engine()
    for _ in range(3):
        await engine.index.spill(await partition_of(store), await head_of(store))
    head = await head_of(store)
    assert len(head.tail) <= 8
    assert len(await read_all(engine, "t", 0)) == PRODUCERS
    await duplicates_are_known(store, PRODUCERS, 0, PRODUCERS)


async def test_a_wedged_head_heals(store: Store) -> None:
    """400 KB, no room for an append, and a row that was begun: what the first release to spill in one update left."""
    head = await never_spilled(store, PRODUCERS, 1)
    head = await grown(store, head, TABLE_ITEM_BYTES_MAX)
    partition = await partition_of(store)
    row = oldest_row(head, SPILL_ENTRIES_MAX)
    await store.log.put(Put(Key(partition_pk(partition), index_sk(row.base_offset)), encode_index_row(row)))
    assert size_of(partition, head) > TABLE_ITEM_BYTES_MAX - 61
    result = await produce(store.engine(), "t", 0, batch([b"new"]))
    assert result.error is ErrorCode.NONE
    assert result.base_offset == head.next_offset
    for _ in range(40):
        assert (await produce(store.engine(), "t", 0, batch([b"new"]))).error is ErrorCode.NONE
    healed = await head_of(store)
    assert len(healed.tail) < 2 * SPILL_ENTRIES_MAX
    assert size_of(partition, healed) < 64 * 1024
    for producer_id, state in head.producers.items():
        again = await produce(store.engine(), "t", 0, batch([b"x"], producer=(producer_id, 0, state.next_sequence - 1)))
        assert again.error is ErrorCode.NONE
        assert again.base_offset < head.next_offset, "its last batch is known, wherever it is"


async def test_made_up_producer_ids_do_not_fill_a_head(store: Store) -> None:
    engine = store.engine()
    most = 0
    for producer_id in range(400):
        assert not (await produce(engine, "t", 0, batch([b"x"], producer=(producer_id, 0, 0)))).error
        if producer_id % 50 == 0:
            most = max(most, len((await head_of(store)).producers))
    assert most < 64


@pytest.mark.parametrize(("number", "fault"), some(product(range(1, 6), [Fault.UNAVAILABLE, Fault.LOST_ANSWER])))
async def test_a_spill_may_end_between_any_two_updates(store: Store, number: int, fault: Fault) -> None:
    before = await never_spilled(store, 120, 1)
    partition = await partition_of(store)
    store.log.calls.clear()
    store.log.script = {("update", count): fault for count in range(number, 50)}
    with suppress(StoreUnavailable, OutcomeUnknown):
        await store.engine().index.spill(partition, before)
    store.log.script = {}
    assert len(await read_all(store.engine(), "t", 0)) == 120
    await duplicates_are_known(store, 120, 0, 120)
    await store.engine().index.spill(partition, await head_of(store))
    await duplicates_are_known(store, 120, 0, 120)
    for producer_id in range(120):
        assert not (await produce(store.engine(), "t", 0, batch([b"y"], producer=(producer_id, 0, 1)))).error
    assert len(await read_all(store.engine(), "t", 0)) == 240


class Rejecting:
    """A table that rejects the writes that are chosen."""

    def __init__(self, table: object, chosen: str) -> None:
        self._table, self._chosen = table, chosen
        self.rejected = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    async def update(self, update: Update) -> Item:
        removes = any(type(action).__name__ == "RemoveFirst" for action in update.actions)
        if self._chosen == ("spill" if removes else "append"):
            self.rejected += 1
            raise StoreRejected("made to be rejected")
        item: Item = await self._table.update(update)  # type: ignore[attr-defined]
        return item

    async def put(self, put: Put) -> None:
        if self._chosen == "upload":
            self.rejected += 1
            raise StoreRejected("made to be rejected")
        await self._table.put(put)  # type: ignore[attr-defined]


async def test_an_append_whose_spill_is_rejected_is_a_success(store: Store) -> None:
    store.tables.log = table = Rejecting(store.tables.log, "spill")
    engine = store.engine()
    for number in range(100):
        result = await produce(engine, "t", 0, batch([b"x"]))
        assert (result.error, result.base_offset) == (ErrorCode.NONE, number)
    assert table.rejected > 3


@pytest.mark.parametrize("chosen", ["append", "upload"])
async def test_a_rejected_append_is_tried_once_and_not_to_be_retried(store: Store, chosen: str) -> None:
    engine = store.engine()
    await engine.topics.resolve("t")
    store.tables.log = table = Rejecting(store.tables.log, chosen)
    result = await produce(store.engine(), "t", 0, batch([b"x"]))
    assert result.error is ErrorCode.INVALID_RECORD
    assert not result.error.is_retryable
    assert table.rejected == 1
