"""Building blocks of hand-written responses (produce_response.py, fetch_response.py).

Every function returns the bytes of one field. Flexible versions (KIP-482) write lengths as unsigned varints plus one,
and end each struct with its tagged fields; older ones write lengths as int16 (strings) or int32 (arrays, bytes).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from odradek.errors import ErrorCode, FormatError

NIL_UUID = b"\0" * 16
NO_TAGS = b"\0"

_INT32 = struct.Struct(">i").pack
_INT16 = struct.Struct(">h").pack
_LEADER = struct.Struct(">iib").pack  # leader id, leader epoch, no tags


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """The address of a leader named in a response (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def unsigned_varint(value: int) -> bytes:
    """Encode 7 bits per byte, least significant first."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str | None, flexible: bool) -> bytes:
    """Encode a nullable string. Raises FormatError if the old format cannot hold it."""
    if value is None:
        return b"\0" if flexible else b"\xff\xff"
    data = value.encode()
    if flexible:
        return unsigned_varint(len(data) + 1) + data
    if len(data) > 0x7FFF:
        raise FormatError(f"a string of {len(data)} bytes does not fit this version", ErrorCode.INVALID_REQUEST)
    return _INT16(len(data)) + data


def count(value: int, flexible: bool) -> bytes:
    """Encode the count before the elements of an array."""
    return unsigned_varint(value + 1) if flexible else _INT32(value)


def blob_length(value: int, flexible: bool) -> bytes:
    """Encode the length before bytes or records."""
    return unsigned_varint(value + 1) if flexible else _INT32(value)


def topic(name: str, topic_id: UUID | None, by_id: bool, flexible: bool) -> bytes:
    """Encode a topic by its id (the newest versions) or by its name."""
    if by_id:
        return NIL_UUID if topic_id is None else topic_id.bytes
    return string(name, flexible)


def tagged(fields: Sequence[tuple[int, bytes]]) -> bytes:
    """Encode the tagged fields at the end of a struct, in the order of their tags."""
    if not fields:
        return NO_TAGS
    return unsigned_varint(len(fields)) + b"".join(
        unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in fields
    )


def current_leader(leader_id: int, leader_epoch: int) -> bytes | None:
    """Encode the struct LeaderIdAndEpoch; None for the values that an absent field stands for."""
    return None if leader_id == -1 and leader_epoch == -1 else _LEADER(leader_id, leader_epoch, 0)


def node_endpoints(nodes: Sequence[NodeEndpoint]) -> bytes:
    """Encode the array of endpoints at the end of a response (flexible versions only)."""
    return count(len(nodes), True) + b"".join(
        _INT32(node.node_id) + string(node.host, True) + _INT32(node.port) + string(node.rack, True) + NO_TAGS
        for node in nodes
    )
