"""The WAL in a separate bucket: S3 Express One Zone, whose PUTs are cheaper and take single milliseconds.

    wal/...      written to the directory bucket; read there, then in the main bucket
    the others   in the main bucket

The option can be enabled for a log that has uploads in the main bucket. After it is disabled, objects in the directory
bucket cannot be reached: let maintenance merge them first (docs/OPERATIONS.md). One setting names both buckets,
`<bucket>,<directory bucket>`, so every program that opens a store by name opens both.

A directory bucket lists keys in no order, without a start key, and only by whole folders: `DirectoryBucketStore` lists
folder by folder and sorts. WAL folders are digits, and hours in them. Source: S3 user guide, "Directory buckets"; API
reference, ListObjectsV2.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from odradek.adapters.aws.calls import Calls
from odradek.adapters.aws.object_store import S3ObjectStore, ms_of
from odradek.adapters.express_meter import ExpressMeter
from odradek.adapters.object_keys import check_limit, check_object_prefix
from odradek.errors import ObjectMissing
from odradek.model.log import Buffer
from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.object_store import ObjectInfo, ObjectStore

WAL_PREFIX = "wal/"


def split_buckets(names: str) -> tuple[str, str | None]:
    """Return the main bucket and the WAL's bucket or None: "log,wal--use1-az4--x-s3"."""
    bucket, _, wal_bucket = names.partition(",")
    return bucket, wal_bucket or None


class DirectoryBucketStore(S3ObjectStore):
    """An object store over a directory bucket, whose calls are counted as such."""

    def __init__(
        self, client: Any, bucket: str, prefix: str = "", meter: Meter | None = None, *, calls: Calls | None = None
    ) -> None:
        super().__init__(client, bucket, prefix, ExpressMeter(meter or NullMeter()), calls=calls)

    async def list(self, prefix: str, *, start_after: str = "", limit: int | None = None) -> list[ObjectInfo]:
        check_object_prefix(prefix)
        check_limit(limit)
        infos: list[ObjectInfo] = []
        await self._collect(prefix[: prefix.rfind("/") + 1], prefix, start_after, limit, infos)
        return infos

    async def _collect(
        self, folder: str, prefix: str, start_after: str, limit: int | None, infos: MutableSequence[ObjectInfo]
    ) -> None:
        """Add the keys below the folder in order, up to the limit."""
        for name, info in sorted((await self._level(folder)).items()):
            if limit is not None and len(infos) >= limit:
                return
            if info is not None:
                if name.startswith(prefix) and name > start_after:
                    infos.append(info)
            elif (name.startswith(prefix) or prefix.startswith(name)) and (
                name > start_after or start_after.startswith(name)
            ):
                await self._collect(name, prefix, start_after, limit, infos)

    async def _level(self, folder: str) -> dict[str, ObjectInfo | None]:
        """Return objects and folders (None) directly below a folder."""
        level: dict[str, ObjectInfo | None] = {}
        parameters: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix + folder, "Delimiter": "/"}
        while True:
            response = await self._calls.read(self._client.list_objects_v2, **parameters)
            self._meter.add("ListObjectsV2", Usage(object_put_requests=1))
            for common_prefix in response.get("CommonPrefixes", ()):
                level[common_prefix["Prefix"].removeprefix(self._prefix)] = None
            for listed_object in response.get("Contents", ()):
                key = listed_object["Key"].removeprefix(self._prefix)
                level[key] = ObjectInfo(key, listed_object["Size"], ms_of(listed_object["LastModified"]))
            if not response["IsTruncated"]:
                return level
            parameters["ContinuationToken"] = response["NextContinuationToken"]


class WalApart:
    """ports.object_store.ObjectStore over both buckets."""

    def __init__(self, wal: ObjectStore, main: ObjectStore) -> None:
        self._wal, self._main = wal, main

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await (self._wal if key.startswith(WAL_PREFIX) else self._main).put(key, parts)

    async def get(self, key: str) -> bytes:
        if key.startswith(WAL_PREFIX):
            try:
                return await self._wal.get(key)
            except ObjectMissing:
                pass  # uploaded before the WAL had a separate bucket
        return await self._main.get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if key.startswith(WAL_PREFIX):
            try:
                return await self._wal.get_range(key, start, length)
            except ObjectMissing:
                pass
        return await self._main.get_range(key, start, length)

    async def head(self, key: str) -> ObjectInfo | None:
        info = await self._wal.head(key) if key.startswith(WAL_PREFIX) else None
        return info or await self._main.head(key)

    async def list(self, prefix: str, *, start_after: str = "", limit: int | None = None) -> list[ObjectInfo]:
        main = await self._main.list(prefix, start_after=start_after, limit=limit)
        if not prefix.startswith(WAL_PREFIX) and not WAL_PREFIX.startswith(prefix):
            return main
        wal = await self._wal.list(prefix, start_after=start_after, limit=limit)
        return list(islice(merge(wal, main, key=lambda info: info.key), limit))

    async def delete(self, keys: Sequence[str]) -> None:
        wal = [key for key in keys if key.startswith(WAL_PREFIX)]
        if wal:
            await self._wal.delete(wal)
        await self._main.delete(keys)
