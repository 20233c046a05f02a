"""The cost of a trigger, and the delay of its calls: the deployed parts in virtual time, and a meter.

Each case runs on tests/support/services/virtual_account.py, twice: with a trigger and without. A producer of the SDK
sends records of 1 KiB to a topic of four partitions; appends wake the dispatcher through a queue, the dispatcher calls
a function that takes 50 ms, the planner sweeps every five minutes as on the stage `prod`. All latencies are drawn:
stores as in `bench.cost`, of the queue and of calls as below.

    mapping    dollars an hour that the trigger adds: every unit of the account with it, less those without it, and the
               polls of its queue. The target's own requests and time are left out, here and for the peers
    call       from the acknowledgement of a record to the beginning of the call that has it, at every record
    peers      by price list (odradek.cost.prices, AWS's pages for Kinesis Data Streams, MSK and Lambda): what the
               stream or cluster costs per hour with the records in it, and what its mapping to a function adds

    python -m bench.triggers [--quick] [--case NAME ...] [--keep]
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from odradek import aio
from odradek.cost.fixtures import QUEUE_POLLS_PER_S
from odradek.cost.metering import total
from odradek.cost.prices import GIB, PEERS_US_EAST_1, US_EAST_1, cost
from odradek.engine.engine import Engine
from odradek.errors import StoreUnavailable
from odradek.functions.environment import TRIGGER_DISPATCHER
from odradek.functions.invoked import InvokedFunction
from odradek.functions.triggers import TriggerDispatcherHandler
from odradek.model.trigger import Trigger
from odradek.ports.meter import Usage
from odradek.ports.outside import Outside
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX
from odradek.testing.latency import Latency
from odradek.testing.seeded_rng import SeededRng
from odradek.triggers.event import EventSource
from odradek.triggers.sweep import TriggerSweep
from odradek.triggers.wiring import TriggerParts, wire_triggers
from rich.console import Console
from rich.table import Table

from infra.stages import STAGES
from tests.simulation.loop import run
from tests.support.services.virtual_account import Instances, VirtualAccount

RESULTS = Path(__file__).parent / "results" / "triggers.json"
KEPT = Path(__file__).parent / "kept" / "triggers.json"
TOPIC, PARTITIONS, RECORD_BYTES = "orders", 4, 1024
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:orders"
FUNCTION_S = 0.05
SEND = Latency(8, 30)  # SendMessage
DELIVERY = Latency(20, 100)  # from a message in the queue to the invocation that has it: Lambda polls at length
INVOKE = Latency(12, 40)  # of the target, beside its own time
EPU_HOUR = 0.185  # AWS price list, us-east-1: event poller unit of a Kafka mapping in provisioned mode
SHARD_HOUR, PUT_UNITS_MILLION = 0.015, 0.014  # Kinesis, provisioned: a shard takes 1,000 records/s


@dataclass(frozen=True)
class Case:
    """A rate of records, and a trigger."""

    name: str
    per_s: float
    minutes: float
    options: Mapping[str, Any] = field(default_factory=dict)  # of the trigger
    configs: Mapping[str, Any] = field(default_factory=dict)  # of the producer
    is_cold: bool = False  # every dispatcher starts anew


CASES = {
    case.name: case
    for case in (
        Case("idle", 0, 60),
        Case("1/s", 1, 30),
        Case("1/s, window 10 s", 1, 30, options={"batching_window_s": 10}),
        Case("1,000/s", 1000, 5, configs={"linger_ms": 100}),
        Case("1,000/s, window 1 s", 1000, 5, {"batching_window_s": 1, "batch_size": 1000}, {"linger_ms": 100}),
        Case("1/min, cold", 1 / 60, 120, is_cold=True),
    )
}
_QUICK = ("idle", "1/s")
_QUICK_MINUTES = 6.0


class _Queue:
    """ports.task_queue.TaskQueue: latencies, delays, and a dispatcher for each batch of messages."""

    def __init__(self, account: TriggeredAccount) -> None:
        self._account = account
        self._waiting: list[str] = []
        self._workers = asyncio.Semaphore(account.stage.trigger_workers)
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        account = self._account
        account.meter.add("SendMessageBatch", Usage(queue_requests=1))
        half_s = SEND.draw_s(account.rng) / 2
        await account.clock.sleep(half_s)
        self._later(self._deliver(list(messages), delay_s))
        await account.clock.sleep(half_s)
        return []

    async def waiting(self) -> int:
        return len(self._waiting)

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, messages: list[str], delay_s: int) -> None:
        account = self._account
        await account.clock.sleep(delay_s + DELIVERY.draw_s(account.rng))
        self._waiting += messages
        async with self._workers:
            taken, self._waiting = self._waiting[:MESSAGES_PER_SEND_MAX], self._waiting[MESSAGES_PER_SEND_MAX:]
            if not taken:
                return
            if account.is_cold:
                account.instances[TRIGGER_DISPATCHER] = Instances(account.dispatcher)
            records = [{"messageId": str(number), "body": body} for number, body in enumerate(taken)]
            # Received, deleted: one request each, for all messages of the batch.
            account.meter.add("ReceiveMessage", Usage(queue_requests=2))
            response = await account.invoke(TRIGGER_DISPATCHER, {"Records": records}, 0)
            if response["batchItemFailures"]:
                raise StoreUnavailable(f"the dispatcher left messages: {response}")


class _Functions:
    """The target: it notes when it is called with which record."""

    def __init__(self, account: TriggeredAccount) -> None:
        self._account = account

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        account = self._account
        half_s = INVOKE.draw_s(account.rng) / 2
        await account.clock.sleep(half_s)
        account.calls += 1
        now_s = account.clock.monotonic()
        for records in json.loads(payload)["records"].values():
            for record in records:
                account.called_s.setdefault((record["partition"], record["offset"]), now_s)
        await account.clock.sleep(FUNCTION_S + half_s)
        return b""

    async def send_message(self, queue_url: str, body: str) -> None: ...

    async def publish(self, topic_arn: str, body: str) -> None: ...

    async def put_object(self, bucket: str, key: str, body: bytes) -> None: ...


class TriggeredAccount(VirtualAccount):
    """An account whose appends wake a dispatcher."""

    def __init__(self, *, is_cold: bool) -> None:
        super().__init__(STAGES["prod"])
        self.is_cold = is_cold
        self.calls = 0
        self.called_s: dict[tuple[int, int], float] = {}
        self.wakes = _Queue(self)
        self.instances[TRIGGER_DISPATCHER] = Instances(self.dispatcher)

    def parts(self, engine: Engine) -> TriggerParts:
        assert self.wakes is not None
        outside: Outside = _Functions(self)
        return wire_triggers(engine, self.wakes, EventSource("arn", "servers"), lambda: outside)

    def dispatcher(self) -> InvokedFunction:
        return TriggerDispatcherHandler(self.parts(self.engine()).dispatcher, self.instruments())

    def sweep(self, engine: Engine) -> TriggerSweep:
        return self.parts(engine).sweep


class Run:
    """One case, with its trigger or without."""

    def __init__(self, case: Case, *, has_trigger: bool) -> None:
        self.case = case
        self.has_trigger = has_trigger
        self.account = TriggeredAccount(is_cold=case.is_cold)
        self.acked_s: dict[tuple[int, int], float] = {}
        self._pending: set[asyncio.Task[None]] = set()

    async def produce(self) -> None:
        """Send at the rate, until cancelled."""
        account, rate = self.account, self.case.per_s
        value = bytes(RECORD_BYTES)
        transport, clock = account.transport(), account.clock
        async with aio.Producer(transport=transport, clock=clock, rng=SeededRng(7), **self.case.configs) as producer:
            tick_s, owed, sent = max(0.01, 1 / rate), 0.0, 0
            while True:
                owed += rate * tick_s
                while owed >= 1:
                    owed, sent = owed - 1, sent + 1
                    future = await producer.send(TOPIC, value, partition=sent % PARTITIONS)
                    task = asyncio.create_task(self._acknowledged(future))
                    self._pending.add(task)
                    task.add_done_callback(self._pending.discard)
                await clock.sleep(tick_s)

    async def _acknowledged(self, future: Any) -> None:
        sent = await future
        self.acked_s[sent.partition, sent.offset] = self.account.clock.monotonic()

    async def measure(self, window_s: float) -> dict[str, Any]:
        account = self.account
        await account.engine().topics.create(TOPIC, PARTITIONS)
        if self.has_trigger:
            await account.parts(account.engine()).triggers.create(
                Trigger(name="orders", topic=TOPIC, function=FUNCTION, **self.case.options)
            )
        tasks = [asyncio.create_task(account.maintain())]
        tasks += [asyncio.create_task(self.produce())] if self.case.per_s else []
        await self._wait(tasks, 30)
        start_s, calls = account.clock.monotonic(), account.calls
        before = {owner: total(used) for owner, used in account.meter.snapshot().items()}
        await self._wait(tasks, window_s)
        after = {owner: total(used) for owner, used in account.meter.snapshot().items()}
        usage = {owner: used - before.get(owner, Usage()) for owner, used in after.items()}
        ended_s = account.clock.monotonic()
        calls = account.calls - calls
        await account.clock.sleep(30)  # what is on its way
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        acked = {key: at_s for key, at_s in self.acked_s.items() if start_s <= at_s < ended_s}
        if self.has_trigger and (missing := acked.keys() - account.called_s.keys()):
            raise SystemExit(f"{self.case.name}: {len(missing)} records were not called with")
        waits = sorted((account.called_s[key] - at_s) * 1000 for key, at_s in acked.items() if self.has_trigger)
        return {
            "dollars_per_hour": {
                owner: sum(cost(used).components.values()) / window_s * 3600 for owner, used in usage.items()
            },
            "calls_per_s": calls / window_s,
            "records": len(acked),
            "wait_ms": {f"p{q}": waits[min(len(waits) - 1, len(waits) * q // 100)] for q in (50, 99)} if waits else {},
        }

    @staticmethod
    async def _wait(tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
        """Let the tasks run. Raises the exception of one that ended."""
        ended, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()


def measure(case: Case, minutes: float | None = None) -> dict[str, Any]:
    """Run one case in virtual time, with its trigger and without."""
    window_s = (minutes or case.minutes) * 60

    async def inside(*, has_trigger: bool) -> Any:
        return await Run(case, has_trigger=has_trigger).measure(window_s)

    alone, triggered = run(inside(has_trigger=False)), run(inside(has_trigger=True))
    polls = QUEUE_POLLS_PER_S * 3600 * US_EAST_1.per_million_queue_requests / 1e6
    store = sum(alone["dollars_per_hour"].values())
    return {
        "case": {**asdict(case), "options": dict(case.options), "configs": dict(case.configs)},
        "window_s": window_s,
        "mapping": sum(triggered["dollars_per_hour"].values()) - store + polls,
        "polls": polls,
        "store": store,
        "by_owner": {
            owner: dollars - alone["dollars_per_hour"].get(owner, 0.0)
            for owner, dollars in triggered["dollars_per_hour"].items()
        },
        "calls_per_s": triggered["calls_per_s"],
        "records": triggered["records"],
        "wait_ms": triggered["wait_ms"],
        "peers": peers(case.per_s),
    }


def peers(per_s: float) -> dict[str, dict[str, float]]:
    """Dollars an hour of other services: the stream or cluster with these records in it, and what its mapping adds."""
    prices = PEERS_US_EAST_1
    gib = per_s * RECORD_BYTES * 3600 / GIB
    return {
        # Reads of a mapping are billed by the byte on demand; a provisioned shard includes them.
        "Kinesis on demand": {
            "store": prices.kinesis_stream_hour + gib * prices.kinesis_gb_in,
            "mapping": gib * prices.kinesis_gb_out,
        },
        "Kinesis, one shard": {"store": SHARD_HOUR + per_s * 3600 * PUT_UNITS_MILLION / 1e6, "mapping": 0.0},
        "MSK Serverless": {
            "store": prices.msk_serverless_cluster_hour
            + PARTITIONS * prices.msk_serverless_partition_hour
            + gib * prices.msk_serverless_gb_in,
            "mapping": gib * prices.msk_serverless_gb_out,
        },
        # Retries, bisection and the age of records of a Kafka mapping need provisioned mode: one unit at least.
        "MSK provisioned": {"store": 3 * prices.msk_broker_hour, "mapping": EPU_HOUR},
    }


def show(console: Console, results: Sequence[Mapping[str, Any]]) -> None:
    """Print the dollars and the waits, and the peers beside them."""
    table = Table(title="dollars an hour, and ms from acknowledgement to call", box=None)
    for name in ("case", "mapping", "dispatcher", "store", "calls/s", "call p50", "p99"):
        table.add_column(name, justify="left" if name == "case" else "right")
    for result in results:
        waits = [f"{result['wait_ms'][q]:,.0f}" if result["wait_ms"] else "-" for q in ("p50", "p99")]
        dollars = (result["mapping"], result["by_owner"].get(TRIGGER_DISPATCHER, 0.0), result["store"])
        table.add_row(result["case"]["name"], *(f"{d:.4f}" for d in dollars), f"{result['calls_per_s']:.2f}", *waits)
    console.print(table)
    table = Table(title="peers, by price list: mapping (store)", box=None)
    table.add_column("records/s")
    rates = {result["case"]["per_s"]: result["peers"] for result in results}
    for name in next(iter(rates.values())):
        table.add_column(name, justify="right")
    for per_s, by_name in sorted(rates.items()):
        table.add_row(f"{per_s:g}", *(f"{peer['mapping']:.4f} ({peer['store']:.4f})" for peer in by_name.values()))
    console.print(table)


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two cases, windows of six minutes")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only these")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    arguments = parser.parse_args(argv)
    names = arguments.case or (_QUICK if arguments.quick else CASES)
    results = [measure(CASES[name], _QUICK_MINUTES if arguments.quick else None) for name in names]
    show(Console(width=max(Console().width, 140)), results)
    for path in (RESULTS, KEPT) if arguments.keep else (RESULTS,):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([_rounded(result) for result in results], indent=1) + "\n")
    return 0


def _rounded(value: Any) -> Any:
    """Return the value with five significant digits in its numbers."""
    if isinstance(value, Mapping):
        return {key: _rounded(element) for key, element in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    raise SystemExit(main())
