"""Chunks and watermarks of incremental snapshots in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.connect.connectors.cdc.conversion import Conversion
from odradek.connect.connectors.cdc.incremental import Chunk
from odradek.connect.connectors.cdc.postgres.catalog import Catalog, after_key
from odradek.connect.connectors.cdc.postgres.pgoutput import Relation
from odradek.connect.connectors.cdc.tables import Filters, Table, TableId
from odradek.connect.errors import ConfigError, ConnectError
from odradek.extras import extra

with extra("connect-postgres"):
    from psycopg import sql


class Chunks:
    """incremental.ChunkReader. Methods raise psycopg.Error."""

    def __init__(self, catalog: Catalog, filters: Filters, options: Mapping[str, Any]) -> None:
        self._catalog, self._filters, self._options = catalog, filters, options
        self._conversion = Conversion(options)
        self._deletes = options["incremental.snapshot.watermarking.strategy"] == "insert_delete"

    def watermark(self, id: str, mark: str) -> None:
        signals = self._filters.signals
        if signals is None:
            raise ConnectError("incremental snapshots need signal.data.collection")
        table = sql.Identifier(*signals)
        if self._deletes and id.endswith("close"):
            relation = self._catalog.relation(signals)
            column = sql.Identifier(relation.columns[0].name if relation else "id")
            statement = sql.SQL("DELETE FROM {} WHERE {} = {}")
            first = sql.Literal(id.removesuffix("close") + "open")
            self._catalog.connection.execute(statement.format(table, column, first))
            return
        values = sql.SQL(", ").join(sql.Literal(value) for value in (id, mark, ""))
        self._catalog.connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(table, values))

    def tables(self) -> list[TableId]:
        published = self._catalog.published(self._options["publication.name"])
        return [table for table in published if self._filters.has_table(table)]

    def _described(self, id: TableId) -> tuple[Relation, Table]:
        relation = self._catalog.relation(id)
        if relation is None:
            raise ConfigError(f"the table {id} does not exist")
        table = self._catalog.table(relation)
        names = set(self._catalog.primary_key(relation.oid))
        if not names or names != set(table.key):
            raise ConfigError("it needs a primary key, which must be the key of its records")
        return relation, table

    def _order(self, table: Table, word: str) -> sql.Composed:
        columns = (sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(word)) for name in table.key)
        return sql.SQL(" ORDER BY ") + sql.SQL(", ").join(columns)

    def greatest_key(self, id: TableId, condition: str) -> list[str] | None:
        _, table = self._described(id)
        columns = sql.SQL(", ").join(sql.Identifier(name) for name in table.key)
        statement = sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(*id)) + _where(condition)
        rows = self._catalog.rows(statement + self._order(table, "DESC") + sql.SQL(" LIMIT 1"))
        return rows[0] if rows else None

    def chunk(self, id: TableId, condition: str, behind: list[str] | None, until: list[str]) -> Chunk:
        relation, table = self._described(id)
        size = self._options["incremental.snapshot.chunk.size"]
        bounds = [sql.SQL("NOT ") + after_key(table.key, until)]
        if behind is not None:
            bounds.append(after_key(table.key, behind))
        statement = sql.SQL("SELECT {} FROM {}").format(self._catalog.columns_of(relation), sql.Identifier(*id))
        statement += _where(condition, *bounds) + self._order(table, "ASC") + sql.SQL(f" LIMIT {int(size)}")
        rows = self._catalog.rows(statement)
        places = {column.name: number for number, column in enumerate(relation.columns)}
        last = [rows[-1][places[name]] for name in table.key] if len(rows) == size else None
        made = []
        for values in rows:
            table, row = self._conversion.row(table, values)
            made.append(row)
        if any(row.schema is not table.row_schema for row in made):  # a later row has a null that none before it had
            made = [self._conversion.row(table, values)[1] for values in rows]
        return Chunk(table, made, last)


def _where(condition: str, *bounds: sql.Composed) -> sql.Composed:
    """Return the WHERE of a user's condition and bounds of keys."""
    # The condition is SQL by intent: whoever may write signals may read the table.
    parts = [*([sql.SQL("(" + condition + ")")] if condition else []), *bounds]
    return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(parts) if parts else sql.Composed([])
