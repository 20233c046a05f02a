"""Maintenance in the embedded service: what a schedule does on AWS, a task does here, by the same handler.

A pass that fails has been logged by the handler and is taken up by the next one. Stopping cuts a pass short, which
every step of it allows.
"""

from __future__ import annotations

import asyncio

from odradek.errors import OdradekError
from odradek.functions.environment import MAINTENANCE
from odradek.functions.maintenance import MaintenanceHandler
from odradek.limits import FUNCTION_TIMEOUT_S_MAX
from odradek.local.context import LocalContext
from odradek.ports.clock import Clock


class MaintenanceLoop:
    """Runs maintenance every `interval_ms`; never where that is 0.

    Args:
        memory_limit_in_mb: of the function, as its context shows it.
    """

    def __init__(self, handler: MaintenanceHandler, *, interval_ms: int, clock: Clock, memory_limit_in_mb: int) -> None:
        self._handler = handler
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._memory_limit_in_mb = memory_limit_in_mb
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the first pass is one interval away."""
        if self._interval_s > 0:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End, a pass under way too. May be repeated."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        number = 0
        while True:
            await self._clock.sleep(self._interval_s)
            number += 1
            context = LocalContext(
                function_name=MAINTENANCE,
                memory_limit_in_mb=self._memory_limit_in_mb,
                aws_request_id=f"{MAINTENANCE}-{number}",
                deadline_s=self._clock.monotonic() + FUNCTION_TIMEOUT_S_MAX,
                monotonic=self._clock.monotonic,
            )
            try:
                await self._handler.handle({}, context)
            except OdradekError:
                continue  # logged by the handler
