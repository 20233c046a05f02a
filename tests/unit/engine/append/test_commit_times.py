"""A clock that is behind, where a merge has taken the rows that could tell whether an append is new."""

from __future__ import annotations

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.item_keys import index_sk, partition_pk
from odradek.ports.table import Delete, Key
from odradek.testing.manual_clock import ManualClock

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import merge_by_hand, partition_of, rows_of

SPILLING = {"head_bytes_max": 400, "spill_entries": 1}


async def merged_log(store: Store) -> Engine:
    """A log whose spilled rows have all become segments, written by a clock that is an hour ahead."""
    store.clock.advance(3600)
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 1)
    for i in range(12):
        assert not (await produce(engine, "t", 0, batch([b"%d" % i]))).error
    await merge_by_hand(engine, await partition_of(engine, "t"), rows_per_segment=2)
    assert all(row.is_segment for row in await rows_of(engine, await partition_of(engine, "t")))
    return engine


def behind(store: Store) -> Engine:
    return Store(store.tables, store.objects, ManualClock(auto_advance=True)).engine(seed=7, **SPILLING)


async def test_an_idempotent_append_goes_by_its_sequence() -> None:
    store = memory_store()
    await merged_log(store)
    late = behind(store)
    for sequence in range(3):
        result = await produce(late, "t", 0, batch([b"late"], producer=(9, 0, sequence)))
        assert (result.error, result.base_offset) == (ErrorCode.NONE, 12 + sequence)
    again = await produce(late, "t", 0, batch([b"late"], producer=(9, 0, 2)))
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 14)
    assert [record.offset for record in await read_all(late, "t", 0)] == list(range(15))


async def test_a_plain_append_is_refused_once_and_not_for_ever() -> None:
    store = memory_store()
    await merged_log(store)
    late = behind(store)
    first = await produce(late, "t", 0, batch([b"late"]))
    assert first.error is ErrorCode.REQUEST_TIMED_OUT
    for i in range(3):
        assert (await produce(late, "t", 0, batch([b"late"]))).base_offset == 12 + i


async def test_rows_that_retention_removed_could_have_held_the_entry() -> None:
    store = memory_store()
    engine = await merged_log(store)
    partition = await partition_of(engine, "t")
    for row in await rows_of(engine, partition):
        await store.log.delete(Delete(Key(partition_pk(partition), index_sk(row.base_offset))))
    assert (await produce(behind(store), "t", 0, batch([b"late"]))).error is ErrorCode.REQUEST_TIMED_OUT
