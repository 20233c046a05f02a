"""The bytes behind a partition's rows and tail: existence, lengths and every CRC.

A fast audit checks existence and lengths only. A full one reads every batch, and every segment with its index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.engine.append.wal import Wal
from odradek.engine.audit.decisions import AuditReport, Finding, FindingKind, check_batch, entry_name
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.read.log_reader import PieceReader, entry_piece
from odradek.errors import FormatError, ObjectMissing
from odradek.format.object_keys import index_key, segment_key, wal_key
from odradek.format.offset_index import decode_offset_index
from odradek.format.parquet.segment import verify_columnar
from odradek.format.segment import verify_segment
from odradek.format.tail_entry import TailEntry
from odradek.model.topic_partition import PartitionId
from odradek.ports.object_store import ObjectStore

_READ_BYTES = 8 * 1024 * 1024  # of small batches at once

Placed = tuple[int, TailEntry]  # an entry and its base offset


class ByteAudit:
    """Looks at stored bytes; findings go to a report under a place."""

    def __init__(self, objects: ObjectStore, wal: Wal, pieces: PieceReader, *, fast: bool) -> None:
        self._objects = objects
        self._wal = wal
        self._pieces = pieces
        self._fast = fast

    # --- batches in the WAL ---------------------------------------------------------------------------------------

    async def check_entries(self, place: str, entries: Sequence[Placed], report: AuditReport) -> None:
        """Check batches of the WAL. Raises StoreUnavailable."""
        report.checked["batches"] += len(entries)
        if self._fast:
            await self._check_lengths(place, entries, report)
            return
        for some in _portions(entries):
            try:
                found = await self._pieces.read([entry_piece(base, entry) for base, entry in some])
            except ObjectMissing:
                for each in some:
                    await self._check_alone(place, each, report)
                continue
            for each, data in zip(some, found, strict=True):
                _note_batch(place, each, data, report)

    async def _check_alone(self, place: str, placed: Placed, report: AuditReport) -> None:
        try:
            [data] = await self._pieces.read([entry_piece(*placed)])
        except ObjectMissing:
            report.findings.append(Finding(FindingKind.MISSING, place, entry_name(*placed)))
        else:
            _note_batch(place, placed, data, report)

    async def _check_lengths(self, place: str, entries: Sequence[Placed], report: AuditReport) -> None:
        sizes: dict[bytes, int] = {}
        for base, entry in entries:
            if entry.object_id not in sizes:
                sizes[entry.object_id] = await self._size_of(entry)
            size = sizes[entry.object_id]
            if size < entry.position + entry.length:
                what = f"{entry_name(base, entry)}: " + ("missing" if size < 0 else f"only {size} bytes exist")
                report.findings.append(Finding(FindingKind.MISSING, place, what))

    async def _size_of(self, entry: TailEntry) -> int:
        """Return the bytes of the upload; -1 if it does not exist."""
        if not entry.is_item:
            info = await self._objects.head(wal_key(entry.object_id))
            return -1 if info is None else info.size_bytes
        try:
            return len(await self._wal.read_item(entry.object_id))
        except ObjectMissing:
            return -1

    # --- segments -------------------------------------------------------------------------------------------------

    async def check_segment(self, place: str, partition: PartitionId, row: IndexRow, report: AuditReport) -> None:
        """Check a segment and its index. Raises StoreUnavailable."""
        assert row.segment_id is not None
        report.checked["segments"] += 1
        range_ = f"[{row.base_offset}, {row.end_offset})"
        if row.is_damaged:
            detail = f"{range_} in segment {row.segment_id.hex()}: set apart as damaged"
            report.findings.append(Finding(FindingKind.DAMAGED, place, detail))
            return
        keys = (
            segment_key(partition, row.base_offset, row.segment_id, is_columnar=row.is_columnar),
            index_key(partition, row.base_offset, row.segment_id),
        )
        object_bytes = row.file_bytes if row.is_columnar else row.size_bytes
        for key, wanted in zip(keys, (object_bytes, row.index_bytes), strict=True):
            info = await self._objects.head(key)
            if info is None or info.size_bytes != wanted:
                there = "missing" if info is None else f"{info.size_bytes} bytes exist of {wanted}"
                report.findings.append(Finding(FindingKind.MISSING, place, f"{range_} in {key}: {there}"))
                return
        if self._fast:
            return
        try:
            log, index = [await self._objects.get(key) for key in keys]
            _verify(row, log, index)
        except ObjectMissing as gone:
            report.findings.append(Finding(FindingKind.MISSING, place, f"{range_} in {gone}: missing"))
        except FormatError as damaged:
            report.findings.append(Finding(FindingKind.DAMAGED, place, f"{range_} in {keys[0]}: {damaged}"))


def _verify(row: IndexRow, log: bytes, encoded_index: bytes) -> None:
    index = decode_offset_index(encoded_index)
    if index.is_columnar != row.is_columnar:
        raise FormatError("the index is of another kind of segment than its row says")
    if index.is_columnar:
        verify_columnar(log, index)
    else:
        verify_segment(log, index)
    if (index.base_offset, index.end_offset) != (row.base_offset, row.end_offset):
        raise FormatError(
            f"the index spans [{index.base_offset}, {index.end_offset}), its row [{row.base_offset}, {row.end_offset})"
        )


def _note_batch(place: str, placed: Placed, data: memoryview, report: AuditReport) -> None:
    try:
        check_batch(placed[1], data)
    except FormatError as damaged:
        report.findings.append(Finding(FindingKind.DAMAGED, place, f"{entry_name(*placed)}: {damaged}"))


def _portions(entries: Sequence[Placed]) -> Iterator[list[Placed]]:
    """Entries in groups that are read at once."""
    group: list[Placed] = []
    size = 0
    for placed in entries:
        if group and size + placed[1].length > _READ_BYTES:
            yield group
            group, size = [], 0
        group.append(placed)
        size += placed[1].length
    if group:
        yield group
