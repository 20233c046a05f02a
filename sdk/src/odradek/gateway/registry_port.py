"""The schema registry over plain HTTP or TLS, for clients that cannot sign requests: Confluent's, and curl.

    Authorization: Basic <user:password>   ->   User:<user>, checked like SASL/PLAIN on the Kafka port (the same users)
    none                                   ->   401 if logins are required, else the subject of the client's
                                                certificate, or User:ANONYMOUS

Logins without TLS are limited to the loopback interface, unless the listener allows them: each request has a password.

A port without logins trusts every client that can reach it, but it must not trust pages in a browser (http_port.py): it
refuses an Origin, a Host that a third party may own, and a content type that a page may send without a preflight
request.

Passwords are hashed slowly on purpose, and clients send them with every request. So a correct one is remembered for a
minute, as a keyed digest and in this process only. A wrong one is answered after a delay, always by the slow path.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
from typing import Self

from aiohttp import web

from odradek.engine.access.users import Users
from odradek.errors import ErrorCode, KafkaError, StoreError
from odradek.format.scram import ITERATIONS, SALT_BYTES, matches
from odradek.gateway.http_port import HttpPort, from_browser, host_of, is_foreign_host
from odradek.gateway.server import Listener, is_loopback, listening_socket, principal_of, tls_context
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.model.user import SCRAM_MECHANISMS, ScramCredential
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.registry.api import CONTENT_TYPE, RegistryApi, Request, Text
from odradek.settings import Settings

_FAILED_DELAY_S = 0.1
_REMEMBERED_S = 60.0
_REMEMBERED_MAX = 1_000
_CONTENT_TYPES = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream")


class RegistryPort:
    """A server for the registry; `start` it and `stop` it.

    Args:
        api: answers the requests.
        users: the users that may log in.
        listener: the address to listen on; with `sasl` clients must log in.
        settings: limits on connections and times.
        clock, rng: time and randomness.
    """

    def __init__(
        self, api: RegistryApi, users: Users, listener: Listener, settings: Settings, *, clock: Clock, rng: Rng
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._api = api
        self._users = users
        self._listener = listener
        self._port = HttpPort("schema registry", self._serve, settings=settings, clock=clock, refuse=_refusal)
        self._names = {"localhost", listener.host.lower(), host_of(listener.advertised or "") or ""}
        self._secret = rng.random_bytes(32)
        self._known: dict[bytes, float] = {}  # digest of name and password -> end of its validity
        self.url = ""
        """The address for clients, once started."""

    async def start(self) -> Self:
        """Listen. Raises KafkaError(INVALID_CONFIG) if the address or the certificate cannot be used."""
        context = tls_context(self._listener)
        listener = self._listener
        if listener.sasl and context is None and not listener.plain_without_tls and not is_loopback(listener.host):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"logins of the schema registry on {listener.host} would send passwords in the clear: give a "
                "certificate, or allow that explicitly (plain_without_tls)",
            )
        listening = listening_socket(self._listener.host, self._listener.port)
        port = listening.getsockname()[1]
        host = "127.0.0.1" if self._listener.host in ("", "0.0.0.0") else self._listener.host
        host = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if context is None else 'https'}://{self._listener.advertised or f'{host}:{port}'}"
        await self._port.start(listening, context)
        return self

    async def stop(self) -> None:
        """Stop listening, give running requests a moment to finish. May be repeated."""
        await self._port.stop()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if (refused := self._refused(request)) is not None:
            return refused
        try:
            principal = await self._principal(request)
            if principal is None:
                await self._clock.sleep(_FAILED_DELAY_S)
                return _response(401, {"error_code": 40101, "message": "Log in: user or password is missing or wrong"})
            body = await self._port.read_body(request, FUNCTION_BINARY_BYTES_MAX)
            is_named = bool(request.headers.get("Content-Type", "").strip())  # aiohttp has a default
            if body and not (is_named and request.content_type in _CONTENT_TYPES):
                return _refusal(415, f"HTTP 415 Unsupported Media Type: send Content-Type: {CONTENT_TYPE}")
            path, _, query = request.raw_path.partition("?")
            asked = Request(request.method, path, query, body, principal, request.remote or "")
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                return _response(*await self._api.answer(asked))
        except StoreError:
            return _response(503, {"error_code": 50301, "message": "Users cannot be read now: try again"})
        except TimeoutError:
            return _response(500, {"error_code": 50002, "message": "The registry timed out: try again"})

    def _refused(self, request: web.BaseRequest) -> web.Response | None:
        """Return the refusal of a request that a page in a browser may have sent; None for others."""
        if from_browser(request):
            return _refusal(403, "The registry refuses requests of web pages (the request has an Origin)")
        if not self._listener.sasl and is_foreign_host(request, self._names):
            host = request.headers.get("Host", "")[:100]
            return _refusal(
                403,
                f"The registry does not answer to the name {host!r}: use its address, advertise that name, or require "
                "logins",
            )
        return None

    async def _principal(self, request: web.BaseRequest) -> str | None:
        """Return the principal of a request; None if a login is required and missing or wrong."""
        if not self._listener.sasl:
            transport = request.transport
            return principal_of(None if transport is None else transport.get_extra_info("peercert"))
        try:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            name, _, password = base64.b64decode(token, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        if scheme.lower() != "basic" or not name or not password:
            return None
        digest = hmac.digest(self._secret, f"{name}\0{password}".encode(), "sha256")
        if self._known.get(digest, 0) > self._clock.monotonic():
            return f"User:{name}"
        user = await self._users.get(name)
        credentials = {} if user is None else user.credentials
        mechanism = next((each for each in SCRAM_MECHANISMS if each in credentials), SCRAM_MECHANISMS[0])
        credential = credentials.get(mechanism) or ScramCredential(self._secret[:SALT_BYTES], ITERATIONS, b"", b"")
        if not await asyncio.to_thread(matches, mechanism, credential, password):
            return None
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
        self._known[digest] = self._clock.monotonic() + _REMEMBERED_S
        return f"User:{name}"


def _refusal(status: int, message: str) -> web.Response:
    return _response(status, {"error_code": status, "message": message})


def _response(status: int, document: object) -> web.Response:
    body = str(document) if isinstance(document, Text) else json.dumps(document)
    headers = {"Content-Type": CONTENT_TYPE}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="odradek"'
    return web.Response(status=status, body=body.encode(), headers=headers)
