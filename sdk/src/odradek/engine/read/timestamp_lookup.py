"""Offsets by timestamp over a whole partition: exact to the record, in a bounded number of requests.

Timestamps need not rise with offsets, so what is bisected is the running maximum `rm` of the index rows, which does
(docs/formats/index_row.md). Below the first row whose `rm` reaches a timestamp no record does; in that row one does,
unless it is gone. That leads to it:

    rows       one query a step, each halves the offsets that are left: O(log rows); none where the tail has the answer
    a segment  its index (one GET), then the one stretch whose running maximum reaches the timestamp (one GET)
    WAL        the first entry that reaches it (one read)

The record that raised `rm` may be below the log start or compacted away. Then the answer is further on, and rows are
read forward by pages of some hundred a request, by their own largest timestamps; the same inside a segment by chunks.
That is the cost of a record from the future that retention has dropped; it stays far below one request a row.

The largest timestamp (KIP-734) is the last `rm`, looked up in the same way. Where its record is gone, or belongs to
another partition that shares the head, all rows are compared, and the ones with the largest timestamps read, the best
first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import pairwise

from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow, is_ghost, without_ghosts
from odradek.engine.read.log_reader import PieceReader, entry_piece, patched, row_entries, row_pieces
from odradek.engine.read.segment_reader import WHOLE_BYTES, Piece, SegmentIndexes, Wanted, segment_pieces
from odradek.errors import FormatError, ObjectMissing
from odradek.format.record_batch import iter_headers
from odradek.format.record_decoder import iter_rows
from odradek.format.segment import find_timestamp
from odradek.format.tail_entry import TailEntry
from odradek.model.log import Buffer
from odradek.model.topic_partition import PartitionId

Found = tuple[int, int]
"""Offset and timestamp (ms) of a record."""

_ROWS_PER_STEP = 32  # the last steps of a bisection in one query
_ROWS_PER_PAGE = 256
_CHUNK_BYTES = 4 * 1024 * 1024


class TimestampLookup:
    """Finds records by timestamp. All methods raise ObjectMissing (a merge was faster: read the head again),
    StoreUnavailable, FormatError.

    Args:
        passes_damage: what cannot be read counts as a record at its first offset, with its largest timestamp: whoever
            reads from there meets the damage, and nothing is passed over.
    """

    def __init__(
        self, index: PartitionIndex, segments: SegmentIndexes, pieces: PieceReader, *, passes_damage: bool = False
    ) -> None:
        self._index = index
        self._segments = segments
        self._pieces = pieces
        self._passes_damage = passes_damage

    def passing_damage(self) -> TimestampLookup:
        """Return one that passes damage."""
        return TimestampLookup(self._index, self._segments, self._pieces, passes_damage=True)

    async def first_at(self, partition: PartitionId, head: PartitionHead, timestamp_ms: int) -> Found | None:
        """Return the first record, by offset, with at least that timestamp; None if there is none."""
        start = head.log_start_offset
        if _has_rows(head) and timestamp_ms <= head.running_max_timestamp_ms:
            async for row in self._rows_from(partition, head, await self._reaching(partition, head, timestamp_ms)):
                if row.max_timestamp_ms >= timestamp_ms:
                    found = await self._first_in_row(partition, row, timestamp_ms, start)
                    if found is not None:
                        return found
        return await self._first_in_entries(_live(head), timestamp_ms, start)

    async def largest(self, partition: PartitionId, head: PartitionHead) -> Found | None:
        """The record with the largest timestamp, the first of them; None in an empty log."""
        start = head.log_start_offset
        in_tail = max((entry.max_timestamp_ms for _, entry in _live(head)), default=None)
        largest_ms = head.running_max_timestamp_ms
        best: Found | None = None
        if _has_rows(head) and (in_tail is None or largest_ms >= in_tail):
            row = await self._reaching(partition, head, largest_ms)
            if row is not None and row.max_timestamp_ms == largest_ms:
                best = await self._first_in_row(partition, row, largest_ms, start)
                if best is not None:
                    return best
            best = await self._largest_in_rows(partition, head)
        return _better(best, await self._largest_in([entry_piece(*each) for each in _live(head)], start, best))

    # --- rows -----------------------------------------------------------------------------------------------------

    async def _reaching(self, partition: PartitionId, head: PartitionHead, timestamp_ms: int) -> IndexRow | None:
        """Return the first row from the log start on whose running maximum reaches the timestamp.

        Raises ObjectMissing if the row before it, or the last row, is not visible: the result may not be the first.
        """
        low, high = head.log_start_offset, head.tail_base_offset
        below = low  # rows up to here do not reach
        found: IndexRow | None = None
        page_span = 0  # offsets that the last page covered: as many are likely to fit the next one
        while low < high:
            middle = high - 1 if high - low <= page_span else (low + high) // 2
            newest_first = await self._index.rows_down_from(partition, middle, _ROWS_PER_STEP)
            rows = [row for row in reversed(newest_first) if not is_ghost(row, head.merged_offset)]
            rows = [row for row in without_ghosts(rows) if row.end_offset > head.log_start_offset]
            _check_neighbours(rows)
            page_span = rows[-1].end_offset - rows[0].base_offset if rows else 0
            if not rows or rows[-1].running_max_timestamp_ms < timestamp_ms:
                below = rows[-1].end_offset if rows else below
                low = max(below, middle + 1)
                continue
            at = bisect_left(rows, timestamp_ms, key=lambda row: row.running_max_timestamp_ms)
            found = rows[at]
            high = found.base_offset
            if at > 0:
                return found  # the row before it does not reach
        _check_seen(below, high)
        return found

    async def _rows_from(
        self, partition: PartitionId, head: PartitionHead, first: IndexRow | None
    ) -> AsyncIterator[IndexRow]:
        """A row and all after it, below the tail."""
        rows = [first] if first is not None else []
        while rows:
            for row in rows:
                if row.base_offset >= head.tail_base_offset:
                    return
                yield row
            last = rows[-1]
            rows = await self._index.rows_from(partition, last.end_offset, _ROWS_PER_PAGE)
            _check_neighbours([last, *rows])
            if not rows:
                _check_seen(last.end_offset, head.tail_base_offset)

    async def _first_in_row(
        self, partition: PartitionId, row: IndexRow, timestamp_ms: int, start_offset: int
    ) -> Found | None:
        if not row.is_segment:
            [row] = await self._index.with_entries([(partition, row)])
            return await self._first_in_entries(row_entries(row), timestamp_ms, start_offset)
        if row.size_bytes <= WHOLE_BYTES and not row.is_columnar:
            return await self._first_in(row_pieces(partition, row), timestamp_ms, start_offset)
        try:
            index = await self._segments.get(partition, row)
        except (ObjectMissing, FormatError):
            if not self._passes_damage:
                raise
            return max(row.base_offset, start_offset), row.max_timestamp_ms
        first = max(
            bisect_left(index.max_timestamps_ms, timestamp_ms),
            bisect_right(index.offsets, start_offset) - 1,
        )
        if first >= len(index.offsets):
            return None
        pieces = segment_pieces(partition, row, Wanted(index.offsets[first], max_bytes=0), index)
        if first + 1 < len(index.offsets):
            rest = Wanted(index.offsets[first + 1], piece_bytes=_CHUNK_BYTES)
            pieces += segment_pieces(partition, row, rest, index)
        return await self._first_in(pieces, timestamp_ms, start_offset)

    async def _largest_in_rows(self, partition: PartitionId, head: PartitionHead) -> Found | None:
        """Compare all rows: the running maximum does not say which of them has the largest timestamp that is left."""
        first = await self._index.row_at(partition, head.log_start_offset, merged_offset=head.merged_offset)
        if first is None or first.end_offset <= head.log_start_offset:
            raise ObjectMissing(f"the index row of offset {head.log_start_offset}")
        rows = [row async for row in self._rows_from(partition, head, first)]
        rows.sort(key=lambda row: (-row.max_timestamp_ms, row.base_offset))
        start = head.log_start_offset
        best: Found | None = None
        for row in rows:
            if best is not None and (row.max_timestamp_ms, -row.base_offset) < (best[1], -best[0]):
                continue
            found = await self._first_in_row(partition, row, row.max_timestamp_ms, start)
            if found is None:  # the record that had it is gone: all of the row
                has_index = row.is_columnar or row.size_bytes > WHOLE_BYTES
                index = await self._segments.get(partition, row) if has_index else None
                wanted = Wanted(max(start, row.base_offset), piece_bytes=_CHUNK_BYTES)
                pieces = segment_pieces(partition, row, wanted, index) if row.is_segment else row_pieces(partition, row)
                found = await self._largest_in(pieces, start, best)
            best = _better(best, found)
        return best

    # --- records --------------------------------------------------------------------------------------------------

    async def _first_in_entries(
        self, entries: Iterable[tuple[int, TailEntry]], timestamp_ms: int, start_offset: int
    ) -> Found | None:
        reaching = [entry_piece(*each) for each in entries if each[1].max_timestamp_ms >= timestamp_ms]
        return await self._first_in(reaching, timestamp_ms, start_offset)

    async def _first_in(self, pieces: Iterable[Piece], timestamp_ms: int, start_offset: int) -> Found | None:
        for piece in pieces:
            if piece.end_offset > start_offset:
                try:
                    found = find_timestamp(await self._batches(piece), timestamp_ms, start_offset=start_offset)
                except (ObjectMissing, FormatError) as damage:
                    found = self._counted(piece, start_offset, damage)
                if found is not None and found[1] >= timestamp_ms:
                    return found
        return None

    async def _largest_in(self, pieces: Sequence[Piece], start_offset: int, best: Found | None) -> Found | None:
        """The largest of the pieces and of the best so far."""
        for piece in sorted(pieces, key=lambda piece: (-piece.max_timestamp_ms, piece.base_offset)):
            if piece.end_offset <= start_offset or (best is not None and piece.max_timestamp_ms < best[1]):
                continue
            try:
                log = await self._batches(piece)
            except (ObjectMissing, FormatError) as damage:
                best = _better(best, self._counted(piece, start_offset, damage))
                continue
            for position, header in iter_headers(log):
                if header.last_offset < start_offset or (best is not None and header.max_timestamp_ms < best[1]):
                    continue
                for row in iter_rows(log, position, header):
                    if row[0] >= start_offset:
                        best = _better(best, (row[0], row[1]))
        return best

    def _counted(self, piece: Piece, start_offset: int, damage: ObjectMissing | FormatError) -> Found:
        """What a piece that cannot be read counts as. Raises the damage unless it is passed."""
        if not self._passes_damage:
            raise damage
        return max(piece.base_offset, start_offset), piece.max_timestamp_ms

    async def _batches(self, piece: Piece) -> Buffer:
        [stored] = await self._pieces.read([piece])
        return stored if piece.is_segment else b"".join(patched(piece, stored, 0))


def _check_neighbours(rows: Sequence[IndexRow]) -> None:
    """Raise ObjectMissing at a gap: a swap of rows may be partly visible, and hide the answer."""
    for before, after in pairwise(rows):
        _check_seen(before.end_offset, after.base_offset)


def _check_seen(up_to: int, offset: int) -> None:
    """Raises ObjectMissing unless the rows that were seen go up to the offset."""
    if up_to < offset:
        raise ObjectMissing(f"the index row of offset {up_to}")


def _has_rows(head: PartitionHead) -> bool:
    return head.log_start_offset < head.tail_base_offset


def _live(head: PartitionHead) -> list[tuple[int, TailEntry]]:
    """The tail's entries that hold a record from the log start on."""
    return [each for each in head.entries() if each[0] + each[1].offset_count > head.log_start_offset]


def _better(one: Found | None, other: Found | None) -> Found | None:
    """The later of two by timestamp, the first by offset where those agree."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda found: (found[1], -found[0]))
