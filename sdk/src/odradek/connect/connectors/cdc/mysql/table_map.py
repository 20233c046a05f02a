"""Tables as the binary log describes them before their rows: names and types of columns as they were at that time.

    table id (6)  flags (2)  database, table: length, name, 0    number of columns
    a type a column    metadata of the types (length before it)    a bit a column: may be NULL
    optional, with binlog_row_metadata=FULL: type, length, value
        1 bits: unsigned, of numbers        2, 3 collations of text            4 names
        5, 6 labels of SET and ENUM         10, 11 collations of ENUM and SET

Source: MySQL's documentation of Table_map_event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 7, 8, 9
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT = 10, 11, 12, 13, 14, 15, 16
TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
JSON, NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 245, 246, 247, 248, 252, 253, 254, 255
COMPRESSED_BLOB, COMPRESSED_VARCHAR = 140, 141  # of MariaDB

_ONE_BYTE = (FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2, BLOB, GEOMETRY, JSON, COMPRESSED_BLOB)
_TWO_BYTES = (VARCHAR, VAR_STRING, STRING, NEWDECIMAL, BIT, ENUM, SET, COMPRESSED_VARCHAR)
_NUMBERS = (TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR)
_TEXTS = (STRING, VAR_STRING, VARCHAR, BLOB, COMPRESSED_VARCHAR, COMPRESSED_BLOB)
_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SET_LABELS, _ENUM_LABELS = 1, 2, 3, 4, 5, 6
_LABELS_DEFAULT_CHARSET, _LABELS_CHARSET = 10, 11
_T = TypeVar("_T")
_POST_HEADER = 8  # table id and flags
_CHECKED = 3  # bits of a length in the type of CHAR


class LoggedColumn(NamedTuple):
    """A column of the log.

    Attributes:
        type: of MySQL's enum_field_types.
        metadata: its two numbers: sizes of values in bytes, or precision and scale; of times, digits of the fraction.
        collation: of text and labels.
        labels: of ENUM and SET, in the column's charset.
    """

    name: str
    type: int
    metadata: tuple[int, int]
    is_nullable: bool
    is_unsigned: bool = False
    collation: int = 0
    labels: tuple[bytes, ...] = ()


class _Bytes:
    """Reads numbers, and text with its length before it."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        first = self.take(1)[0]
        sizes = {252: 2, 253: 3, 254: 8}
        return int.from_bytes(self.take(sizes[first]), "little") if first in sizes else first

    def numbers(self) -> Iterator[int]:
        while self.at < len(self.data):
            yield self.number()


def columns_of(payload: bytes, *, is_mariadb: bool) -> tuple[LoggedColumn, ...]:
    """Return the columns that a table map event describes.

    Args:
        payload: of the event, without its header and checksum.
        is_mariadb: geometries have collations there.
    """
    data = _Bytes(payload, _POST_HEADER)
    for _ in range(2):  # database and table
        data.take(data.take(1)[0] + 1)
    types = list(data.take(data.number()))
    metadata = _metadata(types, data.take(data.number()))
    nulls = int.from_bytes(data.take((len(types) + 7) // 8), "little")
    options: dict[int, bytes] = {}
    while data.at < len(payload):
        option = data.take(1)[0]
        options[option] = data.take(data.number())
    names = _texts(options.get(_NAMES, b""))
    unsigned = _by_place(types, _NUMBERS, _bits(options.get(_SIGNEDNESS, b"")))
    texts = (*_TEXTS, GEOMETRY) if is_mariadb else _TEXTS
    collations = _collations(types, texts, options, _DEFAULT_CHARSET, _COLUMN_CHARSET)
    collations |= _collations(types, (ENUM, SET), options, _LABELS_DEFAULT_CHARSET, _LABELS_CHARSET)
    labels = _by_place(types, (SET,), _labels(options.get(_SET_LABELS, b"")))
    labels |= _by_place(types, (ENUM,), _labels(options.get(_ENUM_LABELS, b"")))
    return tuple(
        LoggedColumn(
            names[place].decode() if place < len(names) else "", kind, metadata[place], bool(nulls >> place & 1),
            bool(unsigned.get(place, False)), collations.get(place, 0), labels.get(place, ()),
        )
        for place, kind in enumerate(types)
    )  # fmt: skip


def _metadata(types: list[int], block: bytes) -> list[tuple[int, int]]:
    """Return the metadata of all columns, and put the real types of ENUM and SET into `types`."""
    data, made = _Bytes(block), []
    for place, kind in enumerate(types):
        if kind in _ONE_BYTE:
            made.append((data.take(1)[0], 0))
        elif kind in _TWO_BYTES:
            first, second = data.take(2)
            if kind in (VARCHAR, VAR_STRING, COMPRESSED_VARCHAR):
                made.append((first | second << 8, 0))
            elif kind == STRING and first in (ENUM, SET):
                types[place] = first
                made.append((second, 0))
            elif kind == STRING:
                made.append((((first >> 4 & _CHECKED) ^ _CHECKED) << 8 | second, 0))
            else:
                made.append((first, second))
        else:
            made.append((0, 0))
    return made


def _by_place(types: Sequence[int], chosen: Sequence[int], values: Iterator[_T]) -> dict[int, _T]:
    """Return values that are listed for columns of some types alone, by the place of the column."""
    places = (place for place, kind in enumerate(types) if kind in chosen)
    return dict(zip(places, values, strict=False))


def _collations(
    types: Sequence[int], chosen: Sequence[int], options: dict[int, bytes], default: int, each: int
) -> dict[int, int]:
    if each in options:
        return _by_place(types, chosen, _Bytes(options[each]).numbers())
    if default not in options:
        return {}
    usual, *others = _Bytes(options[default]).numbers()
    exceptions = dict(zip(others[::2], others[1::2], strict=True))
    count = sum(kind in chosen for kind in types)
    return _by_place(types, chosen, (exceptions.get(number, usual) for number in range(count)))


def _bits(data: bytes) -> Iterator[bool]:
    return (bool(byte >> (7 - bit) & 1) for byte in data for bit in range(8))


def _texts(block: bytes) -> list[bytes]:
    data, made = _Bytes(block), []
    while data.at < len(block):
        made.append(data.take(data.number()))
    return made


def _labels(block: bytes) -> Iterator[tuple[bytes, ...]]:
    data = _Bytes(block)
    while data.at < len(block):
        yield tuple(data.take(data.number()) for _ in range(data.number()))
