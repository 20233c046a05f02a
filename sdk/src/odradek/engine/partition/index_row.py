"""Index row: the location of offsets below the tail (docs/formats/index_row.md).

Key: `i#<base offset>`. Lifetime: written by a spill before the head forgets the entries, replaced by a merge,
removed by retention or with the topic. Three kinds, told apart by `k`:

    k = "w"   spilled WAL entries        e: tail entries one after the other
                                         or, if the head is shared, c and the elements whose pages have the entries:
                                         pf: the first of them, pe: the end (extents.py)
    k = "s"   one segment                o: object id (16 bytes), x: bytes of its index object

                                         c: commit time of its first batch, ms
                                         d: 1 if its bytes are damaged: they are missing, or are not what was written
                                            (absent: not that a merge knew). It may have neither objects nor an index
                                         q: version of the writer that refused to make it columnar (absent: none)
    k = "p"   one columnar segment       the same but for q, and y: bytes of its Parquet file
                                         r: 1 if values of the file are made of its typed columns (absent: none is)

    both      v: format version 1        n: end offset (exclusive)     mt: largest timestamp, ms
              z: bytes of the batches    sf: the head's spill floor after this spill (ms)
              rm: running maximum: at least the largest timestamp of this row and of all that were ever before it (ms)

Along the rows `sf` and `rm` never fall, so both can be bisected. `rm` is an upper bound: the record that raised it may
have been deleted or compacted away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.head import NO_TIMESTAMP
from odradek.errors import FormatError
from odradek.format.tail_entry import TailEntry, decode_tail_entries, encode_tail_entries
from odradek.ports.table import Item

VERSION = 1


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The offsets [base_offset, end_offset): either WAL entries or a segment.

    Attributes:
        elements: of a row of a shared head, which refers to its entries: the elements [first, end) that have them. Such
            a row has no `entries` until it gets them (`PartitionIndex.with_entries`).
    """

    base_offset: int
    end_offset: int
    max_timestamp_ms: int
    size_bytes: int
    spill_floor_ms: int
    entries: tuple[TailEntry, ...] = ()
    segment_id: bytes | None = None
    index_bytes: int = 0
    running_max_timestamp_ms: int = NO_TIMESTAMP
    segment_started_ms: int = 0
    file_bytes: int = 0  # of a columnar segment's file, else 0
    has_recipes: bool = False  # of a columnar segment in which values are made again (format/parquet/recipes.py)
    is_damaged: bool = False  # a segment that merges and compaction leave as it is: its bytes cannot be read
    refused_by: int = 0  # table_segments.TABLE_WRITER that refused to make the segment columnar, else 0
    elements: tuple[int, int] | None = None

    @property
    def lacks_entries(self) -> bool:
        """Whether the entries are only referred to."""
        return self.elements is not None and not self.entries

    @property
    def started_ms(self) -> int:
        """Commit time of the first batch, ms."""
        return self.entries[0].commit_ms if self.entries else self.segment_started_ms

    @property
    def is_segment(self) -> bool:
        return self.segment_id is not None

    @property
    def is_columnar(self) -> bool:
        return self.file_bytes > 0

    @property
    def kind(self) -> str:
        """The attribute `k`."""
        return "p" if self.is_columnar else "s" if self.is_segment else "w"


def encode_index_row(row: IndexRow) -> Item:
    """The row's item, without its key."""
    item: Item = {
        "v": VERSION,
        "k": row.kind,
        "n": row.end_offset,
        "mt": row.max_timestamp_ms,
        "z": row.size_bytes,
        "sf": row.spill_floor_ms,
        "rm": row.running_max_timestamp_ms,
    }
    if row.segment_id is not None:
        item |= {"o": row.segment_id, "x": row.index_bytes, "c": row.segment_started_ms}
        if row.is_damaged:
            item["d"] = 1
        if row.is_columnar:
            item["y"] = row.file_bytes
            if row.has_recipes:
                item["r"] = 1
        elif row.refused_by:
            item["q"] = row.refused_by
    elif row.elements is not None:
        item |= {"pf": row.elements[0], "pe": row.elements[1], "c": row.started_ms}
    else:
        item["e"] = encode_tail_entries(row.entries)
    return item


def decode_index_row(base_offset: int, item: Item) -> IndexRow:
    """The row from its item. Raises FormatError for an unknown version or kind, or a damaged item."""
    check_version(item, VERSION, "an index row")
    kind = attribute(item, "k", str)
    if kind not in ("s", "p", "w"):
        raise FormatError(f"an index row of kind {kind!r} is not known to this release")
    refers = kind == "w" and "pf" in item
    return IndexRow(
        base_offset=base_offset,
        end_offset=attribute(item, "n", int),
        max_timestamp_ms=attribute(item, "mt", int),
        size_bytes=attribute(item, "z", int),
        spill_floor_ms=attribute(item, "sf", int),
        entries=tuple(decode_tail_entries(attribute(item, "e", bytes))) if kind == "w" and not refers else (),
        segment_id=attribute(item, "o", bytes) if kind != "w" else None,
        index_bytes=attribute(item, "x", int) if kind != "w" else 0,
        running_max_timestamp_ms=attribute(item, "rm", int),
        segment_started_ms=attribute(item, "c", int) if kind != "w" or refers else 0,
        file_bytes=attribute(item, "y", int) if kind == "p" else 0,
        has_recipes=kind == "p" and "r" in item,
        is_damaged=kind != "w" and "d" in item,
        refused_by=attribute(item, "q", int) if kind == "s" and "q" in item else 0,
        elements=(attribute(item, "pf", int), attribute(item, "pe", int)) if refers else None,
    )


def is_ghost(row: IndexRow, merged_offset: int) -> bool:
    """Return True if readers ignore this row. The merged offset only rises, so an older one finds fewer ghosts."""
    return not row.is_segment and row.base_offset < merged_offset


def without_ghosts(rows: Sequence[IndexRow]) -> list[IndexRow]:
    """Rows, oldest first, without those that begin within the one before; the first must be none."""
    kept: list[IndexRow] = []
    for row in rows:
        if not kept or row.base_offset >= kept[-1].end_offset:
            kept.append(row)
    return kept
