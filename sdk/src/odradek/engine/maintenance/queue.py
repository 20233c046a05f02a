"""Sends a maintenance plan to the queue: ten messages per request; refused ones are sent again after a pause.

A plan that is not longer than what waits already is not sent: workers are behind, the queue has that much work, and the
planned work remains. So the queue never holds more than two plans, and workers that keep up always find the newest. The
next plan names unsent tasks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.backoff import Backoff
from odradek.engine.maintenance.maintenance import MaintenancePlan
from odradek.engine.maintenance.patience import patiently
from odradek.errors import StoreError
from odradek.format.maintenance_task import encode_task
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX, TaskQueue

_SENDS_AT_ONCE = 8
_ATTEMPTS = 5


async def enqueue(plan: MaintenancePlan, queue: TaskQueue, clock: Clock, rng: Rng) -> int:
    """Send the tasks of a plan; returns how many were sent. What could not be sent is noted in the plan's failures."""
    if not plan.tasks:
        return 0
    try:
        if await queue.waiting() >= len(plan.tasks):
            return 0
    except StoreError as error:
        plan.failures.append(f"the queue: {type(error).__name__}: {error}")
        return 0
    messages = [encode_task(task) for task in plan.tasks]
    slots = asyncio.Semaphore(_SENDS_AT_ONCE)
    sent = await asyncio.gather(
        *(
            _send(plan, messages[start : start + MESSAGES_PER_SEND_MAX], queue, clock, rng, slots)
            for start in range(0, len(messages), MESSAGES_PER_SEND_MAX)
        )
    )
    return sum(sent)


async def _send(
    plan: MaintenancePlan, messages: Sequence[str], queue: TaskQueue, clock: Clock, rng: Rng, slots: asyncio.Semaphore
) -> int:
    """Send until the queue has taken them all, so often at most; a message may be sent twice."""
    backoff = Backoff(clock, rng, first_s=0.1, max_s=1.0)
    left = list(messages)
    try:
        async with slots:
            for attempt in range(_ATTEMPTS):
                if attempt:
                    await backoff.pause(attempt - 1)
                left = await patiently(clock, rng, lambda some=left: queue.send(some))  # type: ignore[misc]
                if not left:
                    return len(messages)
            plan.failures.append(f"the queue refused {len(left)} tasks")
    except StoreError as error:
        plan.failures.append(f"{len(left)} tasks were not sent: {type(error).__name__}: {error}")
    return len(messages) - len(left)
