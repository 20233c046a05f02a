"""A connection for logical replication: a stream of messages, and what was consumed of it.

libpq does the connection; what flows in the stream is PostgreSQL's "Streaming Replication Protocol".
"""

from __future__ import annotations

import select
from struct import Struct as Packed
from typing import NamedTuple

from odradek.connect.errors import ConnectError
from odradek.extras import extra
from odradek.ports.clock import Clock

with extra("connect-postgres"):
    import psycopg
    from psycopg import pq, sql

_WAL, _ALIVE = b"wk"
_WITH_MESSAGES = 140_000  # the first version that sends those of pg_logical_emit_message
_PG_EPOCH_MS = 946_684_800_000
_WAL_DATA = Packed(">qqq")  # start of the message, end of the WAL, time
_KEEPALIVE = Packed(">qqB")  # end of the WAL, time, whether a reply is wanted
_STATUS = Packed(">cqqqqB")  # written, flushed and applied up to, time, whether a reply is wanted


class Slot(NamedTuple):
    """A new slot: where its changes begin, and the snapshot of the database at that moment."""

    lsn: int
    snapshot: str


class Data(NamedTuple):
    """A message of the output plugin, which begins at `at`."""

    lsn: int
    message: bytes
    at: int


class Keepalive(NamedTuple):
    """Everything before `lsn` was sent."""

    lsn: int
    wants_reply: bool


def lsn_of(text: str) -> int:
    """Read PostgreSQL's text form of a position, such as 0/16B3748."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class Replication:
    """A replication connection. Methods raise psycopg.Error.

    Args:
        parameters: of libpq.
    """

    def __init__(self, parameters: dict[str, str], clock: Clock) -> None:
        self._clock = clock
        self._connection = psycopg.connect(**parameters, replication="database", autocommit=True)  # type: ignore[arg-type]
        self._pg = self._connection.pgconn

    def create_slot(self, name: str, plugin: str) -> Slot:
        """Create a slot that exports a snapshot, which lives until the next command."""
        command = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL {} EXPORT_SNAPSHOT").format(
            sql.Identifier(name), sql.Identifier(plugin)
        )
        result = self._pg.exec_(command.as_bytes(self._connection))
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        lsn, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert lsn is not None
        assert snapshot is not None
        return Slot(lsn_of(lsn.decode()), snapshot.decode())

    def start(self, slot: str, publication: str) -> None:
        """Begin the stream behind what was confirmed last."""
        messages = ", messages 'true'" if self._connection.info.server_version >= _WITH_MESSAGES else ""
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version '1', publication_names {}{})").format(
            sql.Identifier(slot),
            sql.Literal(sql.Identifier(publication).as_string(self._connection)),
            sql.SQL(messages),
        )
        self._pg.send_query(command.as_bytes(self._connection))
        while self._pg.is_busy():
            self._wait(1.0)
            self._pg.consume_input()
        result = self._pg.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            raise (
                ConnectError("the server did not start replication")
                if result is None
                else (psycopg.errors.error_from_result(result))
            )

    def _wait(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._pg.socket], [], [], seconds)
        return bool(ready)

    def read(self, seconds: float) -> Data | Keepalive | None:
        """Return the next message; None if there is none so long. Raises psycopg.OperationalError at the end."""
        size, data = self._pg.get_copy_data(1)
        if size == 0 and self._wait(seconds):
            self._pg.consume_input()
            size, data = self._pg.get_copy_data(1)
        if size == 0:
            return None
        if size < 0:
            result = self._pg.get_result()
            if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
            raise psycopg.OperationalError("the server has ended the replication stream")
        message = bytes(data)
        if message[0] == _WAL:
            lsn, _, _ = _WAL_DATA.unpack_from(message, 1)
            return Data(lsn, message, 1 + _WAL_DATA.size)
        if message[0] == _ALIVE:
            lsn, _, wants_reply = _KEEPALIVE.unpack_from(message, 1)
            return Keepalive(lsn, bool(wants_reply))
        raise ConnectError(f"the server sent a replication message of the unknown kind {chr(message[0])!r}")

    def confirm(self, lsn: int) -> None:
        """Tell the server that everything before `lsn` is stored: it may forget it."""
        time_us = (self._clock.now_ms() - _PG_EPOCH_MS) * 1000
        self._pg.put_copy_data(_STATUS.pack(b"r", lsn, lsn, lsn, time_us, 0))
        self._pg.flush()

    def close(self) -> None:
        self._connection.close()
