"""The uploads of the WAL: objects under `wal/` and items of the log table, by object id.

Objects are listed prefix by prefix, each from its very first name on, since names under a prefix sort by id: what a
writer with an old id put there late is found however old it is. Items have no common beginning: they are looked for
hour by hour, 64 shards each. Which hours is the caller's to say.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from odradek.engine.maintenance.patience import patiently
from odradek.format.item_keys import WAL_SHARDS, wal_item_key, wal_item_pk
from odradek.format.object_id import OBJECT_ID_BYTES, object_id_ms
from odradek.format.object_keys import wal_key, wal_key_below, wal_prefixes
from odradek.ports.clock import Clock
from odradek.ports.object_store import ObjectInfo, ObjectStore
from odradek.ports.rng import Rng
from odradek.ports.table import Delete, Key, Table

HOUR_MS = 3_600_000
_OBJECTS_PER_PAGE = 1000
_ITEMS_PER_PAGE = 32  # an item carries its bytes
_SHARDS_AT_ONCE = 16
_DELETES_AT_ONCE = 25
_PREFIXES_AT_ONCE = 8
_WAL_NAME = re.compile(rf"wal/[0-9a-f]/\d{{10}}/([0-9a-f]{{{2 * OBJECT_ID_BYTES}}})")


@dataclass(frozen=True, slots=True)
class WalUpload:
    """One produce request's bytes."""

    object_id: bytes
    is_item: bool
    size_bytes: int

    @property
    def hour(self) -> int:
        """Hours from 1970 to the id's time."""
        return object_id_ms(self.object_id) // HOUR_MS

    @property
    def place(self) -> str:
        """The location, for people."""
        return " / ".join(wal_item_key(self.object_id)) if self.is_item else wal_key(self.object_id)


class WalUploads:
    """Lists and deletes uploads."""

    def __init__(self, log: Table, objects: ObjectStore, clock: Clock, rng: Rng) -> None:
        self._log = log
        self._objects = objects
        self._clock = clock
        self._rng = rng

    async def below(self, end: bytes, hours: Iterable[int]) -> AsyncIterator[WalUpload]:
        """All objects, and the items of these hours, with an id below `end`. Raises StoreUnavailable."""
        async for upload in self._objects_below(end):
            yield upload
        for hour in hours:
            for start in range(0, WAL_SHARDS, _SHARDS_AT_ONCE):
                shards = range(start, min(start + _SHARDS_AT_ONCE, WAL_SHARDS))
                first_pages = await asyncio.gather(*(self._items(hour, shard, "") for shard in shards))
                for shard, first_page in zip(shards, first_pages, strict=True):
                    page = first_page
                    while page:
                        for upload in page:
                            if upload.object_id < end:
                                yield upload
                        if len(page) < _ITEMS_PER_PAGE:
                            break
                        page = await self._items(hour, shard, page[-1].object_id.hex() + "\0")

    async def _objects_below(self, end: bytes) -> AsyncIterator[WalUpload]:
        prefixes = wal_prefixes()
        for start in range(0, len(prefixes), _PREFIXES_AT_ONCE):
            some = prefixes[start : start + _PREFIXES_AT_ONCE]
            first_pages = await asyncio.gather(*(self._objects_after(prefix, "") for prefix in some))
            for prefix, first_page in zip(some, first_pages, strict=True):
                end_key = wal_key_below(prefix, end)
                page = first_page
                while page:
                    for info in page:
                        object_id = parse_wal_key(info.key) if info.key < end_key else None
                        if object_id is not None:
                            yield WalUpload(object_id, False, info.size_bytes)
                    if len(page) < _OBJECTS_PER_PAGE or page[-1].key >= end_key:
                        break
                    page = await self._objects_after(prefix, page[-1].key)

    async def _objects_after(self, prefix: str, start_after: str) -> list[ObjectInfo]:
        return await patiently(
            self._clock,
            self._rng,
            lambda: self._objects.list(prefix, start_after=start_after, limit=_OBJECTS_PER_PAGE),
        )

    async def _items(self, hour: int, shard: int, sk_from: str) -> list[WalUpload]:
        """One page. What a read that is not consistent overlooks is found by the next sweep."""
        pk = wal_item_pk(datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC), shard)
        rows = await patiently(
            self._clock,
            self._rng,
            lambda: self._log.query(pk, sk_from=sk_from, limit=_ITEMS_PER_PAGE, consistent=False),
        )
        sizes = [(row.key.sk, row.item.get("d")) for row in rows]
        return [WalUpload(bytes.fromhex(sk), True, len(d) if isinstance(d, bytes) else 0) for sk, d in sizes]

    async def delete(self, uploads: Sequence[WalUpload]) -> None:
        """Delete uploads; missing ones are ignored. Raises StoreUnavailable, OutcomeUnknown."""
        keys = [wal_key(upload.object_id) for upload in uploads if not upload.is_item]
        for start in range(0, len(keys), _OBJECTS_PER_PAGE):
            some = keys[start : start + _OBJECTS_PER_PAGE]
            await patiently(self._clock, self._rng, lambda some=some: self._objects.delete(some))  # type: ignore[misc]
        items = [Key(*wal_item_key(upload.object_id)) for upload in uploads if upload.is_item]
        for start in range(0, len(items), _DELETES_AT_ONCE):
            await asyncio.gather(*(self._delete_item(key) for key in items[start : start + _DELETES_AT_ONCE]))

    async def _delete_item(self, key: Key) -> None:
        await patiently(self._clock, self._rng, lambda: self._log.delete(Delete(key)))


def parse_wal_key(key: str) -> bytes | None:
    """Return the object id in a WAL object's name; None for a foreign name."""
    match = _WAL_NAME.fullmatch(key)
    object_id = bytes.fromhex(match[1]) if match is not None else None
    return object_id if object_id is not None and wal_key(object_id) == key else None
