"""The search of index rows for an entry that has left the tail: it was spilled, or never applied.

Rows are read newest first, down to one whose spill floor was below the entry's commit time: that row and every older
one were written before the entry could have been accepted. This holds of a run of rows only that begins at the tail's
base and has no gap, for two reasons:

* A ghost (engine/partition/index.py) begins within a segment that a merge has made since. Its floor is that of its own
  end, and says nothing of the entries between its end and the segment's.
* Rows are swapped in transactions, whose items become visible one by one to a Query: a row may be gone that the new one
  does not replace yet.

A segment has lost the identity of its entries, and so has a row that retention has removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from odradek.backoff import Backoff
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow, is_ghost
from odradek.engine.partition.shared_head import HeadImage, Page
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.model.topic_partition import PartitionId

_ROWS = 8
_ATTEMPTS = 4


class Search(Enum):
    """The result of searching some rows without finding the entry."""

    ABSENT = "absent"  # it was never applied, and under its commit time it never will be
    UNKNOWABLE = "unknowable"  # it may be in a segment, or have been removed with one
    MORE = "more"  # read older rows too
    AGAIN = "again"  # the rows are not of one moment, or not of the head's: read both again


def find_in_pages(entry: TailEntry, head: PartitionHead | None, pages: Sequence[Page]) -> int | Search:
    """Return the offset of an entry that may be in the tail or in pages of a shared head, or what is known without it.

    Args:
        head: with the pages' entries in its tail; None: there is none.
        pages: all that the head refers to.
    """
    if head is None:
        return Search.MORE
    found = head.find(encode_tail_entry(entry))
    if found is not None:
        return found
    # What came before a page whose floor was below the commit time was there before the entry could be accepted.
    return Search.ABSENT if any(page.spill_floor_ms < entry.commit_ms for page in pages) else Search.MORE


def find_entry(entry: TailEntry, head: PartitionHead, rows: Sequence[IndexRow], *, is_all: bool) -> int | Search:
    """Return the offset of an entry that is not in the tail, or what is known without it.

    Args:
        head: read before the rows.
        rows: the newest of the partition, newest first, including ghosts.
        is_all: True if there are no older ones.
    """
    packed = encode_tail_entry(entry)
    end = None
    for row in rows:
        if is_ghost(row, head.merged_offset):
            continue
        if row.end_offset < head.tail_base_offset if end is None else row.end_offset != end:
            return Search.AGAIN
        end = row.base_offset
        if row.spill_floor_ms < entry.commit_ms:
            return Search.ABSENT
        if row.is_segment:
            return Search.UNKNOWABLE
        if row.lacks_entries:
            return Search.AGAIN  # it has been merged since
        offset = row.base_offset
        for candidate in row.entries:
            if encode_tail_entry(candidate) == packed:
                return offset
            offset += candidate.offset_count
    if not is_all:
        return Search.MORE
    oldest = head.tail_base_offset if end is None else end
    return Search.ABSENT if oldest == 0 else Search.UNKNOWABLE


async def find_below_tail(
    index: PartitionIndex,
    backoff: Backoff,
    partition: PartitionId,
    image: HeadImage | None,
    entry: TailEntry,
    floor_ms: int,
) -> int | Search:
    """The entry's offset in pages and the newest index rows, ABSENT or UNKNOWABLE. Raises StoreUnavailable.

    Args:
        image: what the head said that refused the entry; None: there is none.
        floor_ms: its spill floor.
    """
    for attempt in range(_ATTEMPTS):
        if image is None:
            return Search.MORE
        head, pages = await index.with_pages(partition, image)
        found = find_in_pages(entry, head, pages)
        limit = _ROWS
        while found is Search.MORE and head is not None:
            rows = await index.newest_rows(partition, limit)
            rows = await index.with_entries([(partition, row) for row in rows])
            found = find_entry(entry, head, rows, is_all=len(rows) < limit)
            limit *= 4
        if isinstance(found, int) or found is Search.UNKNOWABLE or head is None:
            return found
        image = await index.read_image(partition.head_id)
        if found is Search.ABSENT:
            # A floor that was lowered meanwhile (audit/floors.py) would have made newer rows say so wrongly.
            is_lowered = image is None or image.spill_floor_ms < floor_ms
            return Search.UNKNOWABLE if is_lowered else Search.ABSENT
        await backoff.pause(attempt)
    return Search.UNKNOWABLE


def together(found: dict[PartitionId, int | Search]) -> dict[PartitionId, int | Search]:
    """What is known of entries that only ever were in one element: it is there, or none of them is."""
    if any(isinstance(where, int) for where in found.values()):
        return {each: where if isinstance(where, int) else Search.UNKNOWABLE for each, where in found.items()}
    if Search.ABSENT in found.values():
        return dict.fromkeys(found, Search.ABSENT)
    return found
