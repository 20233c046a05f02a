"""Extents of shared heads: elements that have left the pages for index rows, and stay in their pages all the same.

A row of a partition that shares its head does not repeat the entries: it refers to the elements [first, end) that one
spill moved, and so do the rows of the others. An entry takes some ten bytes in an element and forty in a row, where
nobody shares its object id; a merge removes rows by a transaction, which costs twice their size.

Key: `x#<elements before it>` beside the head. Written create-only before the rows, from the same elements, so whoever
takes up a spill writes the same:

    v   format version 1
    n   the element at its end
    m   place -> end offset of its row: once merged offsets have reached them all, nobody needs the pages

Pages are deleted up to the first extent that is needed. A row that comes late, after its pages have been deleted, is a
ghost: it lies below the merged offset. Who read a row before it was merged, and finds no pages, reads the rows again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.packed_entries import decode_packed_entries
from odradek.engine.partition.shared_head import Page, decode_places
from odradek.format.item_keys import partition_pk
from odradek.format.tail_entry import TailEntry
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key

VERSION = 1
EXTENT_PREFIX = "x#"


@dataclass(frozen=True, slots=True)
class Extent:
    """The elements [first, end), and where the rows of them end by the name of the place."""

    first: int
    end: int
    end_offsets: Mapping[str, int]

    def is_needed(self, merged_offsets: Mapping[str, int]) -> bool:
        """Whether a row may refer to it that is no ghost."""
        return any(merged_offsets.get(place, 0) < offset for place, offset in self.end_offsets.items())


def extent_sk(first: int) -> str:
    """The `sk` of the extent whose first element has this number."""
    return f"{EXTENT_PREFIX}{first:020d}"


def extent_key(head_id: PartitionId, first: int) -> Key:
    """The key of an extent."""
    return Key(partition_pk(head_id), extent_sk(first))


def encode_extent(extent: Extent) -> Item:
    """The extent's item, without its key."""
    return {"v": VERSION, "n": extent.end, "m": dict(extent.end_offsets)}


def decode_extent(sk: str, item: Item) -> Extent:
    """The extent from its item. Raises FormatError for an unknown version or a damaged item."""
    check_version(item, VERSION, "an extent of a shared head")
    return Extent(int(sk.removeprefix(EXTENT_PREFIX)), attribute(item, "n", int), decode_places(item, "m"))


def with_entries(rows: Sequence[tuple[PartitionId, IndexRow]], pages: Sequence[Page]) -> list[IndexRow]:
    """The rows with the entries that they refer to, as far as the pages have them. Pure.

    Args:
        rows: of partitions that share one head.
        pages: in the order of their elements; there may be gaps.
    """
    spans = sorted({row.elements for _, row in rows if row.elements is not None})
    firsts = [first for first, _ in spans]
    found: dict[tuple[int, int], dict[int, list[TailEntry]]] = {span: {} for span in spans}
    covered = dict.fromkeys(spans, 0)
    for page in pages:
        for number, element in enumerate(page.elements, page.first):
            at = bisect_right(firsts, number) - 1
            if at < 0 or number >= spans[at][1]:
                continue
            covered[spans[at]] += 1
            by_place = found[spans[at]]
            for place, entry in decode_packed_entries(element):
                by_place.setdefault(place, []).append(entry)
    return [
        replace(row, entries=tuple(found[row.elements].get(partition.place, ())))
        if row.elements is not None and covered[row.elements] == row.elements[1] - row.elements[0]
        else row
        for partition, row in rows
    ]
