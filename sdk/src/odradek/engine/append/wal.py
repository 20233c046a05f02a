"""The write-ahead log: one upload per produce request, as an object or, if small, as an item of the log table.

The tail entry alone locates the bytes: its object id names the object or the item, its flag says which.

A process that serves producers and consumers keeps what it uploaded last: those who read at the end of a log then cost
no request. What an id names never changes, so a copy is as good as the store's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from odradek.backoff import Backoff
from odradek.engine.append.hedge import Hedge
from odradek.errors import ObjectMissing, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import wal_item_key
from odradek.format.object_keys import wal_key
from odradek.format.tail_entry import FLAG_ITEM
from odradek.model.log import Buffer
from odradek.ports.clock import Clock
from odradek.ports.object_store import ObjectStore
from odradek.ports.rng import Rng
from odradek.ports.table import Key, Put, Table
from odradek.settings import Settings

_ATTEMPTS = 6


class Wal:
    """Uploads and reads of WAL bytes."""

    def __init__(self, log: Table, objects: ObjectStore, clock: Clock, rng: Rng, settings: Settings) -> None:
        self.clock = clock
        self._log = log
        self._objects = objects
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=1.0)
        self._hedge = Hedge(clock, settings.upload_hedge_percent)
        self._settings = settings
        self._kept = _Kept(settings.uploads_kept_bytes)

    async def upload(self, object_id: bytes, parts: Sequence[Buffer]) -> int:
        """Make the bytes durable under the id and return the flags for its tail entries.

        An id is uploaded with one content only, so a repeated attempt that finds it there has succeeded before.
        Raises StoreUnavailable or OutcomeUnknown when attempts run out: nothing refers to the bytes yet.
        """
        size_bytes = sum(map(len, parts))
        small = size_bytes <= self._settings.item_bytes_max
        name = object_id.hex() if small else wal_key(object_id)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if small:
                    await self._log.put(Put(Key(*wal_item_key(object_id)), {"d": b"".join(parts)}))
                else:
                    await self._hedge.upload(lambda: self._objects.put(name, parts), size_bytes)
                break
            except (StoreUnavailable, OutcomeUnknown):
                if attempt == _ATTEMPTS:
                    raise
                await self._backoff.pause(attempt - 1)
        self._kept.keep(name, parts, size_bytes)
        return FLAG_ITEM if small else 0

    async def read_item(self, object_id: bytes) -> bytes:
        """The bytes of a small WAL item. Raises ObjectMissing, StoreUnavailable."""
        kept = self._kept.find(object_id.hex())
        if kept is not None:
            return kept
        item = await self._log.get(Key(*wal_item_key(object_id)))
        data = None if item is None else item.get("d")
        if not isinstance(data, bytes):
            raise ObjectMissing(f"WAL item {object_id.hex()}")
        return data

    def keeps(self, key: str) -> bool:
        """Return True if reading this object costs no request."""
        return self._kept.find(key) is not None

    async def read_range(self, key: str, start: int, length: int) -> Buffer:
        """Return a complete range of an object. Raises ObjectMissing (also for a shorter object), StoreUnavailable."""
        kept = self._kept.find(key)
        if kept is not None and start + length <= len(kept):
            return memoryview(kept)[start : start + length]
        data = await self._objects.get_range(key, start, length)
        if len(data) != length:
            raise ObjectMissing(f"{key} ends {length - len(data)} bytes early")
        return data


class _Kept:
    """The newest uploads of this process, within a number of bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._by_name: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def keep(self, name: str, parts: Sequence[Buffer], size_bytes: int) -> None:
        """Keep a copy: the parts lie in requests, which end."""
        if size_bytes > self._bytes_max or name in self._by_name:
            return
        self._by_name[name] = b"".join(parts)
        self._bytes += size_bytes
        while self._bytes > self._bytes_max:
            _, oldest = self._by_name.popitem(last=False)
            self._bytes -= len(oldest)

    def find(self, name: str) -> bytes | None:
        """The bytes of an upload, if they are kept."""
        return self._by_name.get(name)
