"""The location of the bytes of an offset range, and their reads, for fetch, list offsets and the Spark source.

`LogReader.pieces` turns [start, end) into pieces from the head's tail and the index rows: one record batch of the WAL
each, or a run of whole batches of a segment (segment_reader.py). `PieceReader.read` gets the bytes with few requests:
pieces of one object that lie close together are one ranged GET, different objects are read in parallel.

The cost of a plan with a limit of bytes does not depend on the offset, the lag and the size of the log:

    cold     two queries of index rows, then one index if the offset is in a large segment
    warm     nothing: rows are immutable until merged and indexes for ever, so both are kept

For that such a plan ends where the next query would begin, and takes from one segment or from the WAL, never from both
and never from two segments (as a fetch of Apache Kafka reads one segment). A row kept here may have been merged since;
then its bytes are there, or reading them says ObjectMissing and the reader forgets and plans again.

A piece is plain data: a Spark driver plans pieces and ships them to executors.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any

from odradek.engine.append.wal import Wal
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.read.read_ahead import Blocks
from odradek.engine.read.segment_reader import UNBOUNDED, Piece, SegmentIndexes, Wanted, segment_pieces
from odradek.errors import FormatError, ObjectMissing
from odradek.format.object_keys import wal_key
from odradek.format.parquet.segment import rebuild
from odradek.format.record_batch import patch_log_append_time, patch_offsets
from odradek.format.tail_entry import FLAG_LOG_APPEND_TIME, TailEntry
from odradek.model.log import OFFSET_END, Buffer
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings

_ROWS_PER_QUERY = 64
_ROWS_CACHED = 4096
_MADE_BYTES_MAX = 16 * 1024 * 1024  # of batches made from row groups that a process keeps

Unreadable = ObjectMissing | FormatError  # what reading raises of bytes that are missing, or wrong

__all__ = ["LogReader", "Piece", "PieceReader", "Unreadable", "entry_piece", "patched", "row_entries", "row_pieces"]


class LogReader:
    """Plans reads of any partition; keeps index rows and segment indexes that it has seen."""

    def __init__(self, index: PartitionIndex, segments: SegmentIndexes) -> None:
        self._index = index
        self._segments = segments
        self._rows: OrderedDict[PartitionId, _RowCache] = OrderedDict()
        self._cached = 0

    async def pieces(
        self,
        partition: PartitionId,
        head: PartitionHead,
        start_offset: int,
        *,
        end_offset: int = OFFSET_END,
        max_bytes: int = UNBOUNDED,
        upload_bytes: int = UNBOUNDED,
        piece_bytes: int = UNBOUNDED,
    ) -> list[Piece]:
        """The pieces from the one that holds `start_offset` up to `end_offset` or past `max_bytes`, oldest first.

        At least one where there are any bytes from there on; of uploads' batches no more than `upload_bytes`, if less
        than `max_bytes`. A segment's piece begins at or before the offset and may, after compaction, hold no record
        from it on: then go on at its end. With `max_bytes` the plan is one of those described above; without, it is
        whole, and segments are cut into pieces of about `piece_bytes`.

        The caller has checked that the offset is in [log start, next offset).
        Raises ObjectMissing (forget and read the head again), StoreUnavailable, FormatError.
        """
        wanted = Wanted(start_offset, end_offset, max_bytes, piece_bytes)
        upload_bytes = min(upload_bytes, max_bytes)
        pieces: list[Piece] = []
        size = 0
        offset = start_offset
        while offset < min(head.tail_base_offset, end_offset):
            row = self._kept_row(partition, offset)
            if row is None:
                if pieces and wanted.is_bounded:
                    return pieces
                row = await self._find_row(partition, head, offset)
            if row is None or row.base_offset > offset:
                # Rows have no gaps: this one has gone since the head was read, with retention.
                raise ObjectMissing(f"the index row of offset {offset}")
            if row.is_segment:
                if pieces and wanted.is_bounded:
                    return pieces
                if pieces and row.base_offset < offset:
                    # A merge has put rows that are planned already into this one: it would be read twice in part.
                    raise ObjectMissing(f"the index row that ends at offset {offset}")
                pieces += await self._segments.pieces(partition, row, wanted)
                if pieces and wanted.is_bounded:
                    return pieces
            if row.lacks_entries:
                row = await self._with_entries(partition, row)
                if row.lacks_entries and pieces and wanted.is_bounded:
                    return pieces
            for base_offset, entry in row_entries(row):
                if base_offset + entry.offset_count <= offset or base_offset >= end_offset:
                    continue
                if pieces and size + entry.length > upload_bytes:
                    return pieces
                pieces.append(entry_piece(base_offset, entry))
                size += entry.length
            offset = row.end_offset
        for base_offset, entry in head.entries():
            # A row may reach into a tail that was read before the row was made.
            if base_offset + entry.offset_count <= offset or base_offset >= end_offset:
                continue
            if pieces and size + entry.length > upload_bytes:
                break
            pieces.append(entry_piece(base_offset, entry))
            size += entry.length
        return pieces

    def forget(self, partition: PartitionId) -> None:
        """Drop the cached rows of a partition, whose objects no longer exist."""
        cache = self._rows.pop(partition, None)
        if cache is not None:
            self._cached -= len(cache.rows)

    def _kept_row(self, partition: PartitionId, offset: int) -> IndexRow | None:
        cache = self._rows.get(partition)
        if cache is None:
            return None
        self._rows.move_to_end(partition)
        return cache.find(offset)

    async def _with_entries(self, partition: PartitionId, row: IndexRow) -> IndexRow:
        """Return a row of a shared head with its entries, and keep it so."""
        [row] = await self._index.with_entries([(partition, row)])
        cache = self._rows.get(partition)
        if cache is not None and row.base_offset in cache.rows:
            cache.rows[row.base_offset] = row
        return row

    async def _find_row(self, partition: PartitionId, head: PartitionHead, offset: int) -> IndexRow | None:
        """Return the row with the offset, or the first one after it; None without either."""
        row = await self._index.row_at(partition, offset, merged_offset=head.merged_offset)
        following = row.end_offset if row is not None and row.end_offset > offset else offset
        rows = [row] if row is not None and row.end_offset > offset else []
        rows += await self._index.rows_from(partition, following, _ROWS_PER_QUERY)
        cache = self._rows.setdefault(partition, _RowCache())
        self._cached += cache.add(rows)
        while self._cached > _ROWS_CACHED and len(self._rows) > 1:
            _, evicted = self._rows.popitem(last=False)
            self._cached -= len(evicted.rows)
        if len(cache.rows) > _ROWS_CACHED:
            self.forget(partition)
            self._rows[partition] = fresh = _RowCache()
            self._cached += fresh.add(rows)
        return rows[0] if rows else None


class _RowCache:
    """Index rows of one partition by base offset."""

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.rows: dict[int, IndexRow] = {}

    def find(self, offset: int) -> IndexRow | None:
        at = bisect_right(self.bases, offset) - 1
        row = self.rows[self.bases[at]] if at >= 0 else None
        return row if row is not None and row.end_offset > offset else None

    def add(self, rows: Iterable[IndexRow]) -> int:
        """Add rows, drop those that a merge put into them; returns how many more there are."""
        before = len(self.rows)
        for row in rows:
            first, stop = bisect_left(self.bases, row.base_offset), bisect_left(self.bases, row.end_offset)
            for base in self.bases[first:stop]:
                del self.rows[base]
            self.bases[first:stop] = [row.base_offset]
            self.rows[row.base_offset] = row
        return len(self.rows) - before


class PieceReader:
    """Gets the bytes of pieces."""

    def __init__(self, wal: Wal, settings: Settings) -> None:
        self._wal = wal
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.fetch_object_parallelism)
        self.ahead = Blocks(settings.read_ahead_bytes, wal.read_range, settings.fetch_object_parallelism, wal.clock)
        self._made: OrderedDict[tuple[str, int], bytes] = OrderedDict()  # batches by row group
        self._made_bytes = 0

    async def read(self, pieces: Sequence[Piece], *, join_gap_bytes: int | None = None) -> list[memoryview]:
        """Return the stored bytes of each piece, in order; offsets are not patched.

        Args:
            join_gap_bytes: ranges of one object closer than this are read as one; None: `fetch_join_gap_bytes`.

        Raises ObjectMissing if a merge or a deletion was faster (plan again), StoreUnavailable.
        """
        found: list[memoryview | None] = [None] * len(pieces)

        async def fill_item(item_id: bytes, members: Sequence[int]) -> None:
            async with self._slots:
                data = memoryview(await self._wal.read_item(item_id))
            for i in members:
                found[i] = data[pieces[i].position : pieces[i].position + pieces[i].length]

        async def fill_range(key: str, members: Sequence[int]) -> None:
            start = min(pieces[i].position for i in members)
            stop = max(pieces[i].position + pieces[i].length for i in members)
            data = memoryview(await self._range(key, start, stop - start))
            for i in members:
                at = pieces[i].position - start
                found[i] = data[at : at + pieces[i].length]

        async def fill_columnar(i: int) -> None:
            found[i] = await self._batches(pieces[i])

        items: dict[bytes, list[int]] = {}
        for i, piece in enumerate(pieces):
            if piece.item_id is not None:
                items.setdefault(piece.item_id, []).append(i)
        reads = [fill_item(item_id, members) for item_id, members in items.items()]
        reads += [fill_columnar(i) for i, piece in enumerate(pieces) if piece.groups]
        reads += [fill_range(key, members) for key, members in self._ranges(pieces, join_gap_bytes)]
        if len(reads) == 1:
            await reads[0]
        else:
            await _all_or_none(reads)
        return [data for data in found if data is not None]

    async def read_groups(self, piece: Piece) -> tuple[memoryview, Unreadable | None]:
        """Return the batches of a columnar piece up to the first damaged row group, and the damage, if there is any.

        Raises StoreUnavailable.
        """
        made: list[bytes] = []
        damage: Unreadable | None = None
        for group in piece.groups:
            try:
                data = await self._range(piece.object_key, group.position, group.size_bytes)
                made.append(rebuild(data, group))
            except (ObjectMissing, FormatError) as error:
                damage = error
                break
        return memoryview(b"".join(made)), damage

    async def _batches(self, piece: Piece) -> memoryview:
        """Return the batches of a columnar piece. Those that were made last are kept: a consumer reads on in them."""
        made: list[bytes] = []
        for group in piece.groups:
            place = piece.object_key, group.position
            batches = self._made.get(place)
            if batches is None:
                data = await self._range(piece.object_key, group.position, group.size_bytes)
                batches = self._made[place] = rebuild(data, group)
                self._made_bytes += len(batches)
            self._made.move_to_end(place)
            made.append(batches)
        while self._made_bytes > _MADE_BYTES_MAX and len(self._made) > 1:
            _, dropped = self._made.popitem(last=False)
            self._made_bytes -= len(dropped)
        return memoryview(made[0] if len(made) == 1 else b"".join(made))

    async def _range(self, key: str, start: int, length: int) -> Buffer:
        """Return a range, which may have been read ahead. Raises as Wal.read_range."""
        if self.ahead.bytes_max:
            data = await self.ahead.find(key, start, length)
            if data is not None:
                return data
        async with self._slots:
            return await self._wal.read_range(key, start, length)

    def ranges_ahead(self, pieces: Sequence[Piece]) -> list[tuple[str, int, int]]:
        """What of objects to read for these pieces: key, start, stop. Not what this process keeps, and no items."""
        found = [
            (key, min(pieces[i].position for i in members), max(pieces[i].position + pieces[i].length for i in members))
            for key, members in self._ranges(pieces, None)
        ]
        for piece in pieces:
            if piece.groups:
                last = piece.groups[-1]
                found.append((piece.object_key, piece.groups[0].position, last.position + last.size_bytes))
        return [each for each in found if not self._wal.keeps(each[0])]

    def bytes_held(self, pieces: Sequence[Piece], *, join_gap_bytes: int) -> int:
        """How many bytes a read of these pieces gets and holds, the gaps between them included."""
        size = sum(piece.length for piece in pieces if piece.item_id is not None or piece.groups)
        for _, members in self._ranges(pieces, join_gap_bytes):
            stop = max(pieces[i].position + pieces[i].length for i in members)
            size += stop - min(pieces[i].position for i in members)
        return size

    def _ranges(self, pieces: Sequence[Piece], join_gap_bytes: int | None) -> list[tuple[str, list[int]]]:
        """Pieces that are read together: same object, gaps no wider than that."""
        gap = self._settings.fetch_join_gap_bytes if join_gap_bytes is None else join_gap_bytes
        by_key: dict[str, list[int]] = {}
        for i, piece in enumerate(pieces):
            if piece.item_id is None and not piece.groups:
                by_key.setdefault(piece.object_key, []).append(i)
        ranges: list[tuple[str, list[int]]] = []
        for key, members in by_key.items():
            members.sort(key=lambda i: pieces[i].position)
            stop = -1
            for i in members:
                if stop >= 0 and pieces[i].position - stop <= gap:
                    ranges[-1][1].append(i)
                else:
                    ranges.append((key, [i]))
                stop = max(stop, pieces[i].position + pieces[i].length)
        return ranges


async def _all_or_none(reads: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run the reads together; after a failure do not start the others, so that a failing store is not loaded."""
    try:
        async with asyncio.TaskGroup() as group:
            for read in reads:
                group.create_task(read)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


def patched(piece: Piece, data: memoryview, leader_epoch: int) -> list[Buffer]:
    """A piece's batch as a consumer gets it: absolute offsets, leader epoch, append time."""
    if piece.is_segment:
        return [data]
    batch: Buffer = data
    if piece.log_append_time_ms >= 0:
        batch = patch_log_append_time(data, piece.log_append_time_ms)
    return patch_offsets(batch, piece.base_offset, leader_epoch)


def entry_piece(base_offset: int, entry: TailEntry) -> Piece:
    """The piece of one WAL entry."""
    return Piece(
        base_offset,
        base_offset + entry.offset_count,
        object_key="" if entry.is_item else wal_key(entry.object_id),
        item_id=entry.object_id if entry.is_item else None,
        position=entry.position,
        length=entry.length,
        max_timestamp_ms=entry.max_timestamp_ms,
        log_append_time_ms=entry.max_timestamp_ms if entry.flags & FLAG_LOG_APPEND_TIME else -1,
    )


def row_entries(row: IndexRow) -> Iterator[tuple[int, TailEntry]]:
    """The WAL entries of an index row with their base offsets; none of a segment.

    Raises ObjectMissing: it only refers to them, and its pages have gone, since it was merged.
    """
    if row.lacks_entries:
        raise ObjectMissing(f"the entries of the index row of offset {row.base_offset}")
    offset = row.base_offset
    for entry in row.entries:
        yield offset, entry
        offset += entry.offset_count


def row_pieces(partition: PartitionId, row: IndexRow) -> list[Piece]:
    """All pieces of an index row; a segment is one, an empty one none. Raises as `row_entries`."""
    if row.is_segment:
        return segment_pieces(partition, row, Wanted(row.base_offset))
    return [entry_piece(base_offset, entry) for base_offset, entry in row_entries(row)]
