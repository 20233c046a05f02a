"""A bare TCP listener around the dispatcher, so that stock Kafka clients can be asked whether they like its answers.

Not the gateway: one request at a time a connection, no limits, no authentication.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType

from odradek.dispatcher import BadFrame, Dispatcher, RequestContext
from odradek.engine.engine import Engine
from odradek.model.cluster import Broker, Cluster
from odradek.protocol.api import ApiKey

logger = logging.getLogger(__name__)


class TcpFront:
    """`async with TcpFront(engine) as front:` listens on `front.address` until the block ends."""

    def __init__(self, engine: Engine, on_request: Callable[[int, int], None] | None = None) -> None:
        self._engine = engine
        self._on_request = on_request
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    async def __aenter__(self) -> TcpFront:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self._dispatcher = Dispatcher(self._engine, Cluster("tcp-front", Broker(0, "127.0.0.1", port)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        context = RequestContext("anonymous", "/127.0.0.1", "tcp", frozenset(ApiKey), 50 * 1024 * 1024)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                if self._on_request is not None:
                    self._on_request(int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big"))
                parts = await self._dispatcher.dispatch(frame, context)
                if parts is not None:
                    writer.write(sum(map(len, parts)).to_bytes(4, "big"))
                    writer.writelines(parts)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except BadFrame as refused:
            logger.warning("refused: %s", refused)
        finally:
            writer.close()
            self._tasks.discard(task)
