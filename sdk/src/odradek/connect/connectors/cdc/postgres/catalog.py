"""The connector's SQL queries of a database: tables, types, the publication, the slot, and rows as text."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from odradek.connect.connectors.cdc.masks import Masks
from odradek.connect.connectors.cdc.postgres.pgoutput import Relation, RelationColumn
from odradek.connect.connectors.cdc.postgres.types import SESSION, Known, column_type
from odradek.connect.connectors.cdc.tables import Column, Filters, Table, TableId
from odradek.connect.data import unavailable
from odradek.connect.errors import ConnectError
from odradek.extras import extra

with extra("connect-postgres"):
    import psycopg
    from psycopg import sql

_log = logging.getLogger("odradek.connect.cdc")
_RELATION = """
    SELECT c.oid, c.relreplident, a.attname, a.atttypid, a.atttypmod
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    WHERE n.nspname = %s AND c.relname = %s ORDER BY a.attnum
"""
_KEYS = """
    SELECT a.attname FROM pg_index i
    JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) ON k.place <= i.indnkeyatts
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place
"""
_TYPE = """
    SELECT t.typname, t.typtype, t.typbasetype, t.typtypmod,
        CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem ELSE 0 END,
        ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
    FROM pg_type t WHERE t.oid = %s
"""
_SLOT = """
    SELECT plugin, database, active_pid, wal_status, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
        confirmed_flush_lsn::text
    FROM pg_replication_slots WHERE slot_name = %s
"""

_LENGTH_HEADER = 4  # what typmod has more than the length of a varchar
TextRow = list[Any]
"""A text a column, None for null."""


class SlotState(NamedTuple):
    """A replication slot.

    Attributes:
        wal_status: reserved, extended, unreserved or lost.
        lag_bytes: how much WAL it holds back.
        confirmed: where its changes begin, as text.
    """

    plugin: str
    database: str
    active_pid: int | None
    wal_status: str | None
    lag_bytes: int | None
    confirmed: str | None


def parameters(options: Mapping[str, Any]) -> dict[str, str]:
    """Return libpq's parameters."""
    values = {
        "host": options["database.hostname"],
        "port": str(options["database.port"]),
        "user": options["database.user"],
        "password": options["database.password"],
        "dbname": options["database.dbname"],
        "sslmode": options["database.sslmode"],
        "sslrootcert": options["database.sslrootcert"],
        "sslcert": options["database.sslcert"],
        "sslkey": options["database.sslkey"],
        "keepalives": "1" if options["database.tcpKeepAlive"] else "0",
        "application_name": "odradek-connect",
        "connect_timeout": "10",
        "client_encoding": "UTF8",
        "options": SESSION,
    }
    return {name: value for name, value in values.items() if value is not None}


def connect(options: Mapping[str, Any]) -> psycopg.Connection[Any]:
    """Return a connection for SQL. Raises psycopg.OperationalError."""
    return psycopg.connect(**parameters(options), autocommit=True)  # type: ignore[arg-type]


class Catalog:
    """The catalog of one database. Methods raise psycopg.Error."""

    def __init__(
        self, connection: psycopg.Connection[Any], options: Mapping[str, Any], filters: Filters, masks: Masks
    ) -> None:
        self.connection = connection
        self._options, self._filters, self._masks = options, filters, masks
        self._types: dict[int, Known] = {}
        self._left_out: set[tuple[TableId, str]] = set()

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, values).fetchall()

    # --- tables -----------------------------------------------------------------------------------------------------

    def type_of(self, oid: int) -> Known:
        known_type = self._types.get(oid)
        if known_type is None:
            rows = self._all(_TYPE, oid)
            known_type = _known(*rows[0]) if rows else Known("unknown")
            self._types[oid] = known_type
        return known_type

    def forget_types(self) -> None:
        """Look all types up again: an enumeration may have new labels."""
        self._types.clear()

    def published(self, publication: str) -> list[TableId]:
        """Return the tables of a publication."""
        statement = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
        return [TableId(*row) for row in self._all(statement, publication)]

    def relation(self, table: TableId) -> Relation | None:
        """Return a table as it is now, None if it does not exist."""
        rows = self._all(_RELATION, *table)
        if not rows:
            return None
        oid, identity = rows[0][:2]
        keys = self.primary_key(oid)
        columns = tuple(RelationColumn(name, type_oid, typmod, name in keys) for _, _, name, type_oid, typmod in rows)
        return Relation(oid, *table, identity, columns)

    def primary_key(self, oid: int) -> tuple[str, ...]:
        """Return the columns of a table's primary key in the key's order."""
        return tuple(row[0] for row in self._all(_KEYS, oid))

    def table(self, relation: Relation) -> Table:
        """Return the captured form of a table. What the relation does not say is read from the catalog as of now."""
        options, id = self._options, TableId(relation.namespace, relation.name)
        names = {column.name for column in relation.columns}
        required = {
            row[0]
            for row in self._all("SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnotnull", relation.oid)
        }
        key = self._filters.key_of(id) or tuple(name for name in self.primary_key(relation.oid) if name in names)
        if not key and relation.identity in "di":
            key = tuple(column.name for column in relation.columns if column.is_key)
        columns: list[Column | None] = []
        for relation_column in relation.columns:
            decoder = column_type(relation_column.type_oid, relation_column.typmod, self, options)
            if decoder is None and (id, relation_column.name) not in self._left_out:
                self._left_out.add((id, relation_column.name))
                type_name = self.type_of(relation_column.type_oid).name
                _log.warning("%s.%s is left out: its type %s is unknown; include.unknown.datatypes=true captures it "
                             "as text", id, relation_column.name, type_name)  # fmt: skip
            if decoder is None or not (
                relation_column.name in key or self._filters.has_column(id, relation_column.name)
            ):
                columns.append(None)
                continue
            # Of a row before a change only the replica identity is known, unless that is FULL.
            is_required = relation_column.name in key or (relation_column.name in required and relation.identity == "f")
            schema = decoder.schema.as_optional(not is_required)
            placeholder = unavailable.sign(decoder.schema, options["unavailable.value.placeholder"])
            column = Column(relation_column.name, schema, decoder.decode, placeholder)
            length = max(0, relation_column.typmod - _LENGTH_HEADER)
            columns.append(self._masks.column(id, column, length, is_key=relation_column.name in key))
        captured = {column.name for column in columns if column is not None}
        missing = [name for name in key if name not in captured]
        if missing:
            raise ConnectError(f"the table {id} has no column {missing[0]!r} that can be in its key")
        return Table(id, options["topic.prefix"], options["topic.delimiter"], tuple(columns), key)

    # --- rows -------------------------------------------------------------------------------------------------------

    def rows(self, statement: sql.Composed) -> list[TextRow]:
        """Return rows in the text that the server sends, which is that of replication."""
        result = self.connection.execute(statement).pgresult
        assert result is not None
        rows = []
        for row in range(result.ntuples):
            values = (result.get_value(row, column) for column in range(result.nfields))
            rows.append([None if value is None else value.decode() for value in values])
        return rows

    def columns_of(self, relation: Relation) -> sql.Composed:
        return sql.SQL(", ").join(sql.Identifier(column.name) for column in relation.columns)

    # --- publication and slot ---------------------------------------------------------------------------------------

    def ensure_publication(self) -> None:
        """Create the publication, or give it the captured tables, as publication.autocreate.mode says."""
        options, mode = self._options, self._options["publication.autocreate.mode"]
        name = options["publication.name"]
        exists = bool(self._all("SELECT 1 FROM pg_publication WHERE pubname = %s", name))
        if mode == "disabled" and not exists:
            raise ConnectError(
                f"the publication {name} does not exist: create it, or set publication.autocreate.mode=filtered"
            )
        if mode == "filtered":
            captured = self._captured()
            if not captured:
                raise ConnectError("table.include.list matches no table: nothing can be published")
            tables = sql.SQL(", ").join(sql.Identifier(*table) for table in captured)
            word = sql.SQL("ALTER PUBLICATION {} SET TABLE {}" if exists else "CREATE PUBLICATION {} FOR TABLE {}")
            self.connection.execute(word.format(sql.Identifier(name), tables))
        elif not exists:
            suffix = sql.SQL(" FOR ALL TABLES" if mode == "all_tables" else "")
            self.connection.execute(sql.SQL("CREATE PUBLICATION {}").format(sql.Identifier(name)) + suffix)

    def _captured(self) -> list[TableId]:
        """Return all tables that the filters choose, and the table of signals."""
        statement = """
            SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
            AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2
        """
        tables = [TableId(*row) for row in self._all(statement)]
        return [table for table in tables if self._filters.has_table(table) or table == self._filters.signals]

    def slot(self, name: str) -> SlotState | None:
        rows = self._all(_SLOT, name)
        return SlotState(*rows[0]) if rows else None

    def drop_slot(self, name: str) -> None:
        self.connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))

    def end_other_reader(self, slot: SlotState) -> None:
        """End the connection that reads a slot: that of a task which was replaced."""
        self.connection.execute("SELECT pg_terminate_backend(%s)", (slot.active_pid,))


def _known(name: str, type_kind: str, base: int, typmod: int, element: int, labels: list[str]) -> Known:
    return Known(name, type_kind, base, typmod, element, tuple(labels))


def after_key(names: Sequence[str], values: Sequence[str]) -> sql.Composed:
    """Return the condition of rows behind a key."""
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in names)
    literals = sql.SQL(", ").join(sql.Literal(value) for value in values)
    return sql.SQL("({}) > ({})").format(columns, literals)
