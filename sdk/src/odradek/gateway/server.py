"""The gateway's server: listeners, limits, and shutdown.

    connections beyond gateway_connections_max        closed at once
    beyond gateway_connections_per_address_max        the same
    beyond connection_creation_rate of its address    the same
    beyond gateway_connections_per_principal_max      the login is refused
    idle for gateway_idle_timeout_ms                  closed; a connection that waits for a response is not idle
    behind gateway_peer_timeout_ms, .._bytes_per_s    closed: the first request, a login, any request, or the reading of
                                                      responses is too slow
    gateway_buffered_bytes_max                        requests wait; small ones have an eighth more
    the process was frozen for request_timeout_ms     all connections are closed: what they had sent is too old
    stop                                              no new connections; what a gateway leads is given to the others;
                                                      connections are closed one after the other within
                                                      gateway_drain_ms, pending requests are answered

Memory is reserved as bytes arrive, so incomplete requests may hold all of it. Therefore one connection at a time, the
first that had to wait, may exceed the limit until its request is complete. If connections still wait after the peer
timeout, the one that holds the most memory is closed.

Metadata names the listener's advertised address, so a client stays with the gateway that it bootstraps from. Gateways
with broker ids of their own share the partitions (engine/leaders/balance.py), and metadata names them all.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from odradek.dispatcher import Dispatcher, RequestContext
from odradek.engine.access.client_quotas import canonical_address
from odradek.engine.engine import Engine
from odradek.engine.leaders.brokers import RegistrationLost
from odradek.errors import ErrorCode, KafkaError
from odradek.gateway.connection import Connection, Pace, Session
from odradek.gateway.group_commit import GroupCommit
from odradek.gateway.sasl import OpenSession, SaslSession
from odradek.http.listening import listening_socket, tls_context
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.model.log import Buffer
from odradek.model.user import SaslMechanism
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.protocol.api import ApiKey

logger = logging.getLogger(__name__)

ANONYMOUS = "User:ANONYMOUS"
# OpenSSL's names of attributes of a subject, in RFC 2253's.
_ATTRIBUTES = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
RESPONSE_BYTES_MAX = 55 * 1024 * 1024  # of a fetch; Kafka's fetch.max.bytes
_DRAIN_ROUND_S = 0.02
_DRAIN_SHARE = 0.5  # of the time to drain, within which every connection is told; the rest is for their requests
_DRAINED_AT_ONCE = 16
_SWEEP_S = 1.0
_TICK_S = 1.0
_SMALL_SHARE = 8  # small requests may use one eighth more of the memory


@dataclass(frozen=True, slots=True)
class Listener:
    """The address of a gateway, and how clients authenticate.

    Attributes:
        host, port: the address to listen on; port 0 takes a free one.
        advertised: "host:port" that clients connect to; the listener's own by default.
        tls_cert, tls_key: PEM files; with them the listener speaks TLS.
        sasl: True if clients must log in.
        tls_client_ca: PEM file; clients must show a certificate that one of these issued (Kafka's ssl.client.auth =
            required). Without `sasl` its subject is the principal.
        plain_without_tls: offer PLAIN and basic authentication although passwords are sent in clear text.
        rack: the rack (zone) that the gateway stands in, as consumers name theirs (client.rack); None: not told.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    advertised: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    sasl: bool = False
    tls_client_ca: Path | None = None
    plain_without_tls: bool = False
    rack: str | None = None

    @property
    def mechanisms(self) -> tuple[SaslMechanism, ...]:
        """The SASL mechanisms that are offered to clients."""
        hides_passwords = self.tls_cert is not None or self.plain_without_tls
        return tuple(each for each in SaslMechanism if hides_passwords or each is not SaslMechanism.PLAIN)


Observe = Callable[[int, float, int, int], None]
"""API key, ms, bytes of the request and of its answer: called for each request that was answered."""


class Gateway:
    """A server for Kafka clients; `start` it or use it as an async context manager.

    Args:
        engine: serves the requests; its settings have the limits. With a broker id of its own (not the fleet's) it is
            registered as a broker and leads the partitions that are written to through it.
        listener: the address to listen on.
        clock, rng: time and randomness.
    """

    def __init__(
        self, engine: Engine, listener: Listener, *, clock: Clock, rng: Rng, observe: Observe | None = None
    ) -> None:
        self._settings = engine.settings
        self._engine = engine
        self._commits = GroupCommit.by_settings(engine, clock, self._settings)
        self._listener = listener
        self._observe = observe
        self._clock = clock
        self._rng = rng
        self._connections: dict[Connection, None] = {}  # in the order in which they were opened
        self._numbers = 0
        self._buffered = 0
        self._blocked: deque[Connection] = deque()
        self._favoured: Connection | None = None  # the one that may exceed the limit
        self._addresses: Counter[str] = Counter()
        self._principals: Counter[str] = Counter()
        self._refused_s = -1.0
        self._pace = Pace(self._settings.gateway_peer_timeout_ms / 1000, self._settings.gateway_peer_bytes_per_s_min)
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._quotas_asked: asyncio.Future[Any] | None = None
        self._dispatcher: Dispatcher | None = None
        self._is_stopping = False
        self._leads = engine.leaders.broker_id != FLEET_BROKER_ID
        self._leading: list[asyncio.Task[None]] = []
        self.lost = asyncio.Event()
        """Set when another process has taken this gateway's broker id: stop it."""
        self.bootstrap_servers = ""
        """The address for clients, once started."""

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen. Raises KafkaError(INVALID_CONFIG) if the address or the certificate cannot be used."""
        context = tls_of(self._listener)
        listening = listening_socket(self._listener.host, self._listener.port)
        host, port = _advertised(self._listener, listening.getsockname()[1])
        self.bootstrap_servers = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        leaders = self._engine.leaders
        rack = self._listener.rack
        cluster = Cluster(self._settings.cluster_id, Broker(leaders.broker_id, host, port, rack))
        if self._leads:
            try:
                await leaders.register(host, port, rack)
            except KafkaError:
                listening.close()
                raise
        await self._engine.client_quotas.current()
        self._dispatcher = Dispatcher(self._engine, cluster, append=self._commits.produce)
        loop = asyncio.get_running_loop()
        handshake_s = None if context is None else self._pace.grace_s
        self._server = await loop.create_server(
            self._connection, sock=listening, ssl=context, ssl_handshake_timeout=handshake_s
        )
        self._sweeping = loop.create_task(self._sweep())
        self._tick(loop, self._clock.monotonic())
        if self._leads:
            self._leading = [loop.create_task(self._renew()), loop.create_task(leaders.run_balance())]
        return self

    async def stop(self, drain_s: float | None = None) -> None:
        """Close all connections within `drain_s` (`gateway_drain_ms`), answering pending requests. May be repeated."""
        drain_s = self._settings.gateway_drain_ms / 1000 if drain_s is None else drain_s
        self._is_stopping = True
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        deadline_s = self._clock.monotonic() + drain_s
        if self._leads:
            await self._engine.leaders.leave()
        if self._ticking is not None:
            self._ticking.cancel()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._drain(deadline_s)
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            await self._clock.sleep(0.01)
        await self._commits.drain()
        for task in self._leading:
            task.cancel()
        if self._leads:
            await self._engine.leaders.release_all()

    async def _drain(self, deadline_s: float) -> None:
        """Let connections go: a few at once, since all their clients connect again, to the other gateways."""
        left_s = deadline_s - self._clock.monotonic()
        rounds = max(1, int(left_s * _DRAIN_SHARE / _DRAIN_ROUND_S))
        at_once = max(_DRAINED_AT_ONCE, -(-len(self._connections) // rounds))
        waiting = list(self._connections)
        while self._connections and self._clock.monotonic() < deadline_s:
            for connection in waiting[:at_once]:
                connection.drain()
            del waiting[:at_once]
            await self._clock.sleep(_DRAIN_ROUND_S)

    def _tick(self, loop: asyncio.AbstractEventLoop, before_s: float) -> None:
        """Close all connections if the process has not run since `before_s` for longer than a request may take.

        Their requests, received before or waiting in the sockets, have been given up by their clients. A produce that
        names its topic could otherwise reach a later topic of that name. A callback of the loop runs before the tasks
        that the bytes of the same turn wake.
        """
        now_s = self._clock.monotonic()
        if now_s - before_s > self._settings.request_timeout_ms / 1000:
            logger.warning("the process did not run for %.0f s: closing all connections", now_s - before_s)
            for connection in list(self._connections):
                connection.abort()
        self._ticking = loop.call_later(_TICK_S, self._tick, loop, now_s)

    async def _renew(self) -> None:
        """Renew the registration as a broker; without it the gateway cannot lead, so it closes its connections."""
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
            self._refuse(connection, f"there are {len(self._connections)} already")
            return None
        if self._addresses[connection.address] >= self._settings.gateway_connections_per_address_max:
            self._refuse(connection, f"there are {self._addresses[connection.address]} from its address")
            return None
        if not self._has_quota(connection.address):
            self._refuse(connection, "its address opens connections faster than its connection_creation_rate")
            return None
        self._connections[connection] = None
        self._addresses[connection.address] += 1
        context = RequestContext(
            principal=principal_of(connection.certificate),
            client_host="/" + connection.peer.rpartition(":")[0],
            transport="tcp",
            allowed=frozenset(ApiKey),
            max_response_bytes=RESPONSE_BYTES_MAX,
            connection=connection.number,
        )
        if self._listener.sasl:
            return SaslSession(
                self._dispatcher,
                context,
                self._engine.users,
                self._clock,
                self._rng,
                self._listener.mechanisms,
                self._settings.connections_max_reauth_ms,
                lambda principal: self._admit(connection, principal),
            )
        return OpenSession(self._dispatcher, context)

    def _has_quota(self, address: str) -> bool:
        """Charge a connection to its address, by the last quotas that were read; read them again if they are old."""
        if self._quotas_asked is None or self._quotas_asked.done():
            self._quotas_asked = asyncio.ensure_future(self._engine.client_quotas.current())
        return self._engine.quotas.connected(canonical_address(address) or address)

    def _refuse(self, connection: Connection, reason: str) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._refused_s >= 1:  # a flood of connections must not flood the log
            self._refused_s = now_s
            logger.warning("connection from %s refused: %s", connection.peer, reason)

    def _admit(self, connection: Connection, principal: str) -> bool:
        """Count one more connection of a principal until it is closed; return False if that exceeds the limit."""
        if connection.principal == principal:
            return True
        if self._principals[principal] >= self._settings.gateway_connections_per_principal_max:
            self._refuse(connection, f"there are {self._principals[principal]} of {principal}")
            return False
        connection.principal = principal
        self._principals[principal] += 1
        return True

    def closed(self, connection: Connection) -> None:
        """See connection.Host."""
        if connection not in self._connections:
            return
        del self._connections[connection]
        _count_down(self._addresses, connection.address)
        if connection.principal is not None:
            _count_down(self._principals, connection.principal)
        if connection in self._blocked:
            self._blocked.remove(connection)
        self.completed(connection)

    def reserve(self, connection: Connection, size: int, *, is_small: bool) -> bool:
        """See connection.Host."""
        limit = self._settings.gateway_buffered_bytes_max
        if is_small:
            limit += limit // _SMALL_SHARE
        if self._buffered + size > limit and self._favoured is not connection:
            if self._favoured is not None:
                self._blocked.append(connection)
                return False
            self._favoured = connection
        self._buffered += size
        return True

    def completed(self, connection: Connection) -> None:
        """See connection.Host."""
        if self._favoured is connection:
            self._favoured = None
            if self._blocked:
                asyncio.get_running_loop().call_soon(self._unblock)

    def release(self, size: int) -> None:
        """See connection.Host."""
        self._buffered -= size
        if self._blocked and (self._favoured is None or self._buffered < self._settings.gateway_buffered_bytes_max):
            asyncio.get_running_loop().call_soon(self._unblock)

    def _unblock(self) -> None:
        for _ in range(len(self._blocked)):
            if self._blocked:
                self._blocked.popleft().proceed()  # it returns to the queue if there is still no memory

    def monotonic(self) -> float:
        """See connection.Host."""
        return self._clock.monotonic()

    def answered(self, frame: Buffer, began_s: float, answer_bytes: int) -> None:
        """See connection.Host."""
        if self._observe is not None:
            duration_ms = (self._clock.monotonic() - began_s) * 1000
            self._observe(int.from_bytes(frame[:2], "big"), duration_ms, len(frame), answer_bytes)

    async def _sweep(self) -> None:
        """Close connections that have been idle for too long, or whose peers are too slow."""
        idle_s = self._settings.gateway_idle_timeout_ms / 1000
        while True:
            await self._clock.sleep(min(_SWEEP_S, idle_s / 2, self._pace.grace_s / 2))
            now_s = self._clock.monotonic()
            for connection in list(self._connections):
                if not connection.is_busy() and now_s - connection.active_s > idle_s:
                    connection.abort("idle for too long")
                elif (reason := connection.check(now_s, self._pace)) is not None:
                    connection.abort(reason)
            self._relieve(now_s)

    def _relieve(self, now_s: float) -> None:
        """Close connections that hold memory without progress."""
        longest_s = max((now_s - each.blocked_s for each in self._blocked if each.blocked_s is not None), default=0.0)
        if longest_s > self._pace.grace_s:
            most = max(self._connections, key=lambda each: each.held_bytes)
            if most.held_bytes:
                most.abort("slow requests hold all memory, and this connection holds the most")
        excess = sum(each.unsent_bytes for each in self._connections) - self._settings.gateway_buffered_bytes_max
        for each in sorted(self._connections, key=lambda each: each.unsent_bytes, reverse=True):
            if excess <= 0:
                break
            if each.is_unread:
                excess -= each.unsent_bytes
                each.abort("its unread responses fill the memory")


def principal_of(certificate: Mapping[str, Any] | None) -> str:
    """Return the principal of a client by its certificate (as `ssl` gives it); anonymous without one.

    As in Kafka, the name is the whole subject in the notation of RFC 2253: `User:CN=ann,OU=Sales,O=Shop`.
    """
    if not certificate:
        return ANONYMOUS
    parts = [
        "+".join(f"{_ATTRIBUTES.get(name, name)}={_escaped(value)}" for name, value in each)
        for each in reversed(certificate.get("subject", ()))
    ]
    return f"User:{','.join(parts)}" if parts else ANONYMOUS


def _escaped(value: str) -> str:
    """Escape a value for a name of RFC 2253."""
    text = "".join(f"\\{sign}" if sign in ',+"\\<>;' else sign for sign in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text


def _count_down(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _advertised(listener: Listener, port: int) -> tuple[str, int]:
    if listener.advertised is None:
        return ("127.0.0.1" if listener.host in ("", "0.0.0.0") else listener.host), port
    advertised = host_and_port("the advertised address", listener.advertised)
    if not all(advertised):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"clients cannot connect to the advertised address {listener.advertised!r}"
        )
    return advertised


def host_and_port(name: str, text: str) -> tuple[str, int]:
    """Split "host:port"; an IPv6 address is in brackets. Raises KafkaError(INVALID_CONFIG) that names `name`."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65_535:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be host:port, not {text!r}")
    return host.strip("[]"), int(port)


def tls_of(listener: Listener) -> ssl.SSLContext | None:
    if listener.tls_cert is None and listener.tls_key is None:
        if listener.tls_client_ca is not None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "client certificates need TLS: configure a certificate and its key"
            )
        return None
    if listener.tls_cert is None or listener.tls_key is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "TLS needs both a certificate and its key")
    return tls_context(listener.tls_cert, listener.tls_key, client_ca=listener.tls_client_ca)
