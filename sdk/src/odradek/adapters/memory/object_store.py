"""Objects in a dict. Every call runs to its end without yielding, under one lock."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from odradek.adapters.object_keys import check_limit, check_object_key, check_object_prefix, check_range, check_upload
from odradek.adapters.rejections import RejectionsTold
from odradek.errors import ObjectExists, ObjectMissing
from odradek.model.log import Buffer
from odradek.ports.clock import Clock
from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.object_store import ObjectInfo

LIST_PAGE_KEYS = 1000


class MemoryObjectStore:
    """ports.object_store.ObjectStore in this process's memory."""

    def __init__(self, clock: Clock, meter: Meter | None = None) -> None:
        self._clock = clock
        self._meter = meter or NullMeter()
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        with RejectionsTold(self._meter, "PutObject", key):
            check_upload(key, parts)
        content = b"".join(parts)
        self._meter.add("PutObject", Usage(object_put_requests=1, object_bytes_written=len(content)))
        with self._lock:
            if key in self._objects:
                raise ObjectExists(key)
            self._objects[key] = (content, self._clock.now_ms())

    async def get(self, key: str) -> bytes:
        content = self._find(key)
        self._meter.add("GetObject", Usage(object_get_requests=1, object_bytes_read=len(content)))
        return content

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        content = self._find(key)[start : start + length]
        self._meter.add("GetObject", Usage(object_get_requests=1, object_bytes_read=len(content)))
        return content

    async def head(self, key: str) -> ObjectInfo | None:
        check_object_key(key)
        self._meter.add("HeadObject", Usage(object_get_requests=1))
        with self._lock:
            stored = self._objects.get(key)
        return None if stored is None else ObjectInfo(key, len(stored[0]), stored[1])

    async def list(self, prefix: str, *, start_after: str = "", limit: int | None = None) -> list[ObjectInfo]:
        check_object_prefix(prefix)
        check_limit(limit)
        with self._lock:
            keys = sorted(key for key in self._objects if key.startswith(prefix) and key > start_after)[:limit]
            infos = [ObjectInfo(key, len(self._objects[key][0]), self._objects[key][1]) for key in keys]
        self._meter.add("ListObjectsV2", Usage(object_put_requests=len(infos) // LIST_PAGE_KEYS + 1))
        return infos

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_object_key(key)
        self._meter.add("DeleteObjects", Usage(object_delete_requests=-(-len(keys) // LIST_PAGE_KEYS)))
        with self._lock:
            for key in keys:
                self._objects.pop(key, None)

    def _find(self, key: str) -> bytes:
        check_object_key(key)
        with self._lock:
            stored = self._objects.get(key)
        if stored is None:
            self._meter.add("GetObject", Usage(object_get_requests=1))
            raise ObjectMissing(key)
        return stored[0]
