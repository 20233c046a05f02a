"""Rows of what a database sends, and values of it that no record can have.

A value may be none of its column's type: NaN in an exact number, an unsigned number above the range of INT64, a row
that was logged before its column was altered. event.converting.failure.handling.mode says what becomes of it: `fail`
ends the task; `warn` and `skip` write null in its place. A column that must not be null is made nullable for that. A
value of the key always ends the task, since rows would have the same key.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.connect.connectors.cdc.tables import Table
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConnectError

_log = logging.getLogger("odradek.connect.cdc")
_LEVELS = {"warn": logging.WARNING, "skip": logging.DEBUG}
_SHOWN = 100  # characters of a key in the log


class Conversion:
    """Makes rows of values that a database sent.

    Args:
        given: the connector's parsed configuration.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._level = _LEVELS.get(options["event.converting.failure.handling.mode"])

    def row(self, table: Table, values: Sequence[Any], other: Struct | None = None) -> tuple[Table, Struct]:
        """Return a row, and its table, in which columns may have become nullable.

        Args:
            values: of all columns; None is null, tables.UNCHANGED and MISSING stand for values that were not sent.
            other: the row before the change, for values that were not sent.

        Raises:
            ConnectError: a value cannot be converted, with the names of its table and column.
        """
        nulls = table.nulls(values)
        if nulls:  # the column has become NOT NULL since
            table = table.with_nullable(nulls)
        made, failed = table.decoded(values, other)
        if failed:
            self._handle(table, made, failed)
            table = table.with_nullable(failed)
        return table, Struct.of_checked(table.row_schema, made)  # a column's decoder makes values of its schema

    def _handle(self, table: Table, made: Mapping[str, Any], failed: Mapping[str, Exception]) -> None:
        for name, error in failed.items():
            if self._level is None or name in table.key:
                raise ConnectError(f"the column {table.id}.{name} cannot be read: {error}") from error
            key = {name: made.get(name) for name in table.key}
            row = ", ".join(f"{column}={value!r:.{_SHOWN}}" for column, value in key.items()) or "without a key"
            _log.log(self._level, "the column %s.%s of the row %s is written as null: %s", table.id, name, row, error)
