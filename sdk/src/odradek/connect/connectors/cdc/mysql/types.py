"""Types of MySQL and MariaDB: schemas of columns, and values of what a query or the binary log gives.

A query gives dates and times as text, the log as numbers (rows.py): decoders take both, and give the same value.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from odradek.connect.connectors.cdc import text_values
from odradek.connect.connectors.cdc.mysql import stored_values
from odradek.connect.data import logical, semantic
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema
from odradek.connect.errors import DataError

Decode = Callable[[Any], Any]
_US = dt.timedelta(microseconds=1)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_MS_DIGITS = 3
_INT64_MAX = (1 << 63) - 1
_LEAP_YEAR = 4
INTEGERS = {"tinyint": 16, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
GEOMETRIES = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
              "geometrycollection", "geomcollection")  # fmt: skip
_ESCAPED = {"\\n": "\n", "\\r": "\r", "\\0": "\0"}


class ColumnInfo(NamedTuple):
    """A column, as information_schema.columns has it.

    Attributes:
        kind: data_type; `full`: column_type.
        scale: of a decimal.
        digits: of the fraction of a second.
        labels: of ENUM and SET.
    """

    name: str
    kind: str
    full: str
    is_nullable: bool
    scale: int = 0
    digits: int = 0
    labels: tuple[str, ...] = ()
    is_generated: bool = False

    @property
    def is_unsigned(self) -> bool:
        return "unsigned" in self.full


def labels_of(full: str) -> tuple[str, ...]:
    """Return the labels of a type such as enum('it''s','b')."""
    quoted_labels = re.findall(r"'((?:[^'\\]|''|\\.)*)'", full, re.DOTALL)
    return tuple(
        re.sub(r"''|\\.", lambda match: _ESCAPED.get(match[0], match[0][1:]), quoted_label)
        for quoted_label in quoted_labels
    )


def column_type(column: ColumnInfo, options: Mapping[str, Any]) -> tuple[Schema, Decode]:
    """Return the schema of a column, and how its values are read.

    A decoder returns None for a date without a month or a day, such as 0000-00-00, in a column that allows null, and
    the epoch in another one. It raises DataError or ValueError.
    """
    data_type = column.kind
    if data_type in INTEGERS:
        return _integer(column, options["bigint.unsigned.handling.mode"])
    if data_type == "decimal":
        return _decimal(column, options["decimal.handling.mode"])
    if data_type in ("date", "time", "datetime", "timestamp"):
        schema, decode, epoch = _moment(data_type, column.digits, options["time.precision.mode"])
        return schema, (decode if column.is_nullable else _or(decode, epoch))
    if data_type in ("enum", "set"):
        labels = [label.replace(",", "\\,") for label in column.labels]
        return semantic.enum(labels, several=data_type == "set"), text
    if data_type in BINARIES:
        schema, form = text_values.binary(options["binary.handling.mode"])
        return schema, lambda value: form(_binary(value))
    if data_type == "bit":
        return _bits(int(re.sub(r"\D", "", column.full) or 1))
    if data_type in GEOMETRIES:
        return (semantic.POINT if data_type == "point" else semantic.GEOMETRY), _geometry(is_point=data_type == "point")
    simple: dict[str, tuple[Schema, Decode]] = {
        "float": (schemas.FLOAT32, float),
        "double": (schemas.FLOAT64, float),
        "year": (semantic.YEAR, int),
        "json": (semantic.JSON, lambda value: value if isinstance(value, str) else stored_values.json_text(value)),
        "uuid": (semantic.UUID_TEXT, lambda value: value if isinstance(value, str) else stored_values.uuid_text(value)),
        "inet4": (schemas.STRING, lambda value: value if isinstance(value, str) else stored_values.inet4_text(value)),
        "inet6": (schemas.STRING, lambda value: value if isinstance(value, str) else stored_values.inet6_text(value)),
    }
    return simple.get(data_type, (schemas.STRING, text))


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _or(decode: Decode, default: Any) -> Decode:
    def decode_or_default(value: Any) -> Any:
        decoded = decode(value)
        return default if decoded is None else decoded

    return decode_or_default


def _binary(value: Any) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


def _integer(column: ColumnInfo, unsigned_mode: str) -> tuple[Schema, Decode]:
    data_type, is_unsigned = column.kind, column.is_unsigned
    if data_type == "bigint" and is_unsigned:
        return (logical.decimal(0), Decimal) if unsigned_mode == "precise" else (schemas.INT64, _int64)
    bits = INTEGERS[data_type] * (2 if is_unsigned and data_type not in ("tinyint", "mediumint") else 1)
    return {16: schemas.INT16, 32: schemas.INT32}.get(bits, schemas.INT64), int


def _int64(value: int) -> int:
    if value > _INT64_MAX:
        raise DataError(f"the number {value} is above the range of INT64: set bigint.unsigned.handling.mode=precise")
    return value


def _decimal(column: ColumnInfo, mode: str) -> tuple[Schema, Decode]:
    if mode == "double":
        return schemas.FLOAT64, float
    if mode == "string":
        return schemas.STRING, lambda value: format(value, "f")
    match = re.search(r"\((\d+)", column.full)
    return logical.decimal(column.scale, precision=int(match[1]) if match else None), lambda value: value


# --- dates and times --------------------------------------------------------------------------------------------------


def _moment(data_type: str, digits: int, mode: str) -> tuple[Schema, Decode, Any]:
    """Return a schema, a decoder that returns None for what is no date, and the epoch."""
    if data_type == "timestamp":
        return semantic.ZONED_TIMESTAMP, _zoned, "1970-01-01T00:00:00Z"
    if data_type == "time":
        if mode == "connect":
            return logical.TIME, _time_of_day, None
        return semantic.MICRO_TIME, _length_us, None
    if data_type == "date":
        if mode == "connect":
            return logical.DATE, _then(_days, lambda days: logical.moment_of(days * logical.DAY_MS).date()), (
                logical.EPOCH_DATE
            )  # fmt: skip
        return semantic.DATE, _days, 0
    if mode == "connect":
        return logical.TIMESTAMP, _then(_micros, lambda micros: logical.moment_of(micros // 1000)), logical.EPOCH
    if digits <= _MS_DIGITS:
        return semantic.TIMESTAMP, _then(_micros, lambda micros: micros // 1000), 0
    return semantic.MICRO_TIMESTAMP, _micros, 0


def _then(decode: Decode, made: Decode) -> Decode:
    def decode_further(value: Any) -> Any:
        decoded = decode(value)
        return None if decoded is None else made(decoded)

    return decode_further


def _days(value: int | str) -> int | None:
    return value if isinstance(value, int) else _days_of(value)


@lru_cache(4_096)  # rows of a table mostly have few dates
def _days_of(date: str) -> int | None:
    year, month, day = map(int, date.split("-"))
    if not (month and day):
        return None
    dt.date(year or _LEAP_YEAR, month, day)  # the server may have 2024-02-30: that is no date
    return text_values.days_of(date)


def _micros(value: int | str) -> int | None:
    if isinstance(value, int):
        return value
    date, _, clock = value.partition(" ")
    days = _days_of(date)
    return None if days is None else days * text_values.DAY_US + text_values.clock_us(clock)


def _zoned(value: int | str) -> str | None:
    """Return a timestamp in UTC as ISO 8601, without zeros at its end as Debezium writes it."""
    if isinstance(value, str):
        if value.startswith("0000-00-00"):
            return None
        clock, _, fraction = value.replace(" ", "T").partition(".")
        fraction = fraction.rstrip("0")
        return f"{clock}.{fraction}Z" if fraction else f"{clock}Z"
    if value == 0:  # it stands for 0000-00-00: the type begins one second later
        return None
    days, micros = divmod(value, text_values.DAY_US)
    seconds, micros = divmod(micros, 1_000_000)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{_date_text(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}Z"


@lru_cache(4_096)
def _date_text(days: int) -> str:
    return dt.date.fromordinal(days + _EPOCH_DAY).isoformat()


def _length_us(value: int | str) -> int:
    return value if isinstance(value, int) else text_values.clock_us(value)


def _time_of_day(value: int | str) -> dt.time:
    micros = _length_us(value)
    if not 0 <= micros < text_values.DAY_US:
        raise DataError("a TIME below 0 or of 24 hours and more is none of Connect's: choose another "
                        "time.precision.mode")  # fmt: skip
    return (dt.datetime.min + micros * _US).time()


# --- bits and geometries ----------------------------------------------------------------------------------------------


def _bits(length: int) -> tuple[Schema, Decode]:
    if length == 1:
        return schemas.BOOLEAN, lambda value: bool(int.from_bytes(value, "big"))
    size = (length + 7) // 8
    return semantic.bits(length), lambda value: int.from_bytes(value, "big").to_bytes(size, "little")


def _geometry(*, is_point: bool) -> Decode:
    """Return what reads a geometry: its reference system in four bytes, and the well-known binary."""

    def decode(value: bytes) -> Any:
        number, form = int.from_bytes(value[:4], "little"), bytes(value[4:])
        return semantic.geometry(form, number or None, is_point=is_point)

    return decode
