"""Messages of PostgreSQL's output plugin pgoutput, protocol version 1.

    Begin -> (Relation | Type | Insert | Update | Delete | Truncate)* -> Commit

Values arrive as text. Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct as Packed

from odradek.connect.connectors.cdc.tables import UNCHANGED
from odradek.connect.errors import ConnectError

_EPOCH_US = 946_684_800_000_000  # 2000-01-01 in microseconds since 1970
_BEGIN = Packed(">qqI")
_COMMIT = Packed(">Bqqq")
_INT16 = Packed(">h")
_INT32 = Packed(">i")
_UINT32 = Packed(">I")
_TEXT, _NULL, _UNCHANGED = b"tnu"

Row = list[object]
"""A value a column: text, None for null, or UNCHANGED."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message of a transaction.

    Attributes:
        lsn: of its commit; transactions come in this order.
        ts_us: time of its commit, in microseconds since 1970.
    """

    lsn: int
    ts_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The last message of a transaction; `end_lsn` is behind it."""

    lsn: int
    end_lsn: int
    ts_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column: `is_key` if it belongs to the replica identity."""

    name: str
    type_oid: int
    typmod: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is for the changes that follow.

    Attributes:
        identity: d (primary key), n (nothing), f (all columns), i (an index).
    """

    oid: int
    namespace: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    oid: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row.

    Attributes:
        old: the row before, if it was sent: all of it, or the replica identity alone (`is_old_key`).
    """

    oid: int
    old: Row | None
    is_old_key: bool
    new: Row


@dataclass(frozen=True, slots=True)
class Delete:
    oid: int
    old: Row
    is_old_key: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    oids: tuple[int, ...]


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 1

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
        found = self.data[self.at : end]
        self.at = end + 1
        return found.decode()

    def row(self) -> Row:
        made: Row = []
        count = self.int16()
        data, at, unpack = self.data, self.at, _INT32.unpack_from
        for _ in range(count):  # a flat loop: this is where change capture spends its time
            kind = data[at]
            at += 1
            if kind == _TEXT:
                (size,) = unpack(data, at)
                at += 4
                made.append(data[at : at + size].decode())
                at += size
            elif kind == _NULL:
                made.append(None)
            elif kind == _UNCHANGED:
                made.append(UNCHANGED)
            else:
                raise ConnectError(f"pgoutput sent a value of the unknown kind {chr(kind)!r}")
        self.at = at
        return made


def decode(data: memoryview) -> Message | None:
    """Return a message, None for one that change capture does not need. Raises ConnectError for a broken one."""
    try:
        return _decode(data)
    except (IndexError, ValueError, OverflowError) as error:
        raise ConnectError(f"a message of pgoutput is broken: {error}") from error
    except Exception as error:
        if type(error).__name__ == "error":  # struct.error
            raise ConnectError(f"a message of pgoutput is too short: {error}") from error
        raise


def _decode(data: memoryview) -> Message | None:
    kind, reader = chr(data[0]), _Reader(bytes(data))
    if kind == "B":
        lsn, time, xid = _BEGIN.unpack_from(data, 1)
        return Begin(lsn, time + _EPOCH_US, xid)
    if kind == "C":
        _, lsn, end_lsn, time = _COMMIT.unpack_from(data, 1)
        return Commit(lsn, end_lsn, time + _EPOCH_US)
    if kind == "R":
        oid, namespace, name, identity = reader.oid(), reader.text(), reader.text(), reader.byte()
        columns = []
        for _ in range(reader.int16()):
            is_key = reader.byte() == "\x01"
            column, type_oid, typmod = reader.text(), reader.oid(), reader.int32()
            columns.append(RelationColumn(column, type_oid, typmod, is_key))
        return Relation(oid, namespace or "pg_catalog", name, identity, tuple(columns))
    if kind == "I":
        oid, _ = reader.oid(), reader.byte()
        return Insert(oid, reader.row())
    if kind == "U":
        oid, part, old, is_old_key = reader.oid(), reader.byte(), None, False
        if part in "KO":
            old, is_old_key = reader.row(), part == "K"
            reader.byte()
        return Update(oid, old, is_old_key, reader.row())
    if kind == "D":
        oid, part = reader.oid(), reader.byte()
        return Delete(oid, reader.row(), part == "K")
    if kind == "T":
        count = reader.int32()
        reader.byte()
        return Truncate(tuple(reader.oid() for _ in range(count)))
    return None
