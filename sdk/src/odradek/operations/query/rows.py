"""Rows of an answer as plain data, for people and for files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def names_of(table: Any) -> list[str]:
    """Return a name for each column; a query may give two columns one name."""
    names: list[str] = []
    for name in table.column_names:
        unique, number = name, 1
        while unique in names:
            number += 1
            unique = f"{name}_{number}"
        names.append(unique)
    return names


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the rows as plain data: bytes that are UTF-8 as text, times in ISO 8601."""
    return [
        {name: _plain(value) for name, value in row.items()}
        for row in table.rename_columns(names_of(table)).to_pylist()
    ]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has no infinity
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:  # a sum of whole numbers is a HUGEINT
        return int(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def as_csv(table: Any, *, delimiter: str = ",") -> str:
    """Return the rows as CSV with a head; nested values are JSON."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n", delimiter=delimiter)
    writer.writerow(table.column_names)
    for row in rows_of(table):
        writer.writerow([cell(value) for value in row.values()])
    return file.getvalue()


def cell(value: Any) -> Any:
    """Return a value for one cell."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def numbers_of(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return the columns that hold numbers alone."""
    return [name for name in names if rows and all(is_number(row[name]) for row in rows)]


def is_number(value: Any) -> bool:
    """Return True for a number and for null."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
