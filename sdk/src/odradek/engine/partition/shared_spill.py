"""Spill of a shared head, in two steps that amortize differently (docs/decisions/0030).

    page out    a page with the oldest elements, create-only: the first writer decides how many; then the head forgets
                them. One write for all partitions, each few requests: what the tail holds, every append pays for.
    index       where pages have become many, they become index rows: one row a partition, each hundred requests or so
                1  the head says up to where (`ce`), so that whoever does it writes the same rows
                2  the extent, then the rows that refer to it, create-only (extents.py)
                3  the head says that it is done (`c`); merges delete the pages once all of these rows are merged
                Who finds that another process has begun leaves it alone, unless it is late: what two write, both pay.
    evict       producers that are idle, or more than `producers_bytes_max` has room for, leave for rows of their own
                (producer_rows.py), with the update by which the head forgets a page's elements, the longest silent
                first. None leaves with something in the tail: returning producers rest on that (producer_places.py)

Each step may be interrupted between any two writes, and be taken up or repeated by any process: what a page or a row
holds depends on the elements alone. A row that is written again after a merge took its place is a ghost, like that of
a late spill (partition/index.py); a page that is written again lies below `c`, and a merge deletes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from odradek.engine.partition.extents import Extent, encode_extent, extent_key
from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, head_key
from odradek.engine.partition.index_row import IndexRow, encode_index_row
from odradek.engine.partition.packed_entries import decode_packed_entries
from odradek.engine.partition.pages import Pages
from odradek.engine.partition.producer_rows import ProducerRows
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
    producer_bytes,
)
from odradek.engine.partition.spill import spills_tried
from odradek.errors import ConditionFailed, StoreError
from odradek.format.item_keys import index_sk, partition_pk
from odradek.format.tail_entry import TailEntry
from odradek.limits import (
    PAGE_BYTES_MAX,
    SPILL_ENTRIES_MAX,
    SPILL_FEW_ENTRIES,
    SPILL_PRODUCERS_MAX,
    SPILL_SETTLED_MAX,
    TABLE_WRITE_UNIT_BYTES,
)
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import (
    Absent,
    Action,
    Add,
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

_CROWDED_TIMES = 2
_CROWDED_ELEMENTS = 256  # for so many appends a head stays crowded that was full
_FAR_TOO_LONG = 64  # elements beyond the bound
_LARGE_ELEMENT_BYTES = 4_096
_BATCH_BYTES = 24  # of a batch in an element that has an object of its own
_PAGED_AT_ONCE_MAX = 64
_ROUNDS_MAX = 4
_FORGET_ATTEMPTS = 4
_LATE_PAGES_PART = 4  # a spill to rows is late when a quarter of what causes one has been paged out since
_ROWS_AT_ONCE = 16


class SharedSpills:
    """Spills of all shared heads."""

    def __init__(self, log: Table, pages: Pages, rows: ProducerRows, settings: Settings) -> None:
        self._log = log
        self._pages = pages
        self._producer_rows = rows
        self._settings = settings

    # --- when -----------------------------------------------------------------------------------------------------

    def are_due(self, head: SharedHead, added: int = 1) -> bool:
        """Return True if the append that added so many elements to this head should spill."""
        excess = self._excess(head)
        return spills_tried(excess) > spills_tried(excess - added)

    def is_long(self, head: SharedHead, more: int = 0) -> bool:
        """Return True if the tail is too long with an element of so many more batches, or producers crowd the head."""
        is_large = more * _BATCH_BYTES > _LARGE_ELEMENT_BYTES
        return is_large or self._is_overcrowded(head) or self._excess(head) + min(more, 1) > 0

    def is_far_too_long(self, head: SharedHead) -> bool:
        """Return True if the head costs its writers several times the usual."""
        return self._excess(head) > _FAR_TOO_LONG

    def is_overfull(self, head: SharedHead) -> bool:
        """Return True if the excess is more than a page takes."""
        return self._excess(head) > SPILL_ENTRIES_MAX

    def _excess(self, head: SharedHead) -> int:
        """How many elements the tail has beyond the number at which it is cheapest to page them out.

        With an element go the sequences of its producer, where more producers write than the head keeps.
        """
        count = len(head.tail)
        if count == 0 or head.size_bytes <= self._settings.head_bytes_max:
            return count - SPILL_ENTRIES_MAX
        tail_bytes = head.tail_bytes
        leaving = tail_bytes + (head.producer_bytes if self.is_crowded(head) else 0)
        paged = cheapest_page(head.size_bytes - leaving, leaving // count, tail_bytes // count)
        excess = count - min(paged, self._settings.spill_entries)
        return max(1, excess) if len(head.tail[-1]) > _LARGE_ELEMENT_BYTES else excess

    def is_crowded(self, head: SharedHead) -> bool:
        """Return True if more producers write to the head than it keeps, so that each leaves it after its append."""
        return is_crowded(head, self._settings)

    def _is_overcrowded(self, head: SharedHead) -> bool:
        """Return True if producers crowd the head that have nothing in its tail."""
        room = _CROWDED_TIMES * self._settings.producers_bytes_max
        if head.producer_bytes <= room:
            return False
        idle = head.stamps.keys() - _ids_in(head.tail)
        return sum(producer_bytes(name, head.stamps[name]) for name in idle) > room

    # --- how ------------------------------------------------------------------------------------------------------

    async def run(self, head_id: PartitionId, head: SharedHead) -> None:
        """Page out what is too much, and who is idle; index pages where they are many. Raises StoreError."""
        for _ in range(_ROUNDS_MAX):
            # Who reads at the end of the log finds the newest element in the head, unless it is dear to keep there.
            keep = 0 if head.tail and len(head.tail[-1]) > _LARGE_ELEMENT_BYTES else 1
            after = await self._page_out(head_id, head, keep=keep)
            if after is None:
                return  # another spill was first
            head = after
            if self._excess(head) <= 0 and not self._is_overcrowded(head):
                break
        begun = head.indexed if head.indexing is None else head.indexing
        many = self._settings.paged_appends
        if head.paged - begun >= (many if head.indexing is None else many // _LATE_PAGES_PART):
            await self._index(head_id, head)

    async def run_to_rows(self, head_id: PartitionId, head: SharedHead) -> None:
        """Move the whole tail, and all pages, to index rows. Raises StoreError."""
        after: SharedHead | None = head
        if head.tail:
            after = await self._page_out(head_id, head, keep=0)
        while after is not None and after.has_pages:
            after = await self._index(head_id, after)

    # --- page out -------------------------------------------------------------------------------------------------

    async def _page_out(self, head_id: PartitionId, head: SharedHead, *, keep: int) -> SharedHead | None:
        """Move elements to a page and producers to rows; the head after it, None: another was first, or it is gone."""
        page = _page_of(head, keep) if len(head.tail) > keep else _no_page(head)
        leaving = who_leaves(head, page, self._settings)
        written, has_row = await asyncio.gather(
            self._write_page(head_id, page),
            asyncio.gather(*(self._write_row_of(head_id, head, each) for each in leaving)),
        )
        if written is None or written.elements != head.tail[: len(written.elements)]:
            return None  # the tail that we saw is history
        staying = _ids_in(head.tail[len(written.elements) :])
        gone = [each for each, is_safe in zip(leaving, has_row, strict=True) if is_safe and each not in staying]
        for _ in range(_FORGET_ATTEMPTS):
            if not written.elements and not gone:
                return head
            try:
                is_full = head.producer_bytes > self._settings.producers_bytes_max
                item = await self._log.update(_forgetting(head_id, head, written, gone, is_full=is_full))
            except ConditionFailed as refused:
                if refused.current is None or refused.current.get("v") != VERSION:
                    return None
                now = decode_shared_head(refused.current)
                if now.paged != head.paged:
                    return None
                gone = [each for each in gone if now.stamps.get(each) == head.stamps[each]]
                continue
            if written.elements:
                self._pages.keep(head_id, written)
            return decode_shared_head(item)
        return None

    async def _write_row_of(self, head_id: PartitionId, head: SharedHead, id_name: str) -> bool:
        """Write the row of a producer that leaves; False: it has to stay."""
        try:
            return await self._producer_rows.write_stamps(
                head_id,
                int(id_name, 36),
                head.stamps[id_name],
                seen_at=head.element_count,
                committed_ms=max([head.spill_floor_ms, *(entry.commit_ms for entry in _entries(head.tail))]),
            )
        except StoreError:
            return False

    async def _write_page(self, head_id: PartitionId, page: Page) -> Page | None:
        """Write the page, or return the one that is there. One without elements is not written."""
        if not page.elements:
            return page
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
            except ConditionFailed:
                return None
            head = decode_shared_head(item)
            pages = await self._pages.read(head_id, head)
            if not pages:
                return None
        assert head.indexing is not None
        moved = [page for page in pages if page.end <= head.indexing]
        rows = rows_of(head, pages, moved)
        ends = {place_name(place): row.end_offset for place, row in rows.items()}
        await self._write_extent(head_id, Extent(head.indexed, head.indexing, ends))
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

    async def _write_extent(self, head_id: PartitionId, extent: Extent) -> None:
        try:
            await self._log.put(Put(extent_key(head_id, extent.first), encode_extent(extent), Absent(("v",))))
        except ConditionFailed:
            return  # as for a row

    async def _write_row(self, head_id: PartitionId, place: int, row: IndexRow) -> None:
        partition = PartitionId(head_id.topic_id, head_id.partition + place)
        key = Key(partition_pk(partition), index_sk(row.base_offset))
        try:
            await self._log.put(Put(key, encode_index_row(row), Absent(("v",))))
        except ConditionFailed:
            return  # written before, by us or by another one


def _entries(elements: Sequence[bytes]) -> Iterator[TailEntry]:
    return (entry for element in elements for _, entry in decode_packed_entries(element))


def _ids_in(elements: Sequence[bytes]) -> set[str]:
    """The producers of the elements, by the names that a shared head gives them."""
    return {id_name_of(entry.producer_id) for entry in _entries(elements) if entry.producer_id >= 0}


def _left(head: SharedHead, page: Page) -> dict[str, int]:
    """When each producer of the head last left the tail, once the page's elements have.

    One that has no such time, though nothing of it is in the page, gets the floor's: the update with which it left the
    tail had no room for it.
    """
    left: dict[str, int] = {}
    for entry in _entries(page.elements):
        if entry.producer_id >= 0:
            name = id_name_of(entry.producer_id)
            left[name] = max(entry.commit_ms, left.get(name, 0))
    return {name: left.get(name, head.left_ms.get(name, page.spill_floor_ms)) for name in head.stamps}


def is_crowded(head: SharedHead, settings: Settings) -> bool:
    """Return True if more producers write to the head, or did of late, than it has room for. Pure."""
    return head.producer_bytes > settings.producers_bytes_max or head.element_count < head.crowded_until


def who_leaves(head: SharedHead, page: Page, settings: Settings) -> list[str]:
    """The producers that leave the head with a page's elements, the longest silent first. Pure.

    Those that have been silent for long, and all if the head is crowded: whoever was kept would probably leave, too,
    before it comes back, and make every append dearer until then. None leaves with a batch in the tail that is left,
    and no more leave than the update has room for.
    """
    staying = _ids_in(head.tail[len(page.elements) :])
    left = _left(head, page)
    silent_since_ms = page.spill_floor_ms - settings.producer_idle_ms
    idle = sorted((left[name], name) for name in head.stamps if name not in staying)
    if not is_crowded(head, settings):
        idle = [each for each in idle if each[0] < silent_since_ms]
    return [name for _, name in idle[: _room(page)]]


def _room(page: Page) -> int:
    """For how many producers the update has room with which the page's elements leave (limits.py)."""
    return SPILL_SETTLED_MAX if len(page.elements) <= SPILL_FEW_ENTRIES else SPILL_PRODUCERS_MAX


def _forgetting(head_id: PartitionId, head: SharedHead, page: Page, gone: Collection[str], *, is_full: bool) -> Update:
    """The update with which a page's elements and producers leave the head: what it forgets is in page and rows."""
    conditions: list[Condition] = [is_version(VERSION), Compare(("q",), "=", head.paged)]
    actions: list[Action] = []
    if page.elements:
        actions += [
            RemoveFirst(("t",), len(page.elements)),
            Set(("q",), page.end),
            Set(("sf",), page.spill_floor_ms),
            Set(("rm",), page.running_max_timestamp_ms),
        ]
    for name in sorted(gone):
        conditions.append(Compare(("p", name), "=", {**head.stamps[name]}))
        actions += [Remove(("p", name)), Remove(("u", name))]
    in_tail = _ids_in(head.tail[len(page.elements) :])
    noted = {
        name: left_ms
        for name, left_ms in sorted(_left(head, page).items())
        if name not in gone and name not in in_tail and head.left_ms.get(name) != left_ms
    }
    room = max(0, _room(page) - len(gone))
    actions += [Set(("u", name), left_ms) for name, left_ms in list(noted.items())[:room]]
    if gone:
        actions.append(Add(("pv",), len(gone)))
    if gone and is_full:
        actions.append(Set(("pe",), head.element_count + _CROWDED_ELEMENTS))
    return Update(head_key(head_id), tuple(actions), all_of(*conditions))


def _no_page(head: SharedHead) -> Page:
    return Page(head.paged, (), head.spill_floor_ms, head.running_max_timestamp_ms)


@lru_cache(maxsize=4096)
def cheapest_page(head_bytes: int, added_bytes: int, paged_bytes: int) -> int:
    """The number of appends after which a page costs the fewest write units an append. Pure.

    What stays in the tail makes every later append dearer; a page costs its own write and one of the head.

    Args:
        head_bytes: of the head without what leaves it.
        added_bytes: what an append adds to it.
        paged_bytes: how much of that a page takes.
    """

    def units(size_bytes: int) -> int:
        return max(1, -(-size_bytes // TABLE_WRITE_UNIT_BYTES))

    best, least, appends = 1, float("inf"), 0
    for count in range(1, _PAGED_AT_ONCE_MAX + 1):
        largest = units(head_bytes + (count + 1) * added_bytes)  # one element stays
        appends += largest
        cost = (appends + units(count * paged_bytes) + largest) / count
        if cost < least:
            best, least = count, cost
    return best


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
            elements=(moved[0].first, moved[-1].end),
        )
    return rows
