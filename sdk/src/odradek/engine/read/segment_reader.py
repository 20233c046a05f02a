"""The bytes of a segment that a read needs, by its index: the cost of a read does not grow with the segment.

A segment is cut where its index may cut it: at stretches of 64 KiB or more (format/offset_index.py). An index is one
GET and never changes, so those seen last are kept decoded. None is needed for a small segment (`WHOLE_BYTES`: reading
it costs what a stretch costs) and none where all of a segment is wanted in one piece.

The stretch that holds an offset may, after compaction, hold no record from that offset on; then the next stretch begins
with one. An empty segment has no bytes and gives no pieces: a reader passes over it.

An index that is missing or damaged is made again from its segment, which is read whole for it; not that of a columnar
segment, whose row groups only it describes. What a merge has set apart as damaged has no index: it is one piece.

A columnar segment is cut in the same way. Positions and lengths of its pieces are those of the batches that its row
groups are read as; a piece names the row groups, which are where the index says (format/parquet/segment.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass

from odradek.engine.damage import Damages
from odradek.engine.partition.index_row import IndexRow
from odradek.errors import FormatError, ObjectMissing
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import OffsetIndex, RowGroup, decode_offset_index
from odradek.format.segment import index_segment
from odradek.model.log import OFFSET_END
from odradek.model.topic_partition import PartitionId
from odradek.ports.object_store import ObjectStore

WHOLE_BYTES = 256 * 1024  # a segment up to this size is read whole, without its index
UNBOUNDED = 2**62  # bytes

_ENTRIES_CACHED = 64 * 1024  # of all indexes kept: some 10 MB


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of bytes that holds the offsets [base_offset, end_offset)."""

    base_offset: int
    end_offset: int
    object_key: str  # where the bytes lie; empty for a WAL item
    item_id: bytes | None  # the object id of a WAL item
    position: int
    length: int
    max_timestamp_ms: int  # of a segment's piece: at least the largest
    log_append_time_ms: int = -1  # patched into the batch on read; -1 under CreateTime
    is_segment: bool = False  # whole batches of a segment: their offsets are absolute already
    groups: tuple[RowGroup, ...] = ()  # of a columnar segment: they are read as `length` bytes or about as many
    file_bytes: int = 0  # of a columnar segment's file

    @property
    def upload(self) -> str:
        """The id of the upload that holds it, in hex; ids begin with their time. Not of a segment's piece."""
        return self.object_key[-32:] if self.item_id is None else self.item_id.hex()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A reader's request for a part of a log.

    Attributes:
        max_bytes: from the start on, as stored; the first batch, or stretch of a segment, is included however large.
        piece_bytes: about the largest piece that a segment is cut into.
    """

    start_offset: int
    end_offset: int = OFFSET_END  # exclusive
    max_bytes: int = UNBOUNDED
    piece_bytes: int = UNBOUNDED

    @property
    def is_bounded(self) -> bool:
        return self.max_bytes < UNBOUNDED


class SegmentIndexes:
    """Indexes of segments, those used last kept decoded.

    Args:
        damages: notes indexes that had to be made again.
    """

    def __init__(self, objects: ObjectStore, damages: Damages) -> None:
        self._objects = objects
        self._damages = damages
        self._kept: OrderedDict[bytes, OffsetIndex] = OrderedDict()
        self._entries = 0

    async def get(self, partition: PartitionId, row: IndexRow) -> OffsetIndex:
        """The index of a row's segment.

        Raises ObjectMissing (a merge, a compaction or retention was faster: look up the rows again), StoreUnavailable,
        FormatError.
        """
        assert row.segment_id is not None
        kept = self._kept.get(row.segment_id)
        if kept is not None:
            self._kept.move_to_end(row.segment_id)
            return kept
        try:
            index = await self._read(partition, row, row.segment_id)
        except (ObjectMissing, FormatError) as damage:
            if row.is_columnar:
                raise
            data = await self._objects.get(segment_key(partition, row.base_offset, row.segment_id))
            index = index_segment(data, base_offset=row.base_offset, end_offset=row.end_offset)
            if index.size_bytes != row.size_bytes:
                raise
            self._damages.note_index(index_key(partition, row.base_offset, row.segment_id), damage)
        if self._kept.setdefault(row.segment_id, index) is index:
            self._entries += len(index.offsets)
            while self._entries > _ENTRIES_CACHED and len(self._kept) > 1:
                _, evicted = self._kept.popitem(last=False)
                self._entries -= len(evicted.offsets)
        return index

    async def _read(self, partition: PartitionId, row: IndexRow, segment_id: bytes) -> OffsetIndex:
        index = decode_offset_index(await self._objects.get(index_key(partition, row.base_offset, segment_id)))
        if (index.base_offset, index.end_offset, index.size_bytes) != (row.base_offset, row.end_offset, row.size_bytes):
            raise FormatError(f"the index of segment {segment_id.hex()} does not match its row")
        return index

    async def pieces(self, partition: PartitionId, row: IndexRow, wanted: Wanted) -> list[Piece]:
        """The pieces of a segment that a reader wants. Raises as `get`."""
        index = await self.get(partition, row) if needs_index(row, wanted) else None
        return segment_pieces(partition, row, wanted, index)


def needs_index(row: IndexRow, wanted: Wanted) -> bool:
    """Return True if the index is needed to find the requested part of the segment, or where to cut it.

    It says where the row groups of a columnar segment are.
    """
    if row.is_columnar:
        return row.size_bytes > 0
    if row.size_bytes <= WHOLE_BYTES or not row.index_bytes:
        return False
    is_whole = wanted.start_offset <= row.base_offset and wanted.end_offset >= row.end_offset
    return not is_whole or row.size_bytes > min(wanted.max_bytes, wanted.piece_bytes)


def segment_pieces(
    partition: PartitionId, row: IndexRow, wanted: Wanted, index: OffsetIndex | None = None
) -> list[Piece]:
    """The pieces of a segment from the stretch that holds the wanted start; without an index the whole as one.

    A columnar segment needs its index.
    """
    assert row.segment_id is not None
    if not row.size_bytes:
        return []
    key = segment_key(partition, row.base_offset, row.segment_id, is_columnar=row.is_columnar)
    if index is None:
        assert not row.is_columnar, "a columnar segment is read by its index"
        whole = Piece(
            row.base_offset, row.end_offset, key, None, 0, row.size_bytes, row.max_timestamp_ms, is_segment=True
        )
        return [whole]
    bounds = (*index.positions, index.size_bytes)

    def reach(first: int, max_bytes: int) -> int:
        """The stretch after the last one that ends within `max_bytes` from the beginning of the first."""
        return max(first + 1, bisect_right(bounds, bounds[first] + max_bytes) - 1)

    first = max(bisect_right(index.offsets, wanted.start_offset) - 1, 0)
    # Bytes before the wanted offset in its stretch are read as well, but not returned.
    before = bounds[first + 1] - bounds[first] if index.offsets[first] < wanted.start_offset else 0
    stop = reach(first, wanted.max_bytes + before)
    stop = min(stop, max(bisect_left(index.offsets, wanted.end_offset), first + 1))
    pieces: list[Piece] = []
    while first < stop:
        last = min(reach(first, wanted.piece_bytes), stop)
        pieces.append(
            Piece(
                index.offsets[first] if first else row.base_offset,
                index.offsets[last] if last < len(index.offsets) else row.end_offset,
                key,
                None,
                bounds[first],
                bounds[last] - bounds[first],
                index.max_timestamps_ms[last - 1],
                is_segment=True,
                groups=index.groups[first:last],
                file_bytes=index.file_bytes,
            )
        )
        first = last
    return pieces
