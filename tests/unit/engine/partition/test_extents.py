"""Rows of a shared head refer to pages, which stay until the last of them is merged (docs/decisions/0067)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.engine.partition.extents import Extent, decode_extent, encode_extent, extent_sk
from odradek.engine.partition.index_row import IndexRow, decode_index_row, encode_index_row
from odradek.engine.partition.shared_head import SharedHead
from odradek.errors import ErrorCode
from odradek.format.item_size import item_size
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Delete

from tests.support.engine import Store, batch, memory_store, read_all

PER_HEAD = {"odradek.partitions.per.head": "32"}
SHORT = {"head_bytes_max": 200, "spill_entries": 2, "paged_appends": 6}
MERGING = {**SHORT, "merge_rows_min": 1, "merge_delay_ms": 0}


@pytest.fixture
def store() -> Store:
    return memory_store()


async def write(engine: Engine, sequences: range, partitions: Sequence[int]) -> None:
    for sequence in sequences:
        request = [
            ProducePartition("t", number, batch([b"%d" % sequence], producer=(7, 0, sequence))) for number in partitions
        ]
        assert {result.error for result in await engine.produce(request)} == {ErrorCode.NONE}


async def head_of(engine: Engine, head_id: PartitionId) -> SharedHead:
    image = await engine.index.read_image(head_id)
    assert isinstance(image, SharedHead)
    return image


async def keys(store: Store, partition: PartitionId, prefix: str) -> list[str]:
    rows = await store.log.query(f"{partition.topic_id}#{partition.partition}", sk_from=prefix, sk_to=prefix + "~")
    return [row.key.sk for row in rows]


async def test_a_row_of_a_hundred_requests_is_one_write_unit(store: Store) -> None:
    engine = store.engine()
    topic = await engine.topics.create("t", 24, PER_HEAD)
    await write(engine, range(140), range(24))
    for number in range(24):
        partition = PartitionId(topic.topic_id, number)
        [row] = await engine.index.newest_rows(partition, 10)
        assert row.lacks_entries
        assert row.end_offset >= 100
        assert item_size("x" * 40, "y" * 22, encode_index_row(row)) < 1024
        [whole] = await engine.index.with_entries([(partition, row)])
        assert len(whole.entries) == row.end_offset


async def test_pages_stay_until_the_last_partition_is_merged(store: Store) -> None:
    engine = store.engine(**MERGING)
    topic = await engine.topics.create("t", 2, PER_HEAD)
    first, second = (PartitionId(topic.topic_id, number) for number in range(2))
    await write(engine, range(20), [0, 1])
    # One maintainer has the second partition, and dies: the others merge the first one without it.
    store.clock.advance(1)
    await store.engine(4).leases.take(second)
    await engine.maintenance.run()
    head = await head_of(engine, first)
    assert head.merged_offsets.keys() == {"0"}
    assert len(await keys(store, first, "x#")) > 0
    stranger = store.engine(5)
    assert [record.offset for record in await read_all(stranger, "t", 1)] == [*range(20)]
    assert (await audit_store(store.engine(6))).findings == []

    store.clock.advance(3_600)
    await engine.maintenance.run()
    await engine.maintenance.run()
    head = await head_of(engine, first)
    assert head.merged_offsets == {"0": head.merged_offsets["0"], "1": head.merged_offsets["0"]}
    assert await keys(store, first, "x#") == []
    assert all(int(sk[2:]) >= head.indexed for sk in await keys(store, first, "c#"))
    for number in range(2):
        assert [record.offset for record in await read_all(store.engine(7), "t", number)] == [*range(20)]


async def test_a_spill_that_another_process_has_begun_is_left_alone_until_it_is_late(store: Store) -> None:
    settings = {"head_bytes_max": 200, "spill_entries": 1, "paged_appends": 40}
    dying, engine = store.engine(1, **settings), store.engine(2, **settings)
    topic = await engine.topics.create("t", 3, PER_HEAD)
    head_id = PartitionId(topic.topic_id, 0)

    async def dies(*_: object) -> None:
        raise OSError("the process has died")

    dying.index._shared_spills._write_extent = dies  # type: ignore[method-assign]
    with pytest.raises(OSError, match="died"):
        await write(dying, range(60), range(3))
    head = await head_of(engine, head_id)
    assert head.indexing is not None
    begun, sequence = head.indexing, head.next_offsets["0"]
    await write(engine, range(sequence, sequence + 6), range(3))
    assert await keys(store, head_id, "i#") == [], "it may be about to write them"
    assert (await head_of(engine, head_id)).indexing == begun
    await write(engine, range(sequence + 6, sequence + 20), range(3))
    assert (await head_of(engine, head_id)).indexed == begun
    for number in range(3):
        assert len(await keys(store, PartitionId(topic.topic_id, number), "i#")) == 1
        assert len(await read_all(store.engine(3), "t", number)) == sequence + 20


async def test_a_reader_whose_row_was_merged_meanwhile_plans_again(store: Store) -> None:
    engine = store.engine(**MERGING)
    topic = await engine.topics.create("t", 2, PER_HEAD)
    await write(engine, range(20), [0, 1])
    reader = store.engine(5)
    partition = PartitionId(topic.topic_id, 1)
    head = await reader.index.read_head(partition)
    assert head is not None
    await reader.reader._find_row(partition, head, 0)  # a row, without its entries, is in its cache
    store.clock.advance(3_600)
    await engine.maintenance.run()
    assert await keys(store, PartitionId(topic.topic_id, 0), "x#") == []
    assert [record.offset for record in await read_all(reader, "t", 1)] == [*range(20)]


async def test_missing_pages_of_a_live_row_are_found_and_nothing_is_swept(store: Store) -> None:
    settings = {**SHORT, "sweep_interval_ms": 0, "merge_age_ms": 10**12, "item_bytes_max": 0}
    engine = store.engine(**settings)
    topic = await engine.topics.create("t", 2, PER_HEAD)
    await write(engine, range(20), [0, 1])
    uploads = {info.key for info in await store.objects.list("wal/", start_after="", limit=1_000)}
    [page, *_] = await store.log.query(f"{topic.topic_id}#0", sk_from="c#", sk_to="c$")
    await store.log.delete(Delete(page.key))
    store.clock.advance(6 * 3_600)
    report = await store.engine(8, **settings).maintenance.run()
    assert any("pages" in str(failure) for failure in report.failures), report
    assert {info.key for info in await store.objects.list("wal/", start_after="", limit=1_000)} == uploads
    assert (await audit_store(store.engine(9))).findings != []


def test_an_extent_is_needed_until_every_row_of_it_is_merged() -> None:
    extent = Extent(8, 16, {"0": 30, "1": 5})
    assert extent.is_needed({})
    assert extent.is_needed({"0": 30})
    assert extent.is_needed({"0": 30, "1": 4})
    assert not extent.is_needed({"0": 31, "1": 5})
    assert decode_extent(extent_sk(8), encode_extent(extent)) == extent


def test_a_row_that_refers_comes_back_as_it_was() -> None:
    row = IndexRow(5, 9, 77, 1_000, 70, running_max_timestamp_ms=80, segment_started_ms=60, elements=(3, 7))
    assert decode_index_row(5, encode_index_row(row)) == row
    assert row.started_ms == 60
