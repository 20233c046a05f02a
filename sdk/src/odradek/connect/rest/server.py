"""The HTTP server of a worker's REST API, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Self

from aiohttp import web

from odradek.connect.errors import ConfigError
from odradek.connect.rest.access import address_of, check_access, tls_of, users_of
from odradek.connect.rest.app import make_app
from odradek.connect.runtime.cluster import Cluster

_GRACE_S = 2.0


class RestServer:
    """Serves the API at an address such as http://127.0.0.1:8083; port 0 takes a free one. Or use it as a context
    manager.

    Raises:
        ConfigError: for an address that is none, that is in use, or that others reach without a login.
    """

    def __init__(self, cluster: Cluster, listener: str) -> None:
        parts = address_of(listener)
        self._users = users_of(cluster.settings)
        check_access(cluster.settings, parts, self._users)
        self._tls = tls_of(cluster.settings) if parts.scheme == "https" else None
        self._scheme, self._cluster, self._host, self._port = parts.scheme, cluster, parts.hostname or "", parts.port
        self._ready: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="connect-rest", daemon=True)

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{self._scheme}://{host}:{self._port}"

    def start(self) -> Self:
        """Listen."""
        self._thread.start()
        try:
            self._port = self._ready.result()
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(
                {"listeners": [f"cannot listen on {self.url}: {reason}; choose another listener"]}
            ) from None
        return self

    async def _run(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(make_app(self._cluster, self._users), access_log=None, shutdown_timeout=_GRACE_S)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port, ssl_context=self._tls)
            await site.start()
            [listening, *_] = runner.addresses
            self._ready.set_result(int(listening[1]))
            await self._stopping.wait()
        except OSError as error:
            self._ready.set_exception(error)
        finally:
            await runner.cleanup()

    def stop(self) -> None:
        """Stop listening. May be called twice."""
        if self._thread.is_alive() and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
