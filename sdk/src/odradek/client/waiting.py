"""Waiting for an event, by the clock that the client was given."""

from __future__ import annotations

import asyncio

from odradek.ports.clock import Clock


async def wait_for(event: asyncio.Event, seconds: float | None, clock: Clock) -> None:
    """Return when the event is set, or after `seconds` by the clock (None: no limit)."""
    if event.is_set():
        return
    if seconds is None:
        await event.wait()
        return
    tasks = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
