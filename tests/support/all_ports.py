"""One running port of each row of the table of HTTP ports, over one embedded service."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import odradek
from odradek.connect.rest.server import RestServer
from odradek.console.serving import serve_console
from odradek.console.settings import ConsoleSettings
from odradek.functions.metrics import Metrics
from odradek.gateway.serve import HealthPort
from odradek.http.listening import listening_socket
from odradek.local import ThreadedService
from odradek.operations.cluster import Cluster
from odradek.settings import Settings
from odradek.sql.server.app import ServerInfo
from odradek.sql.server.serving import Listening, serve_sql
from odradek.system import SystemClock

from tests.support.connect.running import RunningCluster
from tests.support.sql_server import STREAM, TABLE, World

HANGS_S = 300  # only a port that hangs: a busy machine answers late


@contextmanager
def in_thread(open_port: Callable[[], AbstractAsyncContextManager[str]]) -> Iterator[str]:
    """Run a port on a loop of its own; yield its URL."""
    ready: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        async with open_port() as url:
            stopping = asyncio.Event()
            ready.set_result((url, asyncio.get_running_loop(), stopping))
            await stopping.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    url, loop, stopping = ready.result(HANGS_S)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()


class AllPorts:
    """The ports of a service.

    Attributes:
        urls: by the name of the port's row.
        world: the engine behind the stream SQL server.
        service: the embedded service.
    """

    def __init__(
        self, service: ThreadedService, world: World, urls: Mapping[str, str], cluster: Any, links: list[str]
    ) -> None:
        self._links = links
        self.service = service
        self.world = world
        self.urls = urls
        self.cluster = cluster

    def console_cookie(self) -> str:
        """Sign in to the console; return the header Cookie. Once."""
        url, _, path = self._links.pop().rpartition("/")
        status, _, headers = ask(url, "GET", f"/{path}")
        assert status == 200
        return headers["set-cookie"].partition(";")[0]


@contextmanager
def all_ports(limits: Settings, **connect: str) -> Iterator[AllPorts]:
    """Run them all, without logins, under these limits."""
    world = World()
    links: list[str] = []
    world.ksql(STREAM)
    world.ksql(TABLE)

    def sql() -> AbstractAsyncContextManager[str]:
        return serve_sql(world.service, ServerInfo("1", "c", "d", "", 1), Listening(settings=limits))

    with (
        odradek.local(registry_port=0, settings=limits) as service,
        RunningCluster(service, workers=0, **connect) as running,
        RestServer(running.cluster, "http://127.0.0.1:0", limits) as rest_server,
        in_thread(sql) as sql_url,
        in_thread(lambda: _console(service, limits, links)) as console_url,
        in_thread(lambda: _health(limits)) as health_url,
    ):
        urls = {
            "function URLs": service.bootstrap_servers,
            "schema registry": service.registry_url,
            "health port": health_url,
            "Connect REST API": rest_server.url,
            "stream SQL server": sql_url,
            "console": console_url,
        }
        yield AllPorts(service, world, urls, running.cluster, links)
    world.service.close()


@asynccontextmanager
async def _console(service: ThreadedService, limits: Settings, links: list[str]) -> AsyncIterator[str]:
    settings = ConsoleSettings(requests_per_s=1e6, changes_per_s=1e6, sign_ins_per_min=1e6)
    async with serve_console(Cluster(dict(service.client_config)), settings, limits=limits) as running:
        links.append(running.sign_in_url())
        yield running.url


@asynccontextmanager
async def _health(limits: Settings) -> AsyncIterator[str]:
    free = listening_socket("127.0.0.1", 0)
    number = free.getsockname()[1]
    free.close()
    port = HealthPort(asyncio.Event(), Metrics(), "127.0.0.1", limits, clock=SystemClock())
    await port.start(number)
    try:
        yield f"http://127.0.0.1:{number}"
    finally:
        await port.stop()


def address(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)


def ask(
    url: str, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> tuple[int, str, Mapping[str, str]]:
    """Send a request as it is; return status, text, and headers with names in lower case."""
    connection = http.client.HTTPConnection(*address(url), timeout=HANGS_S)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent = {"Host": "{}:{}".format(*address(url)), **(headers or {})}
        if body is not None:
            sent["Content-Length"] = str(len(body))
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        return response.status, text, {name.lower(): value for name, value in response.getheaders()}
    finally:
        connection.close()
