"""The source connectors for changes of MySQL and MariaDB, by the binary log.

    no offset               read all tables, as of a place of the log (snapshot.py)
    snapshot interrupted    go on with it
    otherwise               the log behind the stored position (log.py), and chunks of tables on demand (chunks.py)

The server writes the names of columns to its log with `binlog_row_metadata=FULL`, so that a change of a table is known
exactly where it happened. Types are those of the catalog at the time of reading.

Configurations, records and their schemas are those of Debezium's connectors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from odradek.connect.config import ConfigDef
from odradek.connect.connectors.cdc.incremental import Incremental
from odradek.connect.connectors.cdc.masks import Masks
from odradek.connect.connectors.cdc.mysql.catalog import Catalog
from odradek.connect.connectors.cdc.mysql.chunks import Chunks
from odradek.connect.connectors.cdc.mysql.log import Log, OtherServer
from odradek.connect.connectors.cdc.mysql.options import DEFINITIONS
from odradek.connect.connectors.cdc.mysql.snapshot import Snapshot
from odradek.connect.connectors.cdc.options import SnapshotMode
from odradek.connect.connectors.cdc.records import Emitter, source_schema
from odradek.connect.connectors.cdc.signal_topic import SignalTopic
from odradek.connect.connectors.cdc.tables import Filters, reported
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema
from odradek.connect.errors import BadRequest, ConnectError
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import Offset, SourceRecord
from odradek.extras import extra

with extra("connect-mysql"):
    import pymysql

_log = logging.getLogger("odradek.connect.cdc")
_FINAL = (1044, 1045, 1049, 1142, 1227)  # access denied, unknown database
_PURGED = 1236


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
        self._options = options = DEFINITIONS.parse(configs)
        self._filters, self._masks = Filters(options, "database"), Masks(configs)
        self._emitter = Emitter(options, self.connector, _source(self.connector), self.context.clock)
        self._offset: Offset | None = self.context.offset(self._emitter.partition)
        self._mode = SnapshotMode.of(options)
        if self._mode.is_always:
            self._offset = None
        self._catalog: Catalog | None = None
        self._log: Log | None = None
        self._snapshot: Iterator[list[SourceRecord]] | None = None
        self._failures = 0
        self._is_done = False
        self._signals: SignalTopic | None = None
        self._heartbeat_due_s = self.context.clock.monotonic()

    # --- polling ----------------------------------------------------------------------------------------------------

    def poll(self) -> list[SourceRecord]:
        if self._is_done:
            self.context.wait(1.0)
            return []
        try:
            if self._snapshot is None and self._log is None:
                self._open()
            if self._snapshot is not None:
                records = self._snapshot_batch()
            else:
                records = [] if self._log is None else self._changes()
        except OtherServer as error:
            self._close()
            self._again(str(error), error)
            return []
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError, ConnectionError) as error:
            self._retry(error)
            return []
        except pymysql.err.MySQLError as error:
            raise ConnectError(f"the server refuses: {error}") from error
        self._failures = 0
        if records:
            self._offset = records[-1].source_offset or self._offset
        return records

    def _again(self, reason: str, error: Exception) -> None:
        """Begin with the tables. Raises ConnectError unless they may be read again, since changes are lost."""
        if not self._mode.reads_lost:
            raise ConnectError(
                f"{reason}. Delete the connector's offsets, or set snapshot.mode=when_needed, to read the tables again"
            ) from error
        _log.warning("%s: the tables are read again", reason)
        self._offset = None

    def _retry(self, error: Exception) -> None:
        """Wait, after the server went away. Raises ConnectError if another attempt is of no use."""
        self._close()
        code, most = error.args[0] if error.args else 0, self._options["errors.max.retries"]
        self._failures += 1
        if code == _PURGED:
            self._again(f"the binary log behind the stored position is not there any more: {error}", error)
        elif code in _FINAL or (0 <= most < self._failures):
            raise ConnectError(f"the server cannot be read: {error}") from error
        _log.warning("the server cannot be read, trying again: %s", error)
        self.context.wait(self._options["retriable.restart.connector.wait.ms"] / 1000)

    def _open(self) -> None:
        """Connect, and go on with the snapshot or with the log."""
        catalog = self._catalog = Catalog(self._options, self._filters, self._masks)
        catalog.check()
        offset = self._offset
        if offset is None:
            offset = {"snapshot": True} if self._mode.reads else catalog.place()
        if offset.get("snapshot"):
            options, clock = self._options, self.context.clock
            self._snapshot = Snapshot(catalog, self._emitter, self._filters, options, clock, offset).batches()
        else:
            self._start_log(offset)

    def _snapshot_batch(self) -> list[SourceRecord]:
        assert self._snapshot is not None
        batch = next(self._snapshot, None)
        if batch is not None:
            return batch
        self._snapshot = None
        assert self._offset is not None
        self._start_log(self._offset)
        return []

    def _start_log(self, offset: Offset) -> None:
        if not self._mode.streams:
            _log.info("snapshot.mode=%s asks for no changes", self._options["snapshot.mode"])
            self._is_done = True
            self._close()
            return
        assert self._catalog is not None
        options = self._options
        seed = f"{offset.get('file')}.{offset.get('pos')}.{offset.get('row')}.{self.context.clock.now_ms()}"
        incremental = Incremental(offset, seed)
        self._log = Log(self._catalog, self._emitter, self._filters, options, offset, incremental)
        self._chunks = Chunks(self._catalog, self._filters, options)

    def _changes(self) -> list[SourceRecord]:
        log = self._log
        assert log is not None
        if self._filters.signals is not None:
            log.incremental.read(self._chunks)
        records: list[SourceRecord] = self._heartbeat(log)
        if self._filters.has_signal_topic:
            if self._signals is None:
                self._signals = SignalTopic(self._options, self.context.client, log.incremental.signals)
            for signal in self._signals.read():
                log.incremental.signals = signal.next_offset
                records += log.signal(signal.kind, signal.data)
        while len(records) < self._options["max.batch.size"]:
            some = log.read()
            if some is None:
                if not records:
                    self.context.wait(self._options["poll.interval.ms"] / 1000)
                break
            records += some
        return records

    def _heartbeat(self, log: Log) -> list[SourceRecord]:
        interval_ms, now_s = self._options["heartbeat.interval.ms"], self.context.clock.monotonic()
        if interval_ms == 0 or now_s < self._heartbeat_due_s:
            return []
        self._heartbeat_due_s = now_s + interval_ms / 1000
        if self._options["heartbeat.action.query"]:
            assert self._catalog is not None
            self._catalog.rows(self._options["heartbeat.action.query"])
        return [self._emitter.heartbeat(log.offset())]

    # --- end --------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        if self._signals is not None:
            self._signals.close()
            self._signals = None
        self._snapshot = None
        for opened in (self._log, self._catalog):
            if opened is not None:
                with suppress(Exception):
                    opened.close()
        self._log = self._catalog = None

    def stop(self) -> None:
        if hasattr(self, "_options"):
            self._close()


class MariaDbSourceTask(MySqlSourceTask):
    """Reads the changes of one MariaDB server."""

    connector = "mariadb"


class MySqlSourceConnector(SourceConnector):
    """Changes of MySQL's rows, in Debezium's form."""

    task_class = MySqlSourceTask
    config_def: ConfigDef = DEFINITIONS  # type: ignore[misc]

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        if not any(config_value.errors for config_value in validated.values()):
            reported(
                validated,
                lambda: Filters({name: config_value.value for name, config_value in validated.items()}, "database"),
            )
            reported(validated, lambda: Masks(configs))
        return validated

    @classmethod
    def check_offsets(cls, configs: Configs, offsets: Mapping[Any, Offset | None]) -> None:
        for offset in offsets.values():
            if offset is None or isinstance(offset.get("gtids"), str):
                continue
            if not ("file" in offset and isinstance(offset.get("pos"), int)):
                raise BadRequest("an offset of this connector has the text file and the number pos, or the text gtids")

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)]


class MariaDbSourceConnector(MySqlSourceConnector):
    """Changes of MariaDB's rows, in Debezium's form."""

    task_class = MariaDbSourceTask
