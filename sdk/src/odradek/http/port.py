"""A port of aiohttp's requests: limits on peers, logins, and the refusal of what a page in a browser may have sent.

    a request that a page may have sent                   403, or 415 (browsers.py)
    a login that is missing or wrong                      401 after a delay, and a line of the audit log
    a request not complete within http_read_timeout_ms    closed, or answered with 408 if its head is complete
    a body larger than the port takes                     413
    bytes that are not valid HTTP                         400 and one line in the log, without a stack trace

Limits on connections are those of peers.py.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Self

from aiohttp import web

from odradek.errors import StoreError
from odradek.http.audit import write_change, write_failed_login
from odradek.http.browsers import SECURITY_HEADERS, STRICT_TRANSPORT, refusal
from odradek.http.logins import Logins
from odradek.http.peers import IDLE_S, Peers, Watch
from odradek.http.ports import SIGNATURE, Port
from odradek.ports.clock import Clock
from odradek.settings import Settings

logger = logging.getLogger(__name__)

_SHUTDOWN_GRACE_S = 3.0
_LINGER_S = 1.0  # for the rest of a body after its refusal, so that a peer that still sends can read why


class BadRequest(Exception):
    """A request that is refused; it is answered with `status`, and the connection ends.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _NoLogin(Exception):
    """A login is needed, and missing or wrong."""


Answer = Callable[[web.BaseRequest, str | None], Awaitable[web.StreamResponse]]
"""A request, and the user who has logged in."""


class HttpPort:
    """A listening HTTP server with limits; `start` it and `stop` it.

    Args:
        port: its row of the table of ports.
        answer: handles a request once its head is complete, and the user who has logged in; it reads the body by
            `read_body`. An exception of it is answered with 500, without details.
        settings: the limits.
        clock: for deadlines.
        refuse: makes the response for a status and a message, in the port's format.
        names: host names of the port, of which pages are refused under any other.
        logins: who may use it; None for everybody who reaches it.
    """

    def __init__(
        self,
        port: Port,
        answer: Answer,
        *,
        settings: Settings,
        clock: Clock,
        refuse: Callable[[int, str], web.Response],
        names: Collection[str] = (),
        logins: Logins | None = None,
    ) -> None:
        self.peers = Peers(port.name, settings, clock)
        self._port = port
        self._answer = answer
        self._refuse = refuse
        self._names = names
        self._logins = logins
        self._headers = SECURITY_HEADERS
        self._runner: web.ServerRunner | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket, context: ssl.SSLContext | None = None) -> Self:
        """Serve on a listening socket. The port closes it."""
        if context is not None:
            self._headers = {**SECURITY_HEADERS, **STRICT_TRANSPORT}
        server = _Server(self)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_GRACE_S)
        await self._runner.setup()
        await web.SockSite(self._runner, listening, ssl_context=context).start()
        self._sweeping = asyncio.get_running_loop().create_task(self.peers.sweep())
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
        peer.watch.begin()
        user: str | None = None
        is_admitted = False
        try:
            user = await self._admitted(request)
            is_admitted = True
            response = await self._answer(request, user)
        except BadRequest as bad:
            self._log_refused(request.remote, str(bad))
            response = self._refuse(bad.status, str(bad))
            response.force_close()
        except _NoLogin:
            response = self._refuse(401, "Log in: user or password is missing or wrong")
            response.headers["WWW-Authenticate"] = 'Basic realm="odradek"'
        except StoreError:
            response = self._refuse(503, "The store cannot be read now: try again")
        except Exception:
            logger.exception("%s: a request from %s failed", self._port.name, request.remote)
            response = self._refuse(500, "An unexpected error; its cause is in the log")
        finally:
            peer.watch.end()
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)
        if is_admitted:
            principal = f"User:{user or 'ANONYMOUS'}"
            write_change(self._port, request.method, request.path, principal, request.remote or "", response.status)
        return response

    async def _admitted(self, request: web.BaseRequest) -> str | None:
        """Return the user of a request; None if none is needed. Raises BadRequest, _NoLogin, StoreError."""
        _check_text(request)
        port, logins = self._port, self._logins
        if port.browsers != SIGNATURE and (request.path in port.guarded or not port.guarded):
            reason = refusal(port, request.headers, names=self._names, has_logins=logins is not None)
            if reason is not None:
                raise BadRequest(403, reason)
        if logins is None or request.path in port.open:
            return None
        user = await logins.user(request.headers.get("Authorization", ""))
        if user is None:
            write_failed_login(port, request.remote or "")
            raise _NoLogin
        return user

    async def read_body(self, request: web.BaseRequest) -> bytes:
        """Read the body. Raises BadRequest: 413 if it is too large, 408 if it is not sent in time, 415 for a type."""
        parts: list[bytes] = []
        size, bytes_max = 0, self._port.body_bytes_max
        try:
            async with asyncio.timeout(self.peers.read_s):
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                    if size > bytes_max:
                        raise BadRequest(413, f"The request is larger than {bytes_max} bytes.")
                    parts.append(chunk)
        except TimeoutError:
            raise BadRequest(408, "The body was not sent in time.") from None
        except web.RequestPayloadError as error:
            raise BadRequest(400, f"The body cannot be read: {error}") from None
        types = self._port.content_types
        is_named = bool(request.headers.get("Content-Type", "").strip())  # aiohttp has a default
        if size and types and not (is_named and request.content_type in types):
            raise BadRequest(415, f"HTTP 415 Unsupported Media Type: send Content-Type: {types[0]}")
        return b"".join(parts)

    def malformed(self, address: object, reason: str) -> web.Response:
        """Return the response to bytes that are not valid HTTP."""
        self._log_refused(address, reason)
        response = self._refuse(400, "This is not a valid HTTP request.")
        response.force_close()
        return response

    def _log_refused(self, address: object, reason: str) -> None:
        line = " ".join(reason.split())[:200]
        logger.warning("%s: a request from %s refused: %s", self._port.name, address, ascii(line)[1:-1])


class _Server(web.Server):
    """aiohttp's server with connections that keep the limits."""

    def __init__(self, port: HttpPort) -> None:
        super().__init__(port.serve)
        self.port = port

    def __call__(self) -> web.RequestHandler:
        return _Peer(self, asyncio.get_running_loop())


class _Peer(web.RequestHandler):
    """A connection that knows since when its peer is awaited."""

    __slots__ = ("_port", "watch")

    def __init__(self, server: _Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop=loop, keepalive_timeout=IDLE_S, lingering_time=_LINGER_S, auto_decompress=False)
        self._logging_enabled = False
        self.access_logger = None
        self._port = server.port
        self.watch = Watch(server.port.peers.now_s())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._port.peers.accept(self):
            self._abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._port.peers.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.watch.arrived(self._port.peers.now_s())
        super().data_received(data)

    def check(self, now_s: float, limit_s: float) -> None:
        """End the connection if its peer does not send, or does not read, in time."""
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if self.watch.is_late(now_s, limit_s, unsent):
            self._abort()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what aiohttp cannot parse, without the stack trace that aiohttp would log."""
        self.watch.forget_head()
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
