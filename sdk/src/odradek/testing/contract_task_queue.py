"""The contract of ports.task_queue.TaskQueue: what every backend must do, as functions over a new, empty queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX, TaskQueue
from odradek.testing.contract import failure

TaskQueueCheck = Callable[[TaskQueue], Awaitable[None]]


async def what_is_sent_waits(queue: TaskQueue) -> None:
    assert await queue.waiting() == 0
    assert await queue.send(["one"]) == []
    assert await queue.waiting() == 1


async def equal_messages_are_messages_of_their_own(queue: TaskQueue) -> None:
    assert await queue.send(["same"] * MESSAGES_PER_SEND_MAX) == []
    assert await queue.send(["same"]) == []
    assert await queue.waiting() == MESSAGES_PER_SEND_MAX + 1


async def none_or_too_many_are_a_bug_of_the_caller(queue: TaskQueue) -> None:
    await failure(ValueError, queue.send([]))
    await failure(ValueError, queue.send(["x"] * (MESSAGES_PER_SEND_MAX + 1)))
    assert await queue.waiting() == 0


TASK_QUEUE_CHECKS: tuple[TaskQueueCheck, ...] = (
    what_is_sent_waits,
    equal_messages_are_messages_of_their_own,
    none_or_too_many_are_a_bug_of_the_caller,
)
