"""A filled service, and consoles of it: a client that signed in, and forms with the session's token."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import odradek
import pytest
from odradek.client.transport import base as transport
from odradek.console.app import console_app
from odradek.console.settings import ConsoleSettings
from odradek.dispatcher import RequestContext
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.local.threaded import ThreadedService
from odradek.operations.cluster import Cluster
from odradek.operations.storage import StorePlace
from odradek.protocol.api import OWNED, FunctionName
from odradek.served.api import Request as TablesRequest
from odradek.triggers.api import Request, TriggersApi

from tests.support.console import OPEN, fill, glue_jobs

ORIGIN = "http://127.0.0.1"
QUICK = {"requests_per_s": 1e6, "changes_per_s": 1e6, "sign_ins_per_min": 1e6}


class Browser:
    """A client that signed in to a console."""

    def __init__(self, app: Any, client: httpx.AsyncClient) -> None:
        self.app = app
        self.client = client

    @property
    def state(self) -> Any:
        return self.app.state.console

    async def sign_in(self) -> httpx.Response:
        return await self.client.get("/", params={"token": self.state.sessions.new_token()})

    async def get(self, path: str, status: int = 200) -> str:
        response = await self.client.get(path)
        assert response.status_code == status, f"{path}: {response.status_code}\n{problem(response.text)}"
        return response.text

    async def csrf(self) -> str:
        match = re.search(r'name="csrf" value="([^"]+)"', await self.get("/audit"))
        assert match is not None
        return match[1]

    async def post(self, path: str, **fields: str) -> httpx.Response:
        """Send a form as a page of the console would; names with a dot have two underscores."""
        form = {name.replace("__", "."): value for name, value in fields.items()} | {"csrf": await self.csrf()}
        return await self.client.post(path, data=form, headers={"Origin": ORIGIN})

    async def done(self, path: str, **fields: str) -> str:
        """Send a form that succeeds, and return the page that it leads to."""
        response = await self.post(path, **fields)
        assert response.status_code == 303, f"{path}: {response.status_code}\n{problem(response.text)}"
        return await self.get(response.headers["location"])


def problem(html: str) -> str:
    """Return the problem that a page shows, or its beginning."""
    match = re.search(r'class="problem"[^>]*>(.*?)</', html, re.DOTALL)
    return match[1].strip() if match else html[:500]


@pytest.fixture(scope="package")
def service() -> Iterator[ThreadedService]:
    """A service that tests look at and add to; none deletes what `fill` made."""
    with odradek.local() as local_service:
        fill(local_service.client_config, orders=120)
        yield local_service
        while OPEN:
            OPEN.pop().close()


@asynccontextmanager
async def browsing(
    configs: dict[str, Any], *, data_dir: Path | None = None, jobs: bool = True, **settings: Any
) -> AsyncIterator[Browser]:
    """Open a console and sign in; with the folder of the service it sees the store, too.

    Args:
        jobs: it sees jobs on Glue.
    """
    cluster = Cluster(
        configs, None if data_dir is None else StorePlace.of_folder(data_dir), job_runs=glue_jobs() if jobs else None
    )
    app = console_app(cluster, ConsoleSettings(**{**QUICK, **settings}))
    through = httpx.ASGITransport(app=app, client=("127.0.0.1", 50_000), raise_app_exceptions=True)
    async with cluster, httpx.AsyncClient(transport=through, base_url=ORIGIN, timeout=60) as client:
        browser = Browser(app, client)
        await browser.sign_in()
        yield browser


@pytest.fixture
async def browser(service: ThreadedService) -> AsyncIterator[Browser]:
    async with browsing(service.client_config, data_dir=service.data_dir) as signed_in:
        yield signed_in


def as_principal(service: ThreadedService, principal: str) -> dict[str, Any]:
    """Return the configuration of clients that call the service as somebody who is no super user."""

    async def dispatch(function: FunctionName, frame: bytes) -> bytes:
        context = RequestContext(
            principal=principal,
            client_host="127.0.0.1",
            transport="https",
            allowed=OWNED[function],
            max_response_bytes=FUNCTION_BINARY_BYTES_MAX,
        )
        parts = await service.service._dispatcher.dispatch(frame, context)
        return b"".join(parts or ())

    api = TriggersApi(service.service.triggers, service.service._engine.acls)  # type: ignore[union-attr]

    async def functions(name: str, method: str, path: str, body: bytes) -> Any:
        if name == "tables":
            target, _, query = path.partition("?")
            request = TablesRequest(method, target, query, body, principal, "127.0.0.1")
            response = await service.service._triggers.tables.api.answer(request)
            return response.status, json.loads(response.body)
        return await api.answer(Request(method, path, body, principal, "127.0.0.1"))

    return {"transport": transport.InProcessTransport(dispatch, loop=service.loop, functions=functions)}
