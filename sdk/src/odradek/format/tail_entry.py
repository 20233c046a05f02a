"""Tail entry: the location of one record batch in the WAL (docs/formats/tail_entry.md). 60 bytes, big endian.

An entry holds no offset: its base offset is the head's `tail_base_offset` plus the counts of the entries before it.
`commit_ms` is set just before the conditional update and kept over its retries; together with the head's
`spill_floor_ms` it keeps a late update from being applied twice (docs/decisions/0002).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from odradek.errors import FormatError, UnknownVersion

VERSION = 1
FLAG_ITEM = 0x01  # the bytes are in an item of the log table, not in an object
FLAG_LOG_APPEND_TIME = 0x02  # the batch's timestamps are `max_timestamp_ms`, patched in on read

_STRUCT = struct.Struct(
    ">"
    "B"  # version
    "B"  # flags
    "16s"  # object id
    "I"  # position of the batch in the object
    "I"  # length of the batch in bytes
    "I"  # offsets that the batch spans (last_offset_delta + 1)
    "q"  # largest timestamp, ms
    "q"  # producer id, -1 none
    "h"  # producer epoch
    "i"  # base sequence
    "Q"  # commit time, ms
)
ENTRY_BYTES = _STRUCT.size


class TailEntry(NamedTuple):
    """One batch in the WAL. A tuple, which is made fast: each batch of a request makes several."""

    object_id: bytes
    position: int
    length: int
    offset_count: int
    max_timestamp_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    commit_ms: int = 0
    flags: int = 0

    @property
    def is_item(self) -> bool:
        return bool(self.flags & FLAG_ITEM)

    # Both are made for each batch of each request, and `_replace` takes five times as long.

    def in_object(self, object_id: bytes, flags: int) -> TailEntry:
        """Return the entry with an object id, and with more flags."""
        _, position, length, count, timestamp_ms, producer_id, epoch, sequence, commit_ms, had = self
        return TailEntry(
            object_id, position, length, count, timestamp_ms, producer_id, epoch, sequence, commit_ms, had | flags
        )

    def committed_at(self, commit_ms: int, append_ms: int) -> TailEntry:
        """Return the entry with a commit time, and under LogAppendTime with that append time."""
        object_id, position, length, count, timestamp_ms, producer_id, epoch, sequence, _, flags = self
        if flags & FLAG_LOG_APPEND_TIME:
            timestamp_ms = append_ms
        return TailEntry(
            object_id, position, length, count, timestamp_ms, producer_id, epoch, sequence, commit_ms, flags
        )


def encode_tail_entry(entry: TailEntry) -> bytes:
    """Encode an entry. Raises FormatError if a field is out of range."""
    try:
        return _STRUCT.pack(
            VERSION,
            entry.flags,
            entry.object_id,
            entry.position,
            entry.length,
            entry.offset_count,
            entry.max_timestamp_ms,
            entry.producer_id,
            entry.producer_epoch,
            entry.base_sequence,
            entry.commit_ms,
        )
    except struct.error as error:
        raise FormatError(f"the tail entry is out of range: {error}") from error


@lru_cache(maxsize=4096)  # each update of a head shows its tail again
def decode_tail_entry(data: bytes) -> TailEntry:
    """Decode an entry. Raises FormatError for another length or version."""
    if len(data) != ENTRY_BYTES:
        raise FormatError(f"a tail entry must have {ENTRY_BYTES} bytes, not {len(data)}")
    if data[0] != VERSION:
        raise UnknownVersion(f"tail entry version {data[0]} is not known to this release: upgrade it")
    _, flags, *fields = _STRUCT.unpack(data)
    return TailEntry(*(*fields, flags))


def encode_tail_entries(entries: Iterable[TailEntry]) -> bytes:
    """Encode consecutive entries: the content of an index row."""
    return b"".join(map(encode_tail_entry, entries))


def decode_tail_entries(data: bytes) -> list[TailEntry]:
    """Decode the content of an index row. Raises FormatError for a length that is not a multiple of an entry's."""
    if len(data) % ENTRY_BYTES:
        raise FormatError(f"{len(data)} bytes are not a whole number of tail entries")
    return [decode_tail_entry(data[at : at + ENTRY_BYTES]) for at in range(0, len(data), ENTRY_BYTES)]
