"""A connection to the server, and what is asked of it: its identity, the end of its log, tables, and rows by key."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from odradek.connect.connectors.cdc.masks import Masks
from odradek.connect.connectors.cdc.mysql.gtids import gtids
from odradek.connect.connectors.cdc.mysql.types import ColumnInfo, column_type, text
from odradek.connect.connectors.cdc.tables import Column, Filters, Table, TableId
from odradek.connect.data import schema as schemas
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConnectError
from odradek.extras import extra

with extra("connect-mysql"):
    import pymysql
    from pymysql.cursors import SSCursor

_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
_NEEDED = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_UNORDERED = ("enum", "set")  # ordered by number, but compared as text
_COLUMNS = """
    SELECT column_name, data_type, column_type, is_nullable, numeric_scale, datetime_precision
    FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
    AND coalesce(generation_expression, '') = '' ORDER BY ordinal_position
"""
_TABLES = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
_KEYS = """
    SELECT u.column_name, c.data_type FROM information_schema.key_column_usage u JOIN information_schema.columns c
    ON c.table_schema = u.table_schema AND c.table_name = u.table_name AND c.column_name = u.column_name
    WHERE u.table_schema = %s AND u.table_name = %s AND u.constraint_name = 'PRIMARY' ORDER BY u.ordinal_position
"""
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
        password=given["database.password"] or "", charset="utf8mb4",
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
        self._known: dict[TableId, tuple[tuple[str, ...], Table]] = {}
        self._db = connect(given, autocommit=True)
        self.rows("SET SESSION time_zone = '+00:00'")
        variables = self._variables(self._db)
        self.is_mariadb = "mariadb" in variables["version"].lower()
        self.identity = _identity(variables)
        self._has_gtids = self.is_mariadb or variables.get("gtid_mode", "").upper() == "ON"

    @staticmethod
    def _variables(connection: Any) -> dict[str, str]:
        names = ("server_uuid", "server_id", "gtid_mode", "version", *_NEEDED)
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

    def table(self, id: TableId, names: tuple[str, ...] = ()) -> tuple[tuple[str, ...], Table]:
        """Return a table with the columns of these names, by default all; a column that is gone is text."""
        known = self._known.get(id)
        if known is None or (names and known[0] != names):
            known = self._known[id] = self._described(id, names)
        return known

    def _described(self, id: TableId, names: Sequence[str]) -> tuple[tuple[str, ...], Table]:
        infos = [
            ColumnInfo(text(n), text(k), text(f), text(is_null) == "YES", scale, digits)
            for n, k, f, is_null, scale, digits in self.rows(_COLUMNS, *id)
        ]
        known = {each.name: each for each in infos}
        key = self._filters.key_of(id) or tuple(text(name) for name, _ in self.rows(_KEYS, *id))
        columns: list[Column | None] = []
        for name in names or known:
            info = known.get(name)
            schema, decode = (schemas.STRING, text) if info is None else column_type(info, self._given)
            is_captured = name in key or self._filters.has_column(id, name)
            schema = schema.as_optional(info is None or (info.is_nullable and name not in key))
            if is_captured:
                length = _length(info.full) if info is not None else 0
                columns.append(self._masks.column(id, Column(name, schema, decode), length, is_key=name in key))
            else:
                columns.append(None)
        present = {each.name for each in columns if each is not None}
        table = Table(
            id, self._given["topic.prefix"], self._given["topic.delimiter"], tuple(columns),
            key if set(key) <= present else (),
        )  # fmt: skip
        return tuple(names or known), table

    def row(self, id: TableId, names: tuple[str, ...], values: Mapping[str, Any]) -> Struct:
        """Return a row of a table; a column that has become NOT NULL since is made nullable."""
        _, table = self.table(id, names)
        listed = [values.get(name) for name in names]
        nulls = table.nulls(listed)
        if nulls:
            table = table.with_nullable(nulls)
            self._known[id] = names, table
        return table.row(listed)


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
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dt.timedelta):
        return {"us": value // dt.timedelta(microseconds=1)}
    return str(value)


def key_value(stored: Any) -> Any:
    """Return the value of a key's column as the server compares it."""
    if not isinstance(stored, dict):
        return stored
    if "hex" in stored:
        return bytes.fromhex(stored["hex"])
    return Decimal(stored["decimal"]) if "decimal" in stored else dt.timedelta(microseconds=stored["us"])


def after_key(columns: Sequence[str], key: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return a condition for rows behind a key, and its values."""
    parts, values = [], []
    for number, column in enumerate(columns):
        equal = [f"{quoted(each)} = %s" for each in columns[:number]]
        parts.append("(" + " AND ".join([*equal, f"{quoted(column)} > %s"]) + ")")
        values += [key_value(each) for each in key[: number + 1]]
    return "(" + " OR ".join(parts) + ")", values
