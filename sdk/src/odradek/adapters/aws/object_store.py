"""Objects in S3: created with If-None-Match, with a CRC-32C that S3 checks on upload.

S3 answers 412 to the creation of an existing key, and 409 while another creation of it is in progress. The latter is
retried, because its outcome is not decided yet.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from odradek.adapters.aws.calls import BACKOFF, Calls, Refused, error_code
from odradek.adapters.object_keys import check_limit, check_object_key, check_object_prefix, check_range, check_upload
from odradek.adapters.rejections import RejectionsTold
from odradek.errors import ObjectExists, ObjectMissing, StoreUnavailable
from odradek.format.crc import crc32c
from odradek.model.log import Buffer
from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.object_store import ObjectInfo

PAGE_KEYS_MAX: Final = 1000  # of a listing and of a DeleteObjects
CONFLICT_ATTEMPTS_MAX: Final = 5


class S3ObjectStore:
    """ports.object_store.ObjectStore over a bucket.

    Args:
        client: botocore's S3 client, made for one attempt a call.
        bucket: the bucket.
        prefix: put before every key; empty or ending with a slash.
        calls: the threads to call in; by default a separate pool.
    """

    def __init__(
        self,
        client: Any,
        bucket: str,
        prefix: str = "",
        meter: Meter | None = None,
        *,
        calls: Calls | None = None,
    ) -> None:
        if prefix and not prefix.endswith("/"):
            raise ValueError(f"the prefix of a store must end with a slash: {prefix!r}")
        self._client = client
        self._calls = calls or Calls.for_client(client)
        self._meter = meter or NullMeter()
        self._prefix = prefix
        self.bucket = bucket

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        with RejectionsTold(self._meter, "PutObject", key):
            check_upload(key, parts, self._prefix)
        content = b"".join(parts)
        checksum = base64.b64encode(crc32c(content).to_bytes(4, "big")).decode()
        for attempt in range(CONFLICT_ATTEMPTS_MAX):
            self._meter.add("PutObject", Usage(object_put_requests=1, object_bytes_written=len(content)))
            try:
                with RejectionsTold(self._meter, "PutObject", key):
                    await self._calls.write(
                        self._client.put_object,
                        Bucket=self.bucket,
                        Key=self._prefix + key,
                        Body=content,
                        IfNoneMatch="*",
                        ChecksumCRC32C=checksum,
                    )
                return
            except Refused as refused:
                raise ObjectExists(key) from refused
            except StoreUnavailable as error:
                conflict = isinstance(error.__cause__, ClientError) and (
                    error_code(error.__cause__) == "ConditionalRequestConflict"
                )
                if not conflict or attempt == CONFLICT_ATTEMPTS_MAX - 1:
                    raise
            await BACKOFF.pause(attempt)

    async def get(self, key: str) -> bytes:
        check_object_key(key)
        return await self._get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        check_object_key(key)
        check_range(start, length)
        if length == 0:  # S3 has no empty ranges
            if await self.head(key) is None:
                raise ObjectMissing(key)
            return b""
        return await self._get(key, Range=f"bytes={start}-{start + length - 1}")

    async def head(self, key: str) -> ObjectInfo | None:
        check_object_key(key)
        self._meter.add("HeadObject", Usage(object_get_requests=1))
        try:
            response = await self._calls.read(self._client.head_object, Bucket=self.bucket, Key=self._prefix + key)
        except Refused:
            return None
        return ObjectInfo(key, response["ContentLength"], ms_of(response["LastModified"]))

    async def list(self, prefix: str, *, start_after: str = "", limit: int | None = None) -> list[ObjectInfo]:
        check_object_prefix(prefix)
        check_limit(limit)
        infos: list[ObjectInfo] = []
        parameters: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix + prefix}
        if start_after:
            parameters["StartAfter"] = self._prefix + start_after
        while limit is None or len(infos) < limit:
            parameters["MaxKeys"] = PAGE_KEYS_MAX if limit is None else min(PAGE_KEYS_MAX, limit - len(infos))
            response = await self._calls.read(self._client.list_objects_v2, **parameters)
            self._meter.add("ListObjectsV2", Usage(object_put_requests=1))
            infos += (
                ObjectInfo(
                    listed_object["Key"].removeprefix(self._prefix),
                    listed_object["Size"],
                    ms_of(listed_object["LastModified"]),
                )
                for listed_object in response.get("Contents", ())
            )
            if not response["IsTruncated"]:
                break
            parameters["ContinuationToken"] = response["NextContinuationToken"]
        return infos

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_object_key(key)
        for at in range(0, len(keys), PAGE_KEYS_MAX):
            objects = [{"Key": self._prefix + key} for key in keys[at : at + PAGE_KEYS_MAX]]
            self._meter.add("DeleteObjects", Usage(object_delete_requests=1))
            response = await self._calls.write(
                self._client.delete_objects, Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True}
            )
            for failed in response.get("Errors", ()):
                raise StoreUnavailable(f"{failed.get('Key')} was not deleted: {failed.get('Code')}")

    async def _get(self, key: str, **parameters: str) -> bytes:
        content = b""
        try:
            response = await self._calls.read(self._read, Bucket=self.bucket, Key=self._prefix + key, **parameters)
            content = bytes(response["Content"])
        except Refused as refused:
            if refused.code == "InvalidRange":
                return b""
            raise ObjectMissing(key) from refused
        finally:
            self._meter.add("GetObject", Usage(object_get_requests=1, object_bytes_read=len(content)))
        return content

    def _read(self, **parameters: str) -> dict[str, Any]:
        """Call GetObject and read its body in the same thread, so that a truncated body is retried as a whole."""
        response = self._client.get_object(**parameters)
        return {"Content": response["Body"].read()}


def ms_of(time: Any) -> int:
    """Return milliseconds since the epoch."""
    return int(time.timestamp() * 1000)
