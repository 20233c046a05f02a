"""S3's calls of single objects. Listing and deleting many, which have XML, are botocore's: maintenance does them.

    PUT  /key   If-None-Match: *, x-amz-checksum-crc32c    200 | 412 exists | 409 another creation is in progress
    GET  /key   Range: bytes=0-99                          200, 206 | 404 | 416
    HEAD /key                                              200 | 404, without a body

Bodies are not signed over TLS: that would cost a SHA-256 of each upload, and S3 checks its CRC-32C. Source: S3 API
reference; S3 user guide, "Signature calculations for the Authorization header".
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from botocore.exceptions import ClientError

from odradek.adapters.aws.direct.connections import Connections
from odradek.adapters.aws.direct.exchange import Answer
from odradek.adapters.aws.direct.signature import UNSIGNED_PAYLOAD, Signer
from odradek.ports.clock import Clock

_CODE: Final = re.compile(rb"<Code>([^<]+)</Code>")
_MESSAGE: Final = re.compile(rb"<Message>([^<]*)</Message>")


class Content:
    """The body of an object, as botocore gives it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        return self._content


class DirectS3:
    """The calls of botocore's client that the adapters make, with its parameters, results and exceptions.

    Args:
        bucket, bucket_url: the only bucket that is asked directly.
        connections: to the host of that URL.
        signer: of the service "s3".
        clock: dates the signatures.
        heed: called with the `Date` of every response.
        other: creates botocore's client, for what is not done here.
    """

    def __init__(
        self,
        bucket: str,
        bucket_url: str,
        connections: Connections,
        signer: Signer,
        clock: Clock,
        heed: Callable[[str | None], None],
        other: Callable[[], Any],
    ) -> None:
        self._bucket = bucket
        self._path = urlsplit(bucket_url).path
        self._connections = connections
        self._signer = signer
        self._clock = clock
        self._heed = heed
        self._create_other = other
        self._other: Any = None
        self._lock = threading.Lock()

    def put_object(
        self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str, ChecksumCRC32C: str
    ) -> dict[str, Any]:
        headers = {"if-none-match": IfNoneMatch, "x-amz-checksum-crc32c": ChecksumCRC32C}
        self._call("PUT", "PutObject", Bucket, Key, headers, Body)
        return {}

    def get_object(self, *, Bucket: str, Key: str, Range: str | None = None) -> dict[str, Any]:
        headers = {} if Range is None else {"range": Range}
        return {"Body": Content(self._call("GET", "GetObject", Bucket, Key, headers).body)}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        headers = self._call("HEAD", "HeadObject", Bucket, Key, {}).headers
        return {
            "ContentLength": int(headers["content-length"]),
            "LastModified": parsedate_to_datetime(headers["last-modified"]),
        }

    def list_objects_v2(self, **parameters: Any) -> dict[str, Any]:
        listed: dict[str, Any] = self._botocore().list_objects_v2(**parameters)
        return listed

    def delete_objects(self, **parameters: Any) -> dict[str, Any]:
        deleted: dict[str, Any] = self._botocore().delete_objects(**parameters)
        return deleted

    def close(self) -> None:
        self._connections.close()
        if self._other is not None:
            self._other.close()

    def _botocore(self) -> Any:
        with self._lock:  # sessions of botocore create one client at a time
            if self._other is None:
                self._other = self._create_other()
        return self._other

    def _call(
        self, method: str, operation: str, bucket: str, key: str, headers: dict[str, str], body: bytes = b""
    ) -> Answer:
        if bucket != self._bucket:
            raise ValueError(f"this client asks {self._bucket}, not {bucket}")
        path = f"{self._path}/{quote(key, safe='/~')}"
        body_sha256 = UNSIGNED_PAYLOAD if self._connections.is_encrypted else hashlib.sha256(body).hexdigest()
        headers |= {"host": self._connections.host_header, "x-amz-content-sha256": body_sha256}
        signed = self._signer.signed(method, path, headers, body_sha256, self._clock.now_ms())
        response = self._connections.request(method, path, signed, body)
        self._heed(response.headers.get("date"))
        if response.status >= 300:
            raise _error(response, operation)
        return response


def _error(refusal: Answer, operation: str) -> ClientError:
    """Return the exception of a refusal. One without a body, as of a HEAD request, has its status as code."""
    code, message = _CODE.search(refusal.body), _MESSAGE.search(refusal.body)
    response: Any = {
        "Error": {
            "Code": str(refusal.status) if code is None else code[1].decode(errors="replace"),
            "Message": "" if message is None else message[1].decode(errors="replace"),
        },
        "ResponseMetadata": {"HTTPStatusCode": refusal.status},
    }
    return ClientError(response, operation)
