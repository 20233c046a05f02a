"""The base of every HTTP port: limits on peers, and the refusal of requests that a page in a browser may have sent.

    connections beyond http_connections_max               closed at once
    a request not complete within http_read_timeout_ms    closed, or answered with 408 if its head is complete
    a response not read within http_read_timeout_ms       closed
    idle for IDLE_S between two requests                  closed
    bytes that are not valid HTTP                         400 and one line in the log, without a stack trace

A page in a browser can send requests to any address that the browser reaches, and read the responses of a host whose
name resolves to it ("DNS rebinding"). So a port that does not require a signature refuses requests that a browser sends
for a page (`from_browser`), and a Host that a third party may own (`is_foreign_host`). Source: Fetch standard,
"CORS-safelisted request-header", for what a page may send without a preflight request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Self

from aiohttp import web

from odradek.ports.clock import Clock
from odradek.settings import Settings

logger = logging.getLogger(__name__)

IDLE_S = 75.0
_SWEEP_S = 1.0
_SHUTDOWN_GRACE_S = 3.0
_LINGER_S = 1.0  # for the rest of a body after its refusal, so that a peer that still sends can read why


class BadRequest(Exception):
    """A request that cannot be read; it is answered with `status`, and the connection ends.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpPort:
    """A listening HTTP server with limits; `start` it and `stop` it.

    Args:
        name: the port's name in the log.
        answer: handles a request once its head is complete; it reads the body by `read_body`. An exception of it is
            answered with 500, without details.
        settings: the limits.
        clock: for deadlines.
        refuse: makes the response for a status and a message, in the port's format.
    """

    def __init__(
        self,
        name: str,
        answer: Answer,
        *,
        settings: Settings,
        clock: Clock,
        refuse: Callable[[int, str], web.Response],
    ) -> None:
        self._name = name
        self._answer = answer
        self._settings = settings
        self._clock = clock
        self._refuse = refuse
        self._runner: web.ServerRunner | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._peers: set[_Peer] = set()
        self._refused_s = -1.0

    async def start(self, listening: socket.socket, context: ssl.SSLContext | None = None) -> Self:
        """Serve on a listening socket. The port closes it."""
        server = _Server(self)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_GRACE_S)
        await self._runner.setup()
        await web.SockSite(self._runner, listening, ssl_context=context).start()
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep())
        return self

    async def stop(self) -> None:
        """Stop listening, give running requests a moment to finish, then close all connections. May be repeated."""
        runner, self._runner = self._runner, None
        if self._sweeping is not None:
            self._sweeping.cancel()
        if runner is not None:
            await runner.cleanup()

    # --- a request ----------------------------------------------------------------------------------------------------

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; never raise because of its content."""
        peer = request.protocol
        assert isinstance(peer, _Peer)
        peer.head_is_there()
        try:
            _check_text(request)
            return await self._answer(request)
        except BadRequest as bad:
            self._log_refused(request.remote, str(bad))
            response = self._refuse(bad.status, str(bad))
            response.force_close()
            return response
        except Exception:
            logger.exception("%s: a request from %s failed", self._name, request.remote)
            return self._refuse(500, "An unexpected error; its cause is in the log")
        finally:
            peer.answered()

    async def read_body(self, request: web.BaseRequest, bytes_max: int) -> bytes:
        """Read the body. Raises BadRequest(413) beyond `bytes_max`, BadRequest(408) if it is not sent in time."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.http_read_timeout_ms / 1000):
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                    if size > bytes_max:
                        raise BadRequest(413, f"The request is larger than {bytes_max} bytes.")
                    parts.append(chunk)
        except TimeoutError:
            raise BadRequest(408, "The body was not sent in time.") from None
        except web.RequestPayloadError as error:
            raise BadRequest(400, f"The body cannot be read: {error}") from None
        return b"".join(parts)

    # --- connections --------------------------------------------------------------------------------------------------

    def accept(self, peer: _Peer) -> bool:
        """Accept a connection, unless there are too many."""
        if len(self._peers) >= self._settings.http_connections_max:
            now_s = self._clock.monotonic()
            if now_s - self._refused_s >= 1:  # a flood of connections must not flood the log
                self._refused_s = now_s
                logger.warning("%s: connections refused: there are %d already", self._name, len(self._peers))
            return False
        self._peers.add(peer)
        return True

    def forget(self, peer: _Peer) -> None:
        self._peers.discard(peer)

    def malformed(self, address: object, reason: str) -> web.Response:
        """Return the response to bytes that are not valid HTTP."""
        self._log_refused(address, reason)
        response = self._refuse(400, "This is not a valid HTTP request.")
        response.force_close()
        return response

    def now_s(self) -> float:
        return self._clock.monotonic()

    def _log_refused(self, address: object, reason: str) -> None:
        line = " ".join(reason.split())[:200]
        logger.warning("%s: a request from %s refused: %s", self._name, address, ascii(line)[1:-1])

    async def _sweep(self) -> None:
        read_s = self._settings.http_read_timeout_ms / 1000
        while True:
            await self._clock.sleep(min(_SWEEP_S, read_s / 2))
            now_s = self._clock.monotonic()
            for peer in list(self._peers):
                peer.check(now_s, read_s)


class _Server(web.Server):
    """aiohttp's server with connections that keep the limits."""

    def __init__(self, port: HttpPort) -> None:
        super().__init__(port.serve)
        self.port = port

    def __call__(self) -> web.RequestHandler:
        return _Peer(self, asyncio.get_running_loop())


class _Peer(web.RequestHandler):
    """A connection that knows since when its peer is awaited."""

    __slots__ = ("_is_answering", "_is_taken", "_port", "_since_s", "_stalled_s", "_unsent")

    def __init__(self, server: _Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop=loop, keepalive_timeout=IDLE_S, lingering_time=_LINGER_S, auto_decompress=False)
        self._logging_enabled = False
        self.access_logger = None
        self._port = server.port
        self._is_taken = False
        self._is_answering = False
        self._since_s: float | None = None  # since when a head is awaited
        self._stalled_s: float | None = None
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._since_s = self._port.now_s()
        self._is_taken = self._port.accept(self)
        if not self._is_taken:
            self._abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._port.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._since_s is None and not self._is_answering:
            self._since_s = self._port.now_s()
        super().data_received(data)

    def head_is_there(self) -> None:
        self._is_answering = True
        self._since_s = None

    def answered(self) -> None:
        self._is_answering = False

    def check(self, now_s: float, limit_s: float) -> None:
        """End the connection if its peer does not send, or does not read, in time."""
        if self._since_s is not None and now_s - self._since_s > limit_s:
            self._abort()
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent or self._stalled_s is None:
            self._stalled_s = now_s if unsent else None
        elif now_s - self._stalled_s > limit_s:
            self._abort()
        self._unsent = unsent

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what aiohttp cannot parse, without the stack trace that aiohttp would log."""
        self._since_s = None
        return self._port.malformed(request.remote, str(exc or message or status))

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """Log a failure outside of a request: the peer has disconnected, or sent bytes that are not HTTP."""
        error = kwargs.get("exc_info")
        logger.warning("an HTTP connection ended: %s", error if isinstance(error, Exception) else args[0])

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


def _check_text(request: web.BaseRequest) -> None:
    """Refuse bytes that are not UTF-8: names and values are signed, compared and logged as text."""
    try:
        request.raw_path.encode()
        for name, value in request.headers.items():
            name.encode()
            value.encode()
    except UnicodeEncodeError:
        raise BadRequest(400, "The path or a header is not UTF-8.") from None


# --- browsers ---------------------------------------------------------------------------------------------------------


def from_browser(request: web.BaseRequest) -> bool:
    """Return True if a browser sends the request for a page, as its Origin or Sec-Fetch-Site header shows."""
    return "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none").lower() != "none"


def is_foreign_host(request: web.BaseRequest, known: Collection[str]) -> bool:
    """Return True if the request is addressed to a name that a third party may own, or its Host is invalid.

    An IP address cannot be made to resolve elsewhere, and a name without a dot cannot be registered.
    """
    host = host_of(request.headers.get("Host", ""))
    if host is None:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." in host and host not in known
    return False


def host_of(text: str) -> str | None:
    """Return the host of a Host header, in lower case; None if it is invalid."""
    if text.startswith("["):
        host, bracket, _ = text[1:].partition("]")
        return host.lower() if bracket and host else None
    host = text.partition(":")[0].lower().rstrip(".")
    return host or None
