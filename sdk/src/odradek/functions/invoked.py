"""The base of every function: one event loop per process, the meter, the time limit, the log.

`handle` is the asynchronous core: the embedded service awaits it on its loop, so that a long poll holds no thread.
Lambda calls the object, which runs the core on one loop per process, kept over warm invocations.
"""

from __future__ import annotations

import asyncio
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.errors import ErrorCode
from odradek.functions import collector
from odradek.functions.context import LambdaContext
from odradek.functions.event import Event
from odradek.functions.invocation_log import InvocationLog
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import Invocation, Reason, WriteLine, attention_line, fault_line, write_stdout
from odradek.ports.clock import Clock
from odradek.ports.meter import Usage

# A response leaves this long before Lambda ends the invocation: a 504 with a message instead of a cut connection.
ANSWER_MARGIN_MS = 250
WORK_MARGIN_MS = 2_000  # of functions without a waiting client: running work is ended in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """The instruments that measure the invocations of a function.

    Args:
        clock: for durations and the log's timestamps.
        meter: the meter into which the adapters count.
        cluster_id: dimension of the metrics.
        write_line: writes the log, one JSON object per line.
        observe: called with every invocation (functions/metrics.py).
        log_interval_ms: the shortest time between two lines about invocations; 0: each has one.
        detailed_metrics: these lines are CloudWatch metrics too.
    """

    clock: Clock
    meter: InvocationMeter
    cluster_id: str = "odradek"
    write_line: WriteLine = write_stdout
    observe: Callable[[Invocation], None] | None = None
    log_interval_ms: int = 0
    detailed_metrics: bool = False


class InvokedFunction(ABC):
    """A Lambda function; a subclass implements `work`.

    Args:
        name: of the function.
        instruments: measure the invocations.
    """

    def __init__(self, name: str, instruments: Instruments) -> None:
        self._function = name
        self._instruments = instruments
        self._runner: asyncio.Runner | None = None
        self._is_cold = True
        self._log = InvocationLog(
            instruments.cluster_id,
            name,
            instruments.write_line,
            interval_ms=instruments.log_interval_ms,
            is_detailed=instruments.detailed_metrics,
        )

    @abstractmethod
    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> dict[str, Any]:
        """Do the work of the function and return its response. Notes facts for the log in `invocation`."""

    def answer_to_fault(self, request_id: str) -> dict[str, Any] | None:
        """Return the response after an unexpected exception; None if no client waits: then the exception is raised."""
        return None

    def call_attention(self, reason: Reason, **properties: Any) -> None:
        """Write a line that a person has to look at, which raises the alarm `attention`."""
        instruments = self._instruments
        instruments.write_line(
            attention_line(instruments.cluster_id, self._function, reason, instruments.clock.now_ms(), properties)
        )

    def __call__(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """Run one invocation for Lambda."""
        if self._runner is None:
            self._runner = asyncio.Runner()
            collector.settle()
        # Not `Runner.run`: for each call it replaces the handler of SIGINT, which takes half a millisecond, and twice.
        return self._runner.get_loop().run_until_complete(self.handle(event, context))

    async def handle(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """Run one invocation. Raises the exception of `work` if no client waits for a response."""
        instruments, request_id = self._instruments, context.aws_request_id
        started = instruments.clock.monotonic()
        invocation = Invocation(instruments.cluster_id, self._function, request_id, cold_start=self._is_cold)
        self._is_cold = False
        raised: Exception | None = None
        with instruments.meter.invocation() as tally:
            try:
                response: dict[str, Any] | None = await self.work(event, context, invocation)
            except Exception as error:
                raised, response = error, self.answer_to_fault(request_id)
                instruments.write_line(fault_line(request_id, self._function, traceback.format_exc()))
                invocation.faults, invocation.status = 1, 500
                invocation.error = type(error).__name__ if response is None else ErrorCode.UNKNOWN_SERVER_ERROR.name
            invocation.duration_ms = (instruments.clock.monotonic() - started) * 1000
            instruments.meter.add("Invoke", billed(invocation, context))
        self._log.add(invocation, tally.usage, instruments.clock.now_ms())
        if invocation.faults:
            self.call_attention(Reason.FAULT, request_id=request_id)
        if rejections := tally.usage.rejected_requests:
            self.call_attention(Reason.STORE_REJECTED, request_id=request_id, store_rejections=rejections)
        if ranges := tally.usage.damaged_ranges:
            self.call_attention(Reason.DAMAGE, request_id=request_id, damaged_ranges=ranges)
        if instruments.observe is not None:
            instruments.observe(invocation)
        if response is None:
            assert raised is not None
            raise raised
        return response


def billed(invocation: Invocation, context: LambdaContext) -> Usage:
    """Return Lambda's billing units: requests, and duration rounded up to a millisecond times memory."""
    gb_seconds = -(-invocation.duration_ms // 1) / 1000 * int(context.memory_limit_in_mb) / 1024
    return Usage(
        function_requests=1,
        function_gb_seconds=gb_seconds,
        payload_bytes_in=invocation.bytes_in,
        payload_bytes_out=invocation.bytes_out,
    )


def remaining_s(context: LambdaContext, margin_ms: int) -> float:
    """Return the seconds left for the work, so that the response leaves `margin_ms` before the invocation ends."""
    return max(0.0, (context.get_remaining_time_in_millis() - margin_ms) / 1000)
