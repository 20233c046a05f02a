"""Maintenance of the embedded service: a task calls the same handler that a schedule calls on AWS.

The handler logs a failed pass, and the next one continues its work. Stopping may cut a pass short, which every step
allows.
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
    """Runs maintenance every `interval_ms`; 0 disables it.

    Args:
        memory_limit_in_mb: of the function, for its context.
    """

    def __init__(self, handler: MaintenanceHandler, *, interval_ms: int, clock: Clock, memory_limit_in_mb: int) -> None:
        self._handler = handler
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._memory_limit_in_mb = memory_limit_in_mb
        self._task: asyncio.Task[None] | None = None
        self._running = asyncio.Lock()
        self._number = 0

    def start(self) -> None:
        """Start; the first pass follows after one interval."""
        if self._interval_s > 0:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop, also during a pass. May be called twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run_once(self) -> None:
        """Run one pass now, after one that runs already. Raises OdradekError if it failed."""
        async with self._running:
            self._number += 1
            context = LocalContext(
                function_name=MAINTENANCE,
                memory_limit_in_mb=self._memory_limit_in_mb,
                aws_request_id=f"{MAINTENANCE}-{self._number}",
                deadline_s=self._clock.monotonic() + FUNCTION_TIMEOUT_S_MAX,
                monotonic=self._clock.monotonic,
            )
            await self._handler.handle({}, context)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_s)
            try:
                await self.run_once()
            except OdradekError:
                continue  # logged by the handler
