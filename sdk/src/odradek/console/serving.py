"""A running console: a listening socket, uvicorn, and the link that signs in."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette

from odradek.console.app import console_app
from odradek.console.settings import ConsoleSettings
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.cluster import Cluster

if TYPE_CHECKING:
    from odradek.console.accounts import Hosted

_GRACE_S = 2  # for running requests at the end
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that listens."""

    url: str  # without a token
    app: Starlette

    def sign_in_url(self) -> str:
        """Return a link that signs in once."""
        token: str = self.app.state.console.sessions.new_token()
        return f"{self.url}/?token={token}"


@asynccontextmanager
async def serve_console(
    cluster: Cluster,
    settings: ConsoleSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    hosted: Hosted | None = None,
) -> AsyncIterator[RunningConsole]:
    """Serve a console until the block ends.

    Args:
        host, port: where to listen; port 0 takes a free one.
        hosted: of a console for many.

    Raises:
        KafkaError: INVALID_CONFIG if the address cannot be used; another if the service cannot be reached.
    """
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    app = console_app(cluster, settings, port=port, hosted=hosted)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",  # an error of the start is raised here, not logged there
        timeout_graceful_shutdown=_GRACE_S,
        limit_concurrency=500,
    )
    server = _Server(config)
    async with cluster:
        serving = asyncio.create_task(server.serve([listening]))
        background = [
            asyncio.create_task(app.state.console.warm_up()),
            asyncio.create_task(app.state.console.keep_history()),
        ]
        try:
            while not server.started and not serving.done():  # noqa: ASYNC110  (uvicorn has a flag, no event)
                await asyncio.sleep(_POLL_S)
            shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else f"[{host}]" if ":" in host else host
            yield RunningConsole(f"http://{shown}:{port}", app)
        finally:
            for each in background:
                each.cancel()
            server.should_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            await asyncio.to_thread(app.state.console.close)


class _Server(uvicorn.Server):
    """Leaves signals to the process: uvicorn would take them over."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"the console cannot listen on {host}:{port}: {reason}; choose another port"
        ) from None
