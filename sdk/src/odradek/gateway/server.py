"""The gateway's server: listeners, limits, and the end.

    connections beyond gateway_connections_max      closed as they come
    silent for gateway_idle_timeout_ms              closed; one that waits for an answer of ours is not silent
    gateway_buffered_bytes_max                      no large frame is begun beyond it; what has begun is finished
    stop                                            no new connections, no new requests; answers first, then the rest

Metadata names the listener's advertised address, so a client that finds the gateway stays with it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from odradek.dispatcher import Dispatcher, RequestContext
from odradek.engine.engine import Engine
from odradek.engine.leaders.brokers import RegistrationLost
from odradek.errors import ErrorCode, KafkaError
from odradek.gateway.connection import Connection, Session
from odradek.gateway.group_commit import GroupCommit
from odradek.gateway.sasl import OpenSession, SaslSession
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.model.log import Buffer
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.protocol.api import ApiKey

logger = logging.getLogger(__name__)

ANONYMOUS = "User:ANONYMOUS"
RESPONSE_BYTES_MAX = 55 * 1024 * 1024  # of a fetch; Kafka's fetch.max.bytes
DRAIN_S = 5.0
_SWEEP_S = 5.0
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a gateway listens and how clients reach it.

    Attributes:
        host, port: the address to listen on; port 0 takes a free one.
        advertised: "host:port" that clients are told; the listener's own by default.
        tls_cert, tls_key: PEM files; with them the listener speaks TLS.
        sasl: whether clients must log in.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    advertised: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    sasl: bool = False


Observe = Callable[[int, float, int, int], None]
"""API key, ms, bytes of the request and of its answer: called for each request that was answered."""


class Gateway:
    """A server for Kafka clients; `start` it or use it as an async context manager.

    Args:
        engine: what it serves; its settings hold the limits. One with a broker id of its own (not the fleet's)
            registers and leads the partitions that are written to through it.
        listener: where.
        clock, rng: time and chance.
    """

    def __init__(
        self, engine: Engine, listener: Listener, *, clock: Clock, rng: Rng, observe: Observe | None = None
    ) -> None:
        self._settings = engine.settings
        self._engine = engine
        self._commits = GroupCommit(engine, clock, self._settings.gateway_linger_ms)
        self._listener = listener
        self._observe = observe
        self._clock = clock
        self._rng = rng
        self._secret = rng.random_bytes(32)
        self._connections: set[Connection] = set()
        self._numbers = 0
        self._buffered = 0
        self._blocked: deque[Connection] = deque()
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._dispatcher: Dispatcher | None = None
        self._is_stopping = False
        self._leads = engine.leaders.broker_id != FLEET_BROKER_ID
        self._renewing: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()
        """Set where another process took this gateway's broker id: stop it."""
        self.bootstrap_servers = ""
        """The address for clients, once started."""

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen. Raises KafkaError(INVALID_CONFIG) that says what cannot be had: the address, the certificate."""
        context = tls_context(self._listener)
        listening = listening_socket(self._listener.host, self._listener.port)
        host, port = _advertised(self._listener, listening.getsockname()[1])
        self.bootstrap_servers = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        leaders = self._engine.leaders
        cluster = Cluster(self._settings.cluster_id, Broker(leaders.broker_id, host, port))
        if self._leads:
            try:
                await leaders.register(host, port)
            except KafkaError:
                listening.close()
                raise
        self._dispatcher = Dispatcher(self._engine, cluster, append=self._commits.produce)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=listening, ssl=context)
        self._sweeping = loop.create_task(self._sweep())
        if self._leads:
            self._renewing = loop.create_task(self._renew())
        return self

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Answer what has been asked, for at most `drain_s`, then close everything. May be repeated."""
        self._is_stopping = True
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._connections):
            connection.drain()
        deadline_s = self._clock.monotonic() + drain_s
        while self._connections and self._clock.monotonic() < deadline_s:
            await self._clock.sleep(0.02)
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            await self._clock.sleep(0.01)
        await self._commits.drain()
        if self._leads:
            if self._renewing is not None:
                self._renewing.cancel()
            await self._engine.leaders.release_all()

    async def _renew(self) -> None:
        """Keep the registration as a broker; without it nothing may be led, so clients are sent away."""
        try:
            await self._engine.leaders.run_renewal()
        except RegistrationLost:
            logger.error("another process has registered as broker %d: stopping", self._engine.leaders.broker_id)
            self.lost.set()
            for connection in list(self._connections):
                connection.abort()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- connections -------------------------------------------------------------------------------------------------

    def _connection(self) -> Connection:
        self._numbers += 1
        return Connection(self, self._numbers)

    def opened(self, connection: Connection) -> Session | None:
        """See connection.Host."""
        if self._is_stopping or self._dispatcher is None or self.lost.is_set():
            return None
        if len(self._connections) >= self._settings.gateway_connections_max:
            logger.warning("connection from %s refused: there are %d already", connection.peer, len(self._connections))
            return None
        self._connections.add(connection)
        context = RequestContext(
            principal=ANONYMOUS,
            client_host="/" + connection.peer.rpartition(":")[0],
            transport="tcp",
            allowed=frozenset(ApiKey),
            max_response_bytes=RESPONSE_BYTES_MAX,
            connection=connection.number,
        )
        if self._listener.sasl:
            return SaslSession(self._dispatcher, context, self._engine.users, self._clock, self._rng, self._secret)
        return OpenSession(self._dispatcher, context)

    def closed(self, connection: Connection) -> None:
        """See connection.Host."""
        self._connections.discard(connection)
        if connection in self._blocked:
            self._blocked.remove(connection)

    def reserve(self, connection: Connection, size: int) -> bool:
        """See connection.Host."""
        if self._buffered and self._buffered + size > self._settings.gateway_buffered_bytes_max:
            self._blocked.append(connection)
            return False
        self._buffered += size
        return True

    def hold(self, size: int) -> None:
        """See connection.Host."""
        self._buffered += size

    def release(self, size: int) -> None:
        """See connection.Host."""
        self._buffered -= size
        if self._blocked and self._buffered < self._settings.gateway_buffered_bytes_max:
            asyncio.get_running_loop().call_soon(self._unblock)

    def _unblock(self) -> None:
        for _ in range(len(self._blocked)):
            if self._blocked:
                self._blocked.popleft().proceed()  # it comes back to the queue where there is still no room

    def monotonic(self) -> float:
        """See connection.Host."""
        return self._clock.monotonic()

    def answered(self, frame: Buffer, began_s: float, answer_bytes: int) -> None:
        """See connection.Host."""
        if self._observe is not None:
            duration_ms = (self._clock.monotonic() - began_s) * 1000
            self._observe(int.from_bytes(frame[:2], "big"), duration_ms, len(frame), answer_bytes)

    async def _sweep(self) -> None:
        """Close who has been silent for too long."""
        idle_s = self._settings.gateway_idle_timeout_ms / 1000
        while True:
            await self._clock.sleep(min(_SWEEP_S, idle_s / 2))
            now_s = self._clock.monotonic()
            for connection in list(self._connections):
                if not connection.is_busy() and now_s - connection.active_s > idle_s:
                    connection.abort("silent for too long")


def listening_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"cannot listen on {host}:{port}: {reason}; choose another port"
        ) from None


def _advertised(listener: Listener, port: int) -> tuple[str, int]:
    if listener.advertised is None:
        return ("127.0.0.1" if listener.host in ("", "0.0.0.0") else listener.host), port
    advertised = host_and_port("the advertised address", listener.advertised)
    if not all(advertised):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"nobody can connect to the advertised address {listener.advertised!r}"
        )
    return advertised


def host_and_port(name: str, text: str) -> tuple[str, int]:
    """The parts of "host:port"; an IPv6 address is in brackets. Raises KafkaError(INVALID_CONFIG) that says `name`."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65_535:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is host:port, not {text!r}")
    return host.strip("[]"), int(port)


def tls_context(listener: Listener) -> ssl.SSLContext | None:
    if listener.tls_cert is None and listener.tls_key is None:
        return None
    if listener.tls_cert is None or listener.tls_key is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "TLS needs both a certificate and its key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(listener.tls_cert, listener.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the certificate cannot be used: {error}") from None
    return context
