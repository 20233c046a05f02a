"""The initial snapshot: all rows of all captured tables, as of the moment at which the slot's changes begin.

The tables are read in the order of their names, and the rows of each one in the order of its primary key. A position
in the snapshot is a table and a key. A snapshot that was interrupted goes on there, in a new transaction: it may read
rows that are newer than the slot. The changes that made them so follow in the stream, in their order, and the rows end
as they are. A table without a primary key is read from its beginning again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from odradek.connect.connectors.cdc.conversion import Conversion
from odradek.connect.connectors.cdc.postgres.catalog import Catalog, after_key
from odradek.connect.connectors.cdc.postgres.pgoutput import Relation
from odradek.connect.connectors.cdc.postgres.stream import sequence_of
from odradek.connect.connectors.cdc.records import Emitter, marked
from odradek.connect.connectors.cdc.tables import Filters, Table, TableId
from odradek.connect.record import SourceRecord
from odradek.extras import extra
from odradek.ports.clock import Clock

with extra("connect-postgres"):
    from psycopg import sql


class Snapshot:
    """Reads the tables of a publication.

    Args:
        catalog: of a connection on which nothing else happens meanwhile.
        offset: a position in the snapshot; `lsn` is where the stream begins.
        exported: name of the snapshot that the new slot has exported; None if it existed already.
    """

    def __init__(
        self,
        catalog: Catalog,
        emitter: Emitter,
        filters: Filters,
        options: Mapping[str, Any],
        clock: Clock,
        offset: Mapping[str, Any],
        exported: str | None,
    ) -> None:
        self._catalog, self._emitter, self._filters, self._options = catalog, emitter, filters, options
        self._clock, self._offset = clock, dict(offset)
        self._conversion = Conversion(options)
        execute = catalog.connection.execute
        execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if exported is not None:
            execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported)))
        execute("SELECT 1")  # fixes the snapshot

    def batches(self) -> Iterator[list[SourceRecord]]:
        """Yield the records of all rows, and at last the position of the stream's beginning."""
        previous: list[SourceRecord] = []
        is_first = "table" not in self._offset
        for id in self._tables():
            for batch in self._table(id):
                if is_first:
                    marked(batch[:1], "first")
                    is_first = False
                elif not previous or previous[-1].topic != batch[0].topic:
                    marked(previous[-1:], "last_in_data_collection")
                    marked(batch[:1], "first_in_data_collection")
                if previous:
                    yield previous
                previous = batch
        self._catalog.connection.execute("COMMIT")
        marked(previous[-1:], "last")
        yield [*previous, self._emitter.position({"lsn": self._offset["lsn"], "event": 0})]

    def _tables(self) -> list[TableId]:
        begin = TableId.parse(self._offset["table"]) if "table" in self._offset else None
        published = self._catalog.published(self._options["publication.name"])
        return sorted(
            table
            for table in published
            if self._filters.has_table(table)
            and self._filters.is_snapshot(table)
            and (begin is None or (table.namespace, table.name) >= (begin.namespace, begin.name))
        )

    def _table(self, id: TableId) -> Iterator[list[SourceRecord]]:
        relation = self._catalog.relation(id)
        if relation is None:
            return
        table = self._catalog.table(relation)
        order = self._catalog.primary_key(relation.oid)
        behind = self._offset.get("key") if self._offset.get("table") == str(id) else None
        execute = self._catalog.connection.execute
        execute(sql.SQL("DECLARE rows NO SCROLL CURSOR FOR {}").format(self._select(relation, order, behind)))
        fetch = sql.SQL("FETCH {} FROM rows").format(sql.Literal(self._options["snapshot.fetch.size"]))
        while rows := self._catalog.rows(sql.Composed([fetch])):
            table, records = self._records(relation, table, order, rows)
            yield records
        execute("CLOSE rows")

    def _select(self, relation: Relation, order: tuple[str, ...], behind: list[str] | None) -> sql.Composed:
        statement = sql.SQL("SELECT {} FROM {}").format(
            self._catalog.columns_of(relation), sql.Identifier(relation.namespace, relation.name)
        )
        if behind is not None and order:
            statement += sql.SQL(" WHERE ") + after_key(order, behind)
        if order:
            statement += sql.SQL(" ORDER BY ") + sql.SQL(", ").join(sql.Identifier(name) for name in order)
        return statement

    def _records(
        self, relation: Relation, table: Table, order: tuple[str, ...], rows: list[list[Any]]
    ) -> tuple[Table, list[SourceRecord]]:
        lsn = self._offset["lsn"]
        made: list[SourceRecord] = []
        sequence = sequence_of(None, lsn)
        places = {column.name: number for number, column in enumerate(relation.columns)}
        for values in rows:
            position = {"snapshot": True, "lsn": lsn, "table": str(table.id)}
            if order:
                position["key"] = [values[places[name]] for name in order]
            table, row = self._conversion.row(table, values)
            fields = {
                "db": self._options["database.dbname"],
                "schema": table.id.namespace,
                "table": table.id.name,
                "lsn": lsn,
                "sequence": sequence,
            }
            source = self._emitter.source(self._clock.now_ms() * 1000, "true", fields)
            made += self._emitter.change(table, "r", (None, row), source, position)
        return table, made
