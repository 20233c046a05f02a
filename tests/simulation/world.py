"""The world of a simulation: one store, many processes, a seeded fate.

A *process* is one life of an actor's program: its own engine with its own caches, its own clock (skewed), its own fate
(store/ports.py). The store is the memory adapters under a witness (store/witness.py), which sees every change as it is
applied.

Every step is written to the trace; the same seed gives the same trace, byte for byte.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, fields
from typing import Any

from odradek.adapters.store_clock import StoreClock
from odradek.engine.engine import Engine
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.ports.tables import Tables
from odradek.settings import Settings
from odradek.testing.seeded_rng import SeededRng
from odradek.testing.throttling import Throttle, ThrottledTables

from tests.simulation.books.history import History
from tests.simulation.books.ledger import Ledger
from tests.simulation.books.trigger_book import TriggerBook
from tests.simulation.store.hearing import hear_answers
from tests.simulation.store.ports import Crash, Fates, SimObjects, SimPort, SimTables
from tests.simulation.store.redelivery import deliver_some_twice
from tests.simulation.store.visibility import Visibility
from tests.simulation.store.witness import WitnessedLake, WitnessedObjects, WitnessedStore

START_MS = 1_700_000_000_000
_UNBOUNDED = 10**9
SKEWS_MS = (0, 0, -30_000, 45_000, -400, 900)


class SimClock:
    """A process's clock: the loop's time, off by its skew. What sleeps by it sleeps on while the process is frozen."""

    def __init__(self, skew_ms: int, process: Process | None = None) -> None:
        self.skew_ms = skew_ms
        self._process = process

    def now_ms(self) -> int:
        return START_MS + self.skew_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._process is not None:
            await self._process.thawed()


class World:
    """Everything that a run consists of.

    Args:
        settings: over the drawn ones: each knob is at its default or at its hostile value.
        write_units: of a partition key a second, beyond which the tables throttle; 0: they never do.
    """

    def __init__(
        self, seed: int, rng: random.Random, fates: Fates, settings: dict[str, Any], write_units: int = 0
    ) -> None:
        self.seed = seed
        self.rng = rng
        self.weather = random.Random(f"{seed} weather")  # of its own: what it decides shifts no other draw
        self.visibility = Visibility(self.weather)
        self.fates = fates
        self.settings = Settings(**{**hostile_settings(seed), **settings})
        self.clock = SimClock(0)
        self.history = History()
        self.ledger = Ledger(self.clock)
        self.ledger.upkeep.sweep_horizon_ms = self.settings.sweep_horizon_ms
        self.ledger.upkeep.producer_expiry_ms = self.settings.producer_expiry_ms
        self.tables = WitnessedStore(self.ledger, self.visibility)
        self.objects = WitnessedObjects(self.clock, self.ledger)
        self.lake: WitnessedLake | None = None  # the Iceberg tables, where topics have some
        self.is_typed = False  # producers write JSON, of which topics have a typed column
        self.throttle = Throttle(self.clock, write_units or _UNBOUNDED)
        self.throttled: Tables = ThrottledTables(self.tables, self.throttle) if write_units else self.tables
        self.trace: list[str] = []
        self.wakes: Any = None  # the queue of wake messages, where there are triggers
        self.trigger_book = TriggerBook()
        self.bumps = True  # transactors speak the protocol that bumps the epoch at each end
        self.stop = asyncio.Event()  # readers and maintainers come to an end
        self.written = asyncio.Event()  # stopped, and nobody writes any more: consumers may believe that they are done
        self.settled = asyncio.Event()  # nothing fails any more, and nothing is on its way
        self.work: Counter[str] = Counter()  # what maintenance did
        self.is_calm = False  # nothing fails any more, though late deliveries may still be on their way
        self._deliveries: dict[asyncio.Task[None], None] = {}  # in the order of their sending
        self._names = 0

    def note(self, line: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():.6f} {line}")

    def trace_digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def process(self, name: str, skew_ms: int | None = None, broker_id: int = FLEET_BROKER_ID) -> Process:
        self._names += 1
        skew = self.rng.choice(SKEWS_MS) if skew_ms is None else skew_ms
        self.ledger.shares.skews_ms[f"{name}.{self._names}"] = skew
        return Process(self, f"{name}.{self._names}", skew, broker_id)

    def keep_tables(self) -> None:
        """Give the processes that start from now on a catalog of Iceberg tables."""
        self.lake = WitnessedLake(self.clock, self.ledger)
        self.objects.watched_by(self.lake)

    def calm(self) -> None:
        """From here on nothing fails any more."""
        self.fates = Fates.none()
        self.is_calm = True
        self.throttle.units_per_s = _UNBOUNDED

    def deliver(self, delivery: Coroutine[Any, Any, None]) -> None:
        """Let a late call go on by itself."""
        task = asyncio.ensure_future(delivery)
        self._deliveries[task] = None
        task.add_done_callback(lambda done: self._deliveries.pop(done, None))

    async def settle(self) -> None:
        """Wait until every late delivery has arrived, and every transaction is visible."""
        while self._deliveries:
            await next(iter(self._deliveries))
        await asyncio.sleep(max(0.0, self.visibility.all_visible_s - asyncio.get_running_loop().time()))
        self.settled.set()


def hostile_settings(seed: int) -> dict[str, Any]:
    """Each knob at its default or at its hostile value, each by a chance of its own: a new knob changes no other's."""
    drawn: dict[str, Any] = {}
    for spec in fields(Settings):
        hostile = spec.metadata.get("hostile", spec.default)
        if hostile != spec.default and random.Random(f"{seed} {spec.name}").random() < 0.5:
            drawn[spec.name] = hostile
    # Heads of single partitions are no hostile value, nor are they the default: three worlds in eight have them.
    if random.Random(f"{seed} single heads").random() < 0.75:
        drawn.setdefault("default_partitions_per_head", 1)
    return drawn


@dataclass
class Process:
    """One life of a program."""

    world: World
    name: str
    skew_ms: int
    broker_id: int = FLEET_BROKER_ID
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    dead: bool = False
    frozen_until_s: float = 0.0
    stalled_until_s: float = 0.0  # one of its calls, the last that did
    troubled_calls: int = 0  # of its next ones
    troubles: int = 0  # that its calls have met
    died: asyncio.Event = field(default_factory=asyncio.Event)
    on_death: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.own_clock = SimClock(self.skew_ms, self)
        self.clock = StoreClock(self.own_clock)
        self.tables = SimTables(self, self.world.throttled)
        self.engine = Engine(
            tables=self.tables,
            objects=SimObjects(self, self.world.objects),  # type: ignore[arg-type]
            clock=self.clock,
            rng=SeededRng(self.world.rng.getrandbits(64)),
            settings=self.world.settings,
            broker_id=self.broker_id,
            wakes=None if self.world.wakes is None else SimPort(self, self.world.wakes, "wakes"),  # type: ignore[arg-type]
        )
        if self.world.lake is not None:
            self.engine.keep_tables(SimPort(self, self.world.lake, "lake"))  # type: ignore[arg-type]
        hear_answers(self)
        deliver_some_twice(self)

    async def run(self, program: Coroutine[Any, Any, Any]) -> bool:
        """Run the program as this process; False where it crashed."""
        task = asyncio.ensure_future(self._guard(program))
        self.tasks.add(task)
        await asyncio.wait([task])
        task.result()
        return not self.dead

    async def _guard(self, program: Coroutine[Any, Any, Any]) -> None:
        try:
            await program
        except Crash:
            self.kill()
        except asyncio.CancelledError:
            if not self.dead:
                raise

    @property
    def fates(self) -> Fates:
        """Return the fates that the next call may meet."""
        fates = self.world.fates
        if self.troubled_calls and fates.cluster:
            self.troubled_calls -= 1
            return fates.troubled
        return fates

    def suffer(self, fates: Fates) -> None:
        """Freeze, or let the clock jump, if that is its fate at this call."""
        weather = self.world.weather
        if weather.random() < fates.freeze:
            seconds = weather.choice(fates.freezes_s)
            self.troubles += 1
            self.frozen_until_s = max(self.frozen_until_s, asyncio.get_running_loop().time() + seconds)
            self.world.note(f"{self.name} freezes for {seconds}")
        if weather.random() < fates.jump:
            own = self.own_clock
            self.troubles += 1
            self.world.ledger.shares.jumped.add(self.name)
            own.skew_ms = self.skew_ms + (weather.choice(fates.jumps_ms) if own.skew_ms == self.skew_ms else 0)
            self.world.note(f"{self.name} has a clock that is off by {own.skew_ms} ms")

    def answered(self) -> None:
        """An answer of the store has come, and says what time it is there."""
        self.clock.answered(self.world.clock.now_ms() // 1000 * 1000)

    async def thawed(self) -> None:
        """Return once the process is not frozen."""
        while (left_s := self.frozen_until_s - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left_s)

    def kill(self) -> None:
        """End the process: nothing of it runs any more."""
        if not self.dead:
            self.dead = True
            self.died.set()
            self.on_death()
            self.world.note(f"{self.name} dies")
