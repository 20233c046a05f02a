"""Records of the stream of changes, and the position in it.

Transactions come in the order of their commits, whole. A position is the commit of a transaction and how many messages
of it were handled: the server sends a transaction again from its beginning, and always with the same messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.connect.connectors.cdc.conversion import Conversion
from odradek.connect.connectors.cdc.incremental import CLOSE, OPEN, Chunk, Incremental
from odradek.connect.connectors.cdc.postgres import pgoutput
from odradek.connect.connectors.cdc.postgres.catalog import Catalog
from odradek.connect.connectors.cdc.postgres.messages import COUNTED_AS, Messages
from odradek.connect.connectors.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Relation,
    Row,
    Truncate,
    Update,
)
from odradek.connect.connectors.cdc.postgres.replication import Data
from odradek.connect.connectors.cdc.records import Emitter, Transaction
from odradek.connect.connectors.cdc.tables import MISSING, Filters, Table, TableId
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConnectError
from odradek.connect.record import SourceRecord
from odradek.ports.clock import Clock


class Position(NamedTuple):
    """How far the stream was handled: everything before a commit, and so many messages of its transaction."""

    lsn: int
    event: int


def sequence_of(last_commit: int | None, lsn: int) -> str:
    """Return the text by which changes can be ordered: the end of the last commit before them, and their position."""
    return f'[null,"{lsn}"]' if last_commit is None else f'["{last_commit}","{lsn}"]'


class Stream:
    """Turns messages into records.

    Args:
        position: what is at it or before it gives no records.
        incremental: the incremental snapshots.
        messages: those of pg_logical_emit_message.

    Attributes:
        complete: everything before this position of the WAL was handled, and is in records that were returned.
    """

    def __init__(
        self,
        catalog: Catalog,
        emitter: Emitter,
        filters: Filters,
        options: Mapping[str, Any],
        position: Position,
        incremental: Incremental,
        messages: Messages,
        clock: Clock,
    ) -> None:
        self._catalog, self._emitter, self._filters, self._options = catalog, emitter, filters, options
        self.position, self.incremental = position, incremental
        self._messages, self._clock = messages, clock
        self.complete = 0
        self._conversion = Conversion(options)
        self._database: str = options["database.dbname"]
        self._begin: Begin | None = None
        self._event = 0
        self._last_commit: int | None = None  # the end of the last commit
        self._transaction: Transaction | None = None
        self._tables: dict[int, Table | None] = {}
        self._relations: dict[int, Relation] = {}

    @property
    def in_transaction(self) -> bool:
        return self._begin is not None

    def offset(self) -> dict[str, Any]:
        """Return the source offset of the present position."""
        offset: dict[str, Any] = {"lsn": self.position.lsn, "event": self.position.event}
        if self._begin is not None:
            offset |= {"txId": self._begin.xid, "ts_usec": self._begin.ts_us}
        return offset | self.incremental.state()

    def handle(self, data: Data) -> list[SourceRecord]:
        """Return the records of a message. Raises ConnectError, psycopg.Error."""
        lsn, message = data.lsn, pgoutput.decode(data.message, data.at)
        if message is None:
            return []
        if isinstance(message, Begin):
            return self._began(message)
        if isinstance(message, Relation):
            self._relation(message)
            return []
        if isinstance(message, Commit):
            return self._committed(message)
        if isinstance(message, LogicalMessage):
            return self._message(message, lsn)
        return self._changed(message, lsn)

    # --- transactions -----------------------------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Count a message. Return True if it was not handled before."""
        assert self._begin is not None
        self._event += 1
        position = Position(self._begin.lsn, self._event)
        if position <= self.position:
            return False
        self.position = position
        return True

    def _began(self, message: Begin) -> list[SourceRecord]:
        self._begin, self._event = message, 0
        is_new = self._advance()
        if not self._options["provide.transaction.metadata"]:
            return []
        self._transaction = Transaction(f"{message.xid}:{message.lsn}", message.ts_us // 1000)
        return [self._emitter.transaction(self._transaction, "BEGIN", self.offset())] if is_new else []

    def _committed(self, message: Commit) -> list[SourceRecord]:
        is_new = self._advance()
        offset = self.offset()
        transaction, self._begin, self._transaction = self._transaction, None, None
        self.complete = self._last_commit = message.end_lsn
        return [self._emitter.transaction(transaction, "END", offset)] if is_new and transaction is not None else []

    # --- tables -----------------------------------------------------------------------------------------------------

    def _relation(self, message: Relation) -> None:
        """Take the form of a table from now on."""
        id = TableId(message.namespace, message.name)
        self._relations[message.oid] = message
        self._catalog.forget_types()
        self._tables[message.oid] = self._catalog.table(message) if self._filters.has_table(id) else None

    def _row(self, oid: int, values: Row, other: Struct | None = None, *, only_key: bool = False) -> Struct:
        table = self._tables[oid]
        assert table is not None
        if only_key:
            keys = [column.is_key for column in self._relations[oid].columns]
            values = [value if is_key else MISSING for value, is_key in zip(values, keys, strict=True)]
        self._tables[oid], row = self._conversion.row(table, values, other)
        return row

    # --- changes ----------------------------------------------------------------------------------------------------

    def _changed(self, message: Message, lsn: int) -> list[SourceRecord]:
        is_new = self._advance()
        if isinstance(message, Truncate):
            return [record for oid in message.oids for record in self._truncated(oid, lsn, is_new)]
        assert isinstance(message, Insert | Update | Delete)
        oid = message.oid
        if oid not in self._tables:
            raise ConnectError(f"the server sent a change of a table that it did not describe (oid {oid})")
        table = self._tables[oid]
        if table is None:
            return self._signalled(message) if is_new and self._is_signals(oid) else []
        block = None if self._transaction is None else self._transaction.next(table.id)
        if not is_new:
            return []
        if isinstance(message, Insert):
            op, before, after = "c", None, self._row(oid, message.new)
        elif isinstance(message, Delete):
            op, before, after = "d", self._row(oid, message.old, only_key=message.is_old_key), None
        else:
            op = "u"
            before = None if message.old is None else self._row(oid, message.old, only_key=message.is_old_key)
            after = self._row(oid, message.new, before)
            if message.old is not None and before is not None and before.schema is not after.schema:
                # The new row has a null where none was before.
                before = self._row(oid, message.old, only_key=message.is_old_key)
        table = self._tables[oid]
        assert table is not None
        self.incremental.changed(table, before)
        self.incremental.changed(table, after)
        return self._emitter.change(table, op, (before, after), self._source(table, lsn), self.offset(), block)

    def _truncated(self, oid: int, lsn: int, is_new: bool) -> list[SourceRecord]:
        table = self._tables.get(oid)
        if table is None:
            return []
        block = None if self._transaction is None else self._transaction.next(table.id)
        if not is_new:
            return []
        self.incremental.truncated(table.id)
        return self._emitter.change(table, "t", (None, None), self._source(table, lsn), self.offset(), block)

    def _source(self, table: Table, lsn: int, snapshot: str = "false") -> Struct:
        assert self._begin is not None
        fields = {
            "db": self._database,
            "sequence": sequence_of(self._last_commit, lsn),
            "schema": table.id.namespace,
            "table": table.id.name,
            "txId": self._begin.xid,
            "lsn": lsn,
        }
        return self._emitter.source(self._begin.ts_us, snapshot, fields)

    def _message(self, message: LogicalMessage, lsn: int) -> list[SourceRecord]:
        if self._begin is not None:
            is_new, ts_us, xid = self._advance(), self._begin.ts_us, self._begin.xid
        else:  # between two transactions: it comes in the order of the log, as commits do
            is_new, ts_us, xid = Position(message.lsn, 1) > self.position, self._clock.now_ms() * 1000, None
            self.position = max(self.position, Position(message.lsn, 1))
            self._last_commit = lsn
        if not self._messages.has(message.prefix):
            return []
        block = None if self._transaction is None else self._transaction.next(COUNTED_AS)
        if not is_new:
            return []
        fields = {"db": self._database, "sequence": sequence_of(self._last_commit, lsn), "schema": "", "table": ""}
        source = self._emitter.source(ts_us, "false", {**fields, "txId": xid, "lsn": lsn})
        return [self._messages.record(message, self._emitter, source, self.offset(), block, self._clock.now_ms())]

    # --- signals ----------------------------------------------------------------------------------------------------

    def _is_signals(self, oid: int) -> bool:
        relation = self._relations[oid]
        return TableId(relation.namespace, relation.name) == self._filters.signals

    def _signalled(self, message: Insert | Update | Delete) -> list[SourceRecord]:
        if isinstance(message, Update):
            return []
        row = message.new if isinstance(message, Insert) else message.old
        id, signal_type, data = ([*row, None, None, None])[:3]
        if isinstance(message, Delete):  # of the first watermark: insert_delete
            return self._emitted(self.incremental.watermark(str(id).removesuffix("open") + "close"))
        if signal_type in (OPEN, CLOSE):
            return self._emitted(self.incremental.watermark(str(id)))
        if self._filters.has_signal_rows:
            return self.signal(str(signal_type), None if data is None else str(data))
        return []

    def signal(self, signal_type: str, data: str | None) -> list[SourceRecord]:
        """Carry out a signal."""
        is_changed = self.incremental.signal(signal_type, data, self._captured())
        return [self._emitter.position(self.offset())] if is_changed else []

    def _captured(self) -> list[TableId]:
        published = self._catalog.published(self._options["publication.name"])
        return [table for table in published if self._filters.has_table(table)]

    def _emitted(self, chunk: Chunk | None) -> list[SourceRecord]:
        """Return the records of a chunk, which are stored together with the state behind it."""
        if chunk is None:
            return []
        offset, made = self.offset(), []
        for row in chunk.rows:
            source = self._source(chunk.table, self.position.lsn, "incremental")
            made += self._emitter.change(chunk.table, "r", (None, row), source, offset)
        return made or [self._emitter.position(offset)]
