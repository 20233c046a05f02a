"""A port of an ASGI application: HTTP/1.1, HTTP/2 and WebSockets, under the limits and guards of port.py.

Bodies of changes are read before the application runs, within the time and up to the size of the port's row, but for
paths that stream. HTTP/2 is spoken in clear text with prior knowledge or after an upgrade; with TLS it is negotiated.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from functools import partial
from typing import Any, Self

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config

from odradek.http.audit import write_change, write_failed_login
from odradek.http.browsers import SECURITY_HEADERS, STRICT_TRANSPORT, refusal
from odradek.http.logins import Logins
from odradek.http.peers import IDLE_S, Peers, Watch
from odradek.http.ports import OWN_PAGES, Port
from odradek.ports.clock import Clock
from odradek.settings import Settings

logger = logging.getLogger(__name__)

_GRACE_S = 3.0  # for running requests at the end
_STREAMS_MAX = 200  # of one HTTP/2 connection
_MESSAGE_BYTES_MAX = 64 * 1024  # of a WebSocket
_POLICY = 1008  # WebSocket: the message breaks a rule

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
PROTOCOLS = ("h2", "http/1.1")
"""Of ALPN, for tls_context."""


class AsgiPort:
    """A listening server of an application; `start` it and `stop` it.

    Args:
        port: its row of the table of ports.
        app: the application; it finds who has logged in as `scope["user"]`.
        settings: the limits.
        clock: for deadlines.
        refuse: makes the body and the content type for a status and a message, in the port's format.
        names: host names of the port, of which pages are refused under any other.
        logins: who may use it; None for everybody who reaches it.
    """

    def __init__(
        self,
        port: Port,
        app: App,
        *,
        settings: Settings,
        clock: Clock,
        refuse: Callable[[int, str], tuple[bytes, str]],
        names: Collection[str] = (),
        logins: Logins | None = None,
    ) -> None:
        self._peers = Peers(port.name, settings, clock)
        self._guard = _Guard(port, app, refuse, names, logins, self._peers.read_s)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._context = WorkerContext(None)
        self._config = Config()
        self._config.include_server_header = False
        self._config.keep_alive_timeout = int(IDLE_S)
        self._config.h2_max_concurrent_streams = _STREAMS_MAX
        self._config.websocket_max_message_size = _MESSAGE_BYTES_MAX
        self._config.errorlog = logging.getLogger("odradek.http.asgi.server")

    async def start(self, listening: socket.socket, context: ssl.SSLContext | None = None) -> Self:
        """Serve on a listening socket. The port closes it."""
        if context is not None:
            self._guard.headers.update(STRICT_TRANSPORT)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, sock=listening, ssl=context)
        self._sweeping = loop.create_task(self._peers.sweep())
        return self

    def _protocol(self) -> asyncio.Protocol:
        reader = _Reader(self._peers)
        return asyncio.StreamReaderProtocol(reader, partial(self._connected, reader))

    async def _connected(self, reader: _Reader, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _Peer(reader.watch, writer)
        if not self._peers.accept(peer):
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        app: Any = ASGIWrapper(partial(self._serve, reader.watch))
        loop = asyncio.get_running_loop()
        try:
            await _Connection(app, loop, self._config, self._context, {}, reader, writer)
        except Exception as error:  # of a connection that broke off, or of bytes that are no HTTP
            logger.warning("an HTTP connection ended: %s", ascii(str(error) or type(error).__name__)[1:200])
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            self._peers.forget(peer)

    async def _serve(self, watch: Watch, scope: Any, receive: Receive, send: Send) -> None:
        watch.begin()
        try:
            await self._guard(scope, receive, send)
        finally:
            watch.end()

    async def stop(self) -> None:
        """Stop listening, give running requests a moment to finish, then close all connections. May be repeated."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._sweeping is not None:
            self._sweeping.cancel()
        server.close()
        await self._context.terminated.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE_S)
        for task in (left := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await server.wait_closed()


class _Connection(TCPServer):
    """Ends as soon as its peer has closed it: hypercorn would wait for the time-out of an idle connection."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


class _Reader(asyncio.StreamReader):
    """Notes when bytes arrive."""

    def __init__(self, peers: Peers) -> None:
        super().__init__()
        self._peers = peers
        self.watch = Watch(peers.now_s())

    def feed_data(self, data: Any) -> None:
        self.watch.arrived(self._peers.now_s())
        super().feed_data(data)


class _Peer:
    """A connection."""

    def __init__(self, watch: Watch, writer: asyncio.StreamWriter) -> None:
        self._watch = watch
        self._writer = writer

    def check(self, now_s: float, limit_s: float) -> None:
        if self._watch.is_late(now_s, limit_s, self._writer.transport.get_write_buffer_size()):
            self._writer.transport.abort()


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Guard:
    """Checks of a request before the application sees it."""

    def __init__(
        self,
        port: Port,
        app: App,
        refuse: Callable[[int, str], tuple[bytes, str]],
        names: Collection[str],
        logins: Logins | None,
        read_s: float,
    ) -> None:
        self.headers = dict(SECURITY_HEADERS)
        self._port = port
        self._app = app
        self._refuse = refuse
        self._names = names
        self._logins = logins
        self._read_s = read_s

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["http_version"] == "2":
            receive, send = _whole(receive, send, self._read_s)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        scope["user"] = None
        status, is_admitted = 0, False

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": self._secured(message.get("headers", ()))}
            await send(message)

        try:
            await self._check(scope, headers)
            is_admitted = scope["type"] == "http"
            reads = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
            if reads and scope["path"] not in self._port.streaming:
                receive = await self._read(scope, receive, headers)
            await self._app(scope, receive, noted)
        except _Refused as refused:
            await self._answer_refused(scope, refused, noted)
        except _Left:
            return
        finally:
            if is_admitted:
                user = f"User:{scope['user'] or 'ANONYMOUS'}"
                write_change(self._port, scope["method"], scope["path"], user, _address(scope), status)

    async def _check(self, scope: Any, headers: dict[str, str]) -> None:
        """Refuse pages, and who has not logged in. Raises _Refused."""
        port = self._port
        if port.browsers != OWN_PAGES:
            reason = refusal(port, headers, names=self._names, has_logins=self._logins is not None)
            if reason is not None:
                raise _Refused(403, reason)
        if self._logins is not None and scope["path"] not in port.open:
            scope["user"] = await self._logins.user(headers.get("authorization", ""))
            if scope["user"] is None:
                write_failed_login(port, _address(scope))
                raise _Refused(401, "Log in: user or password is missing or wrong")

    async def _read(self, scope: Any, receive: Receive, headers: dict[str, str]) -> Receive:
        """Read the body; return what gives it to the application. Raises _Refused, _Left."""
        parts: list[bytes] = []
        size, goes_on, types = 0, True, self._port.content_types
        try:
            async with asyncio.timeout(self._read_s):
                while goes_on:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Left
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    goes_on = message.get("more_body", False)
                    if size > self._port.body_bytes_max:
                        raise _Refused(413, f"the body has more than {self._port.body_bytes_max:,} bytes")
        except TimeoutError:
            raise _Refused(408, "The body was not sent in time.") from None
        if size and types and headers.get("content-type", "").partition(";")[0].strip().lower() not in types:
            raise _Refused(415, f"HTTP 415 Unsupported Media Type: send Content-Type: {types[0]}")
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def read() -> Message:
            return whole.pop() if whole else await receive()

        return read

    async def _answer_refused(self, scope: Any, refused: _Refused, send: Send) -> None:
        if refused.status in (403, 408, 413):
            line = ascii(" ".join(str(refused).split())[:200])[1:-1]
            logger.warning("%s: a request from %s refused: %s", self._port.name, _address(scope), line)
        if scope["type"] == "websocket":  # before it is accepted: the handshake is answered with 403
            await send({"type": "websocket.close", "code": _POLICY, "reason": str(refused)[:120]})
            return
        body, content_type = self._refuse(refused.status, str(refused))
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        if refused.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="odradek"'))
        if scope["http_version"] != "2":
            headers.append((b"connection", b"close"))
        with contextlib.suppress(OSError):
            await send({"type": "http.response.start", "status": refused.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _secured(self, headers: Any) -> list[tuple[bytes, bytes]]:
        pairs = [(bytes(name), bytes(value)) for name, value in headers]
        names = {name.lower() for name, _ in pairs}
        own = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        return [*pairs, *(pair for pair in own if pair[0] not in names)]


class _Left(Exception):
    """The peer has left before its request was complete."""


def _whole(receive: Receive, send: Send, read_s: float) -> tuple[Receive, Send]:
    """Return both so that no response ends before its request; what is left of the body is dropped, for `read_s`.

    Data of a stream whose response has ended would end the connection, and with it all queries on it. ksqlDB's Java
    client sends a body with GET, too.
    """
    goes_on = True

    async def read() -> Message:
        nonlocal goes_on
        message = await receive()
        goes_on = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def write(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await send({**message, "more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(read_s):
                    while goes_on:
                        await read()
            message = {"type": "http.response.body"}
        await send(message)

    return read, write


def _address(scope: Any) -> str:
    return str((scope.get("client") or ("",))[0])
