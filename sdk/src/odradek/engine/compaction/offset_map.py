"""The offset map of a compaction: the last offset of each key, for as many keys as it may hold.

    16-byte digest of the key (BLAKE2b)  ->  offset of the key's last record

No key is kept, so an entry costs the same however long keys are: about 150 bytes of a CPython dict (digest, integer
and slot; a test measures it), 150 MB for the default of a million entries. An open-addressed table in one
bytearray takes a fifth of that, and ten times the time, which is what a compaction waits for.

Two keys with the same digest would count as one; for a million random keys the odds are 1 in 10^26, and no known attack
finds such a pair of BLAKE2b-128 in less than 2^64 tries. (Kafka's cleaner does the same with MD5.)
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

DIGEST_BYTES = 16


def key_digest(key: bytes) -> bytes:
    """Return the digest that represents a key in the map."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


class OffsetMap:
    """Last offsets by key, at most `entries_max` keys."""

    __slots__ = ("_entries_max", "_offsets")

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Add a record; offsets must increase. Return False if the key is new and the map is full."""
        digest = key_digest(key)
        offsets = self._offsets
        if len(offsets) >= self._entries_max and digest not in offsets:
            return False
        offsets[digest] = offset
        return True

    def put_digest(self, digest: bytes, offset: int) -> None:
        """Note the last offset of a key of this digest, found elsewhere; the bound is the caller's."""
        self._offsets[digest] = offset

    def items(self) -> Iterable[tuple[bytes, int]]:
        """Digests and last offsets, in no order."""
        return self._offsets.items()

    def latest(self, key: bytes) -> int:
        """Return the key's last offset, -1 if the map does not contain the key."""
        return self._offsets.get(key_digest(key), -1)
