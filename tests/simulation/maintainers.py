"""Maintainers: `Engine.maintenance.run()` again and again, several at once, some of them stalled."""

from __future__ import annotations

from odradek.errors import FormatError, KafkaError, StoreError

from tests.simulation.actors import pause
from tests.simulation.world import Process, World


class Maintainer:
    """Runs maintenance until told to stop."""

    def __init__(self, world: World, turns: int, pace_s: float) -> None:
        self._world = world
        self._turns = turns
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        while self._turns > 0 and not self._world.stop.is_set():
            self._turns -= 1
            await run_maintenance(process)
            await pause(self._world, self._pace_s)


async def run_maintenance(process: Process) -> list[str]:
    """One pass; what it could not do."""
    try:
        report = await process.engine.maintenance.run()
    except (KafkaError, StoreError, FormatError) as error:
        process.world.note(f"{process.name} maintenance: {type(error).__name__}")
        return [f"{type(error).__name__}: {error}"]
    done = " ".join(f"{name}={count}" for name, count in sorted(report.done.items()))
    process.world.note(f"{process.name} maintenance: {done}; {len(report.failures)} failures")
    process.world.work.update(report.done)
    return list(report.failures)
