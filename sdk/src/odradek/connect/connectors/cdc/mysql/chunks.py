"""Chunks and watermarks of incremental snapshots in MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.connect.connectors.cdc.incremental import Chunk
from odradek.connect.connectors.cdc.mysql.catalog import Catalog, after_key, quoted, stored_key
from odradek.connect.connectors.cdc.tables import Filters, TableId
from odradek.connect.errors import ConfigError, ConnectError


class Chunks:
    """incremental.ChunkReader. Methods raise pymysql.err.MySQLError."""

    def __init__(self, catalog: Catalog, filters: Filters, options: Mapping[str, Any]) -> None:
        self._catalog, self._filters, self._options = catalog, filters, options
        self._deletes = options["incremental.snapshot.watermarking.strategy"] == "insert_delete"

    def watermark(self, id: str, mark: str) -> None:
        signals = self._filters.signals
        if signals is None:
            raise ConnectError("incremental snapshots need signal.data.collection")
        if self._deletes and id.endswith("close"):
            names = self._catalog.names(signals)
            column = quoted(names[0] if names else "id")
            statement = f"DELETE FROM {_name(signals)} WHERE {column} = %s"  # noqa: S608
            self._catalog.rows(statement, id.removesuffix("close") + "open")
            return
        self._catalog.rows(f"INSERT INTO {_name(signals)} VALUES (%s, %s, %s)", id, mark, "")  # noqa: S608

    def tables(self) -> list[TableId]:
        return self._catalog.tables()

    def _order(self, id: TableId) -> list[str]:
        if id not in self._catalog.tables():
            raise ConfigError(f"the table {id} does not exist")
        order = self._catalog.order(id)
        table = self._catalog.table(id)
        if not order or set(order) != set(table.key):
            raise ConfigError("it needs a primary key without ENUM or SET, which must be the key of its records")
        return order

    def greatest_key(self, id: TableId, condition: str) -> list[Any] | None:
        order = self._order(id)
        columns = ", ".join(map(quoted, order))
        descending = ", ".join(f"{quoted(column)} DESC" for column in order)
        where, values = _where(condition)
        rows = self._catalog.rows(f"SELECT {columns} FROM {_name(id)}{where} ORDER BY {descending} LIMIT 1", *values)  # noqa: S608
        return [stored_key(cell) for cell in rows[0]] if rows else None

    def chunk(self, id: TableId, condition: str, behind: list[Any] | None, until: list[Any]) -> Chunk:
        order, size = self._order(id), self._options["incremental.snapshot.chunk.size"]
        last, values = after_key(order, until)
        bounds = [(f"NOT {last}", values)]
        if behind is not None:
            bounds.append(after_key(order, behind))
        where, values = _where(condition, *bounds)
        names, ascending = self._catalog.names(id), ", ".join(map(quoted, order))
        rows = self._catalog.rows(
            f"SELECT {self._catalog.selected(id)} FROM {_name(id)}{where} ORDER BY {ascending} LIMIT {size}",  # noqa: S608
            *values,
        )
        made = [self._catalog.row(id, values) for values in rows]
        table = self._catalog.table(id)
        if any(row.schema is not table.row_schema for row in made):  # a later row has a null that none before it had
            made = [self._catalog.row(id, values) for values in rows]
        end = [stored_key(rows[-1][names.index(name)]) for name in order] if len(rows) == size else None
        return Chunk(table, made, end)


def _name(id: TableId) -> str:
    return f"{quoted(id.namespace)}.{quoted(id.name)}"


def _where(condition: str, *bounds: tuple[str, list[Any]]) -> tuple[str, list[Any]]:
    """Return the WHERE of a user's condition and bounds of keys, and its values."""
    # The condition is SQL by intent: whoever may write signals may read the table. A % of it is none of the driver's.
    escaped = condition.replace("%", "%%") if bounds else condition
    parts = [*([f"({escaped})"] if condition else []), *(bound for bound, _ in bounds)]
    values = [value for _, bound_value in bounds for value in bound_value]
    return (" WHERE " + " AND ".join(parts) if parts else ""), values
