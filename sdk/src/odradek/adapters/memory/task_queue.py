"""A task queue in a list, for tests and the simulation, which decide what is duplicated, delayed or lost."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX, check_delay


class MemoryTaskQueue:
    """ports.task_queue.TaskQueue in this process's memory. It delays nothing: whoever takes messages decides when.

    Attributes:
        messages: the waiting messages, in the order of sending.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter = meter or NullMeter()
        self.messages: list[str] = []

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        check_delay(delay_s)
        if not 1 <= len(messages) <= MESSAGES_PER_SEND_MAX:
            raise ValueError(f"a call sends 1 to {MESSAGES_PER_SEND_MAX} messages, not {len(messages)}")
        self._meter.add("SendMessageBatch", Usage(queue_requests=1))
        self.messages.extend(messages)
        return []

    async def waiting(self) -> int:
        self._meter.add("GetQueueAttributes", Usage(queue_requests=1))
        return len(self.messages)
