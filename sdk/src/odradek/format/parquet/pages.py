"""The pages of Parquet column chunks, as far as columnar segments use them: a reader without Arrow.

    chunk   a dictionary page, if there is one, and data pages (version 1) until all values are there
    page    header (Thrift's compact protocol), then levels and values, compressed with Zstandard
    levels  repetition, then definition: 4 bytes of length, then runs of RLE and bit-packed values
    values  PLAIN, RLE_DICTIONARY or DELTA_BINARY_PACKED, of those rows that have one

A fetch reads old offsets with this, so that functions do not need pyarrow (docs/decisions/0041). Every page has a
CRC-32, which is checked. Files are written by pyarrow (odradek/columnar/table_file.py). Source: parquet-format, 2.10.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from odradek.errors import FormatError
from odradek.format.compression import decompress
from odradek.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.model.log import Buffer
from odradek.model.record import CompressionType

_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _PLAIN_DICTIONARY, _DELTA_BINARY_PACKED, _RLE_DICTIONARY = 0, 2, 5, 8
_LENGTH = struct.Struct("<I")
_FORMS = {"int32": "i", "int64": "q", "float": "f", "double": "d"}


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """The type of a column: `physical` is int32, int64, float, double, boolean or bytes."""

    physical: str
    max_definition: int = 0
    max_repetition: int = 0


@dataclass(slots=True)
class LeafValues:
    """A column of a row group: values where the definition level is the greatest, and the levels of all slots."""

    values: list[Any]
    definitions: list[int] | None  # None: every slot has a value
    repetitions: list[int] | None  # None: every slot begins a row


def read_chunk(chunk: Buffer, column: LeafColumn) -> LeafValues:
    """Read all pages of a column chunk. Raises FormatError if they are damaged or of another kind."""
    view = memoryview(chunk)
    position = 0
    dictionary: list[Any] = []
    values: list[Any] = []
    definitions: list[int] | None = [] if column.max_definition else None
    repetitions: list[int] | None = [] if column.max_repetition else None
    try:
        while position < len(view):
            header, position = _read_struct(view, position)
            size, compressed_size = header[2], header[3]
            if not (0 <= size <= DECOMPRESSED_BATCH_BYTES_MAX and compressed_size >= 0):
                raise FormatError(f"a page of the Parquet file says that it has {size} bytes")
            page = view[position : position + compressed_size]
            position += compressed_size
            if len(page) != compressed_size or zlib.crc32(page) != header[4] & 0xFFFFFFFF:
                raise FormatError("a page of the Parquet file does not match its CRC-32")
            data = memoryview(decompress(CompressionType.ZSTD, page, limit=size)) if size else memoryview(b"")
            if len(data) != size:
                raise FormatError("a page of the Parquet file has another size than its header says")
            if header[1] == _DICTIONARY_PAGE:
                dictionary = _plain(data, column.physical, header[7][1])
                continue
            if header[1] != _DATA_PAGE:
                raise FormatError(f"a Parquet page of type {header[1]} is not known to this release")
            slots, encoding = header[5][1], header[5][2]
            at = 0
            if repetitions is not None:
                levels, at = _levels(data, at, column.max_repetition, slots)
                repetitions += levels
            present = slots
            if definitions is not None:
                levels, at = _levels(data, at, column.max_definition, slots)
                definitions += levels
                present = levels.count(column.max_definition)
            values += _values(data[at:], column.physical, encoding, present, dictionary)
    except (IndexError, KeyError, struct.error, TypeError, ValueError) as error:
        raise FormatError(f"a page of the Parquet file is damaged: {error!r}") from None
    return LeafValues(values, definitions, repetitions)


def _values(data: memoryview, physical: str, encoding: int, count: int, dictionary: list[Any]) -> list[Any]:
    if not count:
        return []
    if encoding == _PLAIN:
        return _plain(data, physical, count)
    if encoding in (_RLE_DICTIONARY, _PLAIN_DICTIONARY):
        indexes = _hybrid(data[1:], data[0], count)
        return [dictionary[index] for index in indexes]
    if encoding == _DELTA_BINARY_PACKED:
        return _deltas(data, count, 64 if physical == "int64" else 32)
    raise FormatError(f"the Parquet encoding {encoding} is not known to this release")


def _plain(data: memoryview, physical: str, count: int) -> list[Any]:
    if physical in _FORMS:
        return list(struct.unpack_from(f"<{count}{_FORMS[physical]}", data))
    if physical == "boolean":
        return _unpacked(data, 1, count)
    raw = bytes(data)
    alike = _alike(raw, count)
    if alike is not None:
        return alike
    values = []
    position = 0
    unpack = _LENGTH.unpack_from
    for _ in range(count):
        (length,) = unpack(raw, position)
        position += 4 + length
        values.append(raw[position - length : position])
    if position > len(raw):
        raise FormatError("a page of the Parquet file ends within a value")
    return values


def _alike(raw: bytes, count: int) -> list[bytes] | None:
    """Return the byte arrays of a page if all have the same length, without a step of Python for each."""
    stride, remainder = divmod(len(raw), count) if count else (0, 0)
    if remainder or stride < 4 or any(raw[i::stride].count(raw[i]) != count for i in range(4)):
        return None
    (length,) = _LENGTH.unpack_from(raw)
    return [value for (value,) in struct.iter_unpack(f"4x{length}s", raw)] if length == stride - 4 else None


def _levels(data: memoryview, position: int, greatest: int, count: int) -> tuple[list[int], int]:
    (length,) = _LENGTH.unpack_from(data, position)
    position += 4
    return _hybrid(data[position : position + length], greatest.bit_length(), count), position + length


def _hybrid(data: memoryview, width: int, count: int) -> list[int]:
    """Read runs of RLE and bit-packed integers of `width` bits."""
    if width == 0:
        return [0] * count
    values: list[int] = []
    position = 0
    bytes_each = (width + 7) // 8
    while len(values) < count:
        header, position = _varint(data, position)
        if header & 1:
            size = (header >> 1) * width
            values += _unpacked(data[position : position + size], width, (header >> 1) * 8)
            position += size
        else:
            value = int.from_bytes(data[position : position + bytes_each], "little")
            position += bytes_each
            values += [value] * min(header >> 1, count - len(values))
    return values[:count]


def _unpacked(data: memoryview, width: int, count: int) -> list[int]:
    """Read `count` integers of `width` bits, the lowest bits first; eight integers are `width` bytes."""
    mask = (1 << width) - 1
    values: list[int] = []
    # 32 at once: with fewer, slicing takes longer than the integers do; with more, shifting does.
    whole = range(0, 32 * width, width)
    for start in range(0, len(data), 4 * width):
        piece = data[start : start + 4 * width]
        packed = int.from_bytes(piece, "little")
        shifts = whole if len(piece) == 4 * width else whole[: 8 * len(piece) // width]
        values += [packed >> shift & mask for shift in shifts]
    if len(values) < count:
        raise FormatError("a page of the Parquet file ends within a run")
    return values[:count]


def _deltas(data: memoryview, count: int, bits: int) -> list[int]:
    """Read DELTA_BINARY_PACKED: the first value, then blocks of differences to the value before."""
    block, position = _varint(data, 0)
    miniblocks, position = _varint(data, position)
    total, position = _varint(data, position)
    value, position = _zigzag(data, position)
    if total != count or not miniblocks or block % miniblocks or (block // miniblocks) % 8:
        raise FormatError("a page of the Parquet file has wrong differences")
    per_miniblock = block // miniblocks
    values = [value]
    while len(values) < count:
        least, position = _zigzag(data, position)
        widths = bytes(data[position : position + miniblocks])
        position += miniblocks
        for width in widths:
            left = min(count - len(values), per_miniblock)
            if left <= 0:
                break
            size = per_miniblock * width // 8
            if width:
                steps = _unpacked(data[position : position + size], width, per_miniblock)[:left]
                values += islice(accumulate([step + least for step in steps], initial=values[-1]), 1, None)
            elif least:
                values += range(values[-1] + least, values[-1] + least * left + least, least)
            else:
                values += [values[-1]] * left
            position += size
    modulus, half = 1 << bits, 1 << (bits - 1)
    if min(values) < -half or max(values) >= half:  # differences wrap around, as Parquet says
        return [(value + half) % modulus - half for value in values]
    return values


# --- Thrift's compact protocol ----------------------------------------------------------------------------------------


def _read_struct(data: memoryview, position: int) -> tuple[dict[int, Any], int]:
    """Read a struct to its fields by id."""
    members: dict[int, Any] = {}
    field = 0
    while True:
        head = data[position]
        position += 1
        if head == 0:
            return members, position
        type_code = head & 0x0F
        if head >> 4:
            field += head >> 4
        else:
            field, position = _zigzag(data, position)
        members[field], position = _read_value(data, position, type_code)


def _read_value(data: memoryview, position: int, type_code: int) -> tuple[Any, int]:
    if type_code in (1, 2):
        return type_code == 1, position
    if type_code == 3:
        return data[position], position + 1
    if type_code in (4, 5, 6):
        return _zigzag(data, position)
    if type_code == 7:
        return None, position + 8
    if type_code == 8:
        length, position = _varint(data, position)
        return bytes(data[position : position + length]), position + length
    if type_code == 12:
        return _read_struct(data, position)
    raise FormatError(f"a page header of the Parquet file has a field of type {type_code}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 70:
            raise FormatError("a number of the Parquet file is too long")


def _zigzag(data: memoryview, position: int) -> tuple[int, int]:
    value, position = _varint(data, position)
    return (value >> 1) ^ -(value & 1), position
