"""Clients over the real engine and dispatcher in this process, and a transport that misbehaves to order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.client.transport.base import InProcessTransport, RequestFailed
from odradek.dispatcher.context import RequestContext
from odradek.dispatcher.dispatcher import Dispatcher
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.protocol.api import OWNED, ApiKey, FunctionName
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

R = TypeVar("R")

Outage = Callable[[ApiKey, int], str | None]
"""What happens to the n-th request of an API: None, "lost" (never arrives) or "unanswered" (arrives, answer lost)."""


class Server:
    """The functions in this process."""

    def __init__(self, **settings: Any) -> None:
        clock = SystemClock()
        settings = {"poll_interval_ms": 5, "group_heartbeat_interval_ms": 50, **settings}
        self.engine = Engine(
            tables=MemoryStore(),
            objects=MemoryObjectStore(clock),
            clock=clock,
            rng=SystemRng(),
            settings=Settings(**settings),
        )
        self._dispatcher = Dispatcher(self.engine, Cluster("test", Broker(FLEET_BROKER_ID, "localhost", 9092)))
        self.requests: list[ApiKey] = []

    async def dispatch(self, function: FunctionName, frame: bytes) -> bytes:
        self.requests.append(ApiKey(int.from_bytes(frame[:2], "big")))
        context = RequestContext("User:test", "127.0.0.1", "https", OWNED[function], FUNCTION_BINARY_BYTES_MAX)
        parts = await self._dispatcher.dispatch(frame, context)
        return b"".join(parts or [])

    def transport(
        self, outage: Outage | None = None, loop: asyncio.AbstractEventLoop | None = None
    ) -> InProcessTransport:
        return Misbehaving(self, outage or (lambda api, n: None), loop)


class Misbehaving(InProcessTransport):
    """Loses requests or answers, as told."""

    def __init__(self, server: Server, outage: Outage, loop: asyncio.AbstractEventLoop | None) -> None:
        super().__init__(server.dispatch, loop=loop)
        self._outage = outage
        self._counts: dict[ApiKey, int] = {}

    async def exchange(self, function: FunctionName, frame: bytes, timeout_s: float) -> bytes:
        api = ApiKey(int.from_bytes(frame[:2], "big"))
        count = self._counts[api] = self._counts.get(api, 0) + 1
        fate = self._outage(api, count)
        if fate == "lost":
            raise RequestFailed(ErrorCode.NETWORK_EXCEPTION, "the request got lost", may_have_applied=True)
        response = await super().exchange(function, frame, timeout_s)
        if fate == "unanswered":
            raise RequestFailed(ErrorCode.REQUEST_TIMED_OUT, "the answer got lost", may_have_applied=True)
        return response


@contextmanager
def server_thread(**settings: Any) -> Iterator[tuple[Server, asyncio.AbstractEventLoop]]:
    """A server on a loop of its own, for synchronous clients."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def make() -> Server:
        return Server(**settings)

    try:
        yield asyncio.run_coroutine_threadsafe(make(), loop).result(10), loop
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _cancel_all() -> None:
    """A client's long poll may still be waiting here."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
