"""The binary log: where it is read, its events as records, and the position in it.

    file, pos, row   the transaction that begins at this place of the log, and how many of its rows were handled
    server           the server that has this log
    gtids, partial   the transactions that were handled, and how many rows of one that was not handled to its end

The log has the same rows of a transaction whenever it is read, and on every server. On the server whose log was read
last, reading goes on at the place. On another one, as after a failover, it goes on by the GTIDs; without them the
tables must be read again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from odradek.connect.connectors.cdc.incremental import CLOSE, OPEN, Chunk, Incremental
from odradek.connect.connectors.cdc.mysql.catalog import Catalog
from odradek.connect.connectors.cdc.mysql.gtids import gtids
from odradek.connect.connectors.cdc.mysql.rows import Row, TableRows
from odradek.connect.connectors.cdc.mysql.table_map import columns_of
from odradek.connect.connectors.cdc.mysql.types import text
from odradek.connect.connectors.cdc.records import Emitter, Transaction
from odradek.connect.connectors.cdc.tables import Filters, TableId
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConnectError, DataError
from odradek.connect.record import Offset, SourceRecord
from odradek.extras import extra

with extra("connect-mysql"):
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.event import (
        GtidEvent,
        MariadbGtidEvent,
        NotImplementedEvent,
        QueryEvent,
        XAPrepareEvent,
        XidEvent,
    )
    from pymysqlreplication.row_event import (
        DeleteRowsEvent,
        OptionalMetaData,
        PartialUpdateRowsEvent,
        TableMapEvent,
        UpdateRowsEvent,
        WriteRowsEvent,
    )

    # columns_of reads this part. The library fails at columns that it does not know.
    TableMapEvent._get_optional_meta_data = lambda _: OptionalMetaData()

_EVENTS = [GtidEvent, MariadbGtidEvent, QueryEvent, XidEvent, XAPrepareEvent, TableMapEvent, WriteRowsEvent,
           UpdateRowsEvent, DeleteRowsEvent, PartialUpdateRowsEvent, NotImplementedEvent]  # fmt: skip
_UNREAD = {  # events with changes that are not read, and the setting that makes them
    39: "binlog_row_value_options=PARTIAL_JSON", 40: "binlog_transaction_compression=ON",
    **dict.fromkeys(range(165, 172), "log_bin_compress=ON"),
}  # fmt: skip
_V2_ROWS = range(30, 33)  # numbers of events
_HEADER = 20  # bytes before an event's own: the protocol's status, and the header
_TABLE_NUMBER = 6  # bytes
_TABLES_MAX = 10_000
_NAME = r"(?:`(?:[^`]|``)+`|[^\s`.;]+)"
_TRUNCATE = re.compile(rf"\s*TRUNCATE\s+(?:TABLE\s+)?(?:({_NAME})\s*\.\s*)?({_NAME})", re.IGNORECASE)
_WITHIN = re.compile(r"\s*(BEGIN|SAVEPOINT|ROLLBACK\s+TO|XA\s+START|XA\s+BEGIN|XA\s+END)\b", re.IGNORECASE)
PLACE = ("file", "pos", "row", "server", "gtids", "partial")
"""What of an offset says where the log is read."""


class OtherServer(Exception):
    """The stored place is of another server, and GTIDs do not say where to go on."""


def fields(
    id: TableId, place: Mapping[str, Any], row: int, event: Any = None, gtid: str | None = None
) -> dict[str, Any]:
    """Return the connector's own fields of the source block."""
    return {
        "db": id.namespace, "table": id.name, "server_id": getattr(event, "server_id", 0) or 0, "gtid": gtid,
        "file": place["file"], "pos": place["pos"], "row": row,
    }  # fmt: skip


class Log:
    """Turns the events behind an offset into records. Methods raise pymysql.err.MySQLError.

    Args:
        offset: what is at it or before it gives no records.
        incremental: the incremental snapshots.

    Raises:
        OtherServer
    """

    def __init__(
        self,
        catalog: Catalog,
        emitter: Emitter,
        filters: Filters,
        given: Mapping[str, Any],
        offset: Offset,
        incremental: Incremental,
    ) -> None:
        self._catalog, self._emitter, self._filters, self._given = catalog, emitter, filters, given
        self.incremental = incremental
        known = offset.get("gtids")
        self._gtids = None if known is None else gtids(str(known), is_mariadb=catalog.is_mariadb)
        self._partial: dict[str, int] = dict(offset.get("partial") or {})
        place = self._place(offset)
        self._begin = {"file": place["file"], "pos": int(place["pos"])}
        self._handled, self._number = int(place.get("row", 0)), 0
        self._gtid: str | None = None
        self._is_known = False
        self._transaction: Transaction | None = None
        self._described: dict[bytes, TableRows | DataError] = {}
        self._tables: dict[int, TableRows | DataError] = {}
        self._reader = BinLogStreamReader(
            connection_settings={}, server_id=given["database.server.id"], log_file=self._begin["file"],
            log_pos=self._begin["pos"], resume_stream=True, blocking=False, only_events=_EVENTS, enable_logging=False,
            filter_non_implemented_events=False, pymysql_wrapper=catalog.same_server,
        )  # fmt: skip
        if place.get("by_gtids"):
            self._reader.auto_position, self._reader.is_mariadb = str(self._gtids), catalog.is_mariadb

    def _place(self, offset: Offset) -> Offset:
        """Return where this server's log is read."""
        server = offset.get("server", self._catalog.identity)
        if "file" in offset and server == self._catalog.identity:
            return offset
        now = self._catalog.place()
        if self._gtids is None or "gtids" not in now:
            raise OtherServer("the server is another one than before, and has or had no GTIDs")
        # A search by GTIDs makes the server read its log from some beginning: not with each look for nothing new.
        return now if self._gtids.covers(now["gtids"]) else {**now, "row": 0, "by_gtids": True}

    def offset(self) -> dict[str, Any]:
        """Return the source offset of the present position."""
        found: dict[str, Any] = {**self._begin, "row": self._handled, "server": self._catalog.identity}
        if self._gtids is not None:
            found["gtids"] = str(self._gtids)
            partial = dict(self._partial)
            if self._gtid is not None and self._handled and not self._is_known:
                partial[self._gtid] = self._handled
            if partial:
                found["partial"] = partial
        return found | self.incremental.state()

    def read(self) -> list[SourceRecord] | None:
        """Return the records of the next event, or None at the end of the log."""
        event = self._reader.fetchone()
        if event is None:
            return None
        if isinstance(event, GtidEvent | MariadbGtidEvent):
            self._reader.auto_position, self._reader.is_mariadb = None, False  # from now on there is a place
            self._began(str(event.gtid))
        elif isinstance(event, PartialUpdateRowsEvent | NotImplementedEvent):
            self._refuse(event)
        elif isinstance(event, TableMapEvent):
            self._table(event)
        elif isinstance(event, QueryEvent):
            return self._queried(event)
        elif isinstance(event, XidEvent | XAPrepareEvent):
            return self._ended(event)
        else:
            return self._changed(event)
        return []

    def _refuse(self, event: Any) -> None:
        """Raise ConnectError for an event that may have changes of captured tables, in a form that is not read."""
        setting = _UNREAD.get(event.event_type)
        if setting is None:
            return
        if isinstance(event, PartialUpdateRowsEvent) and not self._catalog.captures(_table_of(event)):
            return
        raise ConnectError(
            f"the log has changes that are not read, in {self._reader.log_file} before {self._reader.log_pos}: a "
            f"session or the server had {setting}. Turn it off, then delete the connector's offsets: it takes a new "
            "snapshot"
        )

    # --- transactions -----------------------------------------------------------------------------------------------

    def _began(self, gtid: str) -> None:
        self._gtid, self._number = gtid, 0
        if self._gtids is not None:
            self._is_known = self._gtids.has(gtid)
            self._handled = self._partial.get(gtid, 0)

    def _queried(self, event: Any) -> list[SourceRecord]:
        query = text(event.query)
        if _WITHIN.match(query) or not query.strip():
            return []
        if query.split(None, 1)[0].upper() in ("COMMIT", "ROLLBACK"):
            return self._ended(event)
        self._catalog.forget()
        made = self._truncated(event, query)
        return [*made, *self._ended(event)]

    def _ended(self, event: Any) -> list[SourceRecord]:
        """The transaction has ended: the next one begins here."""
        self._begin = {"file": self._reader.log_file, "pos": self._reader.log_pos}
        self._handled = self._number = 0
        if self._gtids is not None and self._gtid is not None:
            self._gtids.add(self._gtid)
            self._partial.pop(self._gtid, None)
        transaction, is_new = self._transaction, not self._is_known
        self._gtid, self._is_known, self._transaction = None, False, None
        if transaction is None or not is_new:
            return []
        transaction.ts_ms = int(event.timestamp) * 1000
        return [self._emitter.transaction(transaction, "END", self.offset())]

    def _block(self, event: Any, table: TableId, *, is_new: bool) -> tuple[list[SourceRecord], Struct | None]:
        """Return the record of the transaction's begin, before its first change, and the block of a change."""
        if not self._given["provide.transaction.metadata"]:
            return [], None
        begins: list[SourceRecord] = []
        if self._transaction is None:
            name = self._gtid or f"file={self._begin['file']},pos={self._begin['pos']}"
            self._transaction = Transaction(name, int(event.timestamp) * 1000)
            if is_new:
                begins = [self._emitter.transaction(self._transaction, "BEGIN", self.offset())]
        return begins, self._transaction.next(table)

    def _advance(self) -> bool:
        """Count a row. Return True if it was not handled before."""
        self._number += 1
        if self._is_known or self._number <= self._handled:
            return False
        self._handled = self._number
        return True

    # --- changes ----------------------------------------------------------------------------------------------------

    def _source(self, event: Any, id: TableId, snapshot: str = "false") -> Struct:
        place = {"file": self._reader.log_file, "pos": self._reader.log_pos}
        values = fields(id, place, max(0, self._number - 1), event, self._gtid)
        return self._emitter.source(int(event.timestamp) * 1_000_000, snapshot, values)

    def _table(self, event: Any) -> None:
        """Take the form of a table for the rows behind this event."""
        payload = _payload(event)
        described = payload[_TABLE_NUMBER:]  # the number changes with each opening of the table
        rows = self._described.get(described)
        if rows is None:
            if len(self._described) >= _TABLES_MAX:
                self._described.clear()
            try:
                rows = TableRows(columns_of(payload, is_mariadb=self._catalog.is_mariadb), self._catalog.charsets)
            except DataError as error:
                rows = error
            self._described[described] = rows
        self._tables[event.table_id] = rows

    def _changed(self, event: Any) -> list[SourceRecord]:
        id, made = _table_of(event), []
        is_captured, is_signals = self._catalog.captures(id), id == self._filters.signals
        rows = self._tables[event.table_id]
        if isinstance(rows, DataError):
            if is_captured:
                raise ConnectError(f"the table {id} cannot be read: {rows}. Leave the table out") from rows
            return []
        is_update = isinstance(event, UpdateRowsEvent)
        for row, new in rows.of(_payload(event), is_v2=event.event_type in _V2_ROWS, is_update=is_update):
            is_new = self._advance()
            if is_signals and is_new:
                made += self._signalled(event, row)
            if not is_captured:
                continue
            begins, block = self._block(event, id, is_new=is_new)
            if is_new:
                made += [*begins, *self._change(event, id, rows, (row, new), block)]
        return made

    def _change(
        self, event: Any, id: TableId, rows: TableRows, values: tuple[Row, Row | None], block: Struct | None
    ) -> list[SourceRecord]:
        old: Row | None
        op, (old, new) = ("d" if isinstance(event, DeleteRowsEvent) else "u"), values
        if isinstance(event, WriteRowsEvent):
            op, old, new = "c", new, old
        before, after = self._row(id, rows, old), self._row(id, rows, new)
        table = self._catalog.logged_table(id, rows.columns)
        if before is not None and before.schema is not table.row_schema:
            before = self._row(id, rows, old)  # the row after it has a null where none was before
        for row in (before, after):
            self.incremental.changed(table, row)
        return self._emitter.change(table, op, (before, after), self._source(event, id), self.offset(), block)

    def _row(self, id: TableId, rows: TableRows, values: Row | None) -> Struct | None:
        return None if values is None else self._catalog.logged_row(id, rows.columns, values)

    def _truncated(self, event: Any, query: str) -> list[SourceRecord]:
        found = _TRUNCATE.match(query)
        if found is None:
            return []
        namespace, name = (None if each is None else _unquoted(each) for each in found.groups())
        id = TableId(namespace or text(event.schema), str(name))
        if not self._catalog.captures(id) or not self._advance():
            return []
        self.incremental.truncated(id)
        table = self._catalog.table(id)
        begins, block = self._block(event, id, is_new=True)
        source = self._source(event, id)
        return [*begins, *self._emitter.change(table, "t", (None, None), source, self.offset(), block)]

    # --- signals ----------------------------------------------------------------------------------------------------

    def _signalled(self, event: Any, row: Row) -> list[SourceRecord]:
        if isinstance(event, UpdateRowsEvent):
            return []
        id, kind, data = (None if each is None else text(each) for each in [*row, None, None, None][:3])
        if isinstance(event, DeleteRowsEvent):  # of the first watermark: insert_delete
            return self._emitted(event, self.incremental.watermark(str(id).removesuffix("open") + "close"))
        if kind in (OPEN, CLOSE):
            return self._emitted(event, self.incremental.watermark(str(id)))
        return self.signal(str(kind), data) if self._filters.has_signal_rows else []

    def signal(self, kind: str, data: str | None) -> list[SourceRecord]:
        """Carry out a signal."""
        is_changed = self.incremental.signal(kind, data, self._catalog.tables())
        return [self._emitter.position(self.offset())] if is_changed else []

    def _emitted(self, event: Any, chunk: Chunk | None) -> list[SourceRecord]:
        """Return the records of a chunk, which are stored together with the state behind it."""
        if chunk is None:
            return []
        offset, made = self.offset(), []
        for row in chunk.rows:
            source = self._source(event, chunk.table.id, "incremental")
            made += self._emitter.change(chunk.table, "r", (None, row), source, offset)
        return made or [self._emitter.position(offset)]

    def close(self) -> None:
        with suppress(Exception):
            self._reader.close()


def _table_of(event: Any) -> TableId:
    return TableId(text(event.schema), text(event.table))


def _payload(event: Any) -> bytes:
    """Return the bytes of an event without its header and checksum."""
    data = event.packet.packet.get_all_data()
    return bytes(data[_HEADER : _HEADER + event.event_size])


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
