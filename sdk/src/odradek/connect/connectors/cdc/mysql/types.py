"""Types of MySQL and MariaDB: schemas of columns, and values of what a query or the binary log gives."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from odradek.connect.connectors.cdc import text_values
from odradek.connect.data import logical, semantic
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema

Decode = Callable[[Any], Any]
_EPOCH = dt.datetime(1970, 1, 1)
_US = dt.timedelta(microseconds=1)
_MS_DIGITS = 3
_INTEGERS = {"tinyint": 16, "smallint": 16, "mediumint": 32, "int": 32, "integer": 32, "bigint": 64}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "uuid", "inet4", "inet6")
_BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


class ColumnInfo(NamedTuple):
    """A column as information_schema.columns has it."""

    name: str
    kind: str  # data_type
    full: str  # column_type
    is_nullable: bool
    scale: int | None
    digits: int | None  # of the fraction of a second


def column_type(column: ColumnInfo, given: Mapping[str, Any]) -> tuple[Schema, Decode]:
    """Return the schema of a column, and how its values are read; columns of unknown types are text."""
    kind = column.kind.lower()
    if kind == "bigint" and "unsigned" in column.full and given["bigint.unsigned.handling.mode"] == "precise":
        return logical.decimal(0), lambda value: Decimal(value)
    if kind in _INTEGERS:
        bits = _INTEGERS[kind] * (2 if "unsigned" in column.full and kind not in ("tinyint", "mediumint") else 1)
        return {16: schemas.INT16, 32: schemas.INT32}.get(bits, schemas.INT64), int
    if kind in ("decimal", "numeric"):
        return _decimal(column.scale or 0, given["decimal.handling.mode"])
    if kind == "float":
        return schemas.FLOAT32, float
    if kind == "double":
        return schemas.FLOAT64, float
    if kind == "year":
        return semantic.YEAR, int
    if kind in ("date", "time", "datetime", "timestamp"):
        return _moment(kind, column.digits or 0, given["time.precision.mode"])
    if kind == "bit":
        return _bits(int(re.sub(r"\D", "", column.full) or 1))
    if kind == "json":
        return semantic.JSON, _json
    if kind in ("enum", "set"):
        labels = re.findall(r"'((?:[^']|'')*)'", column.full)
        return semantic.enum(labels, several=kind == "set"), lambda value: _labels(value, labels)
    if kind in _BINARIES:
        schema, form = text_values.binary(given["binary.handling.mode"])
        return schema, lambda value: form(_binary(value))
    return schemas.STRING, text


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _binary(value: Any) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


def _decimal(scale: int, mode: str) -> tuple[Schema, Decode]:
    if mode == "double":
        return schemas.FLOAT64, float
    if mode == "string":
        return schemas.STRING, str
    return logical.decimal(scale), lambda value: Decimal(value)


def _moment(kind: str, digits: int, mode: str) -> tuple[Schema, Decode]:
    if kind == "timestamp":
        return semantic.ZONED_TIMESTAMP, lambda value: value.isoformat() + "Z"
    if mode == "connect":
        return {
            "date": (logical.DATE, lambda value: value),
            "time": (logical.TIME, lambda value: (_EPOCH + _length(value)).time()),
            "datetime": (logical.TIMESTAMP, lambda value: value.replace(tzinfo=dt.UTC)),
        }[kind]
    if kind == "date":
        return semantic.DATE, lambda value: (value - _EPOCH.date()).days
    if kind == "time":
        return semantic.MICRO_TIME, lambda value: _length(value) // _US
    if digits <= _MS_DIGITS:
        return semantic.TIMESTAMP, lambda value: (value - _EPOCH) // _US // 1000
    return semantic.MICRO_TIMESTAMP, lambda value: (value - _EPOCH) // _US


def _length(value: Any) -> dt.timedelta:
    if isinstance(value, dt.time):
        return dt.datetime.combine(_EPOCH, value) - _EPOCH
    assert isinstance(value, dt.timedelta)
    return value


def _bits(length: int) -> tuple[Schema, Decode]:
    def number(value: Any) -> int:
        return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value, 2)

    if length == 1:
        return schemas.BOOLEAN, lambda value: bool(number(value))
    return semantic.bits(length), lambda value: number(value).to_bytes((length + 7) // 8, "little")


def _json(value: Any) -> str:
    if isinstance(value, str | bytes):
        return text(value)
    return json.dumps(_with_text(value), ensure_ascii=False, default=str)


def _with_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, dict):
        return {text(key): _with_text(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_text(each) for each in value]
    return value


def _labels(value: Any, labels: list[str]) -> str:
    if isinstance(value, set | frozenset):
        return ",".join(each for each in labels if each in value)
    return text(value)
