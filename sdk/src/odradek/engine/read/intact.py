"""The intact batches before the first damage of a log (engine/damage.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.engine.read.log_reader import PieceReader, Unreadable
from odradek.engine.read.segment_reader import Piece
from odradek.errors import FormatError, ObjectMissing
from odradek.format.batch_header import check_crc, iter_headers, parse_header
from odradek.ports.object_store import ObjectStore


def check_stored(piece: Piece, data: memoryview, offset: int) -> None:
    """Raise FormatError unless the bytes of a piece are whole batches with their CRCs, for the offsets of the piece.

    What was made of the row groups of a columnar segment has been checked already.

    Args:
        offset: of a segment's batches that end before it only the headers are checked.
    """
    if not piece.groups and (damage := _first_damage(piece, data, offset)[1]) is not None:
        raise damage


def _first_damage(piece: Piece, data: memoryview, offset: int) -> tuple[int, FormatError | None]:
    """Return the number of bytes of intact batches at the beginning, and what is wrong after them."""
    position, next_offset = 0, piece.base_offset
    try:
        while position < len(data):
            header = parse_header(data, position)
            if not piece.is_segment:
                if (header.size_bytes, header.last_offset_delta + 1) != (len(data), piece.end_offset - next_offset):
                    raise FormatError("the stored batch is another one")
                check_crc(data, position, header)
            else:
                if not next_offset <= header.base_offset <= header.last_offset < piece.end_offset:
                    raise FormatError(f"a batch at offset {header.base_offset} follows offset {next_offset - 1}")
                if header.last_offset >= offset:
                    check_crc(data, position, header)
                next_offset = header.next_offset
            position += header.size_bytes
    except FormatError as damage:
        return position, damage
    return position, None


@dataclass(frozen=True, slots=True)
class Damage:
    """The first damage of some pieces."""

    piece: Piece
    offset: int  # the first one that cannot be read
    reason: Unreadable


@dataclass(frozen=True, slots=True)
class Intact:
    """The pieces before the first damage that have any bytes, the last one perhaps shortened, and their bytes."""

    pieces: list[Piece]
    data: list[memoryview]
    damage: Damage | None = None


async def read_intact(reader: PieceReader, objects: ObjectStore, pieces: Sequence[Piece], offset: int) -> Intact:
    """Read neighbouring pieces one by one up to the first damage at or after an offset. Raises StoreUnavailable."""
    intact = Intact([], [])
    for piece in pieces:
        data, reason = await _read_one(reader, objects, piece, offset)
        if len(data):
            intact.pieces.append(piece)
            intact.data.append(data)
        if reason is not None:
            damaged = piece.base_offset
            for _, header in iter_headers(data):
                damaged = header.next_offset
            return replace(intact, damage=Damage(piece, damaged, reason))
    return intact


async def _read_one(
    reader: PieceReader, objects: ObjectStore, piece: Piece, offset: int
) -> tuple[memoryview, Unreadable | None]:
    """Read the intact batches at the beginning of a piece, and what is wrong after them."""
    if piece.groups:
        return await reader.read_groups(piece)
    if not piece.is_segment:
        try:
            [data] = await reader.read([piece])
            check_stored(piece, data, offset)
        except (ObjectMissing, FormatError) as unreadable:
            return memoryview(b""), unreadable
        return data, None
    try:
        data = memoryview(await objects.get_range(piece.object_key, piece.position, piece.length))
    except ObjectMissing as missing:
        return memoryview(b""), missing
    end, damage = _first_damage(piece, data, offset)
    if damage is None and end < piece.length:
        return data, ObjectMissing(f"{piece.object_key} ends at byte {piece.position + end}")
    return data[:end], damage
