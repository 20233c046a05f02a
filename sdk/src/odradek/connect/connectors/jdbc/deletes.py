"""Deleted rows by comparison: the keys of a table are read now and then, and compared with those of the last time.

The keys are kept in source offsets, in buckets by their hash: an offset is written for a bucket whose keys have
changed, in the transaction of the tombstones. So the comparison goes on after a restart. It suits tables of up to
about a million rows, since all keys are read each time and are in the topic of offsets.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from odradek.connect.errors import ConnectError
from odradek.connect.record import Offset, Partition

BUCKETS = 64

Key = str
"""The values of a primary key as JSON."""


def key_of(values: Iterable[Any]) -> Key:
    """Return the text form of a key."""
    return json.dumps([value if isinstance(value, int | str) else str(value) for value in values])


class KnownKeys:
    """The keys of one table that were there at the last comparison, or were written since.

    Args:
        stored: returns the stored offset of a partition.
    """

    def __init__(self, table: str, stored: Callable[[Partition], Offset | None]) -> None:
        self._table = table
        self._stored = [_unpacked(stored(self.partition(number))) for number in range(BUCKETS)]
        self._added: list[set[Key]] = [set() for _ in range(BUCKETS)]

    def partition(self, bucket: int) -> dict[str, Any]:
        return {"table": self._table, "keys": bucket}

    def add(self, key: Key) -> None:
        """A row with this key was written: it is missed if it is deleted before the next comparison."""
        self._added[_bucket(key)].add(key)

    def compare(self, present: Iterable[Key]) -> list[tuple[int, list[Key], Offset]]:
        """Take the keys that are there now; return bucket, deleted keys and offset of each bucket that has changed."""
        now: list[set[Key]] = [set() for _ in range(BUCKETS)]
        for key in present:
            now[_bucket(key)].add(key)
        changed = []
        for number, (before, added, after) in enumerate(zip(self._stored, self._added, now, strict=True)):
            deleted = sorted((before | added) - after)
            if deleted or before != after:
                changed.append((number, deleted, _packed(after)))
        self._stored, self._added = now, [set() for _ in range(BUCKETS)]
        return changed


def _bucket(key: Key) -> int:
    return zlib.crc32(key.encode()) % BUCKETS


def _packed(keys: set[Key]) -> Offset:
    return {"keys": base64.b64encode(zlib.compress(json.dumps(sorted(keys)).encode())).decode()}


def _unpacked(offset: Offset | None) -> set[Key]:
    if offset is None:
        return set()
    try:
        return set(json.loads(zlib.decompress(base64.b64decode(offset["keys"]))))
    except (KeyError, ValueError, zlib.error) as error:
        raise ConnectError(f"a stored offset is not one of delete.detection=snapshot: {error}") from error
