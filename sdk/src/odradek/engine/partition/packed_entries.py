"""Packed entries: tail entries of one or several partitions in few bytes (docs/formats/packed_entries.md).

An element of a shared head's tail is one. Each entry says only what differs from the one before it: the batches of one
request, which are neighbours in one object and have one producer, take about ten bytes each, beside some thirty for all
of them.

    version  u8 = 2
    entry    flags u8, place u8
             OBJECT      object id, 16 bytes
             COMMIT      commit time, ms: varlong, the difference to the last one
             PRODUCER    producer id, epoch: varlongs
             POSITION    position: varlong; without it, the end of the batch before in the same object, 0 in a new one
             SEQUENCE    base sequence: varlong; without it, -1
             length, offset count, largest timestamp less commit time: varlongs
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from odradek.errors import FormatError, UnknownVersion
from odradek.format.tail_entry import FLAG_ITEM, FLAG_LOG_APPEND_TIME, TailEntry
from odradek.format.varint import decode_varlong, encode_varlong

PACKED_VERSION = 2

_ITEM, _LOG_APPEND_TIME = FLAG_ITEM, FLAG_LOG_APPEND_TIME
_OBJECT, _COMMIT, _PRODUCER, _POSITION, _SEQUENCE = 0x04, 0x08, 0x10, 0x20, 0x40
_KNOWN = 0x7F
_OBJECT_ID_BYTES = 16


class PlacedEntry(NamedTuple):
    """An entry and its partition's place in the shared head."""

    place: int
    entry: TailEntry


def encode_packed_entries(placed: Iterable[PlacedEntry]) -> bytes:
    """Encode entries; equal entries in the same order have equal bytes. Raises FormatError: out of range."""
    out = bytearray((PACKED_VERSION,))
    object_id, commit_ms, producer, end = b"", 0, (-1, -1), 0
    for place, entry in placed:
        flags = entry.flags
        body = bytearray()
        if entry.object_id != object_id:
            flags |= _OBJECT
            object_id, end = entry.object_id, 0
            if len(object_id) != _OBJECT_ID_BYTES:
                raise FormatError("an object id has 16 bytes")
            body += object_id
        if entry.commit_ms != commit_ms:
            flags |= _COMMIT
            body += encode_varlong(entry.commit_ms - commit_ms)
            commit_ms = entry.commit_ms
        if (entry.producer_id, entry.producer_epoch) != producer:
            flags |= _PRODUCER
            producer = entry.producer_id, entry.producer_epoch
            body += encode_varlong(producer[0]) + encode_varlong(producer[1])
        if entry.position != end:
            flags |= _POSITION
            body += encode_varlong(entry.position)
        if entry.base_sequence != -1:
            flags |= _SEQUENCE
            body += encode_varlong(entry.base_sequence)
        body += encode_varlong(entry.length) + encode_varlong(entry.offset_count)
        body += encode_varlong(entry.max_timestamp_ms - commit_ms)
        end = entry.position + entry.length
        if flags & ~_KNOWN or not 0 <= place < 256:
            raise FormatError(f"an entry with the flags {entry.flags:#x} at place {place} cannot be packed")
        out += bytes((flags, place)) + body
    return bytes(out)


@lru_cache(maxsize=4096)  # each look at a head decodes its tail again, and most of it was there before
def decode_packed_entries(data: bytes) -> tuple[PlacedEntry, ...]:
    """Decode entries. Raises FormatError, UnknownVersion."""
    if data[:1] != bytes((PACKED_VERSION,)):
        raise UnknownVersion(f"packed entries of version {data[:1].hex()} are not known to this release: upgrade it")
    try:
        return tuple(_decode(data))
    except IndexError:
        raise FormatError("packed entries end within an entry") from None


def _decode(data: bytes) -> Iterable[PlacedEntry]:
    at = 1
    object_id, commit_ms, producer, end = b"", 0, (-1, -1), 0
    while at < len(data):
        flags, place = data[at], data[at + 1]
        at += 2
        if flags & ~_KNOWN:
            raise FormatError(f"a packed entry has the unknown flags {flags:#x}")
        if flags & _OBJECT:
            object_id, end = data[at : at + _OBJECT_ID_BYTES], 0
            at += _OBJECT_ID_BYTES
        if len(object_id) != _OBJECT_ID_BYTES:
            raise FormatError("a packed entry has no object id")
        if flags & _COMMIT:
            ahead_ms, at = decode_varlong(data, at)
            commit_ms += ahead_ms
        if flags & _PRODUCER:
            producer_id, at = decode_varlong(data, at)
            epoch, at = decode_varlong(data, at)
            producer = producer_id, epoch
        position = end
        if flags & _POSITION:
            position, at = decode_varlong(data, at)
        sequence = -1
        if flags & _SEQUENCE:
            sequence, at = decode_varlong(data, at)
        length, at = decode_varlong(data, at)
        count, at = decode_varlong(data, at)
        newer_ms, at = decode_varlong(data, at)
        end = position + length
        if min(position, length, count, commit_ms) < 0:
            raise FormatError("a packed entry has a negative length, position, count or time")
        entry = TailEntry(
            object_id,
            position,
            length,
            count,
            commit_ms + newer_ms,
            *producer,
            sequence,
            commit_ms,
            flags & (_ITEM | _LOG_APPEND_TIME),
        )
        yield PlacedEntry(place, entry)
