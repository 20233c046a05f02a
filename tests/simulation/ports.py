"""The store as one process sees it: every call has a fate.

    pause → crash? → stall? → unavailable? / request lost? → the call (now, twice, or later)
          → answer lost? → crash? → pause

A crash ends all tasks of the process at once; what it had sent may still arrive. A call itself is atomic: the memory
adapters run to their end without yielding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import OutcomeUnknown, StoreError, StoreRejected, StoreUnavailable
from odradek.ports.tables import TableOperation, Tables

if TYPE_CHECKING:
    from tests.simulation.world import Process

HOUR_S = 3600.0
WRITES = frozenset({"put", "update", "delete", "transact"})


class Crash(BaseException):
    """The process dies here. Not an Exception: no handler of the program sees it."""


@dataclass(frozen=True)
class Fates:
    """How likely what is, per port call. `none()` for a calm end of a run.

    Attributes:
        stalling: the calls that stall, by name; empty: any.
    """

    crash: float = 0.004
    unavailable: float = 0.03
    lost_request: float = 0.02
    lost_answer: float = 0.03
    late: float = 0.01
    repeated: float = 0.01
    stall: float = 0.0015
    pause_s: float = 0.02
    stalls_s: tuple[float, ...] = (2.0, 60.0, 1.2 * HOUR_S)
    stalling: frozenset[str] = frozenset()

    @classmethod
    def none(cls) -> Fates:
        return cls(0, 0, 0, 0, 0, 0, 0)


class SimTables:
    """The tables as a process sees them."""

    def __init__(self, process: Process, tables: Tables) -> None:
        self.log: Any = SimPort(process, tables.log, "log")
        self.groups: Any = SimPort(process, tables.groups, "groups")
        self.catalog: Any = SimPort(process, tables.catalog, "catalog")
        self._across: Any = SimPort(process, tables, "tables")

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        await self._across.transact(operations)


class SimPort:
    """A port as a process sees it."""

    def __init__(self, process: Process, port: Any, name: str) -> None:
        self._process = process
        self._port = port
        self._name = name

    def __getattr__(self, method_name: str) -> Any:
        method = getattr(self._port, method_name)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._call(method_name, lambda: method(*args, **kwargs))

        return call

    async def _call(self, method_name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        process, world = self._process, self._process.world
        fates, rng = world.fates, world.rng
        label = f"{process.name} {self._name}.{method_name}"
        is_write = method_name in WRITES
        await self._pause(rng.random() * fates.pause_s)
        self._die_perhaps(fates.crash, label, "before")
        if rng.random() < fates.stall and (not fates.stalling or method_name in fates.stalling):
            world.note(f"{label} stalls")
            await self._pause(rng.choice(fates.stalls_s))
        draw = rng.random()
        if draw < fates.unavailable:
            world.note(f"{label} unavailable")
            raise StoreUnavailable(label)
        draw -= fates.unavailable
        if is_write:
            if draw < fates.lost_request:
                world.note(f"{label} request lost")
                raise OutcomeUnknown(label)
            draw -= fates.lost_request
            if draw < fates.late:
                delay = rng.choice((0.05, 1.0, 30.0, 1.5 * HOUR_S))
                world.note(f"{label} late by {delay}")
                world.deliver(self._deliver(label, act, delay))
                raise OutcomeUnknown(label)
            draw -= fates.late
            if draw < fates.repeated:
                world.note(f"{label} repeated")
                try:
                    await self._act(act)
                except StoreError:
                    pass
        try:
            answer = await self._act(act)
        except StoreError as error:
            world.note(f"{label} -> {type(error).__name__}")
            self._die_perhaps(fates.crash, label, "after")
            await self._pause(rng.random() * fates.pause_s)
            raise
        world.note(f"{label} -> ok")
        if is_write and rng.random() < fates.lost_answer:
            world.note(f"{label} answer lost")
            raise OutcomeUnknown(label)
        self._die_perhaps(fates.crash, label, "after")
        await self._pause(rng.random() * fates.pause_s)
        return answer

    async def _act(self, act: Callable[[], Awaitable[Any]]) -> Any:
        ledger = self._process.world.ledger
        ledger.caller = self._process.name
        ledger.is_transaction = self._name == "tables"
        try:
            return await act()
        except StoreRejected as error:
            ledger.problem(f"the store never takes what it was sent: {error}")
            raise
        finally:
            ledger.settled()

    async def _deliver(self, label: str, act: Callable[[], Awaitable[Any]], delay: float) -> None:
        await asyncio.sleep(delay)
        try:
            await self._act(act)
        except StoreError as error:
            self._process.world.note(f"{label} arrives late -> {type(error).__name__}")
        else:
            self._process.world.note(f"{label} arrives late -> ok")

    async def _pause(self, seconds: float) -> None:
        if self._process.dead:
            raise Crash
        await asyncio.sleep(seconds)
        if self._process.dead:
            raise Crash

    def _die_perhaps(self, chance: float, label: str, when: str) -> None:
        if self._process.world.rng.random() < chance:
            self._process.world.note(f"{label} crashes {when}")
            self._process.kill()
            raise Crash
