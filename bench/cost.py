"""The cost of a month of a real topic, everything counted: real clients and functions in virtual time, and a meter.

Each case runs on tests/support/services/virtual_account.py: SDK producers send keyed records one by one, SDK consumers
in groups poll and commit, the planner and the maintainers work as on the stage `prod`. After a warm-up every unit of a
window is counted by owner and component and scaled to a month; storage is rate times retention; alarms, dashboard and
the queue's polls come from odradek.cost.fixtures. Left out: egress of clients elsewhere, free tiers, support.

    dollars    a month, by component (what is billed) and owner (the function that used it); and the same units with
               provisioned capacity of the log table, where the load is steady (odradek.cost.tables)
    ack        from `send` to the future's outcome, at a sampled record
    delivery   from `send` to `poll`
    requests   produce calls per second, and what each costs in write units, all writes of the window included
    gateways   where a case has them, clients reach these in place of functions, each by a name of its zone, after a
               first connection through the load balancer (`gateway_direct`); tasks, balancer and names are counted, and
               how much of its processor a task uses (tests/support/services)
    express    where a case says so, the WAL is on S3 Express One Zone, with its prices and latencies: an acknowledged
               record is in one zone until it is merged

    512        where a case says so, the functions produce and fetch have 512 MB instead of 1,024: half the price of a
               second, and twice the time of what the processor does (docs/decisions/0082)

The cases `large`, `gateways-large` and `large-express-512` take three quarters of an hour of CPU each; the last one is
not kept yet, and no merge falls into the window of the second. `--kept` measures nothing: it prints what is committed,
with the second price from the committed units and today's price list, and with `--keep` writes that price, too.

    python -m bench.cost [--quick] [--case NAME ...] [--minutes 20] [--per-head 1] [--keep]
    python -m bench.cost --kept [--case NAME ...] [--per-head 1] [--keep]
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from odradek import aio
from odradek.client.transport.base import InProcessTransport
from odradek.cost.fixtures import FIXTURES, MONTH_S, fixed_cost
from odradek.cost.gateways import Gateways, gateway_cost
from odradek.cost.metering import total
from odradek.cost.model import WAL_KEPT_S, Workload, peer_costs
from odradek.cost.prices import GIB, US_EAST_1, cost
from odradek.cost.tables import provisioned_alarms, provisioned_cost
from odradek.cost.wal import wal_storage
from odradek.ports.meter import Usage
from odradek.settings import Settings
from odradek.testing.seeded_rng import SeededRng
from rich.console import Console
from rich.table import Table

from infra.stages import STAGES
from tests.simulation.loop import run
from tests.support.services.virtual_account import VirtualAccount
from tests.support.services.virtual_gateway import GATEWAY, VirtualGateway

RESULTS = Path(__file__).parent / "results" / "cost.json"
KEPT = Path(__file__).parent / "kept" / "cost.json"  # committed: docs and a test of the estimate refer to it
KEPT_SINGLE = KEPT.with_name("cost_single_heads.json")  # with --per-head 1
MIB = 1024 * 1024
TOPIC, KEYS, KEY_BYTES = "orders", 10_000, 12
RECORD_OVERHEAD_BYTES = 12  # of a keyed record in a batch
TICK_S = 0.005
RETENTION_S = 7 * 86_400
STAGE = "prod"
DEFAULT_PER_HEAD = Settings().default_partitions_per_head


@dataclass(frozen=True)
class Case:
    """A workload, with its goal."""

    name: str
    bytes_per_s: float
    goal: float  # dollars a month
    partitions: int = 24
    producers: int = 1
    groups: int = 1
    members: int = 1  # of each group
    record_bytes: int = 1024
    configs: Mapping[str, Any] = field(default_factory=dict)  # of the producers
    consumer_configs: Mapping[str, Any] = field(default_factory=dict)
    ack_p50_ms: float | None = None  # goal
    minutes: float = 10  # of the window, at least one period of the planner
    stage: str = STAGE
    warm_up_s: float = 120
    plan_minutes: int | None = None  # in place of the stage's: plans within a short window
    per_head: int = DEFAULT_PER_HEAD  # odradek.partitions.per.head
    gateways: Gateways | None = None  # None: clients call the functions
    gateway_settings: Mapping[str, int] = field(default_factory=dict)  # in place of the stage's
    express: bool = False  # the WAL is on S3 Express One Zone
    memory_mb: Mapping[str, int] = field(default_factory=dict)  # of functions, in place of the stage's


def _msk_third() -> float:
    load = Workload(20 * MIB, producers=40, consumers=3, partitions=200)
    return peer_costs(load)["MSK provisioned"] / 3


# One producer and one consumer of 1 MiB/s, the same with sixteen producers, and what a third of MSK is the goal of.
_SMALL_FUNCTIONS = {"produce": 512, "fetch": 512}
_ONE = Case("default", MIB, 350, ack_p50_ms=150, minutes=5)
_SIXTEEN = Case("linger-16", MIB, 200, producers=16, configs={"linger_ms": 1000}, minutes=5)
_LARGE = Case(
    "large",
    20 * MIB,
    round(_msk_third()),
    partitions=200,
    producers=40,
    groups=3,
    members=4,
    configs={"linger_ms": 1000},
    minutes=1,
    warm_up_s=70,
    plan_minutes=1,
)
_TRICKLE = Case(
    "trickle",
    1000,
    15,
    record_bytes=100,
    groups=3,
    configs={"linger_ms": 1000},
    consumer_configs={"fetch_min_bytes": 64 * 1024, "fetch_max_wait_ms": 1000},
    minutes=10,
)

CASES = {
    case.name: case
    for case in (
        _ONE,
        # Rows of a head with a request a second are merged every ten minutes: the window has three of these.
        replace(_ONE, name="linger", goal=120, ack_p50_ms=None, configs={"linger_ms": 1000}, minutes=30, warm_up_s=900),
        _SIXTEEN,
        replace(_SIXTEEN, name="linger-16-express", express=True),
        replace(_SIXTEEN, name="linger-16-express-512", express=True, memory_mb=_SMALL_FUNCTIONS),
        replace(
            _SIXTEEN,
            name="gateways-16",
            gateways=Gateways(2, cpu=256, memory_mb=1024, direct=True),
            gateway_settings={"gateway_upload_interval_ms": 1000},
        ),
        _LARGE,
        replace(_LARGE, name="large-express-512", express=True, memory_mb=_SMALL_FUNCTIONS),
        replace(
            _LARGE,
            name="gateways-large",
            gateways=Gateways(3, cpu=1024, memory_mb=2048, direct=True),
            gateway_settings={"gateway_upload_interval_ms": 2000, "gateway_upload_bytes": 16 * MIB},
        ),
        _TRICKLE,
        Case("idle-dev", 0, 1, producers=0, groups=0, minutes=60, stage="dev"),
        Case("idle-prod", 0, 4, producers=0, groups=0, minutes=60, stage="prod"),
    )
}


_QUICK = ("trickle", "idle-dev", "idle-prod")


class Samples:
    """Durations in ms, by their quantiles."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def quantiles(self) -> dict[str, float]:
        self.values.sort()
        count = len(self.values)
        return {f"p{q}": self.values[min(count - 1, count * q // 100)] for q in (50, 99)} if count else {}


class Run:
    """One case on a virtual account."""

    def __init__(self, case: Case) -> None:
        self.case = case
        stage = STAGES[case.stage]
        if case.plan_minutes is not None:
            stage = replace(stage, maintenance_every_minutes=case.plan_minutes)
        if case.express:
            stage = replace(stage, wal_zone_id="use1-az4")
        stage = replace(stage, memory_mb={**stage.memory_mb, **case.memory_mb})
        stage = replace(stage, settings=replace(stage.settings, default_partitions_per_head=case.per_head))
        self.account = VirtualAccount(stage)
        self.ack, self.delivery = Samples(), Samples()
        self.records = 0
        self._gateways = (
            [VirtualGateway(self.account, case.gateway_settings) for _ in range(case.gateways.tasks)]
            if case.gateways
            else []
        )
        self._transports = 0
        self._keys = [b"customer%04d" % number for number in range(KEYS)]
        self._value = bytes(case.record_bytes - KEY_BYTES - RECORD_OVERHEAD_BYTES)
        self._pending: set[asyncio.Task[None]] = set()

    def transport(self) -> InProcessTransport:
        """Of one more client: to the functions, or to the next one of the gateways."""
        if not self._gateways:
            return self.account.transport()
        self._transports += 1
        return self._gateways[self._transports % len(self._gateways)].transport()

    async def produce(self, number: int) -> None:
        """Send at the producer's share of the rate, until cancelled."""
        clock, rng = self.account.clock, SeededRng(number)
        rate = self.case.bytes_per_s / self.case.record_bytes / self.case.producers
        configs = {"client_id": f"producer-{number}", **self.case.configs}
        async with aio.Producer(
            transport=self.transport(), clock=clock, rng=SeededRng(100 + number), **configs
        ) as producer:
            tick_s = max(TICK_S, 1 / rate)
            await clock.sleep(rng.random() * max(tick_s, 1.0))
            owed = 0.0
            ticks = 0
            while True:
                owed += rate * tick_s
                sent_s = clock.monotonic()
                while owed >= 1:
                    owed -= 1
                    key = self._keys[int(rng.random() * KEYS)]
                    future = await producer.send(TOPIC, self._value, key)
                    self.records += 1
                ticks += 1
                if ticks % 20 == 0 or tick_s > 0.05:
                    task = asyncio.create_task(self._acknowledged(future, sent_s))
                    self._pending.add(task)
                    task.add_done_callback(self._pending.discard)
                await clock.sleep(tick_s)

    async def _acknowledged(self, future: Any, sent_s: float) -> None:
        await future
        self.ack.values.append((self.account.clock.monotonic() - sent_s) * 1000)

    async def consume(self, group: int, member: int) -> None:
        """Poll as a member of a group, until cancelled."""
        clock = self.account.clock
        consumer = aio.Consumer(
            transport=self.transport(),
            clock=clock,
            rng=SeededRng(1000 + 10 * group + member),
            group_id=f"group-{group}",
            client_id=f"consumer-{group}-{member}",
            auto_offset_reset="latest",
            **{"fetch_idle_pause_max_ms": 1000, **self.case.consumer_configs},
        )
        async with consumer:
            consumer.subscribe([TOPIC])
            while True:
                records_by_partition = await consumer.poll(timeout_ms=1000)
                now_ms = clock.now_ms()
                for records in records_by_partition.values():
                    self.delivery.values.append(now_ms - records[0].timestamp_ms)

    async def measure(self, window_s: float) -> dict[str, Any]:
        case, account = self.case, self.account
        await account.engine().topics.create(TOPIC, case.partitions)
        work = [account.maintain()]
        work += [self.consume(group, member) for group in range(case.groups) for member in range(case.members)]
        work += [self.produce(number) for number in range(case.producers)]
        tasks = [asyncio.create_task(coroutine) for coroutine in work]
        await self._wait(tasks, case.warm_up_s)
        self.ack, self.delivery = Samples(), Samples()
        before, calls = account.meter.snapshot(), account.meter.calls()
        logs, records = Counter(account.log_bytes), self.records
        waits = dict(account.waits)
        gateways_before = [(gateway.cpu_s, gateway.produce_requests) for gateway in self._gateways]
        await self._wait(tasks, window_s)
        after, calls_after = account.meter.snapshot(), account.meter.calls()
        usage = {owner: total(operations) - total(before.get(owner, {})) for owner, operations in after.items()}
        made = {
            owner: {name: count - calls.get(owner, {}).get(name, 0) for name, count in names.items()}
            for owner, names in calls_after.items()
        }
        log_bytes = {owner: count - logs[owner] for owner, count in account.log_bytes.items()}
        records = self.records - records
        waited = {
            step: seconds - waits.get((owner, step), 0.0)
            for (owner, step), seconds in account.waits.items()
            if owner == "produce"
        }
        served = [
            (gateway.cpu_s - cpu_s, gateway.produce_requests - requests)
            for gateway, (cpu_s, requests) in zip(self._gateways, gateways_before, strict=True)
        ]
        for task in tasks:  # clients leave while the functions still answer
            task.cancel()
        await asyncio.wait(tasks)
        return self._report(usage, made, log_bytes, window_s, records, served, waited)

    @staticmethod
    async def _wait(tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
        """Let the tasks run. Raises the exception of one that ended."""
        ended, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()

    def _report(
        self,
        usage: Mapping[str, Usage],
        calls: Mapping[str, Mapping[str, int]],
        log_bytes: Mapping[str, int],
        window_s: float,
        records: int,
        served: Sequence[tuple[float, int]],
        waited: Mapping[str, float],
    ) -> dict[str, Any]:
        case, scale = self.case, MONTH_S / window_s
        dollars: dict[str, dict[str, float]] = defaultdict(dict)
        for owner, used in usage.items():
            for component, amount in cost(used).components.items():
                if amount:
                    dollars[owner][component] = amount * scale
        for owner, count in log_bytes.items():
            kept = STAGES[case.stage].log_retention_days / 30
            price = US_EAST_1.logs_gb_ingested + US_EAST_1.logs_gb_month * kept
            dollars[owner]["logs"] = count / GIB * scale * price
        dollars["stage"] = dict(fixed_cost(FIXTURES[case.stage]))
        dollars["stage"]["storage"] = case.bytes_per_s * RETENTION_S / GIB * US_EAST_1.object_gb_month
        if case.express:
            dollars["stage"]["express storage"] = wal_storage(case.bytes_per_s, WAL_KEPT_S)
        if case.gateways is not None:
            passed = case.bytes_per_s * (1 + case.groups)
            dollars["stage"] |= gateway_cost(case.gateways, passed)
        components: Counter[str] = Counter()
        for by_component in dollars.values():
            components.update(by_component)
        produce = usage.get("produce", Usage())
        requests = produce.function_requests + sum(count for _, count in served)
        writers = ("produce", GATEWAY, "maintainer")
        writes = sum(owner_usage.table_write_units for owner, owner_usage in usage.items() if owner in writers)
        report = {
            "case": {**asdict(case), "configs": dict(case.configs), "consumer_configs": dict(case.consumer_configs)},
            "window_s": window_s,
            "dollars": sum(components.values()),
            "by_component": dict(components),
            "by_owner": {owner: sum(by_component.values()) for owner, by_component in dollars.items()},
            "by_owner_and_component": {owner: dict(by_component) for owner, by_component in dollars.items()},
            "records_per_s": records / window_s,
            "gateway_cpu": [cpu_s / window_s for cpu_s, _ in served],  # vCPUs
            "ack_ms": self.ack.quantiles(),
            "delivery_ms": self.delivery.quantiles(),
            "produce_requests_per_s": requests / window_s,
            "write_units_per_produce_request": writes / requests if requests else 0.0,
            "produce_request_ms": {step: seconds / requests * 1000 for step, seconds in waited.items() if requests},
            "fetch_requests_per_s": usage.get("fetch", Usage()).function_requests / window_s,
            "calls_per_s": {o: {n: c / window_s for n, c in names.items() if c} for o, names in calls.items()},
            "units_per_s": {
                owner: {f.name: getattr(used, f.name) / window_s for f in fields(Usage) if getattr(used, f.name)}
                for owner, used in usage.items()
            },
        }
        return report | {"provisioned": provisioned(rounded(report))}  # as from what is kept


def provisioned(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dollars a month of a result, and the components that differ, with a provisioned log table."""
    counted = ("table_write_units", "table_read_units")
    by_function = {
        owner: Usage(**{name: units[name] * MONTH_S for name in counted if name in units})
        for owner, units in figures["units_per_s"].items()
    }
    components = figures["by_component"]
    changed = {**provisioned_cost(by_function), "alarms": components["alarms"] + provisioned_alarms()}
    return {"dollars": sum({**components, **changed}.values()), "by_component": changed}


def measure(case: Case) -> dict[str, Any]:
    """Run one case in virtual time."""

    async def inside() -> Any:
        return await Run(case).measure(case.minutes * 60)

    figures: dict[str, Any] = run(inside())
    return figures


def show(console: Console, results: Sequence[Mapping[str, Any]]) -> None:
    """Print the goals on demand and with a provisioned log table, the components and the owners."""
    goals = Table(title="US dollars a month, everything but egress, 7 days kept", box=None)
    for name in (
        "case",
        "goal",
        "on demand",
        "met",
        "provisioned",
        "met",
        "ack p50/p99 ms",
        "delivery p50/p99",
        "requests/s",
        "units/request",
    ):
        goals.add_column(name, justify="left" if name == "case" else "right")
    for result in results:
        case = result["case"]
        slow = case["ack_p50_ms"] is not None and result["ack_ms"]["p50"] > case["ack_p50_ms"]
        priced = [result["dollars"], result["provisioned"]["dollars"]]
        goals.add_row(
            case["name"],
            f"{case['goal']:,.0f}",
            *(
                text
                for dollars in priced
                for text in (f"{dollars:,.2f}", "no" if slow or dollars > case["goal"] else "yes")
            ),
            "/".join(f"{value:,.0f}" for value in result["ack_ms"].values()) or "-",
            "/".join(f"{value:,.0f}" for value in result["delivery_ms"].values()) or "-",
            f"{result['produce_requests_per_s']:,.2f}",
            f"{result['write_units_per_produce_request']:,.1f}",
        )
    console.print(goals)
    for result in results:
        if result["dollars"] > result["case"]["goal"]:
            parts = [
                (dollars, f"{owner}: {component}")
                for owner, by_component in result["by_owner_and_component"].items()
                for component, dollars in by_component.items()
            ]
            largest = ", ".join(f"{name} {dollars:,.0f}" for dollars, name in sorted(parts, reverse=True)[:5])
            missed = result["dollars"] - result["case"]["goal"]
            console.print(f"{result['case']['name']} misses its goal by {missed:,.0f}: {largest}")
        most_ms = result["case"]["ack_p50_ms"]
        if most_ms is not None and result["ack_ms"]["p50"] > most_ms:
            found_ms = result["ack_ms"]["p50"]
            waits = ", ".join(f"{step} {ms:.0f}" for step, ms in result["produce_request_ms"].items())
            console.print(
                f"{result['case']['name']} misses its goal of {most_ms:.0f} ms (ack p50) by {found_ms - most_ms:.0f}: "
                f"a request waits for {waits} ms on average, and a record before that for about half of another request"
            )
    for title, columns in (
        ("by component", [result["by_component"] for result in results]),
        ("what differs with a provisioned log table", [result["provisioned"]["by_component"] for result in results]),
        ("by owner", [result["by_owner"] for result in results]),
    ):
        names = sorted({name for column in columns for name in column})
        table = Table(title=f"dollars a month, {title}", box=None)
        table.add_column("")
        for result in results:
            table.add_column(result["case"]["name"], justify="right")
        for name in names:
            table.add_row(name, *(f"{column.get(name, 0):,.2f}" for column in columns))
        console.print(table)


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the small cases, windows of five minutes")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only these")
    parser.add_argument("--minutes", type=float, help="of each window")
    parser.add_argument(
        "--per-head", type=int, default=DEFAULT_PER_HEAD, help="partitions of the topic that share a head"
    )
    parser.add_argument("--kept", action="store_true", help="print the committed results, measure nothing")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    arguments = parser.parse_args(argv)
    minutes = 5 if arguments.quick else arguments.minutes
    cases = [CASES[name] for name in arguments.case or (_QUICK if arguments.quick else CASES)]
    cases = [replace(case, minutes=minutes or case.minutes, per_head=arguments.per_head) for case in cases]
    kept = KEPT if arguments.per_head == DEFAULT_PER_HEAD else KEPT_SINGLE
    if arguments.kept:
        names = {case.name for case in cases}
        results = [result for result in json.loads(kept.read_text()) if result["case"]["name"] in names]
        for result in results:
            result["provisioned"] = rounded(provisioned(result))
            if arguments.keep:
                _write(kept, result)
        show(Console(width=max(Console().width, 140)), results)
        return 0
    results = []
    with ProcessPoolExecutor(max_workers=arguments.jobs) as pool:
        for result in pool.map(measure, cases):
            results.append(result)
            _write(RESULTS, result)
            if arguments.keep:
                _write(kept, result)
    show(Console(width=max(Console().width, 140)), results)
    return 0


def _write(path: Path, measured: Mapping[str, Any]) -> None:
    """Write the result of a case into the file of all."""
    path.parent.mkdir(exist_ok=True)
    kept = {result["case"]["name"]: result for result in (json.loads(path.read_text()) if path.exists() else ())}
    kept[measured["case"]["name"]] = rounded(measured)
    path.write_text(json.dumps([kept[name] for name in CASES if name in kept], indent=1) + "\n")


def rounded(value: Any) -> Any:
    """Return the value with five significant digits in its numbers."""
    if isinstance(value, Mapping):
        return {key: rounded(element) for key, element in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    raise SystemExit(main())
