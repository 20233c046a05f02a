"""Rows whose bytes cannot be read, set apart under the lease, so that merges go on around them.

    spilled row    becomes segments: of its intact batches, and one flagged as damaged for each run of the others, which
                   holds what exists of their bytes
    segment        gets the flag; its objects stay as they are

No intact batch is lost by it, and nothing is taken for damage that another maintainer has replaced: rows change only
under the lease. Readers get CORRUPT_MESSAGE at a damaged offset, until a repair replaces it by a gap (audit/repair.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from odradek.engine.maintenance.maintenance import HeldPartition
from odradek.engine.maintenance.segment_swap import SegmentSwap, put_once
from odradek.engine.maintenance.swap_decisions import row_in_place_of
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import ROWS_REPLACED_MAX, PartitionIndex
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.leader_epochs import LeaderEpochs
from odradek.engine.read.intact import check_stored
from odradek.engine.read.log_reader import Piece, PieceReader, row_pieces
from odradek.engine.tools import Tools
from odradek.errors import FormatError, ObjectMissing
from odradek.format.batch_header import check_crc, parse_header, patch_log_append_time
from odradek.format.object_id import new_object_id
from odradek.format.object_keys import segment_key
from odradek.format.segment import SegmentBuilder
from odradek.model.log import Buffer


@dataclass(frozen=True, slots=True)
class Found:
    """The first row of a window that has damage, by its number in it, and its pieces that cannot be read."""

    row: int
    broken: frozenset[Piece]


class DamagedRows:
    """Finds damaged rows of a window, and sets them apart."""

    def __init__(
        self, tools: Tools, index: PartitionIndex, pieces: PieceReader, epochs: LeaderEpochs, swap: SegmentSwap
    ) -> None:
        self._index = index
        self._pieces = pieces
        self._epochs = epochs
        self._swap = swap
        self._objects = tools.objects
        self._clock = tools.clock
        self._rng = tools.rng
        self._damages = tools.damages

    async def find(self, held: HeldPartition, window: Sequence[IndexRow]) -> Found | None:
        """Return the first row with damage, noted in the log; None without any. Raises StoreUnavailable, LeaseLost."""
        for number, row in enumerate(window):
            broken: list[Piece] = []
            for piece in row_pieces(held.partition, row):
                await self._swap.hold_on(held)
                try:
                    [data] = await self._pieces.read([piece])
                    check_stored(piece, data, 0)
                except (ObjectMissing, FormatError) as damage:
                    broken.append(piece)
                    if len(broken) == 1:
                        self._damages.note(held.topic.name, held.partition, piece.base_offset, damage)
            if broken:
                return Found(number, frozenset(broken))
        return None

    async def set_apart(
        self, held: HeldPartition, head: PartitionHead, row: IndexRow, broken: frozenset[Piece]
    ) -> list[IndexRow]:
        """Put a damaged row aside; return the rows in its place. A spilled row must follow a segment, or nothing.

        Raises LeaseLost, StoreError; FormatError if there is too much of it: repair the partition.
        """
        held.report.done["rows_set_apart"] += 1
        if row.is_segment:
            return [await mark_damaged(self._index, held, row)]
        runs = [(lost, list(run)) for lost, run in groupby(row_pieces(held.partition, row), broken.__contains__)]
        if len(runs) > ROWS_REPLACED_MAX:
            raise FormatError(
                f"row {row.base_offset} of {held.partition} is damaged in {len(runs) // 2} places: "
                "run `odradek audit --repair --skip-damaged`"
            )
        new = []
        for lost, run in runs:
            new.append(await (self._remains if lost else self._segment)(held, head, row, run))
        await self._swap.replace(held, [row], new)
        return new

    async def _segment(self, held: HeldPartition, head: PartitionHead, row: IndexRow, run: Sequence[Piece]) -> IndexRow:
        """Upload the segment of intact batches."""
        builder = SegmentBuilder(run[0].base_offset)
        for piece, data in zip(run, await self._pieces.read(run), strict=True):
            epoch = await self._epochs.at(held.partition, head, piece.base_offset)
            builder.append(wal_batch(piece, data), piece.base_offset, epoch)
        return await self._swap.upload(held, [row], builder.build(run[-1].end_offset))

    async def _remains(self, held: HeldPartition, head: PartitionHead, row: IndexRow, run: Sequence[Piece]) -> IndexRow:
        """Upload what exists of the bytes of batches that cannot be read."""
        segment_id = new_object_id(self._clock.now_ms(), self._rng.random_bytes)
        parts = [part for piece in run if len(part := await self._existing(piece))]
        if parts:
            await put_once(self._objects, segment_key(held.partition, run[0].base_offset, segment_id), parts)
        flagged = row_in_place_of(
            [row],
            segment_id,
            base_offset=run[0].base_offset,
            end_offset=run[-1].end_offset,
            max_timestamp_ms=max(piece.max_timestamp_ms for piece in run),
            size_bytes=sum(piece.length for piece in run),
            index_bytes=0,
        )
        return replace(flagged, is_damaged=True)

    async def _existing(self, piece: Piece) -> Buffer:
        if piece.item_id is not None:
            return b""
        try:
            return await self._objects.get_range(piece.object_key, piece.position, piece.length)
        except ObjectMissing:
            return b""


async def mark_damaged(index: PartitionIndex, held: HeldPartition, row: IndexRow) -> IndexRow:
    """Flag the row of a segment whose bytes are damaged. Raises LeaseLost, StoreError."""
    flagged = replace(row, is_damaged=True)
    await index.replace_rows(held.lease, [row], [flagged])
    return flagged


def wal_batch(piece: Piece, data: memoryview) -> Buffer:
    """Return the batch of a WAL piece, as in the segment except for its offset. Raises FormatError."""
    header = parse_header(data)
    if header.size_bytes != len(data) or header.last_offset_delta + 1 != piece.end_offset - piece.base_offset:
        raise FormatError(f"the WAL has another batch at offset {piece.base_offset}")
    check_crc(data, 0, header)
    return data if piece.log_append_time_ms < 0 else patch_log_append_time(data, piece.log_append_time_ms)
