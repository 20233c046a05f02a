"""What the functions without clients share: an invocation is metered, timed and logged, and fails as a whole.

A failure is logged and raised: the invocation counts as failed, which is what an alarm looks at.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

from odradek.functions.context import LambdaContext
from odradek.functions.event import Event
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import Invocation, WriteLine, fault_line, invocation_line, write_stdout
from odradek.ports.clock import Clock
from odradek.ports.meter import Usage

_DEADLINE_MARGIN_MS = 2_000


class BackgroundHandler:
    """A handler of events that no client waits for; a subclass does the `work`.

    Args:
        name: of the function.
        clock: for the duration and the log's timestamps.
        meter: the meter that the adapters count into.
        cluster_id: dimension of the metrics.
        write_line: where the log goes.
        observe: is told of every invocation as well (functions/metrics.py).
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        meter: InvocationMeter,
        cluster_id: str = "odradek",
        write_line: WriteLine = write_stdout,
        observe: Callable[[Invocation, Usage], None] | None = None,
    ) -> None:
        self._name = name
        self._clock = clock
        self._meter = meter
        self._cluster_id = cluster_id
        self._write_line = write_line
        self._observe = observe
        self._runner: asyncio.Runner | None = None

    async def work(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """What the function is for; its answer."""
        raise NotImplementedError

    def __call__(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """What Lambda calls."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self.handle(event, context))

    async def handle(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """One invocation; raises what `work` raises."""
        started = self._clock.monotonic()
        invocation = Invocation(self._cluster_id, self._name, context.aws_request_id)
        with self._meter.invocation() as tally:
            try:
                return await self.work(event, context)
            except Exception as error:
                invocation.faults, invocation.error, invocation.status = 1, type(error).__name__, 500
                self._write_line(fault_line(context.aws_request_id, self._name, traceback.format_exc()))
                raise
            finally:
                invocation.duration_ms = (self._clock.monotonic() - started) * 1000
                self._write_line(invocation_line(invocation, tally.usage, self._clock.now_ms()))
                if self._observe is not None:
                    self._observe(invocation, tally.usage)


def remaining_s(context: LambdaContext) -> float:
    """Seconds until the work has to end for its answer to leave in time."""
    return max(0.0, (context.get_remaining_time_in_millis() - _DEADLINE_MARGIN_MS) / 1000)
