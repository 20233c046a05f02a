"""The initial snapshot: all rows of all captured tables, as of the place at which the log is read from then on.

A short read lock makes that place and the rows one moment. The position in a snapshot is a table and a key; one that
was interrupted goes on there in a new transaction, as that of PostgreSQL (postgres/snapshot.py) does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from odradek.connect.connectors.cdc.mysql.catalog import Catalog, after_key, quoted, stored_key
from odradek.connect.connectors.cdc.mysql.log import PLACE, fields
from odradek.connect.connectors.cdc.records import Emitter, marked
from odradek.connect.connectors.cdc.tables import Filters, TableId
from odradek.connect.record import Offset, SourceRecord
from odradek.extras import extra
from odradek.ports.clock import Clock

with extra("connect-mysql"):
    import pymysql

_log = logging.getLogger("odradek.connect.cdc")
_NO_RIGHT = (1044, 1045, 1227)  # access denied


class Snapshot:
    """Reads the captured tables.

    Args:
        catalog: of a connection on which nothing else happens meanwhile.
        offset: a position in the snapshot.
    """

    def __init__(
        self,
        catalog: Catalog,
        emitter: Emitter,
        filters: Filters,
        options: Mapping[str, Any],
        clock: Clock,
        offset: Offset,
    ) -> None:
        self._catalog, self._emitter, self._filters, self._options = catalog, emitter, filters, options
        self._clock, self._offset = clock, offset

    def batches(self) -> Iterator[list[SourceRecord]]:
        """Yield the records of all rows, and at last the position at which the log is read."""
        catalog, offset = self._catalog, self._offset
        resumed = "file" in offset
        is_locked = not resumed and self._lock()
        # Without the lock the rows may be newer than the place: the changes that made them so come in the log again.
        log_position = {name: offset[name] for name in PLACE if name in offset} if resumed else catalog.place()
        catalog.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        catalog.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        if is_locked:
            catalog.rows("UNLOCK TABLES")
        previous: list[SourceRecord] = []
        is_first = "table" not in offset
        for id in catalog.tables():
            if not self._filters.is_snapshot(id) or str(id) < str(offset.get("table", "")):
                continue
            for batch in self._table(id, log_position):
                if is_first:
                    marked(batch[:1], "first")
                    is_first = False
                elif not previous or previous[-1].topic != batch[0].topic:
                    marked(previous[-1:], "last_in_data_collection")
                    marked(batch[:1], "first_in_data_collection")
                if previous:
                    yield previous
                previous = batch
        catalog.rows("COMMIT")
        marked(previous[-1:], "last")
        yield [*previous, self._emitter.position(log_position)]

    def _lock(self) -> bool:
        """Take the global read lock. Return False if it is not wanted, or not permitted, as on Amazon RDS."""
        if self._options["snapshot.locking.mode"] == "none":
            return False
        try:
            self._catalog.rows("FLUSH TABLES WITH READ LOCK")
        except pymysql.err.OperationalError as error:
            if error.args[0] not in _NO_RIGHT:
                raise
            _log.warning("the snapshot takes no global read lock, since %s: changes while it begins are in it, and "
                         "come from the log again", error.args[1])  # fmt: skip
            return False
        return True

    def _table(self, id: TableId, log_position: Offset) -> Iterator[list[SourceRecord]]:
        names, order = self._catalog.names(id), self._catalog.order(id)
        size = self._options["snapshot.fetch.size"]
        statement = f"SELECT {self._catalog.selected(id)} FROM {quoted(id.namespace)}.{quoted(id.name)}"  # noqa: S608
        if not order:
            for rows in self._catalog.batches(statement, size):
                yield self._records(id, names, order, rows, log_position)
            return
        behind = self._offset.get("key") if self._offset.get("table") == str(id) else None
        keys = ", ".join(map(quoted, order))
        while True:
            condition, values = ("", []) if behind is None else after_key(order, behind)
            where = f" WHERE {condition}" if condition else ""
            rows = self._catalog.rows(f"{statement}{where} ORDER BY {keys} LIMIT {size}", *values)
            if rows:
                behind = [stored_key(rows[-1][names.index(name)]) for name in order]
                yield self._records(id, names, order, rows, log_position)
            if len(rows) < size:
                return

    def _records(
        self, id: TableId, names: list[str], order: list[str], rows: list[tuple[Any, ...]], log_position: Offset
    ) -> list[SourceRecord]:
        records: list[SourceRecord] = []
        places = [names.index(name) for name in order]
        for values in rows:
            position = {**log_position, "snapshot": True, "table": str(id)}
            if order:
                position["key"] = [stored_key(values[index]) for index in places]
            made = self._catalog.row(id, values)
            table = self._catalog.table(id)
            now_us = self._clock.now_ms() * 1000
            source = self._emitter.source(now_us, "true", fields(id, log_position, 0))
            records += self._emitter.change(table, "r", (None, made), source, position)
        return records
