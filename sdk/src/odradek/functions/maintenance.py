"""The scheduled function: it plans maintenance and sends the tasks to the queue, or runs them itself.

On AWS there is a queue, from which workers take the tasks (functions/maintainer.py). Without one (the embedded
service), one pass runs them all here, as far as the time allows. The next plan finds again whatever was cut short or
failed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from odradek.engine.maintenance.backlog import Backlogs
from odradek.engine.maintenance.maintenance import Maintenance, MaintenancePlan
from odradek.engine.maintenance.queue import enqueue
from odradek.functions.context import LambdaContext
from odradek.functions.environment import MAINTENANCE
from odradek.functions.event import Event
from odradek.functions.invoked import WORK_MARGIN_MS, Instruments, InvokedFunction, remaining_s
from odradek.functions.telemetry import Invocation, Reason, backlog_line, event_line
from odradek.ports.rng import Rng
from odradek.ports.task_queue import TaskQueue
from odradek.settings import Settings

_PLANNING = 0.9  # of the time; the rest is for sending the tasks of a plan that was cut short


class Sweeping(Protocol):
    """A further sweep that maintenance runs: triggers/sweep.py, served/sweep.py."""

    async def run(self) -> tuple[int, list[str]]:
        """Look once; return how much was found, and what could not be looked at."""
        ...


class MaintenanceHandler(InvokedFunction):
    """The handler of scheduled events.

    Args:
        maintenance: plans, and runs tasks.
        instruments: measure the invocations.
        rng: for the jitter of repeated sends.
        queue: receives the tasks; None: they run here.
        backlogs: measured after each pass or plan; None: never.
        limits: above which a backlog needs attention.
        sweeps: what else is looked at in each pass or plan, by name: triggers, tables.
    """

    def __init__(
        self,
        maintenance: Maintenance,
        instruments: Instruments,
        *,
        rng: Rng,
        queue: TaskQueue | None = None,
        backlogs: Backlogs | None = None,
        limits: Settings | None = None,
        sweeps: Mapping[str, Sweeping] | None = None,
    ) -> None:
        super().__init__(MAINTENANCE, instruments)
        self._maintenance = maintenance
        self._rng = rng
        self._queue = queue
        self._backlogs = backlogs
        self._limits = limits or Settings()
        self._sweeps = dict(sweeps or {})

    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> dict[str, Any]:
        """Run one pass: `{"finished": bool, ...results}`; or one plan: `{"finished", "planned", "sent", ...}`.

        Raises the store's error if nothing could be done at all.
        """
        try:
            async with asyncio.timeout(remaining_s(context, WORK_MARGIN_MS)):
                if self._queue is None:
                    report = await self._maintenance.run()
                    done: dict[str, Any] = {"finished": True, **report.done, "failures": report.failures}
                    if report.tables_behind:
                        self.call_attention(Reason.TABLE_BEHIND, **report.tables_behind)
                else:
                    done = await self._plan(self._queue, context)
                for name, sweep in self._sweeps.items():
                    done[f"{name}_woken"], not_looked_at = await sweep.run()
                    done["failures"] = [*done["failures"], *not_looked_at]
                if failures := done["failures"]:
                    self.call_attention(Reason.MAINTENANCE_FAILURES, failures=failures)
                await self._look()
        except TimeoutError:
            done = {"finished": False}
        self._instruments.write_line(event_line("maintenance", {"request_id": context.aws_request_id, **done}))
        return done

    async def _plan(self, queue: TaskQueue, context: LambdaContext) -> dict[str, Any]:
        plan, finished = MaintenancePlan(), True
        try:
            async with asyncio.timeout(_PLANNING * remaining_s(context, WORK_MARGIN_MS)):
                await self._maintenance.plan(plan)
        except TimeoutError:
            finished = False
        sent = await enqueue(plan, queue, self._instruments.clock, self._rng)
        planned = Counter(task.kind.value for task in plan.tasks)
        return {"finished": finished, "planned": dict(planned), "sent": sent, "failures": plan.failures}

    async def _look(self) -> None:
        if self._backlogs is None:
            return
        backlog = await self._backlogs.look()
        self._instruments.write_line(backlog_line(backlog))
        limits, gauges = self._limits, backlog.gauges()
        for reason, gauge, limit in (
            (Reason.TAIL_LONG, "tail_entries_max", limits.attention_tail_entries),
            (Reason.SWEEP_BEHIND, "sweep_backlog_seconds", limits.attention_sweep_backlog_s),
            (Reason.GROUP_LAG, "group_lag_records_max", limits.attention_group_lag_records),
        ):
            if gauges[gauge] > limit:
                self.call_attention(reason, **{gauge: gauges[gauge]})
