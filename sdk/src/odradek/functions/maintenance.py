"""The function that a schedule calls: one pass of engine.maintenance, as far as the time allows.

Every step of a pass may be repeated, so a pass that ends early (time, a failed call) is taken up by the next one. A
failure is logged and raised: the invocation counts as failed, which is what an alarm looks at.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

from odradek.engine.backlog import Backlogs
from odradek.engine.maintenance import Maintenance
from odradek.functions.context import LambdaContext
from odradek.functions.environment import MAINTENANCE
from odradek.functions.event import Event
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import (
    Invocation,
    WriteLine,
    backlog_line,
    event_line,
    fault_line,
    invocation_line,
    write_stdout,
)
from odradek.ports.clock import Clock
from odradek.ports.meter import Usage

_DEADLINE_MARGIN_MS = 2_000


class MaintenanceHandler:
    """The handler of scheduled events.

    Args:
        maintenance: what is run.
        clock: for the duration and the log's timestamps.
        meter: the meter that the engine's adapters count into.
        cluster_id: dimension of the metrics.
        write_line: where the log goes.
        backlogs: looked at after each pass; None: never.
        observe: is told of every invocation as well (functions/metrics.py).
    """

    def __init__(
        self,
        maintenance: Maintenance,
        *,
        clock: Clock,
        meter: InvocationMeter,
        cluster_id: str = "odradek",
        write_line: WriteLine = write_stdout,
        backlogs: Backlogs | None = None,
        observe: Callable[[Invocation, Usage], None] | None = None,
    ) -> None:
        self._backlogs = backlogs
        self._observe = observe
        self._maintenance = maintenance
        self._clock = clock
        self._meter = meter
        self._cluster_id = cluster_id
        self._write_line = write_line
        self._runner: asyncio.Runner | None = None

    def __call__(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """What Lambda calls."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self.handle(event, context))

    async def handle(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """One pass. Returns `{"finished": bool, ...what it did}`; raises what the store raises."""
        started = self._clock.monotonic()
        invocation = Invocation(self._cluster_id, MAINTENANCE, context.aws_request_id)
        with self._meter.invocation() as tally:
            try:
                return await self._run(context)
            except Exception as error:
                invocation.faults, invocation.error, invocation.status = 1, type(error).__name__, 500
                self._write_line(fault_line(context.aws_request_id, MAINTENANCE, traceback.format_exc()))
                raise
            finally:
                invocation.duration_ms = (self._clock.monotonic() - started) * 1000
                self._write_line(invocation_line(invocation, tally.usage, self._clock.now_ms()))
                if self._observe is not None:
                    self._observe(invocation, tally.usage)

    async def _run(self, context: LambdaContext) -> dict[str, Any]:
        remaining_ms = context.get_remaining_time_in_millis() - _DEADLINE_MARGIN_MS
        try:
            async with asyncio.timeout(max(0.0, remaining_ms / 1000)):
                report = await self._maintenance.run()
                done = {"finished": True, **report.done, "failures": report.failures}
                if self._backlogs is not None:
                    backlog = await self._backlogs.look()
                    self._write_line(
                        backlog_line(self._cluster_id, backlog, len(report.failures), self._clock.now_ms())
                    )
        except TimeoutError:
            done = {"finished": False}
        self._write_line(event_line("maintenance", {"request_id": context.aws_request_id, **done}))
        return done
