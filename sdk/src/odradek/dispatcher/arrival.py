"""The order of requests that one connection serves side by side.

What happens before a Produce request reaches the engine (rights, names of topics) may wait for the store, for one
request longer than for the next. They enter the engine in the order in which they came all the same: each waits until
the one before it has entered, or has ended without.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Arrival:
    """The place of one request.

    Args:
        previous: of the request before it; None for the first.
    """

    def __init__(self, previous: Arrival | None) -> None:
        self._previous = previous
        self._is_through = False
        self._passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def turn(self) -> None:
        """Wait until those before it have entered. Then enter without awaiting anything, after `enter`."""
        if self._previous is not None and not self._previous._passed.done():
            await asyncio.wait([self._previous._passed])

    def enter(self) -> None:
        """Let the next one follow, once those before this one have entered. May be repeated."""
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
