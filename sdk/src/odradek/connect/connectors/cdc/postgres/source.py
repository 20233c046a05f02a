"""The source connector for changes of PostgreSQL, by logical replication.

    no offset               create the slot, read all tables as of its beginning (snapshot.py)
    snapshot interrupted    go on with it
    otherwise               the stream of changes behind the stored position (stream.py)

The server may forget what was confirmed. A position is confirmed when the records before it are stored, and never
earlier; what the server sends again is recognized by its position. So each change is written once with exactly once,
and at least once without.

Configurations, records and their schemas are those of Debezium's connector.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from odradek.connect.connectors.cdc.incremental import Incremental
from odradek.connect.connectors.cdc.masks import Masks
from odradek.connect.connectors.cdc.options import SnapshotMode
from odradek.connect.connectors.cdc.postgres.catalog import Catalog, connect, parameters
from odradek.connect.connectors.cdc.postgres.chunks import Chunks
from odradek.connect.connectors.cdc.postgres.messages import Messages
from odradek.connect.connectors.cdc.postgres.options import DEFINITIONS
from odradek.connect.connectors.cdc.postgres.replication import Data, Keepalive, Replication, lsn_of, lsn_text
from odradek.connect.connectors.cdc.postgres.snapshot import Snapshot
from odradek.connect.connectors.cdc.postgres.stream import Position, Stream
from odradek.connect.connectors.cdc.records import Emitter, source_schema
from odradek.connect.connectors.cdc.signal_topic import SignalTopic
from odradek.connect.connectors.cdc.tables import Filters, reported
from odradek.connect.data import schema as schemas
from odradek.connect.errors import BadRequest, ConnectError
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import Offset, SourceRecord
from odradek.extras import extra

with extra("connect-postgres"):
    import psycopg

_log = logging.getLogger("odradek.connect.cdc")
SOURCE = source_schema(
    "postgresql",
    {
        "schema": schemas.STRING,
        "table": schemas.STRING,
        "txId": schemas.OPTIONAL_INT64,
        "lsn": schemas.OPTIONAL_INT64,
        "xmin": schemas.OPTIONAL_INT64,
    },
)
_FINAL = (
    "authentication failed",
    "no pg_hba.conf entry",
    "permission denied",
    "does not exist",
    "must be superuser",
    "slots are in use",
)
_SLOT_CHECK_S = 60.0


class PostgresSourceTask(SourceTask):
    """Reads the changes of one database."""

    def start(self, configs: Configs) -> None:
        self._options = options = DEFINITIONS.parse(configs)
        self._filters, self._masks = Filters(options, "schema"), Masks(configs)
        self._emitter = Emitter(options, "postgresql", SOURCE, self.context.clock)
        self._offset: Offset | None = self.context.offset(self._emitter.partition)
        self._mode = SnapshotMode.of(options)
        if self._mode.is_always:
            self._offset = None
        self._db: psycopg.Connection[Any] | None = None
        self._replication: Replication | None = None
        self._snapshot: Iterator[list[SourceRecord]] | None = None
        self._stream: Stream | None = None
        self._failures = 0
        self._is_first = True
        self._is_done = False
        self._signals: SignalTopic | None = None
        # Positions of the WAL: what was told to the server, what may be told, and what is behind the returned records.
        self._confirmed = self._stored = self._returned = 0
        self._has_unstored = False
        now_s = self.context.clock.monotonic()
        self._status_due_s = self._heartbeat_due_s = self._slot_check_due_s = now_s

    # --- polling ----------------------------------------------------------------------------------------------------

    def poll(self) -> list[SourceRecord]:
        if self._is_done:
            self.context.wait(1.0)
            return []
        try:
            if self._snapshot is None and self._stream is None:
                self._open()
            if self._snapshot is not None:
                records = self._snapshot_batch()
            else:
                records = [] if self._stream is None else self._changes()
        except psycopg.OperationalError as error:
            self._retry(error)
            return []
        except psycopg.Error as error:
            raise ConnectError(f"PostgreSQL refuses: {_text(error)}") from error
        self._failures = 0
        if records:
            self._offset = records[-1].source_offset or self._offset
            self._has_unstored = True
            self._returned = max(self._returned, self._stream.complete if self._stream is not None else 0)
        return records

    def _retry(self, error: psycopg.OperationalError) -> None:
        """Wait, after the database went away. Raises ConnectError if another attempt is of no use."""
        self._close()
        text, most = _text(error), self._options["errors.max.retries"]
        self._failures += 1
        if any(final_code in text for final_code in _FINAL) or (0 <= most < self._failures):
            raise ConnectError(f"PostgreSQL cannot be read: {text}") from error
        _log.warning("PostgreSQL cannot be read, trying again: %s", text)
        self.context.wait(self._options["retriable.restart.connector.wait.ms"] / 1000)

    def commit(self) -> None:
        self._has_unstored = False
        self._stored = max(self._stored, self._returned)
        if self._replication is not None and self._stream is not None:
            with suppress(psycopg.Error):  # the next poll notices
                self._confirm()

    # --- beginning --------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Connect, and go on with the snapshot or with the stream."""
        options, clock = self._options, self.context.clock
        self._db = connect(options)
        catalog = self._catalog = Catalog(self._db, options, self._filters, self._masks)
        catalog.ensure_publication()
        slot = catalog.slot(options["slot.name"])
        if slot is not None and (slot.plugin != "pgoutput" or slot.database != options["database.dbname"]):
            raise ConnectError(f"the slot {options['slot.name']} is of another plugin or database: choose a slot.name")
        offset = self._offset
        is_lost = slot is None or slot.wal_status == "lost"
        if offset is not None and is_lost:
            self._lost(offset)
            offset = None
            if slot is not None:
                catalog.drop_slot(options["slot.name"])
                slot = None
        if slot is not None and slot.active_pid is not None and self._is_first:
            _log.warning("another connection (pid %s) reads the slot %s: it is ended", slot.active_pid,
                         options["slot.name"])  # fmt: skip
            catalog.end_other_reader(slot)
        self._is_first = False
        self._replication = Replication(parameters(options), clock)
        exported, begin = None, 0
        if slot is None:
            made = self._replication.create_slot(options["slot.name"], options["plugin.name"])
            exported, begin = made.snapshot, made.lsn
        elif slot.confirmed is not None:
            begin = lsn_of(slot.confirmed)
        if offset is None:
            offset = {"snapshot": True, "lsn": begin} if self._mode.reads else {"lsn": begin, "event": 0}
        if offset.get("snapshot"):
            snapshot = Snapshot(catalog, self._emitter, self._filters, options, clock, offset, exported)
            self._snapshot = snapshot.batches()
            return
        self._start_stream(offset)

    def _lost(self, offset: Offset) -> None:
        """Raise ConnectError unless the tables may be read again, since changes behind the offset are gone."""
        name = self._options["slot.name"]
        where = lsn_text(int(offset.get("lsn", 0)))
        if not self._mode.reads_lost and not offset.get("snapshot"):
            raise ConnectError(
                f"the replication slot {name} does not exist any more or was invalidated: changes behind {where} are "
                "lost. Delete the connector's offsets, or set snapshot.mode=when_needed, to read the tables again"
            )
        _log.warning("the replication slot %s is lost: the tables are read again", name)

    def _start_stream(self, offset: Offset) -> None:
        if not self._mode.streams:
            _log.info("snapshot.mode=%s asks for no changes", self._options["snapshot.mode"])
            self._is_done = True
            self._close()
            return
        assert self._replication is not None
        options = self._options
        position = Position(int(offset["lsn"]), int(offset.get("event", 0)))
        seed = f"{position.lsn}.{position.event}.{self.context.clock.now_ms()}"
        incremental = Incremental(offset, seed)
        self._replication.start(options["slot.name"], options["publication.name"])
        self._stream = Stream(
            self._catalog, self._emitter, self._filters, options, position, incremental, Messages(options, SOURCE),
            self.context.clock,
        )  # fmt: skip
        self._chunks = Chunks(self._catalog, self._filters, options)

    # --- snapshot ---------------------------------------------------------------------------------------------------

    def _snapshot_batch(self) -> list[SourceRecord]:
        assert self._snapshot is not None
        batch = next(self._snapshot, None)
        if batch is not None:
            return batch
        self._snapshot = None
        assert self._offset is not None
        self._start_stream(self._offset)
        return []

    # --- stream -----------------------------------------------------------------------------------------------------

    def _changes(self) -> list[SourceRecord]:
        stream, replication, clock = self._stream, self._replication, self.context.clock
        assert stream is not None
        assert replication is not None
        if self._filters.signals is not None:
            stream.incremental.read(self._chunks)
        records: list[SourceRecord] = self._heartbeat(stream)
        if self._filters.has_signal_topic:
            if self._signals is None:
                self._signals = SignalTopic(self._options, self.context.client, stream.incremental.signals)
            for signal in self._signals.read():
                stream.incremental.signals = signal.next_offset
                records += stream.signal(signal.kind, signal.data)
        end_s = clock.monotonic() + self._options["poll.interval.ms"] / 1000
        wants_reply = False
        while len(records) < self._options["max.batch.size"]:
            message = replication.read(0.0 if records else max(0.0, end_s - clock.monotonic()))
            if message is None:
                break
            if isinstance(message, Data):
                records += stream.handle(message)
            elif isinstance(message, Keepalive):
                wants_reply = wants_reply or message.wants_reply
                if not stream.in_transaction:
                    stream.complete = max(stream.complete, message.lsn)
            if clock.monotonic() >= end_s:
                break
        if not records and not self._has_unstored:
            self._returned = self._stored = max(self._stored, stream.complete)
        if wants_reply or clock.monotonic() >= self._status_due_s:
            self._confirm()
        return records

    def _confirm(self) -> None:
        """Tell the server how far everything is stored; also that this client lives."""
        assert self._replication is not None
        self._replication.confirm(self._stored)
        self._confirmed = self._stored
        self._status_due_s = self.context.clock.monotonic() + self._options["status.update.interval.ms"] / 1000

    def _heartbeat(self, stream: Stream) -> list[SourceRecord]:
        """Look after the slot; return a heartbeat if it is time for one."""
        clock, interval_ms = self.context.clock, self._options["heartbeat.interval.ms"]
        now_s = clock.monotonic()
        is_due = interval_ms > 0 and now_s >= self._heartbeat_due_s
        if not is_due and now_s < self._slot_check_due_s:
            return []
        slot = self._catalog.slot(self._options["slot.name"])
        self._slot_check_due_s = now_s + _SLOT_CHECK_S
        lag = None if slot is None else slot.lag_bytes
        status = None if slot is None else slot.wal_status
        if status in ("unreserved", "lost") or (lag or 0) > self._options["slot.lag.warning.bytes"] > 0:
            _log.warning("the slot %s holds back %s bytes of WAL, its state is %s", self._options["slot.name"], lag,
                         status)  # fmt: skip
        if not is_due:
            return []
        self._heartbeat_due_s = now_s + interval_ms / 1000
        if self._options["heartbeat.action.query"]:
            assert self._db is not None
            self._db.execute(self._options["heartbeat.action.query"])
        return [self._emitter.heartbeat(stream.offset(), lag, status)]

    # --- end --------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        if self._signals is not None:
            self._signals.close()
            self._signals = None
        self._snapshot = self._stream = None
        for opened in (self._replication, self._db):
            if opened is not None:
                with suppress(psycopg.Error):
                    opened.close()
        self._replication = self._db = None

    def stop(self) -> None:
        if not hasattr(self, "_options"):
            return
        self._close()
        if self._options["slot.drop.on.stop"]:
            with suppress(psycopg.Error), connect(self._options) as connection:
                connection.execute("SELECT pg_drop_replication_slot(%s)", (self._options["slot.name"],))


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class PostgresSourceConnector(SourceConnector):
    """Changes of PostgreSQL's rows, in Debezium's form."""

    task_class = PostgresSourceTask
    config_def = DEFINITIONS

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        if not any(config_value.errors for config_value in validated.values()):
            reported(
                validated,
                lambda: Filters({name: config_value.value for name, config_value in validated.items()}, "schema"),
            )
            reported(validated, lambda: Masks(configs))
            reported(
                validated,
                lambda: Messages({name: config_value.value for name, config_value in validated.items()}, SOURCE),
            )
        return validated

    @classmethod
    def check_offsets(cls, configs: Configs, offsets: Mapping[Any, Offset | None]) -> None:
        for offset in offsets.values():
            if offset is not None and not isinstance(offset.get("lsn"), int):
                raise BadRequest("an offset of this connector has the number lsn")

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)]
