"""The cost of lookups in a served table and of its changes, and the delay of a change: counted, in virtual time.

The deployed parts run on tests/support/services/virtual_account.py: functions, a queue, metered stores with drawn
latencies (a table's call takes 6 ms, p99 16; a call of a function 12, p99 40, beside its own time). Rows have 1 kB:
JSON that compresses to about half, or bytes that do not. A topic of four partitions, 1,000 keys.

    get        ms from the request to the answer, of a client far enough apart that instances are warm; dollars per
               million: function, its duration, the reads
    many       the same for 10 keys a request, per million keys
    range      for 100 rows a request, per million rows
    change     dollars per million changes of rows that exist: every unit of the account with the table, less those
               without it; the queue's polls apart. Seen: ms from the acknowledgement to the position that covers it

    python -m bench.tables [--quick] [--keep]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from odradek import aio
from odradek.cost.metering import total
from odradek.cost.prices import cost
from odradek.engine.engine import Engine
from odradek.functions.environment import TABLES, TRIGGER_DISPATCHER
from odradek.functions.invoked import InvokedFunction
from odradek.functions.tables import TablesHandler
from odradek.functions.triggers import TriggerDispatcherHandler
from odradek.model.table import ServedTable
from odradek.ports.meter import Usage
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX
from odradek.served.positions import Position, Positions
from odradek.served.wiring import TableParts, wire_tables
from odradek.testing.latency import Latency, Slow
from odradek.testing.seeded_rng import SeededRng
from odradek.triggers.event import EventSource
from odradek.triggers.wiring import wire_triggers
from rich.console import Console
from rich.table import Table

from infra.stages import STAGES
from tests.simulation.loop import run
from tests.support.services.virtual_account import Instances, VirtualAccount

RESULTS = Path(__file__).parent / "results" / "tables.json"
KEPT = Path(__file__).parent / "kept" / "tables.json"
TOPIC, PARTITIONS, KEYS, ROW_BYTES = "scores", 4, 1_000, 1_000
SEND, DELIVERY = Latency(8, 30), Latency(20, 100)  # of the queue, as in bench.triggers
_RATES = (1.0, 100.0)  # changes a second
_LINGER_MS = 100  # of the producer at the higher rate


class _Queue:
    """ports.task_queue.TaskQueue: latencies, delays, and a dispatcher for each batch of messages."""

    def __init__(self, account: ServedAccount) -> None:
        self._account = account
        self._waiting: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, messages: Any, *, delay_s: int = 0) -> list[str]:
        account = self._account
        account.meter.add("SendMessageBatch", Usage(queue_requests=1))
        half_s = SEND.draw_s(account.rng) / 2
        await account.clock.sleep(half_s)
        task = asyncio.create_task(self._deliver(list(messages), delay_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await account.clock.sleep(half_s)
        return []

    async def waiting(self) -> int:
        return len(self._waiting)

    async def _deliver(self, messages: list[str], delay_s: int) -> None:
        account = self._account
        await account.clock.sleep(delay_s + DELIVERY.draw_s(account.rng))
        self._waiting += messages
        taken, self._waiting = self._waiting[:MESSAGES_PER_SEND_MAX], self._waiting[MESSAGES_PER_SEND_MAX:]
        if not taken:
            return
        records = [{"messageId": str(number), "body": body} for number, body in enumerate(taken)]
        account.meter.add("ReceiveMessage", Usage(queue_requests=2))
        response = await account.invoke(TRIGGER_DISPATCHER, {"Records": records}, 0)
        assert not response["batchItemFailures"], response


class ServedAccount(VirtualAccount):
    """An account with the function `tables`, and a dispatcher that maintains them."""

    def __init__(self) -> None:
        super().__init__(STAGES["prod"])
        self.wakes = _Queue(self)
        self.instances[TRIGGER_DISPATCHER] = Instances(self._dispatcher)
        self.instances[TABLES] = Instances(lambda: TablesHandler(self.parts(self.engine()).api, self.instruments()))

    def parts(self, engine: Engine) -> TableParts:
        assert self.wakes is not None
        rows: Any = Slow(self.tables.rows, self.latencies.table, self.clock, self.rng)
        return wire_tables(engine, rows, self.wakes)

    def _dispatcher(self) -> InvokedFunction:
        assert self.wakes is not None
        engine = self.engine()
        outside: Any = None
        parts = wire_triggers(
            engine, self.wakes, EventSource("arn", "s"), lambda: outside, followers=(self.parts(engine).maintainer,)
        )
        return TriggerDispatcherHandler(parts.dispatcher, self.instruments())

    def sweep(self, engine: Engine) -> Any:
        return self.parts(engine).sweep

    async def ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> tuple[dict[str, Any], float]:
        """Call the function over the network; return its answer, and the ms that it took."""
        started_s = self.clock.monotonic()
        half_s = self.latencies.call.draw_s(self.rng) / 2
        await self.clock.sleep(half_s)
        event = {
            "requestContext": {
                "http": {"method": method, "path": path, "sourceIp": "192.0.2.1"},
                "authorizer": {"iam": {"userArn": "arn:aws:iam::000000000000:user/clients"}},
            },
            "rawPath": path,
            "rawQueryString": query,
            "body": body.decode(),
        }
        response = await self.invoke(TABLES, event, len(body))
        await self.clock.sleep(half_s)
        assert response["statusCode"] == 200, response
        return json.loads(response["body"]), (self.clock.monotonic() - started_s) * 1000

    def spent(self) -> float:
        """Dollars of all units so far."""
        return sum(sum(cost(total(used)).components.values()) for used in self.meter.snapshot().values())


def row(rng: random.Random, *, compressible: bool) -> bytes:
    """A value of 1 kB."""
    if not compressible:
        return bytes(rng.randrange(256) for _ in range(ROW_BYTES))
    items = {f"field_{number}": rng.randrange(10**9) for number in range(40)}
    text = json.dumps(items)[:-1] + ', "note": "'
    return (text + "x" * (ROW_BYTES - len(text) - 2) + '"}').encode()


def quantiles(waits: list[float]) -> dict[str, float]:
    waits = sorted(waits)
    return {f"p{q}": waits[min(len(waits) - 1, len(waits) * q // 100)] for q in (50, 99)} if waits else {}


async def _load(account: ServedAccount, *, compressible: bool, served: bool = True) -> random.Random:
    rng = random.Random(1)
    await account.engine().topics.create(TOPIC, PARTITIONS, {"cleanup.policy": "compact"})
    if served:
        table = ServedTable(name=TOPIC, topic=TOPIC, value_format="JSON" if compressible else "BYTES")
        await account.parts(account.engine()).tables.serve(table)
    async with aio.Producer(
        transport=account.transport(), clock=account.clock, rng=SeededRng(7), linger_ms=50
    ) as producer:
        for number in range(KEYS):
            await producer.send(TOPIC, row(rng, compressible=compressible), key=b"key-%04d" % number)
        await producer.flush()
    await account.clock.sleep(120)
    return rng


async def lookups(count: int) -> dict[str, Any]:
    """Gets, gets of ten keys, ranges: their time and their dollars."""
    account = ServedAccount()
    rng = await _load(account, compressible=True)
    figures: dict[str, Any] = {}

    async def measure(name: str, per_request: int, ask: Any) -> None:
        await ask()  # the instance has started
        before, waits = account.spent(), []
        requests = max(1, count // per_request)
        for _ in range(requests):
            await account.clock.sleep(rng.random() / 5)
            answer, ms = await ask()
            rows = answer.get("rows") or [row_answer["rows"][0] for row_answer in answer["answers"]]
            assert len(rows) == per_request, len(rows)
            waits.append(ms)
        per_million = (account.spent() - before) / (requests * per_request) * 1e6
        figures[name] = {"requests": requests, "ms": quantiles(waits), "dollars_per_million": per_million}

    def a_key() -> str:
        return f"key-{rng.randrange(KEYS):04}"

    await measure("get", 1, lambda: account.ask("GET", f"/{TOPIC}/{a_key()}"))
    keys = json.dumps({"keys": [a_key() for _ in range(10)]}).encode()
    await measure("many", 10, lambda: account.ask("POST", f"/{TOPIC}", body=keys))
    await measure("range", 100, lambda: account.ask("GET", f"/{TOPIC}", f"from=key-0{rng.randrange(9)}00&limit=100"))
    return figures


async def changes(rate: float, seconds: float, *, compressible: bool, served: bool) -> dict[str, Any]:
    """Changes at a rate: dollars of the account, and the time until they are covered."""
    account = ServedAccount()
    acked: dict[tuple[int, int], float] = {}
    covered: list[tuple[float, int, int]] = []
    advance = Positions.advance

    async def noted(self: Positions, generation: str, position: Position) -> None:
        await advance(self, generation, position)
        covered.append((account.clock.monotonic(), position.partition, position.covered))

    with patch.object(Positions, "advance", noted):
        rng = await _load(account, compressible=compressible, served=served)
        before = account.spent()
        count = int(rate * seconds)

        async def acknowledged(future: Any) -> None:
            sent = await future
            acked[sent.partition, sent.offset] = account.clock.monotonic()

        linger_ms = _LINGER_MS if rate > 10 else 0
        waiting = []
        async with aio.Producer(
            transport=account.transport(), clock=account.clock, rng=SeededRng(7), linger_ms=linger_ms
        ) as producer:
            for _ in range(count):
                value = row(rng, compressible=compressible)
                future = await producer.send(TOPIC, value, key=b"key-%04d" % rng.randrange(KEYS))
                waiting.append(asyncio.create_task(acknowledged(future)))
                await account.clock.sleep(1 / rate)
            await producer.flush()
        await asyncio.gather(*waiting)
        await account.clock.sleep(60)
        spent = account.spent() - before
    waits = []
    for (partition, offset), at_s in acked.items() if served else ():
        seen_s = min((s for s, number, end in covered if number == partition and end > offset), default=None)
        assert seen_s is not None, f"{partition}:{offset} was never covered"
        waits.append((seen_s - at_s) * 1000)
    return {"dollars": spent, "changes": count, "seen_ms": quantiles(waits)}


def change_cost(rate: float, seconds: float, *, compressible: bool) -> dict[str, Any]:
    """Return the cost that a table adds to changes."""
    alone = run(changes(rate, seconds, compressible=compressible, served=False))
    served = run(changes(rate, seconds, compressible=compressible, served=True))
    return {
        "per_s": rate,
        "rows": "JSON" if compressible else "random bytes",
        "changes": served["changes"],
        "dollars_per_million": (served["dollars"] - alone["dollars"]) / served["changes"] * 1e6,
        "of_the_log": alone["dollars"] / alone["changes"] * 1e6,
        "seen_ms": served["seen_ms"],
    }


def show(console: Console, figures: Mapping[str, Any]) -> None:
    """Print both tables."""
    table = Table(title="lookups of 1 kB rows", box=None)
    for name in ("", "requests", "p50 ms", "p99 ms", "dollars per million rows"):
        table.add_column(name, justify="left" if not name else "right")
    for name, lookup in figures["lookups"].items():
        ms = lookup["ms"]
        table.add_row(
            name,
            str(lookup["requests"]),
            f"{ms['p50']:.0f}",
            f"{ms['p99']:.0f}",
            f"{lookup['dollars_per_million']:.3f}",
        )
    console.print(table)
    table = Table(title="changes of rows that exist, 1 kB", box=None)
    for name in ("changes/s", "rows", "dollars per million", "the log's own", "seen p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    for change in figures["changes"]:
        table.add_row(
            f"{change['per_s']:g}",
            change["rows"],
            f"{change['dollars_per_million']:.2f}",
            f"{change['of_the_log']:.2f}",
            f"{change['seen_ms']['p50']:.0f}",
            f"{change['seen_ms']['p99']:.0f}",
        )
    console.print(table)


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few requests")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    arguments = parser.parse_args(argv)
    count, seconds = (100, 20.0) if arguments.quick else (2_000, 120.0)
    figures = {
        "lookups": run(lookups(count)),
        "changes": [
            change_cost(rate, seconds, compressible=compressible) for rate in _RATES for compressible in (True, False)
        ],
    }
    show(Console(width=max(Console().width, 120)), figures)
    for path in (RESULTS, KEPT) if arguments.keep else (RESULTS,):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(_rounded(figures), indent=1) + "\n")
    return 0


def _rounded(value: Any) -> Any:
    """Return the value with five significant digits in its numbers."""
    if isinstance(value, Mapping):
        return {key: _rounded(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_rounded(element) for element in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    raise SystemExit(main())
