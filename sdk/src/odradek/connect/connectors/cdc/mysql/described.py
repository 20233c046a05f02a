"""Columns of a table, as the catalog has them now and as the binary log has them at the time of a row.

The log knows how a value is stored: that is how it is read. The catalog knows more names of types: it tells a UUID from
BINARY(16). Where the catalog has another storage, as behind an ALTER, the log's is that of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.connect.connectors.cdc.mysql import table_map as types
from odradek.connect.connectors.cdc.mysql.charsets import BINARY, Charsets
from odradek.connect.connectors.cdc.mysql.rows import labels_of as logged_labels
from odradek.connect.connectors.cdc.mysql.table_map import LoggedColumn
from odradek.connect.connectors.cdc.mysql.types import (
    BINARIES,
    GEOMETRIES,
    INTEGERS,
    TEXTS,
    ColumnInfo,
    labels_of,
    text,
)

_INTEGERS = {types.TINY: "tinyint", types.SHORT: "smallint", types.INT24: "mediumint", types.LONG: "int",
             types.LONGLONG: "bigint"}  # fmt: skip
_MOMENTS = {types.DATE: "date", types.NEWDATE: "date", types.TIME: "time", types.TIME2: "time",
            types.DATETIME: "datetime", types.DATETIME2: "datetime", types.TIMESTAMP: "timestamp",
            types.TIMESTAMP2: "timestamp"}  # fmt: skip
_OTHERS = {types.FLOAT: "float", types.DOUBLE: "double", types.YEAR: "year", types.GEOMETRY: "geometry",
           types.JSON: "json"}  # fmt: skip
_BYTES = (*BINARIES, "uuid", "inet4", "inet6")
_SAME = {"integer": "int", "numeric": "decimal", "real": "double"}


def catalogued(row: tuple[Any, ...]) -> ColumnInfo:
    """Return a column of a row of information_schema.columns (catalog.py)."""
    name, data_type, full, is_nullable, scale, digits, expression = row
    data_type = text(data_type).lower()
    return ColumnInfo(
        text(name), _SAME.get(data_type, data_type), text(full), text(is_nullable) == "YES",
        int(scale or 0), int(digits or 0),
        labels_of(text(full)) if data_type in ("enum", "set") else (), is_generated=bool(expression),
    )  # fmt: skip


def logged(column: LoggedColumn, catalogued_columns: Mapping[str, ColumnInfo], charsets: Charsets) -> ColumnInfo:
    """Return a column of the log, with the catalog's name of its type if that is stored in the same form."""
    logged_column = _of_log(column, charsets)
    same = catalogued_columns.get(column.name)
    if same is None or _storage(same) != _storage(logged_column):
        return logged_column
    return same._replace(is_nullable=logged_column.is_nullable, labels=logged_column.labels or same.labels)


def _of_log(column: LoggedColumn, charsets: Charsets) -> ColumnInfo:
    type_code, (first, second) = column.type, column.metadata
    name, is_nullable = column.name, column.is_nullable
    if type_code in _INTEGERS:
        full = _INTEGERS[type_code] + (" unsigned" if column.is_unsigned else "")
        return ColumnInfo(name, _INTEGERS[type_code], full, is_nullable)
    if type_code in _MOMENTS:
        return ColumnInfo(name, _MOMENTS[type_code], _MOMENTS[type_code], is_nullable, digits=first)
    if type_code == types.NEWDECIMAL:
        return ColumnInfo(name, "decimal", f"decimal({first},{second})", is_nullable, scale=second)
    if type_code == types.BIT:
        return ColumnInfo(name, "bit", f"bit({first + 8 * second})", is_nullable)
    if type_code in (types.ENUM, types.SET):
        full = "enum" if type_code == types.ENUM else "set"
        return ColumnInfo(name, full, full, is_nullable, labels=tuple(logged_labels(column, charsets)))
    if type_code in _OTHERS:
        return ColumnInfo(name, _OTHERS[type_code], _OTHERS[type_code], is_nullable)
    full = "varbinary" if column.collation == BINARY else "text"
    return ColumnInfo(name, full, full, is_nullable)


def _storage(column: ColumnInfo) -> tuple[Any, ...]:
    """Return what columns have in common whose values are stored in the same form."""
    data_type = column.kind
    if data_type in INTEGERS:
        return data_type, column.is_unsigned
    if data_type in TEXTS:
        return ("text",)
    if data_type in _BYTES:
        return ("bytes",)
    if data_type in GEOMETRIES:
        return ("geometry",)
    return data_type, column.scale, column.digits, column.full if data_type == "bit" else ""
