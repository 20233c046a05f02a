"""Calls of URLs: POST, signed as Standard Webhooks has it, to addresses that may be reached.

`webhook-id`, `webhook-timestamp`, `webhook-signature: v1,<base64 of HMAC-SHA256>` over "<id>.<timestamp>.<body>" under
the trigger's secret ("whsec_" and base64). Source: standardwebhooks.com, specification.

The connection goes to an address that was looked at, not to a name that is resolved again, and to no proxy. A redirect
is an answer that is not a success: records go to the address that was given, and nowhere else.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import http.client
import socket
import ssl
from concurrent.futures import Executor
from functools import cache
from urllib.parse import urlsplit

from odradek.errors import ErrorCode, KafkaError
from odradek.ports.clock import Clock
from odradek.triggers.calls import RESPONSE_BYTES_MAX, Call, CallFailed, CallRefused
from odradek.triggers.reach import Reach, refused_address

SECRET_PREFIX = "whsec_"  # noqa: S105 (how a secret begins)
_BUSY = 429  # Too Many Requests: what was sent was not looked at
_SAID_BYTES = 300


class WebhookTarget:
    """Calls a URL with POST; an answer of 2xx is a success.

    Args:
        clock: for the signature's timestamp.
        reach: which addresses may be called.
        threads: the calls occupy one each.
    """

    def __init__(self, clock: Clock, reach: Reach, threads: Executor) -> None:
        self._clock = clock
        self._reach = reach
        self._threads = threads

    async def call(self, call: Call) -> bytes:
        url = urlsplit(call.trigger.function)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "odradek-trigger",
            **signature(call.trigger.secret, call.call_id, self._clock.now_ms() // 1000, call.event),
        }
        try:
            port = url.port
            connection = (_TlsConnection if url.scheme == "https" else _PlainConnection)(
                url.hostname or "", port, timeout=call.timeout_s
            )
        except (ValueError, http.client.HTTPException) as error:
            raise CallFailed(f"{call.trigger.function}: {error}") from None
        connection.reach = self._reach
        path = f"{url.path or '/'}{'?' + url.query if url.query else ''}"
        work = asyncio.get_running_loop().run_in_executor(self._threads, _post, connection, path, call.event, headers)
        try:
            async with asyncio.timeout(call.timeout_s):
                return await work
        except TimeoutError:
            raise CallFailed(f"no answer within {call.timeout_s:g} seconds") from None
        finally:
            _interrupt(connection)


class _PlainConnection(http.client.HTTPConnection):
    """A connection to an address that may be reached."""

    reach: Reach

    def connect(self) -> None:
        self.sock = self.opened()

    def opened(self) -> socket.socket:
        """Return a socket to the first of the host's addresses that answers. Raises CallRefused, OSError."""
        addresses = [
            str(resolved[4][0]) for resolved in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        ]
        allowed = [address for address in dict.fromkeys(addresses) if self.reach.allows_address(address)]
        if not allowed:
            raise CallRefused(refused_address(addresses[0] if addresses else self.host))
        for address in allowed[:-1]:
            try:
                return socket.create_connection((address, self.port), self.timeout)
            except OSError:
                continue
        return socket.create_connection((allowed[-1], self.port), self.timeout)


class _TlsConnection(_PlainConnection):
    """The same with TLS, and the certificate of the host's name."""

    default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        self.sock = _tls().wrap_socket(self.opened(), server_hostname=self.host)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _post(connection: _PlainConnection, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        if 200 <= response.status < 300:
            body_read = response.read(RESPONSE_BYTES_MAX + 1)
            if len(body_read) > RESPONSE_BYTES_MAX:
                raise CallFailed(f"the answer has more than {RESPONSE_BYTES_MAX} bytes")
            return body_read
        text = f"HTTP {response.status} {response.reason}: {response.read(_SAID_BYTES).decode('utf-8', 'replace')}"
        raise (CallRefused if response.status == _BUSY else CallFailed)(text)
    except socket.gaierror as error:
        raise CallFailed(f"{connection.host} is not known: {error}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise CallFailed(f"{type(error).__name__}: {error}") from None
    finally:
        connection.close()


def _interrupt(connection: _PlainConnection) -> None:
    """End what a thread still waits for on the connection."""
    try:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # closed by its thread


def signature(secret: str, call_id: str, time_s: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a call; none without a secret."""
    if not secret:
        return {}
    signed = f"{call_id}.{time_s}.".encode() + body
    digest = hmac.new(secret_key(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": call_id,
        "webhook-timestamp": str(time_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def secret_key(secret: str) -> bytes:
    """Return the key of a secret. Raises KafkaError(INVALID_REQUEST)."""
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a secret must be base64, with {SECRET_PREFIX} before it"
        ) from None


def new_secret(random_bytes: bytes) -> str:
    """Return a secret of these bytes, 24 or more."""
    return f"{SECRET_PREFIX}{base64.b64encode(random_bytes).decode()}"
