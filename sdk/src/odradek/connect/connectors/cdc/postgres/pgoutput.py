"""Messages of PostgreSQL's output plugin pgoutput, protocol version 1.

    Begin -> (Relation | Type | Insert | Update | Delete | Truncate | Message)* -> Commit
    Message     outside of transactions

Values arrive as text. Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from struct import Struct as Packed
from typing import NamedTuple

from odradek.connect.connectors.cdc.tables import UNCHANGED
from odradek.connect.errors import ConnectError

_EPOCH_US = 946_684_800_000_000  # 2000-01-01 in microseconds since 1970
_BEGIN = Packed(">qqI")
_COMMIT = Packed(">Bqqq")
_MESSAGE = Packed(">Bq")
_INT16 = Packed(">h")
_INT32 = Packed(">i")
_KIND_AND_SIZE = Packed(">Bi")
_UINT32 = Packed(">I")
_TEXT, _NULL, _UNCHANGED = b"tnu"

Row = list[object]
"""A value a column: text, None for null, or UNCHANGED."""


class Begin(NamedTuple):
    """The first message of a transaction.

    Attributes:
        lsn: of its commit; transactions come in this order.
        ts_us: time of its commit, in microseconds since 1970.
    """

    lsn: int
    ts_us: int
    xid: int


class Commit(NamedTuple):
    """The last message of a transaction; `end_lsn` is behind it."""

    lsn: int
    end_lsn: int
    ts_us: int


class RelationColumn(NamedTuple):
    """A column: `is_key` if it belongs to the replica identity."""

    name: str
    type_oid: int
    typmod: int
    is_key: bool


class Relation(NamedTuple):
    """A table as it is for the changes that follow.

    Attributes:
        identity: d (primary key), n (nothing), f (all columns), i (an index).
    """

    oid: int
    namespace: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    oid: int
    new: Row


class Update(NamedTuple):
    """A changed row.

    Attributes:
        old: the row before, if it was sent: all of it, or the replica identity alone (`is_old_key`).
    """

    oid: int
    old: Row | None
    is_old_key: bool
    new: Row


class Delete(NamedTuple):
    oid: int
    old: Row
    is_old_key: bool


class Truncate(NamedTuple):
    oids: tuple[int, ...]


class LogicalMessage(NamedTuple):
    """A message of pg_logical_emit_message; `lsn` is its place in the log."""

    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | LogicalMessage


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def byte(self) -> str:
        self.at += 1
        return chr(self.data[self.at - 1])

    def int16(self) -> int:
        self.at += 2
        return int(_INT16.unpack_from(self.data, self.at - 2)[0])

    def int32(self) -> int:
        self.at += 4
        return int(_INT32.unpack_from(self.data, self.at - 4)[0])

    def oid(self) -> int:
        self.at += 4
        return int(_UINT32.unpack_from(self.data, self.at - 4)[0])

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        text_bytes = self.data[self.at : end]
        self.at = end + 1
        return text_bytes.decode()

    def row(self) -> Row:
        made: Row = []
        count = self.int16()
        data, at, unpack, add = self.data, self.at, _KIND_AND_SIZE.unpack_from, made.append
        for _ in range(count):  # a flat loop: this is where change capture spends its time
            cell_kind = data[at]
            if cell_kind == _TEXT:
                _, size = unpack(data, at)
                at += 5
                add(str(data[at : at + size], "utf-8"))
                at += size
                continue
            at += 1
            if cell_kind == _NULL:
                add(None)
            elif cell_kind == _UNCHANGED:
                add(UNCHANGED)
            else:
                raise ConnectError(f"pgoutput sent a value of the unknown kind {chr(cell_kind)!r}")
        self.at = at
        return made


def decode(data: bytes, at: int = 0) -> Message | None:
    """Return a message, None for one that change capture does not need. Raises ConnectError for a broken one.

    Args:
        at: where the message begins in the data.
    """
    try:
        return _decode(data, at)
    except (IndexError, ValueError, OverflowError) as error:
        raise ConnectError(f"a message of pgoutput is broken: {error}") from error
    except Exception as error:
        if type(error).__name__ == "error":  # struct.error
            raise ConnectError(f"a message of pgoutput is too short: {error}") from error
        raise


def _decode(data: bytes, at: int) -> Message | None:
    message_kind, reader = chr(data[at]), _Reader(data, at + 1)
    if message_kind == "I":
        oid, _ = reader.oid(), reader.byte()
        return Insert(oid, reader.row())
    if message_kind == "U":
        oid, part, old, is_old_key = reader.oid(), reader.byte(), None, False
        if part in "KO":
            old, is_old_key = reader.row(), part == "K"
            reader.byte()
        return Update(oid, old, is_old_key, reader.row())
    if message_kind == "D":
        oid, part = reader.oid(), reader.byte()
        return Delete(oid, reader.row(), part == "K")
    if message_kind == "B":
        lsn, time, xid = _BEGIN.unpack_from(data, at + 1)
        return Begin(lsn, time + _EPOCH_US, xid)
    if message_kind == "C":
        _, lsn, end_lsn, time = _COMMIT.unpack_from(data, at + 1)
        return Commit(lsn, end_lsn, time + _EPOCH_US)
    if message_kind == "R":
        return _relation(reader)
    if message_kind == "M":
        flags, lsn = _MESSAGE.unpack_from(data, at + 1)
        reader.at += _MESSAGE.size
        prefix, size = reader.text(), reader.int32()
        return LogicalMessage(bool(flags & 1), lsn, prefix, data[reader.at : reader.at + size])
    if message_kind == "T":
        count = reader.int32()
        reader.byte()
        return Truncate(tuple(reader.oid() for _ in range(count)))
    return None


def _relation(reader: _Reader) -> Relation:
    oid, namespace, name, identity = reader.oid(), reader.text(), reader.text(), reader.byte()
    columns = []
    for _ in range(reader.int16()):
        is_key = reader.byte() == "\x01"
        column, type_oid, typmod = reader.text(), reader.oid(), reader.int32()
        columns.append(RelationColumn(column, type_oid, typmod, is_key))
    return Relation(oid, namespace or "pg_catalog", name, identity, tuple(columns))
