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
import hmac
import json
from typing import Self

from aiohttp import web

from odradek.engine.access.users import Users
from odradek.errors import ErrorCode, KafkaError
from odradek.format.scram import ITERATIONS, SALT_BYTES, matches
from odradek.gateway.server import Listener, principal_of, tls_of
from odradek.http.browsers import host_of
from odradek.http.listening import address_of, is_loopback, listening_socket
from odradek.http.logins import Logins
from odradek.http.port import HttpPort
from odradek.http.ports import REGISTRY
from odradek.model.user import SCRAM_MECHANISMS, ScramCredential
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.registry.api import CONTENT_TYPE, RegistryApi, Request, Text
from odradek.settings import Settings

_REMEMBERED_S = 60.0
_REMEMBERED_MAX = 1_000
_ERROR_CODES = {401: 40101, 503: 50301}  # of a refusal, where it is not its status


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
        self._port = HttpPort(
            REGISTRY,
            self._serve,
            settings=settings,
            clock=clock,
            refuse=_refusal,
            names={"localhost", listener.host.lower(), host_of(listener.advertised or "") or ""},
            logins=Logins(self._is_right, clock) if listener.sasl else None,
        )
        self._secret = rng.random_bytes(32)
        self._known: dict[bytes, float] = {}  # digest of name and password -> end of its validity
        self.url = ""
        """The address for clients, once started."""

    async def start(self) -> Self:
        """Listen. Raises KafkaError(INVALID_CONFIG) if the address or the certificate cannot be used."""
        context = tls_of(self._listener)
        listener = self._listener
        if listener.sasl and context is None and not listener.plain_without_tls and not is_loopback(listener.host):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"logins of the schema registry on {listener.host} would send passwords in the clear: give a "
                "certificate, or allow that explicitly (plain_without_tls)",
            )
        listening = listening_socket(self._listener.host, self._listener.port)
        port = listening.getsockname()[1]
        address = listener.advertised or address_of(listener.host, port)
        self.url = f"{'http' if context is None else 'https'}://{address}"
        await self._port.start(listening, context)
        return self

    async def stop(self) -> None:
        """Stop listening, give running requests a moment to finish. May be repeated."""
        await self._port.stop()

    async def _serve(self, request: web.BaseRequest, user: str | None) -> web.StreamResponse:
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        principal = principal_of(certificate) if user is None else f"User:{user}"
        body = await self._port.read_body(request)
        path, _, query = request.raw_path.partition("?")
        asked = Request(request.method, path, query, body, principal, request.remote or "")
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                return _response(*await self._api.answer(asked))
        except TimeoutError:
            return _response(500, {"error_code": 50002, "message": "The registry timed out: try again"})

    async def _is_right(self, name: str, password: str) -> bool:
        """Return True for a user's own password, in the same time for unknown users."""
        digest = hmac.digest(self._secret, f"{name}\0{password}".encode(), "sha256")
        if self._known.get(digest, 0) > self._clock.monotonic():
            return True
        user = await self._users.get(name)
        credentials = {} if user is None else user.credentials
        mechanism = next((each for each in SCRAM_MECHANISMS if each in credentials), SCRAM_MECHANISMS[0])
        credential = credentials.get(mechanism) or ScramCredential(self._secret[:SALT_BYTES], ITERATIONS, b"", b"")
        if not await asyncio.to_thread(matches, mechanism, credential, password):
            return False
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
        self._known[digest] = self._clock.monotonic() + _REMEMBERED_S
        return True


def _refusal(status: int, message: str) -> web.Response:
    return _response(status, {"error_code": _ERROR_CODES.get(status, status), "message": message})


def _response(status: int, document: object) -> web.Response:
    body = str(document) if isinstance(document, Text) else json.dumps(document)
    return web.Response(status=status, body=body.encode(), headers={"Content-Type": CONTENT_TYPE})
