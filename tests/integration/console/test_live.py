"""Live pages end when they are left: by the browser, by signing out, at once and on a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from odradek.console.events import Event, Streams
from odradek.console.serving import RunningConsole, serve_console
from odradek.console.settings import ConsoleSettings
from odradek.local.threaded import ThreadedService
from odradek.operations.cluster import Cluster

from tests.integration.console.conftest import QUICK

LIVE = [
    "/events",
    "/groups/lag?id=billing",
    "/topics/orders/records/tail",
    "/topics/orders/records/search?q=nothing-has-it",
]


@pytest.fixture
async def console(service: ThreadedService) -> AsyncIterator[RunningConsole]:
    async with serve_console(Cluster(service.client_config), ConsoleSettings(**QUICK)) as running:
        yield running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def signed_in(running: RunningConsole) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        await client.get(running.sign_in_url())
        yield client


@pytest.mark.parametrize("path", LIVE)
async def test_a_page_that_is_left_leaves_no_stream(console: RunningConsole, path: str) -> None:
    streams: Streams = console.app.state.console.streams
    async with signed_in(console) as client:
        async with client.stream("GET", path) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            await anext(response.aiter_lines())
        await until(lambda: streams.count == 0)


async def test_a_browser_that_disappears_leaves_no_stream(console: RunningConsole) -> None:
    """Its connections are cut in the middle of a stream, as when a laptop is closed behind a proxy that notices."""
    streams: Streams = console.app.state.console.streams
    async with signed_in(console) as client:
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    url = httpx.URL(console.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"GET /topics/orders/records/tail HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nCookie: {cookie}\r\n\r\n"
    writer.write(head.encode())
    assert b"200" in await reader.readline()
    await until(lambda: streams.count == 1)
    writer.transport.abort()
    await until(lambda: streams.count == 0)


async def test_signing_out_ends_the_streams_of_the_session(console: RunningConsole) -> None:
    streams: Streams = console.app.state.console.streams
    async with signed_in(console) as client, signed_in(console) as other:
        page = (await client.get("/audit")).text
        csrf = page.split('name="csrf" value="')[1].split('"')[0]
        async with client.stream("GET", LIVE[2]) as mine, other.stream("GET", LIVE[2]) as theirs:
            await until(lambda: streams.count == 2)
            response = await client.post("/sign-out", data={"csrf": csrf}, headers={"Origin": console.url})
            assert response.status_code == 303
            text = "".join([part async for part in mine.aiter_text()])
            assert "The session has ended" in text
            assert streams.count == 1, "another session's goes on"
            await theirs.aclose()


async def test_too_many_streams_are_refused_and_counted_right(service: ThreadedService) -> None:
    settings = ConsoleSettings(**QUICK, streams_max=1)
    async with serve_console(Cluster(service.client_config), settings) as running:
        streams: Streams = running.app.state.console.streams
        async with signed_in(running) as client:
            async with client.stream("GET", LIVE[2]):
                await until(lambda: streams.count == 1)
                assert (await client.get(LIVE[0])).status_code == 429
            await until(lambda: streams.count == 0)


async def test_a_stream_that_nobody_began_to_read_is_counted_out() -> None:
    """The browser was gone before the first event."""
    streams = Streams(1)

    async def events() -> AsyncGenerator[Event]:
        await asyncio.sleep(3600)
        yield "rates", {}

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        await asyncio.sleep(0)

    for _ in range(3):
        response = streams.response(events(), lambda: True)
        await response({"type": "http", "asgi": {"spec_version": "2.1"}}, receive, send)
        assert streams.count == 0
