"""What do many writers of small records to few partitions cost each other? Store calls, units and waits a record.

The real engine over memory stores that take their time, as in bench/append.py: virtual time, seeded, so that neither
the machine nor a client's code is in the figures. Each writer is an idempotent producer with a warm function of its
own: one record of 100 bytes to some partition, its ack, a rest, the next one; what is refused for now it sends again,
after a client's back-off. Under faults a share of the store's calls is throttled, fails, times out or stalls, as in
`make load`.

    updates   of heads by appends: 1 is the least; more were refused, or not answered
    reads     of rows of producers that had left the head, to learn their sequence
    spills    of a tail, begun; in vain: another one was first
    evicted   rows of producers that left the head, written by spills
    calls     of the store, all of them: 2 is the least (the upload and the update)
    units     of writing, as DynamoDB bills them
    waits ms  that the function spent asleep, in back-off or for a predecessor

    python -m bench.contention [--quick] [--pause-ms 100] [--table-p50-ms 7.6 --table-p99-ms 16]
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

from bench.append import Latencies, Store, batch
from tests.e2e.load.misbehaving import MisbehavingPort, MisbehavingStore, Misbehaviour
from tests.simulation.loop import run
from tests.support.loop_clock import LoopClock

RESULTS = Path(__file__).parent / "results" / "contention.json"
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
            kind = _kind(name, args[0])
            self.calls[kind] += 1
            try:
                return await method(*args, **kwargs)
            except ConditionFailed:
                self.calls[f"{kind}, refused"] += 1
                raise

        return call


def _kind(name: str, argument: Any) -> str:
    match argument:
        case Update(actions=actions) if any(isinstance(action, Append) for action in actions):
            return "append"
        case Update(actions=actions) if any(isinstance(action, RemoveFirst) for action in actions):
            return "spill"
        case Put(key=key) if key.sk.startswith("i#"):
            return "index row"
        case Put(key=key) if key.sk.startswith("p#"):
            return "producer row"
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
    calls = {kind: count / len(took) for kind, count in log.calls.items()}
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
        "calls": sum(count for kind, count in calls.items() if not kind.endswith("refused")),
        "units": usage.table_write_units / len(took),
        "waits_ms": clock.total_s / len(took) * 1000,
        "answers": {name: count / len(took) for name, count in answers.items()},
    }


def table(results: Sequence[dict[str, Any]], faults: float) -> Table:
    found = Table(title=f"Records of {RECORD_BYTES} bytes, {faults:.0%} faults, virtual time; counts are of one record")
    columns = ("updates", "refused", "reads", "spills", "in_vain", "evicted", "calls", "units")
    for column in ("partitions", "writers", "records/s", "p50 ms", "p99 ms", "max ms", *columns, "waits ms"):
        found.add_column(column.replace("_", " "), justify="right")
    for row in results:
        if row["faults"] == faults:
            found.add_row(
                str(row["partitions"]),
                str(row["writers"]),
                f"{row['records_per_s']:,.0f}",
                *(f"{row[f'p{q}_ms']:,.0f}" for q in (50, 99, 100)),
                *(f"{row[column]:.2f}" for column in columns),
                f"{row['waits_ms']:.0f}",
            )
    return found


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--pause-ms", type=float, default=100, help="of a writer between two records, on average")
    parser.add_argument("--put-p50-ms", type=float, default=30)
    parser.add_argument("--put-p99-ms", type=float, default=100)
    parser.add_argument("--table-p50-ms", type=float, default=7.6)
    parser.add_argument("--table-p99-ms", type=float, default=16)
    arguments = parser.parse_args(argv)
    latencies = Latencies(
        Latency(arguments.table_p50_ms, arguments.table_p99_ms), Latency(arguments.put_p50_ms, arguments.put_p99_ms)
    )
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


if __name__ == "__main__":
    raise SystemExit(main())
