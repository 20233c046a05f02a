"""Contention of many writers of small records on few partitions: store calls, units and waits a record.

The real engine over memory stores that take their time, as in bench/engine/append.py: virtual time, seeded, so that
neither the machine nor a client's code is in the figures. Each writer is an idempotent producer with a warm function of
its own: one record of 100 bytes to some partition, its ack, a rest, the next one; what is refused for now it sends
again, after a client's back-off. Under faults a share of the store's calls is throttled, fails, times out or stalls, as
in `make load`.

    updates   of heads by appends: 1 is the least; more were refused, or not answered
    reads     of rows of producers that had left the head, to learn their sequence
    spills    of a tail, begun; in vain: another one was first
    evicted   rows of producers that left the head, written by spills
    calls     of the store, all of them: 2 is the least (the upload and the update)
    units     of writing, as DynamoDB bills them
    waits ms  that the function spent asleep, in back-off or for a predecessor

With --spread: idempotent producers of a topic of 24 partitions that share a head, each request a batch to each of them,
from a few warm functions, so many requests a second: what a request costs by the number of producers. Uploads are
objects, so that all units are the head's, its pages', rows' and producers'; merges are not part of it.

    pages, rows   written by spills, a request; evicted: rows of producers
    reads         read units, a request: of heads and of producers' rows
    total         write units, and read units at a fifth of their price

    python -m bench.engine.contention [--spread [--requests-per-s 50] [--keep]] [--quick] [--pause-ms 100]
                               [--table-p50-ms 7.6 --table-p99-ms 16]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from odradek.backoff import bound_s
from odradek.cost.metering import total
from odradek.engine.engine import Engine
from odradek.engine.maintenance.wal_uploads import HOUR_MS
from odradek.errors import ConditionFailed
from odradek.model.log import ProducePartition
from odradek.ports.table import Append, Put, RemoveFirst, Update
from odradek.settings import Settings
from odradek.testing.latency import Latency
from rich.console import Console
from rich.table import Table

from bench.engine.append import Latencies, Store, batch
from tests.e2e.load.misbehaving import MisbehavingPort, MisbehavingStore, Misbehaviour
from tests.simulation.loop import run
from tests.support.loop_clock import LoopClock

RESULTS = Path(__file__).parents[1] / "results" / "contention.json"
SPREAD = "contention_spread.json"
SPREAD_PRODUCERS = (1, 4, 16, 64, 256, 1_000)
SPREAD_PARTITIONS = 24
FUNCTIONS = 8  # warm ones that the requests of a spread topic meet
READ_PRICE = 0.2  # of a read unit, in write units
WRITERS = (1, 4, 16, 64)
PARTITIONS = (1, 16)
FAULTS = (0.0, 0.05)
RECORD_BYTES = 100
BACKOFF_S, BACKOFF_MAX_S = 0.1, 1.0  # of a client (retry_backoff_ms, retry_backoff_max_ms)


class Sleeps(LoopClock):
    """The functions' clock: knows how long they slept."""

    total_s = 0.0

    async def sleep(self, seconds: float) -> None:
        self.total_s += seconds
        await super().sleep(seconds)


class CountedTable:
    """The log table as the functions call it, by what the calls are for."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            operation_kind = kind_of(name, args[0])
            self.calls[operation_kind] += 1
            try:
                return await method(*args, **kwargs)
            except ConditionFailed:
                self.calls[f"{operation_kind}, refused"] += 1
                raise

        return call


def kind_of(name: str, argument: Any) -> str:
    match argument:
        case Update(actions=actions) if any(isinstance(action, Append) for action in actions):
            return "append"
        case Update(actions=actions) if any(isinstance(action, RemoveFirst) for action in actions):
            return "spill"
        case Put(key=key) if key.sk.startswith("i#"):
            return "index row"
        case Put(key=key) if key.sk.startswith("p#"):
            return "producer row"
        case Put(key=key) if key.sk.startswith("c#"):
            return "page"
    return name


async def measure(
    writers: int, partitions: int, faults: float, records: int, pause_s: float, latencies: Latencies
) -> dict[str, Any]:
    """Writers to a topic of so many partitions: what a record took, by the calls made for it."""
    clock, chance = Sleeps(), random.Random(writers)
    store = Store(LoopClock(), latencies, seed=writers)
    misbehaviour = Misbehaviour(chance, 0.0, asyncio.sleep)
    tables: Any = MisbehavingStore(store.slow_tables, misbehaviour)
    tables.log = log = CountedTable(tables.log)
    objects: Any = MisbehavingPort(store.slow_objects, misbehaviour)
    settings = Settings(catalog_cache_ms=HOUR_MS, leader_cache_ms=HOUR_MS)
    engines = [
        Engine(tables=tables, objects=objects, clock=clock, rng=store.rng, settings=settings) for _ in range(writers)
    ]
    await engines[0].topics.create("t", partitions)
    for engine in engines:
        await engine.topics.resolve("t")
    misbehaviour.share = faults
    took: list[float] = []
    answers: Counter[str] = Counter()

    async def send(writer: int, partition: int, records: bytes) -> None:
        attempt = 0
        while True:
            [result] = await engines[writer].produce([ProducePartition("t", partition, records)])
            if not result.error:
                return
            assert result.error.is_retryable, (result.error.name, result.message)
            answers[result.error.name] += 1
            await asyncio.sleep(chance.random() * bound_s(attempt, first_s=BACKOFF_S, max_s=BACKOFF_MAX_S))
            attempt += 1

    async def write(writer: int) -> None:
        sequences: Counter[int] = Counter()
        for _ in range(max(1, records // writers)):
            await asyncio.sleep(chance.uniform(0, 2 * pause_s))
            partition = chance.randrange(partitions)
            data = batch(RECORD_BYTES, writer, sequences[partition])
            began_s = clock.monotonic()
            await send(writer, partition, data)
            took.append(clock.monotonic() - began_s)
            sequences[partition] += 1

    log.calls.clear()
    clock.total_s = 0.0
    before, began_s = store.meter.snapshot(), clock.monotonic()
    await asyncio.gather(*(write(writer) for writer in range(writers)))
    elapsed_s, usage = clock.monotonic() - began_s, total(store.meter.since(before))
    took.sort()
    calls = {operation_kind: count / len(took) for operation_kind, count in log.calls.items()}
    done = calls.get("spill", 0) - calls.get("spill, refused", 0)
    return {
        "writers": writers,
        "partitions": partitions,
        "faults": faults,
        "records_per_s": len(took) / elapsed_s,
        **{f"p{q}_ms": took[min(len(took) - 1, len(took) * q // 100)] * 1000 for q in (50, 99, 100)},
        "updates": calls.get("append", 0),
        "refused": calls.get("append, refused", 0),
        "reads": calls.get("get", 0),
        "spills": calls.get("index row", 0),
        "in_vain": calls.get("index row", 0) - done,
        "evicted": calls.get("producer row", 0),
        "calls": sum(count for operation_kind, count in calls.items() if not operation_kind.endswith("refused")),
        "units": usage.table_write_units / len(took),
        "waits_ms": clock.total_s / len(took) * 1000,
        "answers": {name: count / len(took) for name, count in answers.items()},
    }


async def measure_spread(producers: int, requests: int, per_s: float, latencies: Latencies) -> dict[str, Any]:
    """Requests of so many producers to all partitions of a head, evenly over time: what one costs."""
    clock, chance = Sleeps(), random.Random(producers)
    store = Store(LoopClock(), latencies, seed=producers)
    tables: Any = store.slow_tables
    tables.log = log = CountedTable(tables.log)
    settings = Settings(catalog_cache_ms=HOUR_MS, leader_cache_ms=HOUR_MS, item_bytes_max=0)
    engines = [
        Engine(tables=tables, objects=store.slow_objects, clock=clock, rng=store.rng, settings=settings)
        for _ in range(FUNCTIONS)
    ]
    await engines[0].topics.create("t", SPREAD_PARTITIONS)
    for engine in engines:
        await engine.topics.resolve("t")
    sequences: Counter[int] = Counter()
    took: list[float] = []

    async def send(producer: int) -> None:
        sequence = sequences[producer]
        sequences[producer] += 1
        data = batch(RECORD_BYTES, producer, sequence)
        began_s = clock.monotonic()
        engine = engines[chance.randrange(FUNCTIONS)]
        while True:
            sent = await engine.produce([ProducePartition("t", number, data) for number in range(SPREAD_PARTITIONS)])
            if not any(result.error for result in sent):
                break
            await asyncio.sleep(BACKOFF_S)
        took.append(clock.monotonic() - began_s)

    async def write(producer: int, count: int, pause_s: float) -> None:
        await asyncio.sleep(chance.uniform(0, pause_s))
        for _ in range(count):
            began_s = clock.monotonic()
            await send(producer)
            rest_s = chance.uniform(0.8, 1.2) * pause_s - (clock.monotonic() - began_s)
            await asyncio.sleep(max(0.0, rest_s))

    async def phase(round_number: int) -> None:
        await asyncio.gather(*(write(producer, round_number, producers / per_s) for producer in range(producers)))

    await phase(2 if producers > 1 else 16)  # what begins costs more
    log.calls.clear()
    took.clear()
    before = store.meter.snapshot()
    await phase(max(3, requests // producers))
    usage = total(store.meter.since(before))
    took.sort()
    calls = {operation_kind: count / len(took) for operation_kind, count in log.calls.items()}
    return {
        "producers": producers,
        "requests": len(took),
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[len(took) * 99 // 100] * 1000,
        "updates": calls.get("append", 0),
        "refused": calls.get("append, refused", 0),
        "pages": calls.get("page", 0),
        "rows": calls.get("index row", 0),
        "evicted": calls.get("producer row", 0),
        "write_units": usage.table_write_units / len(took),
        "reads": usage.table_read_units / len(took),
        "total": (usage.table_write_units + READ_PRICE * usage.table_read_units) / len(took),
    }


def spread_table(results: Sequence[dict[str, Any]], per_s: float) -> Table:
    table = Table(title=f"Requests to {SPREAD_PARTITIONS} partitions of a head, {per_s:g} a second; of one request")
    columns = ("updates", "refused", "pages", "rows", "evicted", "write_units", "reads", "total")
    for column in ("producers", "p50 ms", "p99 ms", *columns):
        table.add_column(column.replace("_", " "), justify="right")
    for row in results:
        cells = (f"{row['p50_ms']:,.0f}", f"{row['p99_ms']:,.0f}", *(f"{row[column]:.2f}" for column in columns))
        table.add_row(f"{row['producers']:,}", *cells)
    return table


def table(results: Sequence[dict[str, Any]], faults: float) -> Table:
    table = Table(title=f"Records of {RECORD_BYTES} bytes, {faults:.0%} faults, virtual time; counts are of one record")
    columns = ("updates", "refused", "reads", "spills", "in_vain", "evicted", "calls", "units")
    for column in ("partitions", "writers", "records/s", "p50 ms", "p99 ms", "max ms", *columns, "waits ms"):
        table.add_column(column.replace("_", " "), justify="right")
    for row in results:
        if row["faults"] == faults:
            table.add_row(
                str(row["partitions"]),
                str(row["writers"]),
                f"{row['records_per_s']:,.0f}",
                *(f"{row[f'p{q}_ms']:,.0f}" for q in (50, 99, 100)),
                *(f"{row[column]:.2f}" for column in columns),
                f"{row['waits_ms']:.0f}",
            )
    return table


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--spread", action="store_true", help="many producers of partitions that share a head")
    parser.add_argument("--requests-per-s", type=float, default=50, help="of a spread topic")
    parser.add_argument("--keep", action="store_true", help=f"write bench/kept/{SPREAD} with the result")
    parser.add_argument("--pause-ms", type=float, default=100, help="of a writer between two records, on average")
    parser.add_argument("--put-p50-ms", type=float, default=30)
    parser.add_argument("--put-p99-ms", type=float, default=100)
    parser.add_argument("--table-p50-ms", type=float, default=7.6)
    parser.add_argument("--table-p99-ms", type=float, default=16)
    arguments = parser.parse_args(argv)
    latencies = Latencies(
        Latency(arguments.table_p50_ms, arguments.table_p99_ms), Latency(arguments.put_p50_ms, arguments.put_p99_ms)
    )
    if arguments.spread:
        return _spread(arguments, latencies)
    records = 1_000 if arguments.quick else 4_000
    pause_s = arguments.pause_ms / 1000
    results = [
        run(measure(writers, partitions, faults, records, pause_s, latencies))
        for faults in FAULTS
        for partitions in PARTITIONS
        for writers in WRITERS
    ]
    console = Console(width=max(Console().width, 140))
    for faults in FAULTS:
        console.print(table(results, faults))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"latencies": asdict(latencies), "results": results}, indent=2) + "\n")
    return 0


def _spread(arguments: argparse.Namespace, latencies: Latencies) -> int:
    requests = 600 if arguments.quick else 2_400
    per_s = arguments.requests_per_s
    results = [run(measure_spread(producers, requests, per_s, latencies)) for producers in SPREAD_PRODUCERS]
    Console(width=max(Console().width, 140)).print(spread_table(results, per_s))
    document = (
        json.dumps({"latencies": asdict(latencies), "requests_per_s": per_s, "results": results}, indent=2) + "\n"
    )
    RESULTS.parent.mkdir(exist_ok=True)
    (RESULTS.parent / SPREAD).write_text(document)
    if arguments.keep:
        (Path(__file__).parents[1] / "kept" / SPREAD).write_text(document)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
