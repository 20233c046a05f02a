"""An event loop whose time is a number: it jumps to the next timer instead of waiting, so an hour costs nothing.

Order is decided by timers alone: every switch point of the simulation sleeps a seeded delay. Nothing here reads a
clock, a socket or a random source, so the same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import selectors
from asyncio import base_events
from typing import Any


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: some task waits for what will never come."""


class _Jump(selectors.BaseSelector):
    """A selector without files: selecting means moving the time forward."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Deadlock("no task is ready and no timer is set")
        self._loop.jump(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        raise NotImplementedError("the simulation has no files")

    def unregister(self, fileobj: Any) -> Any:
        raise NotImplementedError("the simulation has no files")

    def get_map(self) -> Any:
        return {}


class SimLoop(base_events.BaseEventLoop):
    """asyncio's own loop over virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual_s

    def jump(self, seconds: float) -> None:
        self._virtual_s += max(0.0, seconds)

    def _process_events(self, event_list: list[Any]) -> None:
        return None

    def _write_to_self(self) -> None:
        return None


def run(main: Any) -> Any:
    """Run a coroutine to its end on a new loop, then end whatever it left running."""
    loop = SimLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        tasks = [task for task in asyncio.all_tasks(loop) if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()
