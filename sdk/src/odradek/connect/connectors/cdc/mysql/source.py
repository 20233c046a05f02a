"""The source connectors for changes of MySQL and MariaDB, by the binary log.

A position is the file and place at which a transaction begins, and how many of its rows were handled: the log has the
same rows whenever it is read. The snapshot is consistent with the place at which the log is read from then on; one
that was interrupted goes on behind the last row, as that of PostgreSQL (postgres/snapshot.py) does.

The server writes the names of columns to its log with `binlog_row_metadata=FULL`, so that a change of a table is known
exactly where it happened. Types are those of the catalog at the time of reading.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from odradek.connect.config import ConfigDef
from odradek.connect.connectors.cdc.mysql.options import DEFINITIONS
from odradek.connect.connectors.cdc.mysql.types import ColumnInfo, column_type, text
from odradek.connect.connectors.cdc.records import Emitter, marked, source_schema
from odradek.connect.connectors.cdc.tables import Column, Filters, Table, TableId
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema
from odradek.connect.data.structs import Struct
from odradek.connect.errors import BadRequest, ConnectError
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import Offset, SourceRecord
from odradek.extras import extra

with extra("connect-mysql"):
    import pymysql
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.event import GtidEvent, MariadbGtidEvent, QueryEvent, XidEvent
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

_ROWS = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
_EVENTS = [GtidEvent, MariadbGtidEvent, QueryEvent, XidEvent, *_ROWS]
_log = logging.getLogger("odradek.connect.cdc")
_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
_NEEDED = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_FINAL = (1044, 1045, 1049, 1142, 1227)  # access denied, unknown database
_PURGED = 1236
_COLUMNS = """
    SELECT column_name, data_type, column_type, is_nullable, numeric_scale, datetime_precision
    FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
    AND coalesce(generation_expression, '') = '' ORDER BY ordinal_position
"""
_TABLES = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
_KEYS = """
    SELECT column_name FROM information_schema.key_column_usage
    WHERE table_schema = %s AND table_name = %s AND constraint_name = 'PRIMARY' ORDER BY ordinal_position
"""


def _source(connector: str) -> Schema:
    fields = {
        "table": schemas.OPTIONAL_STRING,
        "server_id": schemas.INT64,
        "gtid": schemas.OPTIONAL_STRING,
        "file": schemas.STRING,
        "pos": schemas.INT64,
        "row": schemas.INT32,
        "thread": schemas.OPTIONAL_INT64,
        "query": schemas.OPTIONAL_STRING,
    }
    return source_schema(connector, fields)


class MySqlSourceTask(SourceTask):
    """Reads the changes of one server."""

    connector = "mysql"

    def start(self, configs: Configs) -> None:
        self._given = given = DEFINITIONS.parse(configs)
        unused = {"signal.data.collection": "", "provide.transaction.metadata": False}
        self._filters = Filters({**given, **unused}, "database")
        self._emitter = Emitter(given, self.connector, _source(self.connector), self.context.clock)
        self._offset: Offset | None = self.context.offset(self._emitter.partition)
        if given["snapshot.mode"] == "always":
            self._offset = None
        self._db: Any = None
        self._reader: Any = None
        self._snapshot: Iterator[list[SourceRecord]] | None = None
        self._tables: dict[TableId, tuple[tuple[str, ...], Table]] = {}
        self._failures = 0
        self._is_done = False
        self._heartbeat_due_s = self.context.clock.monotonic()

    # --- polling ----------------------------------------------------------------------------------------------------

    def poll(self) -> list[SourceRecord]:
        if self._is_done:
            self.context.wait(1.0)
            return []
        try:
            if self._snapshot is None and self._reader is None:
                self._open()
            records = self._snapshot_batch() if self._snapshot is not None else self._changes()
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError, ConnectionError) as error:
            self._retry(error)
            return []
        except pymysql.err.MySQLError as error:
            raise ConnectError(f"the server refuses: {error}") from error
        self._failures = 0
        if records:
            self._offset = records[-1].source_offset or self._offset
        return records

    def _retry(self, error: Exception) -> None:
        """Wait, after the server went away. Raises ConnectError if another attempt is of no use."""
        self._close()
        code, most = error.args[0] if error.args else 0, self._given["errors.max.retries"]
        self._failures += 1
        if code == _PURGED:
            if self._given["snapshot.mode"] != "when_needed":
                raise ConnectError(
                    f"the binary log behind the stored position is not there any more: {error}. Delete the connector's "
                    "offsets, or set snapshot.mode=when_needed, to read the tables again"
                ) from error
            self._offset = None
        elif code in _FINAL or (0 <= most < self._failures):
            raise ConnectError(f"the server cannot be read: {error}") from error
        _log.warning("the server cannot be read, trying again: %s", error)
        self.context.wait(self._given["retriable.restart.connector.wait.ms"] / 1000)

    def _settings(self) -> dict[str, Any]:
        given = self._given
        found = {
            "host": given["database.hostname"], "port": given["database.port"], "user": given["database.user"],
            "password": given["database.password"] or "", "charset": "utf8mb4", "connect_timeout": 10,
        }  # fmt: skip
        return {**found, "ssl": {"ca": given["database.ssl.ca"]}} if given["database.ssl.ca"] else found

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._db.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def _open(self) -> None:
        """Connect, and go on with the snapshot or with the log."""
        self._db = pymysql.connect(**self._settings(), autocommit=True)
        self._rows("SET SESSION time_zone = '+00:00'")
        for name, wanted in _NEEDED.items():
            found = self._rows("SHOW GLOBAL VARIABLES LIKE %s", name)
            if not found or found[0][1].upper() != wanted:
                present = found[0][1] if found else "a server without it"
                raise ConnectError(f"change capture needs {name}={wanted} on the server, not {present}")
        offset = self._offset
        if offset is None:
            wants_snapshot = self._given["snapshot.mode"] not in ("no_data", "never")
            offset = {"snapshot": True} if wants_snapshot else self._place()
        if offset.get("snapshot"):
            self._snapshot = self._batches(offset)
        else:
            self._start_stream(offset)

    def _place(self) -> dict[str, Any]:
        """Return the end of the log as an offset."""
        try:
            found = self._rows("SHOW MASTER STATUS")
        except pymysql.err.ProgrammingError:  # MySQL 8.4 and later
            found = self._rows("SHOW BINARY LOG STATUS")
        if not found:
            raise ConnectError("the server has no binary log: set log_bin")
        return {"file": text(found[0][0]), "pos": int(found[0][1]), "row": 0}

    # --- tables -----------------------------------------------------------------------------------------------------

    def _described(self, id: TableId, names: Sequence[str] = ()) -> Table:
        """Return a table with the columns of these names; a column that is gone is text."""
        infos = [
            ColumnInfo(text(n), text(k), text(f), text(is_null) == "YES", scale, digits)
            for n, k, f, is_null, scale, digits in self._rows(_COLUMNS, *id)
        ]
        known = {each.name: each for each in infos}
        keys = tuple(text(name) for (name,) in self._rows(_KEYS, *id))
        key = self._filters.key_of(id) or keys
        columns: list[Column | None] = []
        for name in names or known:
            info = known.get(name)
            schema, decode = (schemas.STRING, text) if info is None else column_type(info, self._given)
            is_captured = name in key or self._filters.has_column(id, name)
            schema = schema.as_optional(info is None or (info.is_nullable and name not in key))
            columns.append(Column(name, schema, decode) if is_captured else None)
        present = {each.name for each in columns if each is not None}
        table = Table(
            id, self._given["topic.prefix"], self._given["topic.delimiter"], tuple(columns),
            key if set(key) <= present else (),
        )  # fmt: skip
        self._tables[id] = tuple(names or known), table
        return table

    def _row(self, table: Table, names: Sequence[str], values: Mapping[str, Any]) -> tuple[Table, Struct]:
        listed = [values.get(name) for name in names]
        nulls = table.nulls(listed)
        if nulls:
            table = table.with_nullable(nulls)
            self._tables[table.id] = tuple(names), table
        return table, table.row(listed)

    # --- snapshot ---------------------------------------------------------------------------------------------------

    def _snapshot_batch(self) -> list[SourceRecord]:
        assert self._snapshot is not None
        found = next(self._snapshot, None)
        if found is not None:
            return found
        self._snapshot = None
        if self._given["snapshot.mode"] == "initial_only":
            self._is_done = True
            self._close()
            return []
        assert self._offset is not None
        self._start_stream(self._offset)
        return []

    def _batches(self, offset: Offset) -> Iterator[list[SourceRecord]]:
        self._rows("FLUSH TABLES WITH READ LOCK")
        try:
            self._rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            place = self._place() if "file" not in offset else {name: offset[name] for name in ("file", "pos", "row")}
        finally:
            self._rows("UNLOCK TABLES")
        listed = self._rows(_TABLES)
        tables = sorted((TableId(text(namespace), text(name)) for namespace, name in listed), key=str)
        previous: list[SourceRecord] = []
        is_first = "table" not in offset
        for id in tables:
            if not self._captures(id) or not self._filters.is_snapshot(id) or str(id) < str(offset.get("table", "")):
                continue
            for batch in self._table(id, place, offset):
                if is_first:
                    marked(batch[:1], "first")
                    is_first = False
                if previous:
                    yield previous
                previous = batch
        self._rows("COMMIT")
        marked(previous[-1:], "last")
        yield [*previous, self._emitter.position(place)]

    def _captures(self, id: TableId) -> bool:
        return id.namespace not in _SYSTEM and self._filters.has_table(id)

    def _table(self, id: TableId, place: Offset, offset: Offset) -> Iterator[list[SourceRecord]]:
        table = self._described(id)
        names = self._tables[id][0]
        order = [text(name) for (name,) in self._rows(_KEYS, *id)]
        behind = offset.get("key") if offset.get("table") == str(id) else None
        size = self._given["snapshot.fetch.size"]
        columns = ", ".join(_quoted(name) for name in names)
        keys = ", ".join(_quoted(name) for name in order)
        while True:
            values: list[Any] = []
            statement = f"SELECT {columns} FROM {_quoted(id.namespace)}.{_quoted(id.name)}"  # noqa: S608
            if order and behind is not None:
                statement += f" WHERE ({keys}) > ({', '.join(['%s'] * len(order))})"
                values = list(behind)
            statement += f" ORDER BY {keys} LIMIT {size}" if order else ""
            found = self._rows(statement, *values)
            records = []
            for each in found:
                row = dict(zip(names, each, strict=True))
                position = {**place, "snapshot": True, "table": str(id)}
                if order:
                    behind = [row[name] if isinstance(row[name], int) else text(row[name]) for name in order]
                    position["key"] = behind
                table, made = self._row(table, names, row)
                now_us = self.context.clock.now_ms() * 1000
                source = self._emitter.source(id, now_us, "true", self._fields(id, place, 0))
                records += self._emitter.change(table, "r", (None, made), source, position)
            if records:
                yield records
            if not order or len(found) < size:
                return

    def _fields(self, id: TableId, place: Mapping[str, Any], row: int, event: Any = None) -> dict[str, Any]:
        return {
            "db": id.namespace, "table": id.name, "server_id": getattr(event, "server_id", 0) or 0,
            "gtid": self._gtid if event is not None else None, "file": place["file"], "pos": place["pos"], "row": row,
        }  # fmt: skip

    # --- log --------------------------------------------------------------------------------------------------------

    def _start_stream(self, offset: Offset) -> None:
        self._begin = {"file": offset["file"], "pos": int(offset["pos"])}
        self._handled, self._number = int(offset.get("row", 0)), 0
        self._gtid: str | None = None
        self._reader = BinLogStreamReader(
            connection_settings=self._settings(), server_id=self._given["database.server.id"],
            log_file=offset["file"], log_pos=int(offset["pos"]), resume_stream=True, blocking=False,
            only_events=_EVENTS,
            enable_logging=False,
        )  # fmt: skip

    def _changes(self) -> list[SourceRecord]:
        found: list[SourceRecord] = self._heartbeat()
        while len(found) < self._given["max.batch.size"]:
            event = self._reader.fetchone()
            if event is None:
                if not found:
                    self.context.wait(self._given["poll.interval.ms"] / 1000)
                break
            found += self._handle(event)
        return found

    def _heartbeat(self) -> list[SourceRecord]:
        interval_ms, now_s = self._given["heartbeat.interval.ms"], self.context.clock.monotonic()
        if interval_ms == 0 or now_s < self._heartbeat_due_s:
            return []
        self._heartbeat_due_s = now_s + interval_ms / 1000
        return [self._emitter.heartbeat(self._position())]

    def _position(self) -> dict[str, Any]:
        return {**self._begin, "row": self._handled}

    def _handle(self, event: Any) -> list[SourceRecord]:
        if isinstance(event, GtidEvent | MariadbGtidEvent):
            self._gtid = str(event.gtid)
        elif isinstance(event, QueryEvent):
            words = text(event.query).split(None, 1)
            if words and words[0].upper() not in ("BEGIN", "SAVEPOINT"):
                if words[0].upper() != "COMMIT":
                    self._tables.clear()  # a change of some schema
                self._ended()
        elif isinstance(event, XidEvent):
            self._ended()
        else:
            return self._changed(event)
        return []

    def _ended(self) -> None:
        """The transaction has ended: the next one begins here."""
        self._begin = {"file": self._reader.log_file, "pos": self._reader.log_pos}
        self._handled = self._number = 0

    def _changed(self, event: Any) -> list[SourceRecord]:
        id, made = TableId(text(event.schema), text(event.table)), []
        is_captured = self._captures(id)
        names = tuple(text(each.name) for each in event.columns) if is_captured else ()
        for row in event.rows:
            self._number += 1
            if self._number <= self._handled:
                continue
            self._handled = self._number
            if is_captured:
                made += self._change(event, id, names, row)
        return made

    def _change(self, event: Any, id: TableId, names: tuple[str, ...], row: Mapping[str, Any]) -> list[SourceRecord]:
        known = self._tables.get(id)
        table = known[1] if known is not None and known[0] == names else self._described(id, names)
        if isinstance(event, WriteRowsEvent):
            op, old, new = "c", None, row["values"]
        elif isinstance(event, DeleteRowsEvent):
            op, old, new = "d", row["values"], None
        else:
            op, old, new = "u", row["before_values"], row["after_values"]
        for values in (old, new):
            if values is not None:
                table, _ = self._row(table, names, values)
        rows = [None if values is None else self._row(table, names, values)[1] for values in (old, new)]
        time_us = int(event.timestamp) * 1_000_000
        fields = self._fields(id, {"file": self._reader.log_file, "pos": self._reader.log_pos}, self._number - 1, event)
        source = self._emitter.source(id, time_us, "false", fields)
        return self._emitter.change(table, op, (rows[0], rows[1]), source, self._position())

    # --- end --------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        self._snapshot = None
        for each in (self._reader, self._db):
            if each is not None:
                with suppress(Exception):
                    each.close()
        self._reader = self._db = None

    def stop(self) -> None:
        if hasattr(self, "_given"):
            self._close()


class MariaDbSourceTask(MySqlSourceTask):
    """Reads the changes of one MariaDB server."""

    connector = "mariadb"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class MySqlSourceConnector(SourceConnector):
    """Changes of MySQL's rows, in Debezium's form."""

    task_class = MySqlSourceTask
    config_def: ConfigDef = DEFINITIONS  # type: ignore[misc]

    @classmethod
    def check_offsets(cls, configs: Configs, offsets: Mapping[Any, Offset | None]) -> None:
        for offset in offsets.values():
            if offset is not None and not ("file" in offset and isinstance(offset.get("pos"), int)):
                raise BadRequest("an offset of this connector has the text file and the number pos")

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)]


class MariaDbSourceConnector(MySqlSourceConnector):
    """Changes of MariaDB's rows, in Debezium's form."""

    task_class = MariaDbSourceTask
