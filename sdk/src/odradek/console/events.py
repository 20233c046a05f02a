"""Server-sent events: a stream of named events with JSON, and the end of it when the browser has gone.

Source: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from odradek.errors import KafkaError

Event = tuple[str, Any]
"""Name and data, which is written as JSON."""


class Streams:
    """Counts the streams that are open.

    Args:
        most: that may be open at a time.

    Attributes:
        count: how many are open now.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0

    def response(self, events: AsyncGenerator[Event], is_wanted: Callable[[], bool]) -> Response:
        """Return a response that streams events; 429 if too many are open.

        Args:
            events: closed when the stream is over: at their end, or when the browser has left.
            is_wanted: asked at each event; False ends the stream.
        """
        if self.count >= self._most:
            return PlainTextResponse("Too many live pages: close one.\n", 429)
        return _Stream(self, events, is_wanted)


class _Stream(StreamingResponse):
    """One stream; it counts from the first to the last moment of its request, whether the browser reads it or not."""

    def __init__(self, streams: Streams, events: AsyncGenerator[Event], is_wanted: Callable[[], bool]) -> None:
        super().__init__(
            _written(events, is_wanted), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )
        self._streams, self._events = streams, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.count -= 1
            await self._events.aclose()


async def _written(events: AsyncGenerator[Event], is_wanted: Callable[[], bool]) -> AsyncGenerator[bytes]:
    try:
        async for name, data in events:
            if not is_wanted():
                yield b'event: problem\ndata: "The session has ended: sign in again."\n\n'
                return
            yield f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
        yield b"event: end\ndata: null\n\n"
    except KafkaError as error:
        yield f"event: problem\ndata: {json.dumps(error.message)}\n\n".encode()
