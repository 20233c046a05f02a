"""How many calls of triggers are under way at once in one process, at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A number of slots, of which several can be taken at a time.

    A partition takes its slots before its lease: with the lease it must not wait, since that ends by the clock.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = asyncio.Semaphore(count)
        self._turn = asyncio.Lock()  # one taker at a time: two that wait for each other's rest would wait for ever

    @asynccontextmanager
    async def taken(self, wanted: int) -> AsyncIterator[None]:
        """Wait for this many slots, or for all, and hold them."""
        wanted, held = min(wanted, self._count), 0
        try:
            async with self._turn:
                while held < wanted:
                    await self._free.acquire()
                    held += 1
            yield
        finally:
            for _ in range(held):
                self._free.release()
