"""Spill of a shared head, in two steps that amortize differently (docs/decisions/0030).

    page out    a page with the oldest elements, create-only: the first writer decides how many; then the head forgets
                them. One write for all partitions, each few requests: what the tail holds, every append pays for.
    index       where pages have become many, they become index rows: one row a partition, each hundred requests or so
                1  the head says up to where (`ce`), so that whoever does it writes the same rows
                2  the rows, create-only
                3  the head says that it is done (`c`); the next merge of a partition deletes the pages
    evict       idle producers leave for rows of their own, as from a head of one partition

Each step may be interrupted between any two writes, and be taken up or repeated by any process: what a page or a row
holds depends on the elements alone. A row that is written again after a merge took its place is a ghost, like that of
a late spill (partition/index.py); a page that is written again lies below `c`, and a merge deletes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isqrt

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, encode_producer, head_key
from odradek.engine.partition.index_row import IndexRow, encode_index_row
from odradek.engine.partition.packed_entries import decode_packed_entries
from odradek.engine.partition.pages import Pages
from odradek.engine.partition.shared_head import (
    Page,
    SharedHead,
    counts_of,
    decode_page,
    decode_shared_head,
    encode_page,
    id_name_of,
    page_key,
    place_name,
)
from odradek.engine.partition.spill import spills_tried
from odradek.errors import ConditionFailed, StoreError
from odradek.format.item_keys import index_sk, partition_pk, producer_sk
from odradek.format.tail_entry import TailEntry
from odradek.limits import PAGE_BYTES_MAX, SPILL_ENTRIES_MAX, SPILL_SETTLED_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import (
    Absent,
    Action,
    Add,
    AnyOf,
    Compare,
    Condition,
    Key,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Table,
    Update,
    all_of,
)
from odradek.settings import Settings

_PRODUCERS_TIMES = 4
_FAR_TOO_LONG = 64  # elements beyond the bound
_LARGE_ELEMENT_BYTES = 4_096
_BATCH_BYTES = 24  # of a batch in an element that has an object of its own
_ROUNDS_MAX = 4
_ROWS_AT_ONCE = 16


class SharedSpills:
    """Spills of all shared heads."""

    def __init__(self, log: Table, pages: Pages, settings: Settings) -> None:
        self._log = log
        self._pages = pages
        self._settings = settings

    # --- when -----------------------------------------------------------------------------------------------------

    def are_due(self, head: SharedHead, added: int = 1) -> bool:
        """Return True if the append that added so many elements to this head should spill."""
        excess = self._excess(head)
        return spills_tried(excess) > spills_tried(excess - added)

    def is_long(self, head: SharedHead, more: int = 0) -> bool:
        """Return True if the tail is too long with an element of so many more batches, or producers crowd the head."""
        is_large = more * _BATCH_BYTES > _LARGE_ELEMENT_BYTES
        return is_large or self._is_crowded(head) or self._excess(head) + min(more, 1) > 0

    def is_far_too_long(self, head: SharedHead) -> bool:
        """Return True if the head costs its writers several times the usual."""
        return self._excess(head) > _FAR_TOO_LONG

    def is_overfull(self, head: SharedHead) -> bool:
        """Return True if the excess is more than a page takes."""
        return self._excess(head) > SPILL_ENTRIES_MAX

    def _excess(self, head: SharedHead) -> int:
        """How many elements the tail has beyond the number at which it is cheapest to page out.

        An element of e bytes that stays makes every later append dearer by e; paging out T of them costs the write of
        the head without them, H bytes, once. The sum is least at T = sqrt(2 H / e).
        """
        count = len(head.tail)
        if count == 0 or head.size_bytes <= self._settings.head_bytes_max:
            return count - SPILL_ENTRIES_MAX
        tail_bytes = max(1, head.tail_bytes)
        rest = max(1, head.size_bytes - tail_bytes)
        excess = count + 1 - max(2, min(isqrt(2 * rest * count // tail_bytes), self._settings.spill_entries))
        return max(1, excess) if len(head.tail[-1]) > _LARGE_ELEMENT_BYTES else excess

    def _is_crowded(self, head: SharedHead) -> bool:
        return len(head.stamps) > self._producers_max(head) + SPILL_SETTLED_MAX

    def _producers_max(self, head: SharedHead) -> int:
        """Producers of single partitions: several times what the setting allows, since a stamp takes so much less."""
        return _PRODUCERS_TIMES * self._settings.producers_in_head_max * max(1, len(head.next_offsets))

    # --- how ------------------------------------------------------------------------------------------------------

    async def run(self, head_id: PartitionId, head: SharedHead) -> None:
        """Page out what is too much, index pages where they are many, evict idle producers. Raises StoreError."""
        for _ in range(_ROUNDS_MAX):
            # Who reads at the end of the log finds the newest element in the head, unless it is dear to keep there.
            keep = 0 if head.tail and len(head.tail[-1]) > _LARGE_ELEMENT_BYTES else 1
            after = await self._page_out(head_id, head, keep=keep) if len(head.tail) > keep else head
            if after is None:
                return  # another spill was first
            head = after
            if self._excess(head) <= 0:
                break
        if head.indexing is not None or head.paged - head.indexed >= self._settings.paged_appends:
            indexed = await self._index(head_id, head)
            if indexed is None:
                return
            head = indexed
        await self._evict(head_id, head)

    async def run_to_rows(self, head_id: PartitionId, head: SharedHead) -> None:
        """Move the whole tail, and all pages, to index rows. Raises StoreError."""
        after: SharedHead | None = head
        if head.tail:
            after = await self._page_out(head_id, head, keep=0)
        while after is not None and after.has_pages:
            after = await self._index(head_id, after)

    # --- page out -------------------------------------------------------------------------------------------------

    async def _page_out(self, head_id: PartitionId, head: SharedHead, *, keep: int) -> SharedHead | None:
        """Move elements to a page; the head after it, None: another one was first, or the head is gone."""
        page = await self._write_page(head_id, _page_of(head, keep))
        if page is None or page.elements != head.tail[: len(page.elements)]:
            return None  # the tail that we saw is history
        conditions: list[Condition] = [is_version(VERSION), Compare(("q",), "=", head.paged)]
        actions: list[Action] = [
            RemoveFirst(("t",), len(page.elements)),
            Set(("q",), page.end),
            Set(("sf",), page.spill_floor_ms),
            Set(("rm",), page.running_max_timestamp_ms),
        ]
        actions += [Set(("u", each), left_ms) for each, left_ms in self._left(head, page).items()]
        try:
            item = await self._log.update(Update(head_key(head_id), tuple(actions), all_of(*conditions)))
        except ConditionFailed:
            return None
        self._pages.keep(head_id, page)
        return decode_shared_head(item)

    def _left(self, head: SharedHead, page: Page) -> dict[str, int]:
        """When producers last left the tail, of as many as an update has room for.

        One that the head knows and that has no such time, though it has nothing in the tail, gets the floor's: the
        update in which it left had no room for it.
        """
        left: dict[str, int] = {}
        for element in page.elements:
            for _, entry in decode_packed_entries(element):
                if entry.producer_id >= 0:
                    name = id_name_of(entry.producer_id)
                    left[name] = max(entry.commit_ms, left.get(name, 0))
        for name in head.stamps:
            if name[1:] not in head.left_ms:
                left.setdefault(name[1:], page.spill_floor_ms)
        return dict(sorted(left.items())[:SPILL_SETTLED_MAX])

    async def _write_page(self, head_id: PartitionId, page: Page) -> Page | None:
        """Write the page, or return the one that is there."""
        key = page_key(head_id, page.first)
        try:
            await self._log.put(Put(key, encode_page(page), Absent(("v",))))
        except ConditionFailed as refused:
            return None if refused.current is None else decode_page(key.sk, refused.current)
        return page

    # --- index ----------------------------------------------------------------------------------------------------

    async def _index(self, head_id: PartitionId, head: SharedHead) -> SharedHead | None:
        """Turn the oldest pages into rows; the head after it, None: another process is done with it."""
        pages = await self._pages.read(head_id, head)
        if not pages:
            return None
        if head.indexing is None:
            end = _some(pages)
            condition = all_of(is_version(VERSION), Compare(("c",), "=", head.indexed), Absent(("ce",)))
            try:
                item = await self._log.update(Update(head_key(head_id), (Set(("ce",), end),), condition))
            except ConditionFailed as refused:
                if refused.current is None or refused.current.get("v") != VERSION:
                    return None
                item = refused.current
            before, head = head, decode_shared_head(item)
            if head.indexed != before.indexed or head.indexing is None:
                return None
            pages = await self._pages.read(head_id, head)
            if not pages:
                return None
        assert head.indexing is not None
        moved = [page for page in pages if page.end <= head.indexing]
        rows = rows_of(head, pages, moved)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = list(rows.items())[start : start + _ROWS_AT_ONCE]
            await asyncio.gather(*(self._write_row(head_id, place, row) for place, row in some))
        condition = all_of(
            is_version(VERSION), Compare(("c",), "=", head.indexed), Compare(("ce",), "=", head.indexing)
        )
        actions = (Set(("c",), head.indexing), Remove(("ce",)))
        try:
            return decode_shared_head(await self._log.update(Update(head_key(head_id), actions, condition)))
        except ConditionFailed:
            return None

    async def _write_row(self, head_id: PartitionId, place: int, row: IndexRow) -> None:
        partition = PartitionId(head_id.topic_id, head_id.partition + place)
        key = Key(partition_pk(partition), index_sk(row.base_offset))
        try:
            await self._log.put(Put(key, encode_index_row(row), Absent(("v",))))
        except ConditionFailed:
            return  # written before, by us or by another one

    # --- producers ------------------------------------------------------------------------------------------------

    async def _evict(self, head_id: PartitionId, head: SharedHead) -> None:
        """Move producers that are idle, or too many, to rows of their own."""
        names = self._who_leaves(head)
        if not names:
            return
        committed_ms = max(
            [head.spill_floor_ms, *(entry.commit_ms for each in head.tail for _, entry in decode_packed_entries(each))]
        )

        async def write(name: str) -> bool:
            try:
                return await self._write_producer_row(head_id, head, name, committed_ms)
            except StoreError:
                return False

        written = await asyncio.gather(*(write(name) for name in names))
        leaving = [name for name, is_written in zip(names, written, strict=True) if is_written]
        if not leaving:
            return
        conditions: list[Condition] = [is_version(VERSION)]
        actions: list[Action] = []
        for name in leaving:
            conditions.append(Compare(("p", name), "=", head.stamps[name]))
            actions.append(Remove(("p", name)))
            if name in head.first_stamps:
                actions.append(Remove(("f", name)))
        left_with = {name[1:] for name in leaving} - {name[1:] for name in head.stamps.keys() - set(leaving)}
        actions += [Remove(("u", each)) for each in sorted(left_with & head.left_ms.keys())]
        actions.append(Add(("pv",), len(leaving)))
        try:
            await self._log.update(Update(head_key(head_id), tuple(actions), all_of(*conditions)))
        except ConditionFailed:
            return  # one of them has written meanwhile: the next spill decides again

    def _who_leaves(self, head: SharedHead) -> list[str]:
        """The producers of partitions that leave, the most idle first: none with a batch in the tail."""
        in_tail = {
            id_name_of(entry.producer_id)
            for element in head.tail
            for _, entry in decode_packed_entries(element)
            if entry.producer_id >= 0
        }
        idle = sorted((head.left_ms[name[1:]], name) for name in head.stamps if name[1:] in head.left_ms)
        idle = [each for each in idle if each[1][1:] not in in_tail]
        too_many = max(0, len(head.stamps) - self._producers_max(head))
        silent_since_ms = head.spill_floor_ms - self._settings.producer_idle_ms
        leaving = [name for at, (left_ms, name) in enumerate(idle) if at < too_many or left_ms < silent_since_ms]
        return leaving[:SPILL_SETTLED_MAX]

    async def _write_producer_row(self, head_id: PartitionId, head: SharedHead, name: str, committed_ms: int) -> bool:
        """Write an evicted producer's row unless it holds something newer (then our head is history: False).

        `o`, the partition's next offset when the producer was seen, orders the rows of one producer.
        """
        place, producer_id = int(name[0], 36), int(name[1:], 36)
        partition = PartitionId(head_id.topic_id, head_id.partition + place)
        state = replace(head.view(partition).producers[producer_id], spilled_ms=0)
        newest = head.next_offsets.get(name[0], 0)
        row = {"v": VERSION, "o": newest, "t": committed_ms, **encode_producer(state)}
        condition = AnyOf((Absent(("v",)), all_of(is_version(VERSION), Compare(("o",), "<=", newest))))
        try:
            await self._log.put(Put(Key(partition_pk(partition), producer_sk(producer_id)), row, condition))
        except ConditionFailed:
            return False
        return True


def _page_of(head: SharedHead, keep: int) -> Page:
    """The page of the oldest elements of a tail, all but so many."""
    elements: list[bytes] = []
    size = 0
    for element in head.tail[: min(SPILL_ENTRIES_MAX, max(1, len(head.tail) - keep))]:
        size += len(element)
        if elements and size > PAGE_BYTES_MAX:
            break
        elements.append(element)
    entries = [entry for element in elements for _, entry in decode_packed_entries(element)]
    return Page(
        head.paged,
        tuple(elements),
        max([head.spill_floor_ms, *(entry.commit_ms for entry in entries)]),
        max([head.running_max_timestamp_ms, *(entry.max_timestamp_ms for entry in entries)]),
    )


def _some(pages: Sequence[Page]) -> int:
    """The end of as many pages as become rows at once."""
    size, end = 0, pages[0].end
    for page in pages:
        size += sum(map(len, page.elements))
        if size > PAGE_BYTES_MAX:
            break
        end = page.end
    return end


def rows_of(head: SharedHead, pages: Sequence[Page], moved: Sequence[Page]) -> Mapping[int, IndexRow]:
    """The index rows of the oldest pages, by place. Pure.

    Args:
        pages: all pages of the head.
        moved: those that become rows: the first of them.
    """
    left = counts_of((*(element for page in pages for element in page.elements), *head.tail))
    entries: dict[int, list[TailEntry]] = {}
    for page in moved:
        for element in page.elements:
            for place, entry in decode_packed_entries(element):
                entries.setdefault(place, []).append(entry)
    rows = {}
    for place, own in sorted(entries.items()):
        base_offset = head.next_offsets.get(place_name(place), 0) - left[place]
        rows[place] = IndexRow(
            base_offset=base_offset,
            end_offset=base_offset + sum(entry.offset_count for entry in own),
            max_timestamp_ms=max(entry.max_timestamp_ms for entry in own),
            size_bytes=sum(entry.length for entry in own),
            spill_floor_ms=moved[-1].spill_floor_ms,
            entries=tuple(own),
            running_max_timestamp_ms=moved[-1].running_max_timestamp_ms,
            is_packed=True,
        )
    return rows
