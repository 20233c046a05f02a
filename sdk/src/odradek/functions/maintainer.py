"""The worker of maintenance: called with messages of the queue, each a task; runs several at a time.

Its response names the messages to deliver again (ReportBatchItemFailures): those whose task failed, those that did not
fit the time, and those that this release does not understand. They return after the queue's visibility timeout, and
after a number of receptions they go to the dead-letter queue. By then the next plan has named their work again, if it
still exists, so a lost message costs nothing (format/maintenance_task.py).
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from typing import Any

from odradek.engine.maintenance.maintenance import Maintenance, MaintenanceReport
from odradek.errors import FormatError
from odradek.format.maintenance_task import decode_task
from odradek.functions.context import LambdaContext
from odradek.functions.environment import MAINTAINER
from odradek.functions.event import Event
from odradek.functions.invoked import WORK_MARGIN_MS, Instruments, InvokedFunction, remaining_s
from odradek.functions.telemetry import Invocation, Reason, event_line, fault_line


class MaintainerHandler(InvokedFunction):
    """The handler of SQS events.

    Args:
        maintenance: runs the tasks.
        instruments: measure the invocations.
        tasks_at_once: the number of tasks of a batch that run concurrently; the others wait.
    """

    def __init__(self, maintenance: Maintenance, instruments: Instruments, *, tasks_at_once: int) -> None:
        super().__init__(MAINTAINER, instruments)
        self._maintenance = maintenance
        self._tasks_at_once = tasks_at_once

    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> dict[str, Any]:
        """Run the tasks; return `{"batchItemFailures": [{"itemIdentifier": message id}, ...]}`."""
        records = event.get("Records", ())
        report = MaintenanceReport()
        left = {str(record["messageId"]) for record in records}
        slots = asyncio.Semaphore(self._tasks_at_once)
        try:
            async with asyncio.timeout(remaining_s(context, WORK_MARGIN_MS)):
                await asyncio.gather(*(self._do(record, report, left, slots) for record in records))
        except TimeoutError:
            pass  # the remaining messages are delivered again
        properties = {"tasks": len(records), "left": len(left), **report.done, "failures": report.failures}
        self._instruments.write_line(event_line("maintainer", {"request_id": context.aws_request_id, **properties}))
        if report.failures:
            self.call_attention(Reason.MAINTENANCE_FAILURES, failures=report.failures)
        if report.tables_behind:
            self.call_attention(Reason.TABLE_BEHIND, **report.tables_behind)
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in sorted(left)]}

    async def _do(
        self, record: Mapping[str, Any], report: MaintenanceReport, left: set[str], slots: asyncio.Semaphore
    ) -> None:
        """Run the task of one message, and remove the message from `left` unless the task failed."""
        async with slots:
            done = MaintenanceReport()
            try:
                await self._maintenance.do(decode_task(str(record["body"])), done)
            except FormatError as error:
                done.failures.append(f"message {record['messageId']}: {error}")
            except Exception as error:  # this message must not cause the others to be repeated
                done.failures.append(f"message {record['messageId']}: {type(error).__name__}: {error}")
                self._instruments.write_line(fault_line(str(record["messageId"]), MAINTAINER, traceback.format_exc()))
            report.done.update(done.done)
            report.failures += done.failures
            if not done.failures:
                left.discard(str(record["messageId"]))
