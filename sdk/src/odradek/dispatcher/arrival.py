"""The order of concurrent requests of one connection.

Work before a Produce request reaches the engine (rights, names of topics) may wait for the store, longer for one
request than for the next. The requests still enter the engine in the order of their arrival: each waits until the one
before it has entered or ended.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Arrival:
    """The position of one request.

    Args:
        previous: the position of the request before it; None for the first.
    """

    def __init__(self, previous: Arrival | None) -> None:
        self._previous = previous
        self._is_through = False
        self._passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def turn(self) -> None:
        """Wait until earlier requests have entered. Then enter without awaiting anything, after `enter`."""
        if self._previous is not None and not self._previous._passed.done():
            await asyncio.wait([self._previous._passed])

    def enter(self) -> None:
        """Let the next request follow, once earlier ones have entered. May be called again."""
        if self._is_through:
            return
        self._is_through = True
        previous, self._previous = self._previous, None
        if previous is None or previous._passed.done():
            self._pass_on()
        else:
            previous._passed.add_done_callback(self._pass_on)

    def _pass_on(self, _: Any = None) -> None:
        if not self._passed.done():
            self._passed.set_result(None)
