"""Values that leave this process and come back: signed and dated, so that nobody changes or keeps them.

    base64url(JSON with "at", seconds since the epoch) . base64url(HMAC-SHA256)

Sealed is not encrypted: what a browser must not read does not belong in it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.ports.clock import Clock

_SECRET_BYTES_MIN = 32
_AHEAD_S = 60  # the clocks of two processes differ


class Sealer:
    """Seals with a secret that all processes of a console share. Raises KafkaError(INVALID_CONFIG) for a short one."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        if len(secret) < _SECRET_BYTES_MIN:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"the secret needs {_SECRET_BYTES_MIN} bytes or more")
        self._secret = secret
        self._clock = clock

    def seal(self, values: Mapping[str, Any]) -> str:
        """Return values as text for a cookie."""
        at_s = self._clock.now_ms() // 1000
        body = _encoded(json.dumps({**values, "at": at_s}, separators=(",", ":")).encode())
        return f"{body}.{_encoded(self._mac(body))}"

    def opened(self, text: str, age_s_max: float) -> dict[str, Any] | None:
        """Return what was sealed; None if it was changed, or is too old."""
        body, _, mac = text.partition(".")
        try:
            given = base64.urlsafe_b64decode(mac + "=" * (-len(mac) % 4))
            if not hmac.compare_digest(given, self._mac(body)):
                return None
            found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            age_s = self._clock.now_ms() / 1000 - found["at"]
        except (ValueError, KeyError, TypeError, binascii.Error):
            return None
        return found if -_AHEAD_S <= age_s <= age_s_max else None

    def _mac(self, body: str) -> bytes:
        return hmac.digest(self._secret, body.encode(), hashlib.sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
