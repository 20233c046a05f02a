"""Write units of a shared head by operation, and the head's bytes by attribute when appends meet it.

The real engine over memory stores that take their time, in virtual time, as `bench.engine.contention --spread`:
producers of one head, each request a batch of keyed records to each of its partitions. The default is one of the heads
of `bench.cost --case large`: 40 producers with a request a second each, 2.5 records of 1 KiB a partition.

    units   of one request, by what the write was for; a refused write is billed as one that is applied
    bytes   of the head's item after an append, on average: of the attribute, its name included

With --heat: what would it help to divide a hot head? The same producers over heads of fewer partitions, with requests
that touch all partitions, eight, or one. A key takes 1,000 write units a second, so by the units of the head that has
the most of them follows how many such requests a second the topic takes.

    head units   of a request: writes of the hottest head's item, and of what else is under its key
    requests/s   1,000 / head units
    all units    of a request: what it costs

    python -m bench.engine.head_units [--heat] [--producers 40] [--partitions 32] [--requests-per-s 40]
                                      [--record-bytes 2600]
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from typing import Any

from odradek.cost.metering import total
from odradek.engine.engine import Engine
from odradek.engine.maintenance.wal_uploads import HOUR_MS
from odradek.errors import ConditionFailed
from odradek.format.item_size import attributes_size, item_size
from odradek.format.record_batch import RecordBatchBuilder
from odradek.limits import (
    PARTITIONS_PER_HEAD_MAX,
    TABLE_PARTITION_KEY_WRITE_UNITS_MAX,
    TABLE_WRITE_UNIT_BYTES,
)
from odradek.model.log import ProducePartition
from odradek.ports.table import Put
from odradek.settings import Settings
from odradek.testing.latency import Latency
from rich.console import Console
from rich.table import Table

from bench.engine.append import Latencies, Store
from bench.engine.contention import BACKOFF_S, FUNCTIONS, kind_of
from tests.simulation.loop import run
from tests.support.loop_clock import LoopClock

LATENCIES = Latencies(Latency(6, 16), Latency(65, 200))
REQUESTS_EACH = 20


class MeasuredTable:
    """The log table as the functions call it: units by what the calls are for, and sizes of the heads they leave."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.forget()

    def forget(self) -> None:
        """Forget what was counted."""
        self.units: Counter[str] = Counter()
        self.key_units: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.head_bytes: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            operation_kind = kind_of(name, args[0])
            try:
                response = await method(*args, **kwargs)
            except ConditionFailed as refused:
                self._count(f"{operation_kind}, refused", args[0], refused.current or {})
                raise
            if name == "put":
                self._count(operation_kind, args[0], args[0].item)
            elif name == "update":
                self._count(operation_kind, args[0], response)
                if operation_kind == "append":
                    for attribute, value in response.items():
                        self.head_bytes[attribute] += attributes_size({attribute: value})
            return response

        return call

    def _count(self, operation_kind: str, write: Any, item: dict[str, Any]) -> None:
        key = write.key
        left = item if isinstance(write, Put) else {k: v for k, v in item.items() if k not in ("pk", "sk")}
        units = max(1, -(-item_size(key.pk, key.sk, left) // TABLE_WRITE_UNIT_BYTES))
        self.units[operation_kind] += units
        self.key_units[key.pk] += units
        self.calls[operation_kind] += 1


async def measure(
    producers: int,
    partitions: int,
    per_s: float,
    record_bytes: int,
    *,
    per_head: int = PARTITIONS_PER_HEAD_MAX,
    touched: int | None = None,
) -> dict[str, Any]:
    """Requests of so many producers, evenly over time: where their units go.

    Args:
        touched: partitions of a request, drawn for each; None: all.
    """
    clock, chance = LoopClock(), random.Random(producers)
    store = Store(LoopClock(), LATENCIES, seed=producers)
    tables: Any = store.slow_tables
    tables.log = log = MeasuredTable(tables.log)
    settings = Settings(
        catalog_cache_ms=HOUR_MS, leader_cache_ms=HOUR_MS, item_bytes_max=0, default_partitions_per_head=per_head
    )
    engines = [
        Engine(tables=tables, objects=store.slow_objects, clock=clock, rng=store.rng, settings=settings)
        for _ in range(FUNCTIONS)
    ]
    await engines[0].topics.create("t", partitions)
    for engine in engines:
        await engine.topics.resolve("t")
    sequences: Counter[tuple[int, int]] = Counter()

    def batch(producer: int, partition: int) -> ProducePartition:
        count = chance.choice((1, 2, 3, 4))
        builder = RecordBatchBuilder()
        for _ in range(count):
            builder.append(clock.now_ms() - chance.randrange(1_000), None, bytes(record_bytes * 2 // 5))
        sequence = sequences[producer, partition]
        sequences[producer, partition] += count
        data = builder.build(producer_id=producer, producer_epoch=0, base_sequence=sequence)
        return ProducePartition("t", partition, data)

    async def write(producer: int, count: int) -> None:
        pause_s = producers / per_s
        await asyncio.sleep(chance.uniform(0, pause_s))
        for _ in range(count):
            began_s = clock.monotonic()
            touched_partitions = range(partitions) if touched is None else chance.sample(range(partitions), touched)
            request = [batch(producer, partition) for partition in touched_partitions]
            engine = engines[chance.randrange(FUNCTIONS)]
            while any(result.error for result in await engine.produce(request)):
                await asyncio.sleep(BACKOFF_S)
            await asyncio.sleep(max(0.0, chance.uniform(0.8, 1.2) * pause_s - (clock.monotonic() - began_s)))

    async def phase(count: int) -> None:
        await asyncio.gather(*(write(1_000 + producer, count) for producer in range(producers)))

    await phase(3)  # what begins costs more
    log.forget()
    before = store.meter.snapshot()
    await phase(REQUESTS_EACH)
    usage, requests = total(store.meter.since(before)), producers * REQUESTS_EACH
    return {
        "units": {operation_kind: units / requests for operation_kind, units in log.units.items()},
        "calls": {operation_kind: calls / requests for operation_kind, calls in log.calls.items()},
        "bytes": {name: count / log.calls["append"] for name, count in log.head_bytes.items()},
        "head_units": max(log.key_units.values()) / requests,
        "write_units": usage.table_write_units / requests,
        "read_units": usage.table_read_units / requests,
    }


def print_heat(producers: int, partitions: int, per_s: float, record_bytes: int) -> None:
    """Measure the topic with heads of fewer and fewer partitions."""
    shown = Table("partitions of a request", "a head", "head units", "requests/s", "all units", title="Of one request")
    for touched in (count for count in (partitions, 8, 1) if count <= partitions):
        for per_head in (count for count in (32, 16, 8, 1) if count <= partitions):
            figures = run(measure(producers, partitions, per_s, record_bytes, per_head=per_head, touched=touched))
            head_units = figures["head_units"]
            rate = f"{TABLE_PARTITION_KEY_WRITE_UNITS_MAX / head_units:,.0f}"
            shown.add_row(str(touched), str(per_head), f"{head_units:.2f}", rate, f"{figures['write_units']:.2f}")
    Console().print(shown)


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=40)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--requests-per-s", type=float, default=40)
    parser.add_argument("--record-bytes", type=int, default=2_600, help="of a partition's batch, on average")
    parser.add_argument("--heat", action="store_true", help="heads of fewer partitions, requests to fewer")
    arguments = parser.parse_args(argv)
    if arguments.heat:
        print_heat(arguments.producers, arguments.partitions, arguments.requests_per_s, arguments.record_bytes)
        return 0
    figures = run(measure(arguments.producers, arguments.partitions, arguments.requests_per_s, arguments.record_bytes))
    units = Table("operation", "calls", "write units", title="Of one request")
    for operation_kind, count in sorted(figures["units"].items(), key=lambda item: -item[1]):
        units.add_row(operation_kind, f"{figures['calls'][operation_kind]:.2f}", f"{count:.2f}")
    units.add_row("all, as metered", "", f"{figures['write_units']:.2f}")
    units.add_row("read units", "", f"{figures['read_units']:.2f}")
    sizes = Table("attribute", "bytes", title="The head after an append")
    for name, count in sorted(figures["bytes"].items(), key=lambda item: -item[1]):
        sizes.add_row(name, f"{count:,.0f}")
    sizes.add_row("all", f"{sum(figures['bytes'].values()):,.0f}")
    console = Console()
    console.print(units)
    console.print(sizes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
