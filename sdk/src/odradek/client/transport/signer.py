"""Signature version 4 for function URLs with auth type AWS_IAM, over botocore.

The service is `lambda`. The SHA-256 of the body is signed and sent as X-Amz-Content-Sha256: a function URL does not
need the header, but CloudFront in front of one does.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SERVICE = "lambda"
DEFAULT_REGION = "us-east-1"  # what AWS tools fall back to

_FUNCTION_URL_HOST = re.compile(r"^[a-z0-9]+\.lambda-url\.(?P<region>[a-z0-9-]+)\.on\.aws$")


def region_of(host: str) -> str | None:
    """Return the region in the host name of a function URL; None for any other host."""
    match = _FUNCTION_URL_HOST.match(host.lower())
    return match["region"] if match else None


class Signer:
    """Signs requests with given credentials, or with those of botocore's default chain, refreshed when they expire."""

    def __init__(
        self,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        aws_session_token: str | None = None,
    ) -> None:
        self._credentials: Any = None
        self._region: str | None = None
        if aws_access_key_id is not None and aws_secret_access_key is not None:
            self._credentials = Credentials(aws_access_key_id, aws_secret_access_key, aws_session_token)
            return
        from botocore.session import Session  # slow to import; not needed with explicit credentials

        session = Session()
        self._credentials = session.get_credentials()
        self._region = session.get_config_variable("region")

    @property
    def has_credentials(self) -> bool:
        return self._credentials is not None

    @property
    def default_region(self) -> str:
        return self._region or DEFAULT_REGION

    def headers(self, method: str, url: str, body: bytes, headers: dict[str, str], region: str) -> dict[str, str]:
        """Return the given headers and those that sign the request; unchanged if there are no credentials."""
        if self._credentials is None:
            return headers
        request = AWSRequest(
            method=method,
            url=url,
            data=body,
            headers={**headers, "x-amz-content-sha256": hashlib.sha256(body).hexdigest()},
        )
        # Refreshable credentials are read once, so that key, secret and token belong together.
        SigV4Auth(self._credentials.get_frozen_credentials(), SERVICE, region).add_auth(request)
        return dict(request.headers.items())
