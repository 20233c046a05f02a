"""The world of a simulation: one store, many processes, a seeded fate.

A *process* is one life of an actor's program: its own engine with its own caches, its own clock (skewed), its own fate.
It can crash at any port call, which ends all its tasks at once; what it had sent may still arrive. The store is
the memory adapters, each call atomic; everything around a call is the fate's:

    pause → crash? → unavailable? / request lost? → the call (now, twice, or later) → answer lost? → crash? → pause

Every step is written to the trace; the same seed gives the same trace, byte for byte.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.errors import OutcomeUnknown, StoreError, StoreUnavailable
from odradek.ports.tables import TableOperation
from odradek.settings import Settings
from odradek.testing.seeded_rng import SeededRng

START_MS = 1_700_000_000_000
HOUR_S = 3600.0


class Crash(BaseException):
    """The process dies here. Not an Exception: no handler of the program sees it."""


@dataclass(frozen=True)
class Fates:
    """How likely what is, per port call. `none()` for a calm end of a run."""

    crash: float = 0.004
    unavailable: float = 0.03
    lost_request: float = 0.02
    lost_answer: float = 0.03
    late: float = 0.01
    repeated: float = 0.01
    stall: float = 0.0015
    pause_s: float = 0.02

    @classmethod
    def none(cls) -> Fates:
        return cls(0, 0, 0, 0, 0, 0, 0)


class SimClock:
    """A process's clock: the loop's time, off by its skew."""

    def __init__(self, skew_ms: int) -> None:
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return START_MS + self._skew_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class World:
    """Everything that a run consists of."""

    def __init__(self, seed: int, fates: Fates | None = None, settings: dict[str, Any] | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.fates = fates or Fates()
        self.settings = Settings(**(settings or self._hostile_settings()))
        self.clock = SimClock(0)
        self.tables = MemoryStore()
        self.objects = MemoryObjectStore(self.clock)
        self.trace: list[str] = []
        self.deliveries: set[asyncio.Task[None]] = set()
        self._names = 0

    def _hostile_settings(self) -> dict[str, Any]:
        """Each knob at its default or at its hostile value."""
        drawn: dict[str, Any] = {}
        for spec in fields(Settings):
            if spec.metadata.get("hostile") != spec.default and self.rng.random() < 0.5:
                drawn[spec.name] = spec.metadata["hostile"]
        return drawn

    def note(self, line: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():.6f} {line}")

    def trace_digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def process(self, name: str, skew_ms: int | None = None) -> Process:
        self._names += 1
        skew = self.rng.choice((0, 0, -30_000, 45_000, -400, 900)) if skew_ms is None else skew_ms
        return Process(self, f"{name}.{self._names}", skew)

    def calm(self) -> None:
        """From here on nothing fails any more."""
        self.fates = Fates.none()

    async def settle(self) -> None:
        """Wait until every late delivery has arrived."""
        while self.deliveries:
            await asyncio.gather(*self.deliveries)


@dataclass
class Process:
    """One life of a program."""

    world: World
    name: str
    skew_ms: int
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    dead: bool = False

    def __post_init__(self) -> None:
        self.clock = SimClock(self.skew_ms)
        tables = self.world.tables
        self.engine = Engine(
            tables=SimTables(self, tables),
            objects=SimPort(self, self.world.objects, "objects"),  # type: ignore[arg-type]
            clock=self.clock,
            rng=SeededRng(self.world.rng.getrandbits(64)),
            settings=self.world.settings,
        )

    async def run(self, program: Coroutine[Any, Any, Any]) -> bool:
        """Run the program as this process; False where it crashed."""
        task = asyncio.ensure_future(self._guard(program))
        self.tasks.add(task)
        await asyncio.wait([task])
        return not self.dead

    async def _guard(self, program: Coroutine[Any, Any, Any]) -> None:
        try:
            await program
        except Crash:
            self.kill()
        except asyncio.CancelledError:
            if not self.dead:
                raise

    def kill(self) -> None:
        """End the process: nothing of it runs any more."""
        if not self.dead:
            self.dead = True
            self.world.note(f"{self.name} dies")


class SimTables:
    """The tables as a process sees them."""

    def __init__(self, process: Process, tables: MemoryStore) -> None:
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
        is_write = method_name in {"put", "update", "delete", "transact"}
        await self._pause(rng.random() * fates.pause_s)
        self._die_perhaps(fates.crash, label, "before")
        if rng.random() < fates.stall:
            world.note(f"{label} stalls")
            await self._pause(rng.choice((2.0, 60.0, 1.2 * HOUR_S)))
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
                task = asyncio.ensure_future(self._deliver(label, act, delay))
                world.deliveries.add(task)
                task.add_done_callback(world.deliveries.discard)
                raise OutcomeUnknown(label)
            draw -= fates.late
            if draw < fates.repeated:
                world.note(f"{label} repeated")
                try:
                    await act()
                except StoreError:
                    pass
        try:
            answer = await act()
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

    async def _deliver(self, label: str, act: Callable[[], Awaitable[Any]], delay: float) -> None:
        await asyncio.sleep(delay)
        try:
            await act()
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
