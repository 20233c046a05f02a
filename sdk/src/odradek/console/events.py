"""Server-sent events: a stream of named events with JSON, and the end of it when the browser has gone.

Source: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from odradek.errors import KafkaError

Event = tuple[str, Any]
"""Name and data, which is written as JSON."""


class Streams:
    """Counts the streams that are open."""

    def __init__(self, most: int) -> None:
        self._left = most

    def response(self, events: AsyncGenerator[Event]) -> Response:
        """Return a response that streams events; 429 if too many are open."""
        if self._left <= 0:
            return PlainTextResponse("Too many live pages: close one.\n", 429)
        self._left -= 1
        return StreamingResponse(
            self._written(events), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def _written(self, events: AsyncGenerator[Event]) -> AsyncGenerator[bytes]:
        try:
            async for name, data in events:
                yield f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
            yield b"event: end\ndata: null\n\n"
        except KafkaError as error:
            yield f"event: problem\ndata: {json.dumps(error.message)}\n\n".encode()
        except asyncio.CancelledError:
            raise
        finally:
            self._left += 1
            await events.aclose()
