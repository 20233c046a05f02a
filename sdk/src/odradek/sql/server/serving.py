"""A running stream SQL server: its port, over an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from odradek.connect.rest.access import Users
from odradek.http.asgi import PROTOCOLS, AsgiPort
from odradek.http.listening import listening_socket, tls_context
from odradek.http.logins import Logins
from odradek.http.ports import SQL
from odradek.settings import Settings
from odradek.sql.server.app import ServerInfo, make_app, refusal
from odradek.sql.server.service import SqlService
from odradek.sql.server.transient import Transients
from odradek.system import SystemClock


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens, to whom, and how many queries of requests it runs.

    Attributes:
        port: 0 takes a free one.
        certificate, key: files of TLS; empty for clear text.
        users: who may use it; None for everybody who reaches it.
        settings: limits of connections and of time.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str = ""
    key: str = ""
    push_max: int = 50
    pull_max: int = 4
    users: Users | None = None
    settings: Settings = field(default_factory=Settings)


@asynccontextmanager
async def serve_sql(service: SqlService, info: ServerInfo, listening: Listening) -> AsyncIterator[str]:
    """Serve until the block ends; yield the server's URL.

    Raises:
        KafkaError: INVALID_CONFIG if the address or the files of TLS cannot be used.
    """
    context = None
    if listening.certificate:
        context = tls_context(listening.certificate, listening.key or None, protocols=PROTOCOLS)
    bound = listening_socket(listening.host, listening.port)
    shown = f"[{listening.host}]" if ":" in listening.host else listening.host
    address = f"{shown}:{bound.getsockname()[1]}"
    transients = Transients(service.engine, push_max=listening.push_max, pull_max=listening.pull_max)
    clock = SystemClock()
    port = AsgiPort(
        SQL,
        make_app(service, transients, replace(info, address=address)),
        settings=listening.settings,
        clock=clock,
        refuse=refusal,
        names=(listening.host.lower(),),
        logins=None if listening.users is None else Logins(listening.users.check, clock),
    )
    await port.start(bound, context)
    try:
        yield f"{'http' if context is None else 'https'}://{address}"
    finally:
        transients.close()
        await port.stop()
