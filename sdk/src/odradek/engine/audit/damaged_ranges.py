"""Skipping damaged ranges of partitions, under their leases: no intact record goes with them.

    tail         is spilled, so that its entries are in rows
    spilled rows are merged: what cannot be read is set apart (maintenance/damaged_rows.py)
    segments     are rewritten where a batch cannot be read, without it: its offsets become a gap, as compaction leaves.
                 A lost or damaged index is made again, of a columnar segment from its Parquet file by pyarrow

What writers may still look up (`merge_delay_ms`) stays for a later repair. A columnar segment is skipped by row groups;
where both its index and the footer of its file are lost, it stays: its pages may be whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import HeldPartition
from odradek.engine.maintenance.segment_swap import SegmentSwap, put_once
from odradek.engine.partition.head import NO_TIMESTAMP
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.read.intact import check_stored
from odradek.engine.read.log_reader import entry_piece
from odradek.errors import FormatError, ObjectMissing
from odradek.extras import MissingExtra
from odradek.format.batch_header import check_crc, parse_header
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import OffsetIndex, decode_offset_index, encode_offset_index
from odradek.format.parquet.segment import rebuild
from odradek.format.record_batch import pack_batch
from odradek.format.segment import Segment, SegmentBuilder
from odradek.model.log import Buffer

_SPILLS = 16
_DELTA_MAX = 2**31 - 1
_ROWS_PER_QUERY = 256

Range = tuple[int, int]


@dataclass
class Salvage:
    """What could be read of a segment."""

    builder: SegmentBuilder
    lost: list[Range] = field(default_factory=list)

    def add(self, batches: Buffer, offset: int) -> int:
        """Add checked batches, the first of which is expected at an offset; return the offset after them."""
        view = memoryview(batches)
        position = 0
        while position < len(view):
            header = parse_header(view, position)
            batch = view[position : position + header.size_bytes]
            self.builder.append(bytes(batch), header.base_offset, header.partition_leader_epoch)
            position, offset = position + header.size_bytes, header.next_offset
        return offset

    def close(self, row: IndexRow, leader_epoch: int) -> None:
        """End with a batch without records, where the end is lost: a reader at the end of the log gets past it."""
        last_delta = min(row.end_offset - self.lost[-1][0], _DELTA_MAX) - 1
        base_offset = row.end_offset - 1 - last_delta
        filler = pack_batch(
            b"",
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            attributes=0,
            last_offset_delta=last_delta,
            base_timestamp_ms=NO_TIMESTAMP,
            max_timestamp_ms=NO_TIMESTAMP,
            producer=(-1, -1, -1),
            record_count=0,
        )
        self.builder.append(filler, base_offset, leader_epoch)


class DamagedRanges:
    """Skips what cannot be read of partitions."""

    def __init__(self, engine: Engine) -> None:
        self._index = engine.index
        self._pieces = engine.pieces
        self._objects = engine.objects
        self._merger = engine.merger
        self._epochs = engine.epochs
        self._swap = SegmentSwap(engine.tools, engine.index, engine.leases)

    async def skip(self, held: HeldPartition) -> list[Range]:
        """Skip all damage of a partition; return the ranges of offsets [first, end) that are lost.

        Raises LeaseLost, StoreError, FormatError: damage of the head, of rows or pages stays.
        """
        await self._spill(held)
        failure = await self._merger.merge_all(held)
        if failure is not None:
            raise failure
        lost: list[Range] = []
        at = 0
        while rows := await self._index.rows_from(held.partition, at, _ROWS_PER_QUERY):
            for row in rows:
                if row.is_segment:
                    lost += await self._rewrite(held, row)
            at = rows[-1].end_offset
        return lost

    async def _spill(self, held: HeldPartition) -> None:
        """Spill until no entry of the tail is damaged."""
        for _ in range(_SPILLS):
            head = await self._index.read_head(held.partition)
            if head is None:
                return
            for base_offset, entry in head.entries():
                piece = entry_piece(base_offset, entry)
                try:
                    [data] = await self._pieces.read([piece])
                    check_stored(piece, data, 0)
                except (ObjectMissing, FormatError):
                    break
            else:
                return
            await self._index.spill_to_rows(held.partition, head)

    async def _rewrite(self, held: HeldPartition, row: IndexRow) -> list[Range]:
        """Replace a damaged segment by what can be read of it; return what is lost. One that is whole stays."""
        await self._swap.hold_on(held)
        index = await self._read_index(held, row)
        if row.is_columnar:
            if index is None:
                await self._remake_index(held, row)
                return []
            salvage = await self._row_groups(held, row, index)
        else:
            salvage = await self._batches(held, row, index)
        if not salvage.lost and not row.is_damaged and index is not None:
            return []
        if salvage.lost and salvage.lost[-1][1] == row.end_offset:
            head = await self._index.read_head(held.partition)
            assert head is not None
            salvage.close(row, await self._epochs.at(held.partition, head, row.end_offset - 1))
        segment: Segment = salvage.builder.build(row.end_offset)
        await self._swap.replace(held, [row], [await self._swap.upload(held, [row], segment)])
        return salvage.lost

    async def _read_index(self, held: HeldPartition, row: IndexRow) -> OffsetIndex | None:
        assert row.segment_id is not None
        with suppress(ObjectMissing, FormatError):
            index = decode_offset_index(
                await self._objects.get(index_key(held.partition, row.base_offset, row.segment_id))
            )
            if (index.base_offset, index.end_offset) == (row.base_offset, row.end_offset):
                return index
        return None

    async def _remake_index(self, held: HeldPartition, row: IndexRow) -> None:
        """Make the index of a columnar segment again from its file; where the file is damaged too, both stay.

        Raises LeaseLost, StoreError, FormatError: the file is damaged, or this process has no pyarrow.
        """
        assert row.segment_id is not None
        key = segment_key(held.partition, row.base_offset, row.segment_id, is_columnar=True)
        file = await self._objects.get(key)
        try:
            from odradek.columnar.table_index import index_of_file

            index = index_of_file(file, row.base_offset, row.end_offset, has_recipes=row.has_recipes)
        except MissingExtra as missing:
            raise FormatError(f"the index of {key} cannot be made again: {missing}") from missing
        if (index.size_bytes, index.file_bytes) != (row.size_bytes, row.file_bytes):
            raise FormatError(f"{key} is not the file of its row")
        name = index_key(held.partition, row.base_offset, row.segment_id)
        await self._objects.delete([name])
        await put_once(self._objects, name, [encode_offset_index(index)])

    async def _batches(self, held: HeldPartition, row: IndexRow, index: OffsetIndex | None) -> Salvage:
        """Read the intact batches of a segment. After one that is not, go on at the next that the index knows."""
        assert row.segment_id is not None
        salvage = Salvage(SegmentBuilder(row.base_offset))
        data = b""
        with suppress(ObjectMissing):
            data = await self._objects.get(segment_key(held.partition, row.base_offset, row.segment_id))
        view = memoryview(data)
        offset, lost_from = row.base_offset, -1
        for position, length in _intact(view, offset, row.end_offset, index):
            if position < 0:
                lost_from = offset if lost_from < 0 else lost_from
                continue
            header = parse_header(view, position)
            if lost_from >= 0:
                salvage.lost.append((lost_from, header.base_offset))
                lost_from = -1
            offset = salvage.add(view[position : position + length], offset)
        if lost_from >= 0 or len(view) < row.size_bytes:
            salvage.lost.append((offset if lost_from < 0 else lost_from, row.end_offset))
        return salvage

    async def _row_groups(self, held: HeldPartition, row: IndexRow, index: OffsetIndex) -> Salvage:
        """Read the intact row groups of a columnar segment."""
        assert row.segment_id is not None
        salvage = Salvage(SegmentBuilder(row.base_offset))
        key = segment_key(held.partition, row.base_offset, row.segment_id, is_columnar=True)
        bounds = (*index.offsets[1:], row.end_offset)
        for group, first, end in zip(index.groups, index.offsets, bounds, strict=True):
            await self._swap.hold_on(held)
            try:
                data = await self._objects.get_range(key, group.position, group.size_bytes)
                salvage.add(rebuild(data, group), first)
            except (ObjectMissing, FormatError):
                salvage.lost.append((first, end))
        return salvage


def _intact(view: memoryview, offset: int, end_offset: int, index: OffsetIndex | None) -> Iterator[tuple[int, int]]:
    """Yield position and length of each intact batch, and (-1, 0) where there is damage between two."""
    position = 0
    while position < len(view):
        size = 0
        try:
            header = parse_header(view, position)
            if not offset <= header.base_offset <= header.last_offset < end_offset:
                raise FormatError("a batch of other offsets")
            size = header.size_bytes  # its frame can be trusted, if what follows can
            check_crc(view, position, header)
        except FormatError:
            yield -1, 0
            after = _next_start(view, position, size, offset, end_offset, index)
            if after is None:
                return
            position = after
            continue
        yield position, size
        position, offset = position + size, header.next_offset


def _next_start(
    view: memoryview, position: int, size: int, offset: int, end_offset: int, index: OffsetIndex | None
) -> int | None:
    """Return where to go on after a damaged batch: after its length if a batch is there, else where the index says."""
    if size:
        try:
            header = parse_header(view, position + size)
            check_crc(view, position + size, header)
        except FormatError:
            pass
        else:
            if offset <= header.base_offset <= header.last_offset < end_offset:
                return position + size
        if position + size == len(view):
            return None
    return next((start for start in index.positions if start > position), None) if index is not None else None
