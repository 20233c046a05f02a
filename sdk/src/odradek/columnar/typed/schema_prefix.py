"""Confluent's wire format: a prefix that names the schema of the payload.

magic      int8    0
schema_id  int32   big-endian, of the registry
indexes            Protobuf only: zigzag varints, their count and then the path to the message type; [0] is one 0
payload
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from odradek.errors import ErrorCode, FormatError
from odradek.format.varint import decode_varint, encode_varlong

_PREFIX = struct.Struct(">bI")
PREFIX_BYTES = _PREFIX.size
_MAGIC = 0
_DEPTH_MAX = 64  # of nested message types: more is no path


def encode_prefix(schema_id: int, indexes: Sequence[int] | None = None) -> bytes:
    """Return the prefix of a payload; `indexes` for Protobuf."""
    prefix = _PREFIX.pack(_MAGIC, schema_id)
    if indexes is None:
        return prefix
    if list(indexes) == [0]:
        return prefix + b"\x00"
    return prefix + b"".join(encode_varlong(number) for number in (len(indexes), *indexes))


def decode_prefix(data: bytes) -> tuple[int, bytes]:
    """Return the schema's id and the rest. Raises FormatError(INVALID_RECORD) for bytes in another format."""
    if len(data) < _PREFIX.size:
        raise FormatError(f"{len(data)} bytes are too few for a schema id", ErrorCode.INVALID_RECORD)
    magic, schema_id = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError(
            f"the first byte is {magic}, not 0: was the record written without a schema registry?",
            ErrorCode.INVALID_RECORD,
        )
    return int(schema_id), data[_PREFIX.size :]


def decode_indexes(data: bytes) -> tuple[list[int], bytes]:
    """Return the path to a Protobuf message type, and the payload. Raises FormatError(INVALID_RECORD)."""
    try:
        count, position = decode_varint(data, 0)
        if count == 0:
            return [0], data[position:]
        if not 0 < count <= _DEPTH_MAX:
            raise FormatError(
                f"the path to the message type has an invalid length of {count}", ErrorCode.INVALID_RECORD
            )
        indexes = []
        for _ in range(count):
            number, position = decode_varint(data, position)
            indexes.append(number)
    except IndexError:
        raise FormatError("the path to the message type is cut off", ErrorCode.INVALID_RECORD) from None
    if min(indexes) < 0:
        raise FormatError("the path to the message type has a negative index", ErrorCode.INVALID_RECORD)
    return indexes, data[position:]
