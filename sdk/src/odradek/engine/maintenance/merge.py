"""Merge: small WAL pieces become segments, small segments larger ones (merge_decisions.py says which, and when).

    1. look      the newest rows, one query: all that a quiet partition costs
    2. read      the batches of a window, with every CRC checked; all merges of a process hold `merge_bytes_max` at most
    3. upload    the segment
    4. swap      the index rows; the head's merged offset rises with it
    5. delete    the segments that the swap replaced (3 to 5: segment_swap.py, and why each may fail or come late)

and again from 2 until nothing pays. Batches keep their bytes but for base offset and leader epoch, which a log sets,
and under LogAppendTime the timestamp with a new CRC: what a fetch answers before and after is the same.

Only rows below the head's tail base are merged: as long as the tail still has a row's entries, any process may finish
its spill, and needs the row for that.

Delayed operations:

* A delayed spill may write a row again that the swap removed. It is below the merged offset: a ghost, which readers
  skip (partition/index.py) and the next merge removes.
* Readers that planned on what step 5 deletes see ObjectMissing and plan again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.engine.maintenance.merge_decisions import MergePolicy, choose_window
from odradek.engine.maintenance.segment_swap import SegmentSwap
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import ROWS_REPLACED_MAX, PartitionIndex, is_ghost
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.leader_epochs import LeaderEpochs
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.engine.read.log_reader import Piece, PieceReader, row_pieces
from odradek.engine.tools import Tools
from odradek.errors import FormatError
from odradek.format.batch_header import check_crc, parse_header, patch_log_append_time
from odradek.format.segment import SegmentBuilder
from odradek.model.log import Buffer

_ROWS_PER_PAGE = 128
_SEGMENTS_BACK = 48
_SEGMENTS_PER_ROW_MAX = 64


class Merger:
    """The upkeep that merges."""

    acts_on_tail = False

    def __init__(
        self,
        tools: Tools,
        index: PartitionIndex,
        pieces: PieceReader,
        epochs: LeaderEpochs,
        leases: MaintenanceLeases,
    ) -> None:
        self._index = index
        self._pieces = pieces
        self._epochs = epochs
        self._swap = SegmentSwap(tools, index, leases)
        self._clock = tools.clock
        self._settings = tools.settings
        self._memory = _Memory(tools.settings.merge_bytes_max)

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        page = list(reversed(await self._index.newest_rows(look.partition, _ROWS_PER_PAGE)))
        rows = [row for row in page if not is_ghost(row, look.head.merged_offset)]
        if len(rows) < len(page) or not _is_all(page):
            return True
        policy = MergePolicy.of(look.config, self._settings, ROWS_REPLACED_MAX)
        return choose_window(_mergeable(rows, look.head), policy, self._clock.now_ms()) is not None

    async def run(self, held: HeldPartition) -> None:
        """Implement maintenance.Upkeep. Also raises OutcomeUnknown: the next pass continues."""
        policy = MergePolicy.of(held.config, self._settings, ROWS_REPLACED_MAX)
        page = list(reversed(await self._index.newest_rows(held.partition, _ROWS_PER_PAGE)))
        is_all = _is_all(page)
        are_neighbours = all(after.base_offset == before.end_offset for before, after in pairwise(page))
        if is_all and are_neighbours and choose_window(page, policy, self._clock.now_ms()) is None:
            return
        head = await self._index.read_head(held.partition)
        if head is None:
            return
        ghosts = [row for row in page if is_ghost(row, head.merged_offset)]
        if ghosts:
            await self._remove_ghosts(held, ghosts)
        rows = [row for row in page if row not in ghosts]
        if not is_all:  # a backlog: the oldest spilled rows are elsewhere, and these may be too young
            rows = await self._from_the_oldest(held, head)
        rows = _mergeable(rows, head)
        while (window := choose_window(rows, policy, self._clock.now_ms())) is not None:
            first, stop = window
            rows[first:stop] = await self._merge(held, head, rows[first:stop], policy)
            if not is_all and sum(not row.is_segment for row in rows) < policy.rows_max:
                more = await self._index.rows_from(held.partition, rows[-1].end_offset, _ROWS_PER_PAGE)
                rows = [*rows[-2 * _ROWS_PER_PAGE :], *_mergeable(more, head)]
                is_all = not more
        await self._index.delete_old_pages(held.partition)

    # --- 1. look --------------------------------------------------------------------------------------------------

    async def _from_the_oldest(self, held: HeldPartition, head: PartitionHead) -> list[IndexRow]:
        """The newest segments and the oldest spilled rows."""
        back = []
        if head.merged_offset:
            back = await self._index.rows_down_from(held.partition, head.merged_offset - 1, _SEGMENTS_BACK)
        spilled = await self._index.rows_from(held.partition, head.merged_offset, _ROWS_PER_PAGE)
        return [*(row for row in reversed(back) if row.is_segment), *spilled]

    async def _remove_ghosts(self, held: HeldPartition, ghosts: Sequence[IndexRow]) -> None:
        await self._index.replace_rows(held.lease, ghosts[:ROWS_REPLACED_MAX], [])
        held.report.done["ghosts_removed"] += len(ghosts[:ROWS_REPLACED_MAX])

    # --- 2. to 5. -------------------------------------------------------------------------------------------------

    async def _merge(
        self, held: HeldPartition, head: PartitionHead, window: Sequence[IndexRow], policy: MergePolicy
    ) -> list[IndexRow]:
        """Make one segment of the window (several of a row that is too large for one) and return their rows."""
        size = sum(row.size_bytes for row in window)
        merged = []
        for pieces, base_offset, end_offset in _groups(held, window, size, policy):
            if end_offset <= head.log_start_offset and end_offset < window[-1].end_offset:
                continue  # the part of a row that retention could not drop as long as it was one row
            async with self._memory.hold(sum(piece.length for piece in pieces)):
                builder = SegmentBuilder(base_offset)
                async for batch, offset, epoch in self._batches(held, head, pieces):
                    builder.append(batch, offset, epoch)
                merged.append(await self._swap.upload(held, window, builder.build(end_offset)))
        await self._swap.replace(held, window, merged)
        held.report.done["rows_merged"] += len(window)
        held.report.done["bytes_merged"] += size
        held.report.done["segments_merged"] += len(merged)
        return merged

    async def _batches(
        self, held: HeldPartition, head: PartitionHead, pieces: Sequence[Piece]
    ) -> AsyncIterator[tuple[Buffer, int, int]]:
        """Whole batches with their offsets and leader epochs, checked."""
        for piece, data in zip(pieces, await self._pieces.read(pieces), strict=True):
            if not piece.is_segment:
                epoch = await self._epochs.at(held.partition, head, piece.base_offset)
                yield _wal_batch(piece, data), piece.base_offset, epoch
                continue
            position = 0
            while position < len(data):
                header = parse_header(data, position)
                check_crc(data, position, header)
                batch = data[position : position + header.size_bytes]
                yield batch, header.base_offset, header.partition_leader_epoch
                position += header.size_bytes


class _Memory:
    """The stored bytes that merges hold, all together; one that alone is more waits until it is alone."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = 0
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        size = min(size, self._bytes_max)
        async with self._freed:
            await self._freed.wait_for(lambda: self._held + size <= self._bytes_max)
            self._held += size
        try:
            yield
        finally:
            # No await: what is cancelled gives back all the same.
            self._held -= size
            async with self._freed:
                self._freed.notify_all()


def _is_all(page: Sequence[IndexRow]) -> bool:
    """Return True if the newest rows are all that a merge can use: they reach a segment, or the beginning."""
    return len(page) < _ROWS_PER_PAGE or any(row.is_segment for row in page)


def _mergeable(rows: Sequence[IndexRow], head: PartitionHead) -> list[IndexRow]:
    """Rows whose spill is finished, without ghosts."""
    return [row for row in rows if row.end_offset <= head.tail_base_offset and not is_ghost(row, head.merged_offset)]


def _groups(
    held: HeldPartition, window: Sequence[IndexRow], size: int, policy: MergePolicy
) -> Iterator[tuple[list[Piece], int, int]]:
    """Yield the contents of one new segment each: pieces, base and end offset."""
    pieces = [piece for row in window for piece in row_pieces(held.partition, row)]
    starts = [0]
    if len(window) == 1:  # spilled: a segment alone is never merged
        bytes_max = max(policy.segment_bytes, size // _SEGMENTS_PER_ROW_MAX)
        length = 0
        for i, piece in enumerate(pieces):
            if length and length + piece.length > bytes_max:
                starts.append(i)
                length = 0
            length += piece.length
    bases = [window[0].base_offset, *(pieces[i].base_offset for i in starts[1:]), window[-1].end_offset]
    for (first, stop), (base_offset, end_offset) in zip(pairwise((*starts, len(pieces))), pairwise(bases), strict=True):
        yield pieces[first:stop], base_offset, end_offset


def _wal_batch(piece: Piece, data: memoryview) -> Buffer:
    """Return the batch of a WAL piece, as in the segment except for its offset. Raises FormatError."""
    header = parse_header(data)
    if header.size_bytes != len(data) or header.last_offset_delta + 1 != piece.end_offset - piece.base_offset:
        raise FormatError(f"the WAL has another batch at offset {piece.base_offset}")
    check_crc(data, 0, header)
    return data if piece.log_append_time_ms < 0 else patch_log_append_time(data, piece.log_append_time_ms)
