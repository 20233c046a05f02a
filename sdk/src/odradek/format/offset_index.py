"""The index of a segment: from an offset or a timestamp to a position (docs/formats/offset_index.md).

    header    60 bytes + 12 per leader epoch    offsets, size, checksum and epochs of the segment
    entries   24 bytes each                     one per stretch of the segment: first offset, position, max timestamp
    file      16 bytes + 44 per entry           of a columnar segment: its file and row groups
    leaves    4 bytes and a path each           of one whose values are made again: the columns behind the first ones
    crc       4 bytes                           CRC-32C of all bytes before it

The index of a columnar segment (parquet/segment.py) has positions and sizes of the batches that the file is read as,
and beside each stretch the row group that has it.

A stretch begins at a batch and is at least `interval_bytes` long, except the last. The timestamp of an entry is the
largest of all records up to the *end* of its stretch, so it never decreases from entry to entry. The first record at or
after a timestamp is in the first stretch whose entry reaches it: exact, although timestamps themselves may decrease.

An index is immutable and is written after its segment; `docs/ARCHITECTURE.md` says when a segment becomes visible.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

from odradek.errors import FormatError, UnknownVersion
from odradek.format.crc import crc32c
from odradek.model.log import Buffer

MAGIC = b"ODIX"
VERSION = 1
INTERVAL_BYTES = 64 * 1024  # a ranged GET of this size costs as much as a smaller one

_HEADER = struct.Struct(
    ">"
    "4s"  # magic
    "B"  # version
    "B"  # flags, 0
    "H"  # count of leader epochs
    "I"  # count of entries
    "q"  # base offset
    "q"  # end offset, exclusive
    "Q"  # size of the segment in bytes
    "Q"  # count of records
    "I"  # count of batches
    "q"  # largest timestamp, ms
    "I"  # CRC-32C of the segment
)
_EPOCH = struct.Struct(
    ">"
    "i"  # leader epoch
    "q"  # its first offset in the segment
)
_ENTRY = struct.Struct(
    ">"
    "Q"  # first offset of the stretch, from the base offset
    "Q"  # position of the stretch in the segment
    "q"  # largest timestamp up to the end of the stretch, ms
)
_CRC = struct.Struct(">I")
_COLUMNAR_FLAG, _RECIPES_FLAG = 0x01, 0x02
_FLAGS = (0, _COLUMNAR_FLAG, _COLUMNAR_FLAG | _RECIPES_FLAG)
_FILE = struct.Struct(
    ">"
    "Q"  # bytes of the file
    "Q"  # further leaves; 0 without recipes
)
_LEAF = struct.Struct(
    ">"
    "B"  # physical type, by its place in PHYSICAL
    "B"  # greatest definition level
    "H"  # bytes of the path, which follow
)
PHYSICAL = ("", "int32", "int64", "bytes", "float", "double", "boolean")
"""Physical types of further leaves; the first: a reader of batches does not read the column."""
_FIRST_LEAVES = 8
_GROUP_START = struct.Struct(
    ">"
    "Q"  # position of the row group in the file
    "I"  # rows; then 4 bytes a leaf: those of its chunk, and with recipes the CRC-32C of all values, joined
)


class Leaf(NamedTuple):
    """A column behind the first ones: its path in the file, and how it is read."""

    path: str
    physical: str  # one of PHYSICAL
    max_definition: int


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a columnar segment: one stretch."""

    position: int  # in the file
    row_count: int
    column_bytes: tuple[int, ...]  # of the chunks of `parquet.segment.LEAVES` and `leaves`, one after the other
    leaves: tuple[Leaf, ...] = ()  # of a file in which values are made again; the same for all its row groups
    values_crc: int = 0  # of such a file: CRC-32C of all values, joined

    @property
    def size_bytes(self) -> int:
        """The bytes that a reader of batches needs; typed columns follow, unless values are made of them."""
        return sum(self.column_bytes)


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """The facts about a segment that its index holds. Entries are columns, for bisection."""

    base_offset: int  # of the segment; the first batch may begin later where compaction emptied its beginning
    end_offset: int  # exclusive; the last batch may end before it for the same reason
    size_bytes: int
    record_count: int
    batch_count: int
    max_timestamp_ms: int
    segment_crc: int  # CRC-32C of the whole object
    leader_epochs: tuple[tuple[int, int], ...]  # (epoch, its first offset in the segment), both rise
    offsets: tuple[int, ...]  # absolute first offset of each stretch
    positions: tuple[int, ...]
    max_timestamps_ms: tuple[int, ...]
    file_bytes: int = 0  # of the file of a columnar segment, else 0
    groups: tuple[RowGroup, ...] = ()  # one a stretch of a columnar segment

    @property
    def is_columnar(self) -> bool:
        return self.file_bytes > 0

    @property
    def has_recipes(self) -> bool:
        """Values of the file are made again from typed columns (parquet/recipes.py)."""
        return any(group.leaves for group in self.groups)

    def locate_offset(self, offset: int) -> tuple[int, int]:
        """Return the stretch [start, end) of bytes that contains the batch of `offset`, if a batch does.

        If compaction left a gap there, the next batch is the first of the following stretch (at `end`). Below the
        first batch the result is the first stretch; at or past the end offset it is empty.
        """
        if offset >= self.end_offset or not self.offsets:
            return self.size_bytes, self.size_bytes
        return self._stretch(max(bisect_right(self.offsets, offset) - 1, 0))

    def stretches(self) -> list[tuple[int, int]]:
        """Return all stretches in order: reads, merges and splits of the segment begin and end at their bounds."""
        return list(pairwise((*self.positions, self.size_bytes)))

    def _stretch(self, number: int) -> tuple[int, int]:
        following = number + 1
        return self.positions[number], self.positions[following] if following < len(self.positions) else self.size_bytes


def encode_offset_index(index: OffsetIndex) -> bytes:
    """Encode an index object. Raises FormatError if a field is out of range."""
    _check(index)
    try:
        head = _HEADER.pack(
            MAGIC,
            VERSION,
            _COLUMNAR_FLAG * index.is_columnar | _RECIPES_FLAG * index.has_recipes,
            len(index.leader_epochs),
            len(index.offsets),
            index.base_offset,
            index.end_offset,
            index.size_bytes,
            index.record_count,
            index.batch_count,
            index.max_timestamp_ms,
            index.segment_crc,
        )
        epochs = b"".join(_EPOCH.pack(*epoch) for epoch in index.leader_epochs)
        rows = zip(index.offsets, index.positions, index.max_timestamps_ms, strict=True)
        entries = b"".join(_ENTRY.pack(offset - index.base_offset, at, time) for offset, at, time in rows)
        if index.is_columnar:
            entries += _encode_file(index)
    except struct.error as error:
        raise FormatError(f"the offset index does not fit its format: {error}") from error
    return b"".join((head, epochs, entries, _CRC.pack(crc32c(head, epochs, entries))))


def decode_offset_index(data: Buffer) -> OffsetIndex:
    """Decode an index object. Raises FormatError for any bytes that `encode_offset_index` does not produce."""
    view = memoryview(data)
    if len(view) < _HEADER.size + _CRC.size or view[: len(MAGIC)] != MAGIC:
        raise FormatError("the object is not an offset index")
    if view[len(MAGIC)] != VERSION:
        raise UnknownVersion(f"offset index version {view[len(MAGIC)]} is not known to this release: upgrade it")
    _, _, flags, epoch_count, entry_count, *fields = _HEADER.unpack_from(view)
    epochs_end = _HEADER.size + epoch_count * _EPOCH.size
    entries_end = epochs_end + entry_count * _ENTRY.size
    end = len(view) - _CRC.size
    if flags not in _FLAGS or entries_end > end or (not flags and entries_end != end):
        raise FormatError("the offset index is truncated or too long")
    if _CRC.unpack_from(view, end)[0] != crc32c(view[:end]):
        raise FormatError("the offset index does not match its CRC-32C")
    entries = list(_ENTRY.iter_unpack(view[epochs_end:entries_end]))
    base_offset = fields[0]
    columns = (
        tuple(_EPOCH.iter_unpack(view[_HEADER.size : epochs_end])),
        tuple(base_offset + entry[0] for entry in entries),
        tuple(entry[1] for entry in entries),
        tuple(entry[2] for entry in entries),
    )
    file_bytes, groups = _decode_file(view[entries_end:end], flags, entry_count) if flags else (0, ())
    index = OffsetIndex(*(*fields, *columns, file_bytes, groups))
    _check(index)
    return index


def _encode_file(index: OffsetIndex) -> bytes:
    leaves = index.groups[0].leaves if index.groups else ()
    parts = [_FILE.pack(index.file_bytes, len(leaves))]
    for leaf in leaves:
        path = leaf.path.encode()
        parts += (_LEAF.pack(PHYSICAL.index(leaf.physical), leaf.max_definition, len(path)), path)
    for group in index.groups:
        numbers = (*group.column_bytes, group.values_crc) if leaves else group.column_bytes
        parts += (_GROUP_START.pack(group.position, group.row_count), struct.pack(f">{len(numbers)}I", *numbers))
    return b"".join(parts)


def _decode_file(view: memoryview, flags: int, count: int) -> tuple[int, tuple[RowGroup, ...]]:
    """Return the bytes of the file, and its row groups. Raises FormatError."""
    try:
        file_bytes, leaf_count = _FILE.unpack_from(view)
        at = _FILE.size
        leaves = []
        for _ in range(leaf_count if flags & _RECIPES_FLAG else 0):
            physical, max_definition, length = _LEAF.unpack_from(view, at)
            at += _LEAF.size + length
            leaves.append(Leaf(bytes(view[at - length : at]).decode(), PHYSICAL[physical], max_definition))
        chunks = struct.Struct(f">{_FIRST_LEAVES + len(leaves)}I")
        shared = tuple(leaves)
        groups = []
        for _ in range(count):
            position, row_count = _GROUP_START.unpack_from(view, at)
            lengths = chunks.unpack_from(view, at + _GROUP_START.size)
            at += _GROUP_START.size + chunks.size
            values_crc = _CRC.unpack_from(view, at)[0] if leaves else 0
            at += _CRC.size if leaves else 0
            groups.append(RowGroup(position, row_count, lengths, shared, values_crc))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"the offset index is truncated: {error}") from None
    if at != len(view) or bool(leaves) != bool(flags & _RECIPES_FLAG):
        raise FormatError("the offset index is truncated or too long")
    return file_bytes, tuple(groups)


def _check(index: OffsetIndex) -> None:
    """Raise FormatError if the parts contradict each other, so that lookups can rely on them."""
    first_and_end = chain((index.base_offset - 1,), index.offsets, (index.end_offset,))
    ok = (
        0 <= index.base_offset <= index.end_offset
        and all(before < after for before, after in pairwise(first_and_end))
        and all(before < after for before, after in pairwise(chain((-1,), index.positions, (index.size_bytes,))))
        and index.positions[:1] in ((), (0,))
        and all(before <= after for before, after in pairwise(index.max_timestamps_ms))
        and index.max_timestamps_ms[-1:] in ((), (index.max_timestamp_ms,))
        and all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(index.leader_epochs))
        and bool(index.offsets) == bool(index.size_bytes) == bool(index.batch_count)
        and len(index.offsets) == len(index.positions) == len(index.max_timestamps_ms) <= max(index.batch_count, 0)
        and len(index.groups) == (len(index.offsets) if index.is_columnar else 0)
        and all(a.position + a.size_bytes <= b.position and a.leaves == b.leaves for a, b in pairwise(index.groups))
        and all(len(group.column_bytes) == _FIRST_LEAVES + len(group.leaves) for group in index.groups)
        and sum(group.row_count for group in index.groups) == (index.record_count if index.is_columnar else 0)
        and all(group.position + group.size_bytes <= index.file_bytes for group in index.groups[-1:])
    )
    if not ok:
        raise FormatError("the offset index is inconsistent")
