"""Basic authentication of HTTP ports: a failed login is answered after a delay, as on the Kafka port."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable

from odradek.ports.clock import Clock

FAILED_DELAY_S = 0.1  # Kafka's connection.failed.authentication.delay.ms

CheckLogin = Callable[[str, str], Awaitable[bool]]
"""User and password -> whether it is right; in the same time for unknown users."""


class Logins:
    """The users of a port.

    Args:
        check: of a user and a password.
        clock: for the delay.
    """

    def __init__(self, check: CheckLogin, clock: Clock) -> None:
        self._check = check
        self._clock = clock

    async def user(self, authorization: str) -> str | None:
        """Return the user of a request's header Authorization; None, after a delay, if it is missing or wrong."""
        pair = _pair(authorization)
        if pair is not None and await self._check(*pair):
            return pair[0]
        await self._clock.sleep(FAILED_DELAY_S)
        return None


def _pair(authorization: str) -> tuple[str, str] | None:
    scheme, _, token = authorization.partition(" ")
    try:
        user, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if scheme.lower() == "basic" and user and password else None
