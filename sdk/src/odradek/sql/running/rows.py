"""Rows of Spark as they are shown."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import Row as SparkRow

from odradek.sql.session import Row, Tombstone


def shown_row(row: SparkRow) -> Row:
    """Return a row with its values in their JSON form."""
    return tuple(_value(each) for each in row)


def change(row: SparkRow) -> Row:
    """Return a row of a plan that marks those that left their table."""
    *columns, is_deleted = shown_row(row)
    return Tombstone(columns) if is_deleted else tuple(columns)


def _value(value: Any) -> Any:
    """Return a value in its JSON form."""
    if isinstance(value, SparkRow):
        return {name: _value(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {str(_value(key)): _value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    if isinstance(value, datetime):  # Spark returns the time in this machine's zone
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
