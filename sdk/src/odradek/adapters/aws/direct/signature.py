"""Signature version 4 of a request without a query string. Pure.

    canonical request   method \n path \n (no query) \n name:value of each header \n names \n SHA-256 of the body
    string to sign      "AWS4-HMAC-SHA256" \n time \n day/region/service/aws4_request \n SHA-256 of the above
    key                 HMAC chain over secret, day, region, service, "aws4_request"

All headers that are given are signed. botocore's signer does the same in three times the CPU, and importing it takes
most of botocore along. A test compares both. Source: AWS IAM user guide, "Create a signed AWS API request".
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"  # S3 accepts it over TLS, which protects the body as well


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of a role or a user."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Signer:
    """Signs requests of one service in one region.

    Args:
        credentials: valid as long as the process.
        region, service: the scope of the signatures, such as "us-east-1" and "dynamodb".
    """

    def __init__(self, credentials: Credentials, region: str, service: str) -> None:
        self._credentials = credentials
        self._region = region
        self._service = service
        self._key: tuple[str, bytes] = ("", b"")  # the day and its key

    def signed(
        self, method: str, path: str, headers: Mapping[str, str], body_sha256: str, now_ms: int
    ) -> dict[str, str]:
        """Return the headers and those that sign the request.

        Args:
            path: percent-encoded, as it is sent.
            headers: lower-case names, `host` among them.
            body_sha256: of the body, in hex; or UNSIGNED_PAYLOAD.
            now_ms: the time of the signature; AWS refuses one that is five minutes off.
        """
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms // 1000))
        signed = {**headers, "x-amz-date": moment}
        if self._credentials.session_token is not None:
            signed["x-amz-security-token"] = self._credentials.session_token
        names = sorted(signed)
        joined = ";".join(names)
        lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in names)
        canonical = f"{method}\n{path}\n\n{lines}\n{joined}\n{body_sha256}"
        scope = f"{moment[:8]}/{self._region}/{self._service}/aws4_request"
        to_sign = f"{ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key_of(moment[:8]), to_sign.encode(), "sha256").hex()
        signed["authorization"] = (
            f"{ALGORITHM} Credential={self._credentials.access_key_id}/{scope}, SignedHeaders={joined}, "
            f"Signature={signature}"
        )
        return signed

    def _key_of(self, day: str) -> bytes:
        key_day, key = self._key
        if key_day != day:
            key = f"AWS4{self._credentials.secret_access_key}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (day, key)
        return key
