"""The HTTP server of a worker's REST API, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Self

from aiohttp import web

from odradek.connect.errors import ConfigError
from odradek.connect.rest.access import address_of, check_access, tls_of, users_of
from odradek.connect.rest.app import make_answer, refusal
from odradek.connect.runtime.cluster import Cluster
from odradek.errors import KafkaError
from odradek.http.listening import listening_socket
from odradek.http.logins import Logins
from odradek.http.port import HttpPort
from odradek.http.ports import CONNECT
from odradek.settings import Settings
from odradek.system import SystemClock


class RestServer:
    """Serves the API at an address such as http://127.0.0.1:8083; port 0 takes a free one. Or use it as a context
    manager.

    Args:
        settings: limits of connections and of time.

    Raises:
        ConfigError: for an address that is none, that is in use, or that others reach without a login.
    """

    def __init__(self, cluster: Cluster, listener: str, settings: Settings | None = None) -> None:
        parts = address_of(listener)
        self._routes = make_answer(cluster)
        self._users = users_of(cluster.settings)
        check_access(cluster.settings, parts, self._users)
        self._tls = tls_of(cluster.settings) if parts.scheme == "https" else None
        self._scheme, self._host, self._port = parts.scheme, parts.hostname or "", parts.port or 0
        self._cluster = cluster
        self._settings = settings or Settings()
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
        self._port = self._ready.result()
        return self

    async def _run(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        clock = SystemClock()
        port = HttpPort(
            CONNECT,
            self._answer,
            settings=self._settings,
            clock=clock,
            refuse=refusal,
            names={self._host.lower(), (self._cluster.settings["rest.advertised.host.name"] or "").lower()} - {""},
            logins=None if self._users is None else Logins(self._users.check, clock),
        )
        try:
            listening = listening_socket(self._host, self._port, "choose another listener")
            self._http = await port.start(listening, self._tls)
        except KafkaError as error:
            self._ready.set_exception(ConfigError({"listeners": [error.message]}))
            return
        except BaseException as error:
            self._ready.set_exception(error)
            raise
        self._ready.set_result(int(listening.getsockname()[1]))
        await self._stopping.wait()
        await port.stop()

    async def _answer(self, request: web.BaseRequest, _: str | None) -> web.Response:
        return await self._routes(request, await self._http.read_body(request))

    def stop(self) -> None:
        """Stop listening. May be called twice."""
        if self._thread.is_alive() and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
