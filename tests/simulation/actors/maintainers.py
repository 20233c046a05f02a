"""Maintainers, several at once, some of them stalled: passes in one process, and plans whose tasks go through a queue.

A queue may do to messages what queues do: some are lost, some come twice, some only with a later plan's, all in any
order; each goes to one of several workers, processes of their own, which work at the same time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from odradek.engine.maintenance.maintenance import MaintenancePlan, MaintenanceReport
from odradek.errors import FormatError, KafkaError, StoreError
from odradek.format.maintenance_task import decode_task, encode_task

from tests.simulation.actors.common import pause
from tests.simulation.world import Process, World

_WORKERS = 3
_LOST, _LATE, _TWICE = 0.1, 0.15, 0.2  # of the messages


class Maintainer:
    """Runs maintenance until told to stop."""

    def __init__(self, world: World, turns: int, pace_s: float) -> None:
        self._world = world
        self._turns = turns
        self._pace_s = pace_s
        self._late: list[str] = []

    async def program(self, process: Process) -> None:
        while self._turns > 0 and not self._world.stop.is_set():
            self._turns -= 1
            if self._world.rng.random() < 0.5:
                await run_maintenance(process)
            else:
                await self._run_by_queue(process)
            await pause(self._world, self._pace_s)

    async def _run_by_queue(self, process: Process) -> None:
        plan = MaintenancePlan()
        try:
            await process.engine.maintenance.plan(plan)
        except KafkaError as error:
            process.world.note(f"{process.name} plan: {type(error).__name__}")
        messages = self._delivered([encode_task(task) for task in plan.tasks])
        process.world.note(f"{process.name} plan: {len(plan.tasks)} tasks, {len(messages)} messages")
        process.world.work["messages"] += len(messages)
        shares = [messages[number::_WORKERS] for number in range(min(_WORKERS, len(messages)))]
        workers = [self._world.process(f"{process.name}-worker{number}") for number in range(len(shares))]
        # A worker that dies takes its share with it: those messages are lost.
        await asyncio.gather(*(one.run(_work(one, share)) for one, share in zip(workers, shares, strict=True)))

    def _delivered(self, sent: Sequence[str]) -> list[str]:
        """Return messages as the queue delivers them."""
        rng = self._world.rng
        messages, self._late = self._late, []
        for message in sent:
            fate = rng.random()
            if fate < _LOST:
                continue
            if fate < _LOST + _LATE:
                self._late.append(message)
                continue
            messages += [message] * (2 if fate > 1 - _TWICE else 1)
        rng.shuffle(messages)
        return messages


class Sweeper:
    """Runs sweeps alone, as where the queue loses the other tasks of each plan, until told to stop."""

    def __init__(self, world: World, turns: int, pace_s: float) -> None:
        self._world = world
        self._turns = turns
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        while self._turns > 0 and not self._world.stop.is_set():
            self._turns -= 1
            try:
                await process.engine.sweep.run(Counter())
            except (KafkaError, StoreError, FormatError) as error:
                process.world.note(f"{process.name} sweep: {type(error).__name__}")
            await pause(self._world, self._pace_s)


async def _work(worker: Process, messages: Sequence[str]) -> None:
    """One worker's messages, one after the other."""
    for message in messages:
        report = MaintenanceReport()
        await worker.engine.maintenance.do(decode_task(message), report)
        _note(worker, report, message)


async def run_maintenance(process: Process) -> list[str]:
    """One pass; what it could not do."""
    try:
        report = await process.engine.maintenance.run()
    except (KafkaError, StoreError, FormatError) as error:
        process.world.note(f"{process.name} maintenance: {type(error).__name__}")
        return [f"{type(error).__name__}: {error}"]
    _note(process, report, "maintenance")
    return list(report.failures)


def _note(process: Process, report: MaintenanceReport, task_name: str) -> None:
    done = " ".join(f"{name}={count}" for name, count in sorted(report.done.items()))
    process.world.note(f"{process.name} {task_name}: {done}; {len(report.failures)} failures")
    process.world.work.update(report.done)
