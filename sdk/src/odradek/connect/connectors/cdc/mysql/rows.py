"""Rows of the binary log: the values of their columns, by the types of the table map event before them.

    number             int, float, Decimal; of YEAR the year
    text               str, in the column's charset; of ENUM the label, of SET labels with commas in between
    BINARY, BLOB, BIT  bytes; GEOMETRY and MariaDB's UUID, INET4 and INET6 too
    DATE               days since 1970-01-01
    TIME               microseconds
    DATETIME           microseconds since 1970-01-01; TIMESTAMP the same, in UTC
    JSON               what Python's json makes of it, with Decimal, date and time

Dates that are none, such as 0000-00-00 and 2024-00-15, are the text that a query gives.

Source: MySQL's documentation of Rows_event and its storage of temporal types.
"""

from __future__ import annotations

import datetime as dt
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from odradek.connect.connectors.cdc.mysql import table_map as types
from odradek.connect.connectors.cdc.mysql.charsets import BINARY, Charsets
from odradek.connect.connectors.cdc.mysql.table_map import LoggedColumn
from odradek.connect.connectors.cdc.tables import MISSING
from odradek.connect.errors import DataError
from odradek.extras import extra

with extra("connect-mysql"):
    from pymysqlreplication.json_binary import parse_json

Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a place. Returns it and the place behind it."""
Row = list[Any]
"""A value a column: None is null, tables.MISSING is none that was logged."""

_EPOCH = dt.date(1970, 1, 1).toordinal()
_SECOND_US, _DAY_US = 1_000_000, 86_400_000_000
_DIGITS = 9  # of a decimal, in four bytes
_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_HEADER_V1, _HEADER_V2 = 8, 10  # table id, flags; the second version also the length of what follows
_MONTHS = 13  # in a year of DATETIME
_LONG = 255  # bytes of a VARCHAR whose length has two
_NO_ZLIB_HEADER, _LENGTH_BYTES = 0x08, 0x07  # of the byte before a compressed value


def _number(layout: str) -> Read:
    form = struct.Struct(layout)
    unpack, size = form.unpack_from, form.size
    return lambda data, at: (unpack(data, at)[0], at + size)


def _integer(size: int, *, signed: bool) -> Read:
    return lambda data, at: (int.from_bytes(data[at : at + size], "little", signed=signed), at + size)


_SIGNED = {types.TINY: _number("<b"), types.SHORT: _number("<h"), types.INT24: _integer(3, signed=True),
           types.LONG: _number("<i"), types.LONGLONG: _number("<q")}  # fmt: skip
_UNSIGNED = {types.TINY: _number("<B"), types.SHORT: _number("<H"), types.INT24: _integer(3, signed=False),
             types.LONG: _number("<I"), types.LONGLONG: _number("<Q")}  # fmt: skip


class TableRows:
    """Reads the rows of one table.

    Raises:
        DataError: when made, for a column of an unknown type.
    """

    def __init__(self, columns: Sequence[LoggedColumn], charsets: Charsets) -> None:
        self.columns = tuple(columns)
        self._reads = [_reader(column, charsets) for column in columns]

    def of(self, payload: bytes, *, is_v2: bool, is_update: bool) -> Iterator[tuple[Row, Row | None]]:
        """Yield the rows of an event; of an update each row before and after it.

        Args:
            payload: of the event, without its header and checksum.
        """
        at = _HEADER_V1
        if is_v2:
            at += int.from_bytes(payload[at : at + 2], "little")
        count, at = _length(payload, at)
        size = (count + 7) // 8
        present = int.from_bytes(payload[at : at + size], "little")
        at += size
        after = present
        if is_update:
            after = int.from_bytes(payload[at : at + size], "little")
            at += size
        while at < len(payload):
            row, at = self._row(payload, at, present)
            other = None
            if is_update:
                other, at = self._row(payload, at, after)
            yield row, other

    def _row(self, data: bytes, at: int, present: int) -> tuple[Row, int]:
        size = (present.bit_count() + 7) // 8
        nulls = int.from_bytes(data[at : at + size], "little")
        at += size
        row: Row = []
        for read in self._reads:
            if not present & 1:  # of binlog_row_image other than FULL
                row.append(MISSING)
            else:
                if nulls & 1:
                    row.append(None)
                else:
                    value, at = read(data, at)
                    row.append(value)
                nulls >>= 1
            present >>= 1
        return row, at


def _length(data: bytes, at: int) -> tuple[int, int]:
    sizes = {252: 2, 253: 3, 254: 8}
    size = sizes.get(data[at], 0)
    return (int.from_bytes(data[at + 1 : at + 1 + size], "little") if size else data[at]), at + 1 + size


def _reader(column: LoggedColumn, charsets: Charsets) -> Read:
    kind, (first, second) = column.type, column.metadata
    numbers = _UNSIGNED if column.is_unsigned else _SIGNED
    if kind in numbers:
        return numbers[kind]
    if kind in (types.VARCHAR, types.VAR_STRING):
        return _text(column, 2 if first > _LONG else 1, charsets)
    if kind == types.COMPRESSED_VARCHAR:
        return _compressed(column, 2 if first > _LONG else 1, charsets)
    if kind == types.COMPRESSED_BLOB:
        return _compressed(column, first, charsets)
    if kind == types.STRING:
        return _char(column, charsets)
    if kind == types.BLOB:
        return _text(column, first, charsets)
    if kind in (types.ENUM, types.SET):
        return _labels(column, charsets)
    simple: dict[int, Callable[[], Read]] = {
        types.FLOAT: lambda: _number("<f"),
        types.DOUBLE: lambda: _number("<d"),
        types.NEWDECIMAL: lambda: _decimal(first, second),
        types.YEAR: lambda: lambda data, at: (data[at] and 1900 + data[at], at + 1),
        types.BIT: lambda: _sized((first + 7) // 8 + second),
        types.GEOMETRY: lambda: _prefixed(first, bytes),
        types.JSON: lambda: _prefixed(first, lambda data: parse_json(data[0], data[1:]) if data else None),
        types.DATE: lambda: lambda data, at: (_date(int.from_bytes(data[at : at + 3], "little")), at + 3),
        types.NEWDATE: lambda: lambda data, at: (_date(int.from_bytes(data[at : at + 3], "little")), at + 3),
        types.TIME: lambda: _old_time,
        types.TIME2: lambda: _time(first),
        types.DATETIME: lambda: _old_datetime,
        types.DATETIME2: lambda: _datetime(first),
        types.TIMESTAMP: lambda: lambda data, at: (int.from_bytes(data[at : at + 4], "little") * _SECOND_US, at + 4),
        types.TIMESTAMP2: lambda: _timestamp(first),
    }
    if kind not in simple:
        raise DataError(f"the column {column.name} has a type that is not read from the log: {kind}")
    return simple[kind]()


# --- text and bytes ---------------------------------------------------------------------------------------------------


def _sized(size: int) -> Read:
    return lambda data, at: (data[at : at + size], at + size)


def _prefixed(size: int, make: Callable[[bytes], Any]) -> Read:
    """Return what reads a value of bytes behind its length of so many bytes."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        begin = at + size
        end = begin + int.from_bytes(data[at:begin], "little")
        return make(data[begin:end]), end

    return read


def _text(column: LoggedColumn, size: int, charsets: Charsets) -> Read:
    return _prefixed(size, bytes if column.collation == BINARY else charsets.decoder(column.collation))


def _compressed(column: LoggedColumn, size: int, charsets: Charsets) -> Read:
    """Return what reads a compressed column of MariaDB: its values are stored, and logged, behind a byte.

    0: as they are. Otherwise its lower bits are the number of bytes of the length, which come before zlib's data,
    with or without zlib's header.
    """
    decode = bytes if column.collation == BINARY else charsets.decoder(column.collation)

    def make(data: bytes) -> Any:
        if not data or not data[0]:
            return decode(data[1:])
        is_raw = bool(data[0] & _NO_ZLIB_HEADER)
        stored = data[1 + (data[0] & _LENGTH_BYTES) :]
        return decode(zlib.decompress(stored, -zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS))

    return _prefixed(size, make)


def _char(column: LoggedColumn, charsets: Charsets) -> Read:
    """Return what reads CHAR and BINARY: the log has them without the blanks or zeros at their end."""
    length = column.metadata[0]
    size = 2 if length > _LONG else 1
    if column.collation == BINARY:
        return _prefixed(size, lambda data: data.ljust(length, b"\0"))
    return _text(column, size, charsets)


def _labels(column: LoggedColumn, charsets: Charsets) -> Read:
    size = column.metadata[0]
    labels = labels_of(column, charsets)
    if column.type == types.ENUM:
        by_number = ["", *labels]  # 0 stands for a value that was none of the labels
        return lambda data, at: (by_number[int.from_bytes(data[at : at + size], "little")], at + size)

    @lru_cache(1_000)
    def chosen(bits: int) -> str:
        return ",".join(label for place, label in enumerate(labels) if bits >> place & 1)

    return lambda data, at: (chosen(int.from_bytes(data[at : at + size], "little")), at + size)


def labels_of(column: LoggedColumn, charsets: Charsets) -> list[str]:
    """Return the labels of an ENUM or SET as text."""
    decode = bytes.decode if column.collation == BINARY else charsets.decoder(column.collation)
    return [decode(label) for label in column.labels]


def _decimal(precision: int, scale: int) -> Read:
    """Return what reads a decimal: nine digits in four bytes, the first and the last ones in fewer."""
    whole, fraction = precision - scale, scale
    sizes = [_BYTES_OF_DIGITS[whole % _DIGITS], *[4] * (whole // _DIGITS), *[4] * (fraction // _DIGITS)]
    digits = [whole % _DIGITS, *[_DIGITS] * (whole // _DIGITS), *[_DIGITS] * (fraction // _DIGITS)]
    sizes.append(_BYTES_OF_DIGITS[fraction % _DIGITS])
    digits.append(fraction % _DIGITS)
    parts = list(zip(sizes, digits, strict=True))
    total = sum(sizes)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        is_negative = not data[at] & 0x80
        stored = int.from_bytes(data[at : at + total], "big") ^ 1 << total * 8 - 1
        rest = total * 8
        if is_negative:
            stored ^= (1 << rest) - 1
        unscaled = 0
        for size, count in parts:
            rest -= size * 8
            unscaled = unscaled * 10**count + (stored >> rest & (1 << size * 8) - 1)
        text = str(unscaled).rjust(scale + 1, "0")
        text = f"{text[:-scale]}.{text[-scale:]}" if scale else text
        return Decimal(f"-{text}" if is_negative and unscaled else text), at + total

    return read


# --- dates and times --------------------------------------------------------------------------------------------------


@lru_cache(4_096)  # rows of a table mostly have few dates
def _days(year: int, month: int, day: int) -> int | None:
    """Return days since 1970-01-01, None for what is no date."""
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None


def _date(value: int) -> int | str:
    year, month, day = value >> 9, value >> 5 & 0xF, value & 0x1F
    days = _days(year, month, day)
    return f"{year:04}-{month:02}-{day:02}" if days is None else days


def _moment(date: tuple[int, int, int], clock: tuple[int, int, int], micros: int) -> int | str:
    days = _days(*date)
    hour, minute, second = clock
    if days is None:
        year, month, day = date
        return f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}"
    return days * _DAY_US + ((hour * 60 + minute) * 60 + second) * _SECOND_US + micros


def _fraction(digits: int) -> tuple[int, int]:
    """Return the bytes of a fraction of so many digits, and the microseconds of one of its units."""
    size = (digits + 1) // 2
    return size, 10 ** (6 - 2 * size)


def _datetime(digits: int) -> Read:
    size, unit = _fraction(digits)
    end = 5 + size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value = int.from_bytes(data[at : at + 5], "big") & 0x7FFFFFFFFF
        micros = int.from_bytes(data[at + 5 : at + end], "big") * unit
        year, month = divmod(value >> 22, _MONTHS)
        clock = value >> 12 & 0x1F, value >> 6 & 0x3F, value & 0x3F
        return _moment((year, month, value >> 17 & 0x1F), clock, micros), at + end

    return read


def _timestamp(digits: int) -> Read:
    size, unit = _fraction(digits)
    end = 4 + size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        return seconds * _SECOND_US + int.from_bytes(data[at + 4 : at + end], "big") * unit, at + end

    return read


def _time(digits: int) -> Read:
    """Return what reads a TIME: all its bytes are one number, to which half of their range is added."""
    size, unit = _fraction(digits)
    end, shift = 3 + size, size * 8

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value = int.from_bytes(data[at : at + end], "big") - (1 << (shift + 23))
        clock, part = divmod(abs(value), 1 << shift)
        micros = ((clock >> 12 & 0x3FF) * 3600 + (clock >> 6 & 0x3F) * 60 + (clock & 0x3F)) * _SECOND_US + part * unit
        return -micros if value < 0 else micros, at + end

    return read


def _old_time(data: bytes, at: int) -> tuple[Any, int]:
    value = int.from_bytes(data[at : at + 3], "little", signed=True)
    hours, clock = divmod(abs(value), 10_000)
    micros = ((hours * 60 + clock // 100) * 60 + clock % 100) * _SECOND_US
    return -micros if value < 0 else micros, at + 3


def _old_datetime(data: bytes, at: int) -> tuple[Any, int]:
    date, clock = divmod(int.from_bytes(data[at : at + 8], "little"), 1_000_000)
    year, of_year = divmod(date, 10_000)
    hour, of_hour = divmod(clock, 10_000)
    return _moment((year, *divmod(of_year, 100)), (hour, *divmod(of_hour, 100)), 0), at + 8
