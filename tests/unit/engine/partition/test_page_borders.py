"""Pages of a shared head at their borders: entries at an edge, gaps between pages, pages that are being written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from odradek.engine.engine import Engine
from odradek.engine.partition.extents import with_entries
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.packed_entries import PlacedEntry, encode_packed_entries
from odradek.engine.partition.pages import Pages
from odradek.engine.partition.shared_head import Page, SharedHead
from odradek.errors import ErrorCode
from odradek.format.tail_entry import TailEntry
from odradek.model.log import FetchPartition, ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Delete, Put

from tests.support.engine import Store, batch, memory_store, read_all

SHORT = {"head_bytes_max": 200, "spill_entries": 2, "paged_appends": 8}


async def write(engine: Engine, count: int, partitions: int = 2) -> None:
    for sequence in range(count):
        request = [
            ProducePartition("t", number, batch([b"%d" % sequence], producer=(7, 0, sequence)))
            for number in range(partitions)
        ]
        assert {result.error for result in await engine.produce(request)} == {ErrorCode.NONE}


async def paged() -> tuple[Store, Engine, PartitionId]:
    """A head with several pages, and rows that refer to others."""
    store = memory_store()
    engine = store.engine(**SHORT)
    topic = await engine.topics.create("t", 2)
    await write(engine, 40)
    return store, engine, PartitionId(topic.topic_id, 0)


async def pages_of(store: Store, head_id: PartitionId) -> list[Any]:
    pk = f"{head_id.topic_id}#{head_id.partition}"
    return [row.key for row in await store.log.query(pk, sk_from="c#", sk_to="c~")]


# --- entries at an edge -----------------------------------------------------------------------------------------------


def entry(number: int) -> TailEntry:
    return TailEntry(bytes([number]) * 16, 0, 1, 1, 9, commit_ms=5)


def row(first: int, end: int) -> IndexRow:
    return IndexRow(first, end, 9, end - first, 9, segment_started_ms=5, elements=(first, end))


@pytest.mark.parametrize("edges", [(0, 6), (0, 3, 6), (0, 2, 6), (0, 4, 6), (0, 1, 2, 3, 4, 5, 6), (0, 2, 4, 6)])
def test_rows_get_their_elements_wherever_pages_end(edges: tuple[int, ...]) -> None:
    """Rows refer to the elements [0, 2), [2, 4) and [4, 6); a page may end at an edge of a row or within one."""
    elements = [encode_packed_entries([PlacedEntry(0, entry(number))]) for number in range(6)]
    pages = [Page(first, tuple(elements[first:end]), 1, 9) for first, end in pairwise(edges)]
    partition = PartitionId(UUID(int=7), 0)
    rows = [row(0, 2), row(2, 4), row(4, 6)]
    for wanted in (rows, rows[:1], rows[1:2], rows[2:], rows[::2]):
        filled_rows = with_entries([(partition, row) for row in wanted], pages)
        assert [[entry.object_id[0] for entry in filled.entries] for filled in filled_rows] == [
            [row.base_offset, row.base_offset + 1] for row in wanted
        ]
    for missing in pages:
        left = [page for page in pages if page is not missing]
        for filled in with_entries([(partition, row) for row in rows], left):
            touched = missing.first < filled.end_offset and filled.base_offset < missing.end
            assert filled.lacks_entries == touched, "a row has all of its entries or none"


# --- gaps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_gap_between_pages_is_not_read_over(is_warm: bool) -> None:
    store, engine, head_id = await paged()
    image = await engine.index.read_image(head_id)
    assert isinstance(image, SharedHead)
    keys = [key for key in await pages_of(store, head_id) if int(key.sk[2:]) >= image.indexed]
    assert len(keys) > 2
    for gap in range(len(keys)):
        pages = Pages(store.tables.log)
        if is_warm:  # the first page is kept from before
            first = await pages.read(head_id, image)
            assert first is not None
            pages._kept = type(pages._kept)([((head_id, first[0].first), first[0])] if gap else [])
        item = await store.log.get(keys[gap])
        await store.log.delete(Delete(keys[gap]))
        assert await pages.read(head_id, image) is None
        await store.log.put(Put(keys[gap], item))
        pages_read = await pages.read(head_id, image)
        assert pages_read is not None
        assert pages_read[0].first == image.indexed
        assert pages_read[-1].end == image.paged


async def test_a_lost_page_hides_the_rows_that_refer_to_it_alone() -> None:
    """Neighbouring rows are read together; where one page is lost, each by itself."""
    store, engine, head_id = await paged()
    rows = await engine.index.rows_from(head_id, 0)
    assert len(rows) > 2
    lost = rows[1].elements
    assert lost is not None
    for key in await pages_of(store, head_id):
        if lost[0] <= int(key.sk[2:]) < lost[1]:
            await store.log.delete(Delete(key))
    fresh = store.engine(3)
    rows_read = await fresh.index.with_entries([(head_id, row) for row in rows])
    assert [row.lacks_entries for row in rows_read] == [row.elements == lost for row in rows]
    for offset in range(rows[0].base_offset, rows[-1].end_offset):
        [result] = await store.engine(4).fetch([FetchPartition("t", 0, offset)])
        is_lost = rows[1].base_offset <= offset < rows[1].end_offset
        assert (result.error is not ErrorCode.NONE) == is_lost


# --- pages that are being written -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies_at", ["put", "update"])
async def test_a_spill_that_dies_loses_and_repeats_nothing(dies_at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the page and the head's update the elements are in both; before the page in the head alone."""
    store = memory_store()
    topic = await store.engine(**SHORT).topics.create("t", 2)
    head_id = PartitionId(topic.topic_id, 0)
    for step in range(1, 8):
        engine = store.engine(step, **SHORT)
        image = await engine.index.read_image(head_id)
        start = image.next_offsets.get("0", 0) if isinstance(image, SharedHead) else 0
        for sequence in range(start, start + 3):
            request = [ProducePartition("t", n, batch([b"%d" % sequence], producer=(7, 0, sequence))) for n in range(2)]
            assert {result.error for result in await engine.produce(request)} == {ErrorCode.NONE}
        image = await engine.index.read_image(head_id)
        assert image is not None
        before = len(await read_all(store.engine(90), "t", 0))

        async def dies(*_: Any) -> None:
            raise OSError("the process has died")

        with monkeypatch.context() as patch:
            patch.setattr(engine.index._shared_spills._log, dies_at, dies)
            with pytest.raises(OSError, match="died"):
                await engine.index.spill(head_id, image)
                raise OSError("died: nothing was to be spilled")
        for number in range(2):
            records = await read_all(store.engine(91), "t", number)
            assert [record.offset for record in records] == list(range(before))
