"""A connection to the server, and what is asked of it: its identity, the end of its log, tables, and rows by key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from odradek.connect.connectors.cdc.conversion import Conversion
from odradek.connect.connectors.cdc.masks import Masks
from odradek.connect.connectors.cdc.mysql.charsets import Charsets
from odradek.connect.connectors.cdc.mysql.described import catalogued, logged
from odradek.connect.connectors.cdc.mysql.gtids import gtids
from odradek.connect.connectors.cdc.mysql.table_map import LoggedColumn
from odradek.connect.connectors.cdc.mysql.types import ColumnInfo, column_type, text
from odradek.connect.connectors.cdc.tables import Column, Filters, Table, TableId
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConnectError
from odradek.extras import extra

with extra("connect-mysql"):
    import pymysql
    from pymysql.constants import FIELD_TYPE
    from pymysql.converters import conversions, through
    from pymysql.cursors import SSCursor

_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
_NEEDED = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_REFUSED = {
    "log_bin_compress": "ON",
    "binlog_transaction_compression": "ON",
    "binlog_row_value_options": "PARTIAL_JSON",
}
"""Settings that give the log a form that is not read."""
_UNORDERED = ("enum", "set")  # ordered by number, but compared as text
_COLUMNS = """
    SELECT column_name, data_type, column_type, is_nullable, numeric_scale, datetime_precision,
        coalesce(generation_expression, '')
    FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_TABLES = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
_KEYS = """
    SELECT u.column_name, c.data_type FROM information_schema.key_column_usage u JOIN information_schema.columns c
    ON c.table_schema = u.table_schema AND c.table_name = u.table_name AND c.column_name = u.column_name
    WHERE u.table_schema = %s AND u.table_name = %s AND u.constraint_name = 'PRIMARY' ORDER BY u.ordinal_position
"""
_MOMENTS = (FIELD_TYPE.DATE, FIELD_TYPE.TIME, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP)
_AS_SENT = {**conversions, **dict.fromkeys(_MOMENTS, through)}  # Python has no dates such as 0000-00-00
_OTHER_VALUES = ("NO_ZERO_DATE", "NO_ZERO_IN_DATE", "PAD_CHAR_TO_FULL_LENGTH")
"""Modes in which a query gives, or compares, other values than those that are stored."""
_ANOTHER_SERVER = 2006  # of the client's errors: the connection is gone


def connect(given: Mapping[str, Any], **more: Any) -> Any:
    """Return a connection. Raises pymysql.err.OperationalError."""
    mode, ca = given["database.ssl.mode"], given["database.ssl.ca"]
    tls: dict[str, Any] = {}  # the driver takes TLS if the server has it
    if mode == "disabled":
        tls = {"ssl_disabled": True}
    elif mode != "preferred" or ca:
        is_checked = mode.startswith("verify") or bool(ca)
        verify = "required" if is_checked else "none"
        tls = {"ssl": {"ca": ca, "check_hostname": is_checked and mode != "verify_ca", "verify_mode": verify}}
    return pymysql.connect(
        host=given["database.hostname"], port=given["database.port"], user=given["database.user"],
        password=given["database.password"] or "", charset="utf8mb4", conv=_AS_SENT,
        connect_timeout=max(1, given["connect.timeout.ms"] // 1000), **tls, **more,
    )  # fmt: skip


def rows(connection: Any, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


class Catalog:
    """One connection on which statements commit by themselves. Methods raise pymysql.err.MySQLError.

    Attributes:
        identity: tells the server from its replicas.
    """

    def __init__(self, given: Mapping[str, Any], filters: Filters, masks: Masks) -> None:
        self._given, self._filters, self._masks = given, filters, masks
        self._conversion = Conversion(given)
        self._known: dict[TableId, dict[str, ColumnInfo]] = {}
        self._tables: dict[TableId, Table] = {}
        self._logged: dict[TableId, tuple[tuple[LoggedColumn, ...], Table]] = {}
        self._db = connect(given, autocommit=True)
        mode = [each for each in text(self.rows("SELECT @@sql_mode")[0][0]).split(",") if each not in _OTHER_VALUES]
        self.rows("SET SESSION time_zone = '+00:00', sql_mode = %s", ",".join([*mode, "ALLOW_INVALID_DATES"]))
        variables = self._variables(self._db)
        self.is_mariadb = "mariadb" in variables["version"].lower()
        self.identity = _identity(variables)
        self.charsets = Charsets(self.rows)
        self._has_gtids = self.is_mariadb or variables.get("gtid_mode", "").upper() == "ON"

    @staticmethod
    def _variables(connection: Any) -> dict[str, str]:
        names = ("server_uuid", "server_id", "gtid_mode", "version", *_NEEDED, *_REFUSED)
        listed = ", ".join(["%s"] * len(names))
        found = rows(connection, f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({listed})", *names)
        return {text(name).lower(): text(value) for name, value in found}

    def check(self) -> None:
        """Raise ConnectError unless the server logs what is needed."""
        variables = self._variables(self._db)
        for name, wanted in _NEEDED.items():
            present = variables.get(name, "a server without it")
            is_gone = (
                name == "binlog_format" and name not in variables
            )  # deprecated in MySQL 8.0: rows are all there is
            if present.upper() != wanted and not is_gone:
                raise ConnectError(f"change capture needs {name}={wanted} on the server, not {present}")
        for name, refused in _REFUSED.items():
            if variables.get(name, "").upper() == refused:
                raise ConnectError(
                    f"change capture does not read a log with {name}={refused}: turn it off on the server"
                )

    def same_server(self, **settings: Any) -> Any:
        """Return another connection. Raises OperationalError if it is to another server, as after a failover."""
        names = {"db": "database", "cursorclass": "cursorclass", "autocommit": "autocommit"}
        fields = {name: settings[given] for given, name in names.items() if given in settings}
        connection = connect(self._given, **fields)
        plain = rows(connection, "SELECT 1")  # dictionaries for the reader's own connection
        if plain and isinstance(plain[0], tuple) and _identity(self._variables(connection)) != self.identity:
            connection.close()
            raise pymysql.err.OperationalError(_ANOTHER_SERVER, "another server answers than before")
        return connection

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return rows(self._db, statement, *values)

    def batches(self, statement: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a statement without holding all of them; no other statement may run meanwhile."""
        with self._db.cursor(SSCursor) as cursor:
            cursor.execute(statement)
            while found := cursor.fetchmany(size):
                yield list(found)

    def close(self) -> None:
        self._db.close()

    # --- log --------------------------------------------------------------------------------------------------------

    def place(self) -> dict[str, Any]:
        """Return the end of the log as an offset."""
        try:
            found = self.rows("SHOW MASTER STATUS")
        except pymysql.err.ProgrammingError:  # MySQL 8.4 and later
            found = self.rows("SHOW BINARY LOG STATUS")
        if not found:
            raise ConnectError("the server has no binary log: set log_bin")
        file, position = text(found[0][0]), int(found[0][1])
        place: dict[str, Any] = {"file": file, "pos": position, "row": 0, "server": self.identity}
        if not self._has_gtids:
            return place
        if self.is_mariadb:
            executed = self.rows("SELECT BINLOG_GTID_POS(%s, %s)", file, position)[0][0]
        else:
            executed = found[0][4]
        known = gtids(text(executed or "").replace("\n", ""), is_mariadb=self.is_mariadb)
        return place if known is None else {**place, "gtids": str(known)}

    # --- tables -----------------------------------------------------------------------------------------------------

    def captures(self, id: TableId) -> bool:
        return id.namespace not in _SYSTEM and self._filters.has_table(id)

    def tables(self) -> list[TableId]:
        """Return the tables that are captured, in the order of their names."""
        found = (TableId(text(namespace), text(name)) for namespace, name in self.rows(_TABLES))
        return sorted((each for each in found if self.captures(each)), key=str)

    def order(self, id: TableId) -> list[str]:
        """Return the columns of the primary key; none if rows cannot be read in pieces by it."""
        found = [(text(name), text(kind)) for name, kind in self.rows(_KEYS, *id)]
        return [] if any(kind in _UNORDERED for _, kind in found) else [name for name, _ in found]

    def forget(self) -> None:
        """Forget the tables, since one of them was changed."""
        self._known.clear()
        self._tables.clear()
        self._logged.clear()

    def _columns(self, id: TableId) -> dict[str, ColumnInfo]:
        found = self._known.get(id)
        if found is None:
            described = [catalogued(row) for row in self.rows(_COLUMNS, *id)]
            found = self._known[id] = {column.name: column for column in described}
        return found

    def table(self, id: TableId) -> Table:
        """Return a table as it is now, without its generated columns."""
        table = self._tables.get(id)
        if table is None:
            columns = [column for column in self._columns(id).values() if not column.is_generated]
            table = self._tables[id] = self._described(id, columns)
        return table

    def names(self, id: TableId) -> list[str]:
        """Return the names of the columns of a table as it is now, in the order of its rows."""
        return [name for name, column in self._columns(id).items() if not column.is_generated]

    def selected(self, id: TableId) -> str:
        """Return the columns of a table as a query has them; of FLOAT it would give six digits."""
        columns = self._columns(id)
        return ", ".join(
            quoted(name) + (" + 0e0" if columns[name].kind == "float" else "") for name in self.names(id)
        )  # fmt: skip

    def logged_table(self, id: TableId, columns: tuple[LoggedColumn, ...]) -> Table:
        """Return a table as it was when a row was logged."""
        known = self._logged.get(id)
        if known is None or known[0] is not columns:
            described = [logged(column, self._columns(id), self.charsets) for column in columns]
            known = self._logged[id] = columns, self._described(id, described)
        return known[1]

    def _described(self, id: TableId, infos: Sequence[ColumnInfo]) -> Table:
        key = self._filters.key_of(id) or tuple(text(name) for name, _ in self.rows(_KEYS, *id))
        columns: list[Column | None] = []
        for info in infos:
            is_key = info.name in key
            if info.is_generated or not (is_key or self._filters.has_column(id, info.name)):
                columns.append(None)
                continue
            found = info._replace(is_nullable=info.is_nullable and not is_key)
            schema, decode = column_type(found, self._given)
            column = Column(info.name, schema.as_optional(found.is_nullable), decode)
            columns.append(self._masks.column(id, column, _length(info.full), is_key=is_key))
        present = {each.name for each in columns if each is not None}
        return Table(
            id, self._given["topic.prefix"], self._given["topic.delimiter"], tuple(columns),
            key if set(key) <= present else (),
        )  # fmt: skip

    def row(self, id: TableId, values: Sequence[Any]) -> Struct:
        """Return a row of a table as it is now."""
        self._tables[id], row = self._conversion.row(self.table(id), values)
        return row

    def logged_row(self, id: TableId, columns: tuple[LoggedColumn, ...], values: Sequence[Any]) -> Struct:
        """Return a row of the log."""
        table, row = self._conversion.row(self.logged_table(id, columns), values)
        self._logged[id] = columns, table
        return row


def _length(full: str) -> int:
    """Return the length of a type such as varchar(20), 0 for one without."""
    found = re.match(r"(?:var)?char\((\d+)\)", full, re.IGNORECASE)
    return int(found[1]) if found else 0


def _identity(variables: Mapping[str, str]) -> str:
    return variables.get("server_uuid") or variables["server_id"]


# --- keys -------------------------------------------------------------------------------------------------------------


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def stored_key(value: Any) -> Any:
    """Return the value of a key's column as JSON."""
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return {"decimal": str(value)}


def key_value(stored: Any) -> Any:
    """Return the value of a key's column as the server compares it."""
    if not isinstance(stored, dict):
        return stored
    return bytes.fromhex(stored["hex"]) if "hex" in stored else Decimal(stored["decimal"])


def after_key(columns: Sequence[str], key: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return a condition for rows behind a key, and its values."""
    parts, values = [], []
    for number, column in enumerate(columns):
        equal = [f"{quoted(each)} = %s" for each in columns[:number]]
        parts.append("(" + " AND ".join([*equal, f"{quoted(column)} > %s"]) + ")")
        values += [key_value(each) for each in key[: number + 1]]
    return "(" + " OR ".join(parts) + ")", values
