"""A fleet of functions under rising load: what it takes in, how late, what throttles it, how soon it recovers.

Discrete events, virtual time: producers (open loop, idempotent as by default) call functions, each of them the real
engine, over memory stores that throttle as the services' documentation says, and take the time that they take:

    functions   a warm one takes one request at a time; a new one starts within `cold_start_s`, `scale_per_s` of them a
                second, up to `concurrency` at once; beyond that the call is refused (429) and repeated by the client
    objects     `put_per_prefix` PUT a second for each prefix of the uploads, refused (503) above; a request's bytes
                pass at `upload_mib_s`
    table       1,000 write units a second for a partition key, with what it left unused in the last `burst_s`
                (burst capacity); of the table at first `table_units`, then twice its peak so far, at most `table_quota`
                (on-demand mode)

The load rises in steps; each step's first second meets a fleet that is made for the step before. `recovered` is when
the median second's delay is within twice that of the step's last seconds and nothing is queued any more. A request is
as large as a function takes and goes to as many partitions as it fills batches of 1 MB. Only the records are small, to
spare memory: bytes are counted, not carried. Maintenance and consumers are not part of it; spills are.

Sources: Amazon S3, "Best practices design patterns: optimizing performance"; DynamoDB, "On-demand capacity mode" and
"Burst and adaptive capacity"; Lambda, "Function scaling". Nothing of it was run on AWS.

    python -m bench.fleet [--quick] [--steps 1,10,100] [--step-s 20] [--part 0.1] [--plain] [--raised 20] [--keep]

`--part` runs that part of the whole: load, partitions and the quotas of the account, but not the limits of a key.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.backoff import Backoff
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, StoreUnavailable
from odradek.format.object_keys import WAL_PREFIXES
from odradek.format.record_batch import RecordBatchBuilder
from odradek.limits import FUNCTION_BINARY_BYTES_MAX, TABLE_PARTITION_KEY_WRITE_UNITS_MAX
from odradek.model.log import ProducePartition
from odradek.settings import Settings
from odradek.testing.latency import Latency, Slow, SlowTables
from odradek.testing.seeded_rng import SeededRng
from odradek.testing.throttling import Throttle, ThrottledTables
from rich.console import Console
from rich.table import Table

from tests.simulation.loop import run
from tests.support.loop_clock import START_MS, LoopClock

RESULTS = Path(__file__).parent / "results" / "fleet.json"
KEPT = Path(__file__).parent / "kept" / "fleet.json"
MIB, GIB = 1024 * 1024, 1024**3
BATCH_BYTES = 1_000_000
IN_FLIGHT = 5  # requests of a producer
HOUR_MS = 3_600_000
GIVEN_UP_S = 120.0  # delivery.timeout.ms
_ATTEMPTS = 10_000


@dataclass(frozen=True)
class Account:
    """Quotas and published limits, and what is assumed of latencies."""

    concurrency: int = 1_000  # of functions; default quota
    scale_per_s: float = 100.0  # new environments: 1,000 every 10 s
    cold_start_s: float = 0.6
    put_per_prefix: float = 3_500.0
    wal_prefixes: int = WAL_PREFIXES
    key_units: float = float(TABLE_PARTITION_KEY_WRITE_UNITS_MAX)
    burst_s: float = 300.0
    table_units: float = 4_000.0  # of a table that has just been made; "warm throughput" raises it
    table_quota: float = 40_000.0  # default quota
    upload_mib_s: float = 80.0
    put_ms: tuple[float, float] = (60, 200)  # median and 99th percentile
    table_ms: tuple[float, float] = (5, 16)

    def part(self, share: float) -> Account:
        """Return the quotas of a part of the load; limits of a key or a prefix are not divided, but prefixes are."""
        return replace(
            self,
            concurrency=max(1, round(self.concurrency * share)),
            scale_per_s=self.scale_per_s * share,
            wal_prefixes=max(1, round(self.wal_prefixes * share)),
            table_units=self.table_units * share,
            table_quota=self.table_quota * share,
        )


@dataclass(frozen=True)
class Plan:
    """The load: steps of so many bytes a second, over so many partitions."""

    steps: tuple[float, ...]  # bytes/s
    step_s: float
    partitions: int
    per_head: int = 32
    producer_bytes_per_s: float = 10 * MIB
    request_bytes: int = FUNCTION_BINARY_BYTES_MAX
    idempotent: bool = True


class Budget:
    """A token bucket."""

    def __init__(self, per_s: float, burst: float, left: float) -> None:
        self.per_s, self._burst, self._left, self._then = per_s, burst, left, 0.0

    def take(self, now_s: float, units: float = 1.0) -> bool:
        """Take units, into debt; False, and nothing taken, if nothing is left."""
        self._left = min(self._burst, self._left + (now_s - self._then) * self.per_s)
        self._then = now_s
        if self._left <= 0:
            return False
        self._left -= units
        return True


class KeysAndTable(Throttle):
    """The budgets of partition keys, with burst capacity, and of the table in on-demand mode."""

    def __init__(self, clock: LoopClock, account: Account) -> None:
        super().__init__(clock, int(account.key_units))
        self._loop_clock, self._account = clock, account
        self._keys: dict[str, Budget] = {}
        self._capacity = account.table_units
        self._second, self._units, self._peak = 0, 0.0, 0.0
        self.by_table = 0

    def admit(self, table: Any, pk: str) -> None:
        """Implement Throttle.admit."""
        now = self._loop_clock.monotonic()
        if int(now) != self._second:
            self._peak = max(self._peak, self._units)
            self._capacity = min(self._account.table_quota, max(self._account.table_units, 2 * self._peak))
            self._second, self._units = int(now), 0.0
        if self._units >= self._capacity:
            self.by_table += 1
            raise StoreUnavailable("the table is throttled")
        if not self._budget(table, pk).take(now, 0.0):
            self.refused += 1
            raise StoreUnavailable(f"partition key {pk!r:.60} is throttled")

    def take(self, table: Any, pk: str, units: int) -> None:
        """Implement Throttle.take."""
        self._budget(table, pk).take(self._loop_clock.monotonic(), units)
        self._units += units
        self.taken += units

    def _budget(self, table: Any, pk: str) -> Budget:
        key = f"{table} {pk}"
        if key not in self._keys:
            per_s, burst_s = self._account.key_units, self._account.burst_s
            # A key that is new has not saved anything yet.
            self._keys[key] = Budget(per_s, per_s * burst_s, per_s)
        return self._keys[key]


class Objects:
    """Uploads, refused above the rate of their prefix."""

    def __init__(self, objects: Any, account: Account, clock: LoopClock, transfer_s: float) -> None:
        self._objects, self._clock, self._transfer_s = objects, clock, transfer_s
        per_s = account.put_per_prefix
        self._budgets = [Budget(per_s, per_s, per_s) for _ in range(account.wal_prefixes)]
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    async def put(self, key: str, *args: Any) -> Any:
        await self._clock.sleep(self._transfer_s)
        # The first part of an upload's name is a hash; fewer prefixes are simulated than there are.
        prefix = int(key.split("/")[1], 16) % len(self._budgets)
        if not self._budgets[prefix].take(self._clock.monotonic()):
            self.refused += 1
            raise StoreUnavailable("SlowDown")
        return await self._objects.put(key, *args)


@dataclass
class Second:
    """The counts of one second of the run."""

    offered: int = 0  # requests
    delays_s: list[float] = field(default_factory=list)  # of those acknowledged in it, since they were due
    refused: Counter[str] = field(default_factory=Counter)


class Fleet:
    """Functions, stores and what was seen."""

    def __init__(self, account: Account, plan: Plan, seed: int = 1) -> None:
        self.account, self.plan = account, plan
        self.clock, self.rng = LoopClock(), SeededRng(seed)
        memory = MemoryStore()
        self.throttle = KeysAndTable(self.clock, account)
        tables: Any = ThrottledTables(memory, self.throttle)
        self._tables = SlowTables(tables, Latency(*account.table_ms), self.clock, self.rng)
        self._plain_tables = memory
        transfer_s = plan.request_bytes / MIB / account.upload_mib_s
        self.objects = Objects(MemoryObjectStore(self.clock), account, self.clock, transfer_s)
        self._slow_objects: Any = Slow(self.objects, Latency(*account.put_ms), self.clock, self.rng)
        self._free: list[Engine] = []
        self.environments = 0
        self._starts = Budget(account.scale_per_s, account.scale_per_s * 10, account.scale_per_s * 10)
        self.seconds: list[Second] = []
        self.given_up = 0

    @property
    def now(self) -> Second:
        return self.second(int(self.clock.monotonic()))

    def second(self, number: int) -> Second:
        while len(self.seconds) <= number:
            self.seconds.append(Second())
        return self.seconds[number]

    def _engine(self) -> Engine:
        # What a warm function caches does not grow old within a run. Real requests are too large for an item.
        settings = Settings(catalog_cache_ms=HOUR_MS, leader_cache_ms=HOUR_MS, item_bytes_max=0)
        return Engine(
            tables=self._tables, objects=self._slow_objects, clock=self.clock, rng=self.rng, settings=settings
        )

    async def create_topic(self) -> None:
        settings = Settings(catalog_cache_ms=HOUR_MS, default_partitions_per_head=self.plan.per_head)
        engine = Engine(
            tables=self._plain_tables, objects=self.objects, clock=self.clock, rng=self.rng, settings=settings
        )
        await engine.topics.create("t", self.plan.partitions)

    async def invoke(self, requests: list[ProducePartition]) -> list[Any] | None:
        """Call the function; None for 429."""
        if self._free:
            engine = self._free.pop()
        else:
            is_full = self.environments >= self.account.concurrency
            if is_full or not self._starts.take(self.clock.monotonic()):
                self.now.refused["429, concurrency" if is_full else "429, scaling"] += 1
                return None
            self.environments += 1
            engine = self._engine()
            await self.clock.sleep(self.account.cold_start_s)
        try:
            return await engine.produce(requests)
        finally:
            self._free.append(engine)


class Producer:
    """Open loop: a request is due each interval, whether or not those before it were acknowledged."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet, self._id = fleet, number
        self._sequences: dict[int, int] = {}
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._busy: set[int] = set()
        self._backoff = Backoff(fleet.clock, fleet.rng, first_s=0.1, max_s=2.0)

    async def run(self, until_s: float) -> None:
        fleet, plan = self._fleet, self._fleet.plan
        interval_s = plan.request_bytes / plan.producer_bytes_per_s
        due_s = fleet.clock.monotonic() + interval_s * fleet.rng.random()
        sent: set[asyncio.Task[None]] = set()
        while due_s < until_s:
            await fleet.clock.sleep(max(0.0, due_s - fleet.clock.monotonic()))
            fleet.now.offered += 1
            await self._slots.acquire()
            task = asyncio.ensure_future(self._send(due_s))
            sent.add(task)
            task.add_done_callback(sent.discard)
            due_s += interval_s
        if sent:
            await asyncio.wait(sent)

    async def _send(self, due_s: float) -> None:
        fleet = self._fleet
        waiting = [self._batch(number) for number in self._places()]
        mine = {record.partition for record in waiting}
        self._busy |= mine
        try:
            for attempt in range(_ATTEMPTS):
                results = await fleet.invoke(waiting)
                if results is not None:
                    refused = [result.error.name for result in results if result.error]
                    fleet.now.refused.update(refused)
                    waiting = [
                        record
                        for record, result in zip(waiting, results, strict=True)
                        if result.error is not ErrorCode.NONE
                    ]
                if not waiting:
                    fleet.now.delays_s.append(fleet.clock.monotonic() - due_s)
                    return
                if fleet.clock.monotonic() - due_s > GIVEN_UP_S:
                    break
                await fleet.clock.sleep(self._backoff.delay_s(attempt))
            fleet.given_up += 1
        finally:
            self._busy -= mine
            self._slots.release()

    def _places(self) -> list[int]:
        """Choose partitions; one that a request in flight writes to waits for its answer."""
        plan, rng = self._fleet.plan, self._fleet.rng
        count = min(max(1, round(plan.request_bytes / BATCH_BYTES)), plan.partitions // IN_FLIGHT)
        chosen: set[int] = set()
        while len(chosen) < count:
            number = int(rng.random() * plan.partitions)
            if number not in self._busy:
                chosen.add(number)
        return sorted(chosen)

    def _batch(self, number: int) -> ProducePartition:
        builder = RecordBatchBuilder()
        builder.append(START_MS, None, b"x")
        if not self._fleet.plan.idempotent:
            return ProducePartition("t", number, builder.build())
        sequence = self._sequences.get(number, 0)
        self._sequences[number] = sequence + 1
        return ProducePartition(
            "t", number, builder.build(producer_id=self._id, producer_epoch=0, base_sequence=sequence)
        )


# --- report -------------------------------------------------------------------------------------------------------


async def drive(account: Account, plan: Plan) -> list[dict[str, Any]]:
    """Run the steps one after the other on one fleet; what was seen in each."""
    fleet = Fleet(account, plan)
    await fleet.create_topic()
    steps = []
    producers: list[asyncio.Task[None]] = []
    end_s = plan.step_s * len(plan.steps)
    for number, rate in enumerate(plan.steps):
        began_s = plan.step_s * number
        while len(producers) < round(rate / plan.producer_bytes_per_s):
            producers.append(asyncio.ensure_future(Producer(fleet, len(producers) + 1).run(end_s)))
        before = _counts(fleet)
        await fleet.clock.sleep(began_s + plan.step_s - fleet.clock.monotonic())
        steps.append(_seen(fleet, plan, rate, int(began_s), before))
    await asyncio.gather(*producers)
    steps[-1]["drained_s"] = fleet.clock.monotonic() - end_s
    steps[-1]["given_up"] = fleet.given_up
    return steps


def _counts(fleet: Fleet) -> dict[str, float]:
    return {
        "units": fleet.throttle.taken,
        "key": fleet.throttle.refused,
        "table": fleet.throttle.by_table,
        "put": fleet.objects.refused,
    }


def _seen(fleet: Fleet, plan: Plan, rate: float, began: int, before: dict[str, float]) -> dict[str, Any]:
    seconds = [fleet.second(began + number) for number in range(int(plan.step_s))]
    late = seconds[len(seconds) // 2 :]  # when the step has settled, if it does
    delays = sorted(delay for second in late for delay in second.delays_s)
    counts = _counts(fleet)
    refused: Counter[str] = Counter()
    for second in seconds:
        refused.update(second.refused)
    return {
        "offered_gib_s": rate / GIB,
        "taken_gib_s": len(delays) * plan.request_bytes / len(late) / GIB,
        "p50_ms": _percentile(delays, 50),
        "p99_ms": _percentile(delays, 99),
        "recovered_s": _recovered_s(seconds, delays),
        "environments": fleet.environments,
        "write_units_per_s": (counts["units"] - before["units"]) / plan.step_s,
        "refused_by_key_per_s": (counts["key"] - before["key"]) / plan.step_s,
        "refused_by_table_per_s": (counts["table"] - before["table"]) / plan.step_s,
        "refused_by_prefix_per_s": (counts["put"] - before["put"]) / plan.step_s,
        "answers_per_s": {name: count / plan.step_s for name, count in sorted(refused.items())},
    }


def _percentile(delays: Sequence[float], q: int) -> float | None:
    return delays[min(len(delays) - 1, len(delays) * q // 100)] * 1000 if delays else None


def _recovered_s(seconds: Sequence[Second], settled: Sequence[float]) -> int | None:
    """Return after how many seconds of the step it kept up; None: never."""
    if not settled:
        return None
    calm_s = 2 * settled[len(settled) // 2]
    behind, recovered = 0, None
    for second, offered_second in enumerate(seconds):
        behind += offered_second.offered - len(offered_second.delays_s)
        median_s = (
            sorted(offered_second.delays_s)[len(offered_second.delays_s) // 2] if offered_second.delays_s else math.inf
        )
        # What is on its way is not behind: a request takes some tenths of a second.
        if median_s > calm_s or behind > offered_second.offered:
            recovered = None
        elif recovered is None:
            recovered = second
    return recovered


def show(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> None:
    table = Table(
        "GiB/s", "taken", "p50 ms", "p99 ms", "recovered s", "functions", "write units/s", "refused/s by", title=title,
        box=None,
    )  # fmt: skip
    for row in rows:
        refused = {
            "key": row["refused_by_key_per_s"],
            "table": row["refused_by_table_per_s"],
            "prefix": row["refused_by_prefix_per_s"],
            **row["answers_per_s"],
        }
        said = ", ".join(f"{name} {count:,.0f}" for name, count in refused.items() if count >= 0.5)
        table.add_row(
            f"{row['offered_gib_s']:g}",
            f"{row['taken_gib_s']:.3g}",
            *("-" if row[name] is None else f"{row[name]:,.0f}" for name in ("p50_ms", "p99_ms", "recovered_s")),
            f"{row['environments']:,}",
            f"{row['write_units_per_s']:,.0f}",
            said or "-",
        )
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure with the default quotas and with raised ones, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the whole, 4 seconds a step")
    parser.add_argument("--steps", default="1,10,100", help="GiB/s, one step after the other")
    parser.add_argument("--step-s", type=float, default=20)
    parser.add_argument("--part", type=float, default=0.1)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--per-head", type=int, default=32)
    parser.add_argument("--plain", action="store_true", help="producers that are not idempotent")
    parser.add_argument("--raised", type=int, default=20, help="quotas are raised so many times in the second table")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    arguments = parser.parse_args(argv)
    part, step_s = (0.02, 4.0) if arguments.quick else (arguments.part, arguments.step_s)
    rates = [float(rate) for rate in arguments.steps.split(",")]
    plan = Plan(
        tuple(rate * GIB * part for rate in rates),
        step_s,
        max(IN_FLIGHT * 5, round(arguments.partitions * part)),
        arguments.per_head,
        idempotent=not arguments.plain,
    )
    default = Account()
    raised = replace(
        default,
        concurrency=default.concurrency * arguments.raised,
        table_quota=default.table_quota * arguments.raised,
        table_units=default.table_quota * arguments.raised,
    )
    console = Console(width=200)
    results = {}
    for name, account in {"quotas of a new account": default, "quotas raised, table warmed": raised}.items():
        rows = run(drive(account.part(part), plan))
        for row in rows:  # shown as the whole that this is a part of
            for key in ("offered_gib_s", "taken_gib_s", "write_units_per_s"):
                row[key] /= part
            row["environments"] = round(row["environments"] / part)
        show(console, f"{name}; virtual time, {part:g} of the whole", rows)
        results[name] = {"account": asdict(account), "steps": rows}
    for path in (RESULTS, KEPT) if arguments.keep else (RESULTS,):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"plan": asdict(plan), "part": part, "results": results}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
