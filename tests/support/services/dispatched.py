"""Triggers over a memory store, without a service: a test decides when a dispatcher works, and what time it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from odradek.engine.engine import Engine
from odradek.engine.marks import decode_wake
from odradek.model.trigger import PartitionStatus, Trigger
from odradek.ports.outside import Outside
from odradek.settings import Settings
from odradek.testing.seeded_rng import SeededRng
from odradek.triggers.event import EventSource
from odradek.triggers.wiring import TriggerParts, wire_triggers

from tests.support.engine import memory_store

_DEADLINE_S = 600.0


class TimedQueue:
    """ports.task_queue.TaskQueue whose messages come at their time, by the clock of a test."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.messages: list[tuple[float, str]] = []  # when it comes, monotonic; the message
        self.sent = 0

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        self.messages += [(self._clock.monotonic() + delay_s, message) for message in messages]
        self.sent += len(messages)
        return []

    async def waiting(self) -> int:
        return len(self.messages)

    def take(self) -> str | None:
        """Take the next message whose time has come."""
        due = [message for message in sorted(self.messages) if message[0] <= self._clock.monotonic()]
        if not due:
            return None
        self.messages.remove(due[0])
        return due[0][1]


class Dispatched:
    """A store, a queue, and as many processes as a test asks for."""

    def __init__(self, outside: Callable[[], Outside], **settings: Any) -> None:
        self.store = memory_store()
        self.clock = self.store.clock
        self.queue = TimedQueue(self.clock)
        self._outside = outside
        self._settings = Settings(**settings)
        self._processes = 0
        self.engine, self.parts = self.process()

    def process(self) -> tuple[Engine, TriggerParts]:
        """The engine and the triggers of another process."""
        self._processes += 1
        engine = Engine(
            tables=self.store.tables,
            objects=self.store.objects,  # type: ignore[arg-type]
            clock=self.clock,
            rng=SeededRng(self._processes),
            settings=self._settings,
            wakes=self.queue,
        )
        return engine, wire_triggers(engine, self.queue, EventSource("arn", "servers"), self._outside)

    async def create(self, **options: Any) -> Trigger:
        return await self.parts.triggers.create(Trigger(**{"name": "t", "topic": "orders", **options}))

    async def work_off(self, parts: TriggerParts | None = None) -> int:
        """Work the messages off whose time has come; return how many there were."""
        count = 0
        while (message := self.queue.take()) is not None:
            await (parts or self.parts).dispatcher.handle(decode_wake(message), self.clock.monotonic() + _DEADLINE_S)
            count += 1
        return count

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and work off what comes in it."""
        for _ in range(20):
            self.clock.advance(seconds / 20)
            await self.work_off()

    async def status(self, partition: int = 0) -> PartitionStatus:
        return (await self.parts.triggers.describe("t")).partitions[partition]
