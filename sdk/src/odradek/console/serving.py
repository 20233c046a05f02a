"""A running console: its port, and the link that signs in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.applications import Starlette

from odradek.console.app import console_app
from odradek.console.clusters import OtherCluster
from odradek.console.settings import ConsoleSettings
from odradek.http.asgi import AsgiPort
from odradek.http.listening import listening_socket
from odradek.http.ports import CONSOLE
from odradek.operations.cluster import Cluster
from odradek.settings import Settings
from odradek.system import SystemClock

if TYPE_CHECKING:
    from odradek.console.accounts import Hosted


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
    others: Sequence[OtherCluster] = (),
    limits: Settings | None = None,
) -> AsyncIterator[RunningConsole]:
    """Serve a console until the block ends.

    Args:
        host, port: where to listen; port 0 takes a free one.
        hosted: of a console for many.
        others: clusters that it also shows; each is connected when somebody first looks at it.
        limits: of connections and of time.

    Raises:
        KafkaError: INVALID_CONFIG if the address cannot be used; another if the service cannot be reached.
    """
    listening = listening_socket(host, port)
    port = listening.getsockname()[1]
    app = console_app(cluster, settings, port=port, hosted=hosted, others=others)
    server = AsgiPort(CONSOLE, app, settings=limits or Settings(), clock=SystemClock(), refuse=_refusal)
    async with cluster:
        await server.start(listening)
        background = [
            asyncio.create_task(app.state.console.warm_up()),
            asyncio.create_task(app.state.console.keep_history()),
        ]
        try:
            shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else f"[{host}]" if ":" in host else host
            yield RunningConsole(f"http://{shown}:{port}", app)
        finally:
            for each in background:
                each.cancel()
            await server.stop()
            await app.state.console.disconnect()
            await asyncio.to_thread(app.state.console.close)


def _refusal(status: int, message: str) -> tuple[bytes, str]:
    return f"{message}\n".encode(), "text/plain; charset=utf-8"
