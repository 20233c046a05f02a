"""A running server: a listening socket, and HTTP/1.1, HTTP/2 and WebSockets on it.

HTTP/2 is spoken in clear text with prior knowledge, as ksqlDB's Java client does, or after an upgrade; with TLS it is
negotiated.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from hypercorn.asyncio import serve
from hypercorn.config import Config

from odradek.errors import ErrorCode, KafkaError
from odradek.sql.server.app import ServerInfo, make_app
from odradek.sql.server.service import SqlService
from odradek.sql.server.transient import Transients

_GRACE_S = 3.0  # for running requests at the end
_STREAMS_MAX = 200  # of one HTTP/2 connection


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens, and how many queries of requests it runs.

    Attributes:
        port: 0 takes a free one.
        certificate, key: files of TLS; empty for clear text.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str = ""
    key: str = ""
    push_max: int = 50
    pull_max: int = 4


@asynccontextmanager
async def serve_sql(service: SqlService, info: ServerInfo, listening: Listening) -> AsyncIterator[str]:
    """Serve until the block ends; yield the server's URL.

    Raises:
        KafkaError: INVALID_CONFIG if the address or the files of TLS cannot be used.
    """
    bound = _listen(listening.host, listening.port)
    shown = f"[{listening.host}]" if ":" in listening.host else listening.host
    address = f"{shown}:{bound.getsockname()[1]}"
    config = Config()
    config.bind = [f"fd://{bound.detach()}"]
    config.include_server_header = False
    config.graceful_timeout = _GRACE_S
    config.h2_max_concurrent_streams = _STREAMS_MAX
    config.errorlog = logging.getLogger("odradek.sql.server.http")
    config.websocket_max_message_size = 64 * 1024
    if listening.certificate:
        config.certfile, config.keyfile = listening.certificate, listening.key or None
        _check_tls(config)
    transients = Transients(service.engine, push_max=listening.push_max, pull_max=listening.pull_max)
    app = make_app(service, transients, replace(info, address=address))
    ending = asyncio.Event()
    serving = asyncio.ensure_future(serve(app, config, shutdown_trigger=ending.wait))  # type: ignore[arg-type]
    try:
        yield f"{'https' if listening.certificate else 'http'}://{address}"
    finally:
        transients.close()
        ending.set()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def _check_tls(config: Config) -> None:
    try:
        config.create_ssl_context()
    except OSError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"the files of TLS cannot be used, they must be PEM: {error}"
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"the server cannot listen on {host}:{port}: {reason}; choose another port"
        ) from None
