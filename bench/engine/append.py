"""How long does an append take, what does it ask of the stores, and where does an object beat an item?

The real engine over memory stores that take their time: latencies are log-normal draws around the medians and 99th
percentiles given as arguments, seeded. Time is virtual (the loop's clock jumps to the next timer), so the figures
are those of the protocol and the stores alone: computing, the function's start and the client's network come on top.

    latency   writers to one partition, each with an engine of its own, one request after the other; `hedged` are
              objects of which the slowest 5 of 100 are sent once more
    tail      of one writer's objects where a few uploads take much longer, hedged and not, and on S3 Express One Zone
    requests  of the stores for one append, spills and their reads included
    dollars   a million appends by size, from the memory stores' meter and odradek.cost.prices:
                append    the upload and the update
                waiting   the function's memory while it waits for them
                after     what the upload costs later: read once by the merge, found and deleted by the sweep

    python -m bench.engine.append [--quick] [--put-p50-ms 60 --put-p99-ms 200 --table-p50-ms 5 --table-p99-ms 16]
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.cost.metering import UsageMeter, total
from odradek.cost.prices import US_EAST_1, cost
from odradek.engine.engine import Engine
from odradek.engine.maintenance.wal_uploads import HOUR_MS, WalUploads
from odradek.format.object_keys import wal_key
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.ports.clock import Clock
from odradek.ports.meter import Usage
from odradek.protocol.api import FunctionName
from odradek.settings import Settings
from odradek.testing.latency import Latency, Outliers, Slow, SlowTables
from odradek.testing.seeded_rng import SeededRng
from rich.console import Console
from rich.table import Table

from infra.stages import FUNCTION_SIZES
from tests.simulation.loop import run
from tests.support.loop_clock import START_MS, LoopClock

RESULTS = Path(__file__).parents[1] / "results" / "append.json"
WRITERS = (1, 4, 16)
SIZES = (100, 1_024, 2_048, 4_096, 6_144, 8_192, 16_384, 65_536, 262_144, 1_048_576)
ITEM_BYTES_MAX = 380 * 1024  # of a request that still fits an item
PATHS = {"item": ITEM_BYTES_MAX, "object": 0}  # settings.item_bytes_max that forces the path
HEDGED = "hedged"  # objects, the slowest HEDGE_PERCENT of them sent once more (settings.upload_hedge_percent)
HEDGE_PERCENT = 5
SEARCH_STEP_BYTES = 128  # of the line between item and object
LISTING = "ListObjectsV2"
UPDATES_PER_S_MAX = 1_000  # DynamoDB's write units a second of one partition key
END_OF_IDS = (START_MS + 24 * HOUR_MS).to_bytes(6, "big") + bytes(10)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of the injected stores."""

    table: Latency
    put: Latency
    late_every: int = 0  # one upload of so many is late; 0: none
    late_ms: float = 0.0  # by how much


class Store:
    """Metered memory stores, slow for engines and instant for what is not measured."""

    def __init__(self, clock: Clock, latencies: Latencies, seed: int) -> None:
        self.meter = UsageMeter()
        self.tables = MemoryStore(self.meter)
        self.objects = MemoryObjectStore(clock, self.meter)
        self._clock = clock
        self.rng = SeededRng(seed)
        self.slow_tables = SlowTables(self.tables, latencies.table, clock, self.rng)
        outliers = Outliers(latencies.late_every, latencies.late_ms) if latencies.late_every else None
        self.slow_objects: Any = Slow(self.objects, latencies.put, clock, self.rng, outliers)

    def engine(self, path: str) -> Engine:
        # A warm function: what it caches does not grow old within a run.
        settings = Settings(
            item_bytes_max=PATHS.get(path, 0),
            upload_hedge_percent=HEDGE_PERCENT if path == HEDGED else 0,
            catalog_cache_ms=HOUR_MS,
            leader_cache_ms=HOUR_MS,
        )
        return Engine(
            tables=self.slow_tables, objects=self.slow_objects, clock=self._clock, rng=self.rng, settings=settings
        )


def batch(size: int, producer_id: int = -1, sequence: int = -1) -> bytes:
    """A batch of one record that makes a request of about `size` bytes."""
    builder = RecordBatchBuilder()
    builder.append(START_MS, None, bytes(max(0, size - 75)))
    epoch = -1 if producer_id < 0 else 0
    return builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def append(engine: Engine, records: bytes) -> None:
    [result] = await engine.produce([ProducePartition("t", 0, records)])
    assert not result.error, (result.error.name, result.message)


# --- latency and requests -----------------------------------------------------------------------------------------


async def measure(path: str, writers: int, idempotent: bool, appends: int, latencies: Latencies) -> dict[str, Any]:
    """Closed-loop writers to one partition: latencies as a function sees them, requests and units an append."""
    clock = LoopClock()
    store = Store(clock, latencies, seed=writers)
    engines = [store.engine(path) for _ in range(writers)]
    await engines[0].topics.create("t", 1)
    for engine in engines:
        await engine.topics.resolve("t")
    took: list[float] = []

    async def write(writer: int) -> None:
        for sequence in range(appends // writers):
            records = batch(1_000, writer, sequence) if idempotent else batch(1_000)
            began = clock.monotonic()
            await append(engines[writer], records)
            took.append(clock.monotonic() - began)

    calls, before, began = store.meter.calls(), store.meter.snapshot(), clock.monotonic()
    await asyncio.gather(*(write(writer) for writer in range(writers)))
    elapsed, usage = clock.monotonic() - began, total(store.meter.since(before))
    took.sort()
    made = {name: count - calls.get(name, 0) for name, count in store.meter.calls().items()}
    return {
        "path": path,
        "producer": "idempotent" if idempotent else "plain",
        "writers": writers,
        **{f"p{q}_ms": took[min(len(took) - 1, len(took) * q // 100)] * 1000 for q in (50, 90, 99)},
        "mean_ms": sum(took) / len(took) * 1000,
        "appends_per_s": len(took) / elapsed,
        "requests_per_append": {name: count / len(took) for name, count in sorted(made.items()) if count},
        "write_units_per_append": usage.table_write_units / len(took),
        "head_updates_per_s": made["UpdateItem"] / elapsed,
    }


# --- dollars ------------------------------------------------------------------------------------------------------


async def costs(path: str, size: int, appends: int, mean_ms: float, latencies: Latencies) -> dict[str, float]:
    """Dollars of a million appends of one size, by part."""
    store = Store(LoopClock(), latencies, seed=1)
    engine = store.engine(path)
    await engine.topics.create("t", 1)
    uploads = WalUploads(store.tables.log, store.objects, LoopClock(), SeededRng(2))
    hours = [START_MS // HOUR_MS, START_MS // HOUR_MS + 1]
    start = store.meter.snapshot()
    assert [upload async for upload in uploads.below(END_OF_IDS, hours)] == []
    # What an empty hour costs, once.
    looking = total({name: usage for name, usage in store.meter.since(start).items() if name != LISTING})
    await engine.topics.resolve("t")
    start = store.meter.snapshot()
    for _ in range(appends):
        await append(engine, batch(size))
    appended = total(store.meter.since(start))
    start = store.meter.snapshot()
    uploads_left = [upload async for upload in uploads.below(END_OF_IDS, hours)]
    assert len(uploads_left) == appends
    assert {upload.is_item for upload in uploads_left} == {path == "item"}
    for upload in uploads_left:
        if upload.is_item:
            await engine.wal.read_item(upload.object_id)
        else:
            await store.objects.get_range(wal_key(upload.object_id), 0, upload.size_bytes)
    await uploads.delete(uploads_left)
    # A page of a listing holds a thousand objects: its share of one is a tenth of a cent a million appends.
    after = total({name: usage for name, usage in store.meter.since(start).items() if name != LISTING}) - looking
    memory_gb = FUNCTION_SIZES[FunctionName.PRODUCE.value].memory_mb / 1024
    waiting = Usage(function_gb_seconds=mean_ms / 1000 * memory_gb)
    parts = {
        "append": cost(appended).total / appends,
        "waiting": cost(waiting).total,
        "after": cost(after).total / appends,
    }
    return {name: dollars * 1e6 for name, dollars in parts.items()} | {"total": sum(parts.values()) * 1e6}


async def crossover(parts: Sequence[str], means_ms: dict[str, float], latencies: Latencies) -> int:
    """The largest size, in steps, at which the item costs no more than the object, counting these parts."""
    low, high = 0, ITEM_BYTES_MAX // SEARCH_STEP_BYTES
    dollars: dict[str, float] = {}
    while high - low > 1:
        middle = (low + high) // 2
        for path in PATHS:
            component_costs = await costs(path, middle * SEARCH_STEP_BYTES, 8, means_ms[path], latencies)
            dollars[path] = sum(component_costs[part] for part in parts)
        low, high = (middle, high) if dollars["item"] <= dollars["object"] else (low, middle)
    return low * SEARCH_STEP_BYTES


# --- report -------------------------------------------------------------------------------------------------------


def latency_table(results: Sequence[dict[str, Any]], title: str) -> Table:
    operations = sorted({name for row in results for name in row["requests_per_append"]})
    table = Table(title=f"{title}, virtual time; store requests of one append")
    for column in ("path", "producer", "writers", "p50 ms", "p90 ms", "p99 ms", "calls/s", *operations):
        table.add_column(column, justify="left" if column in ("path", "producer") else "right", no_wrap=True)
    for row in results:
        table.add_row(
            row["path"],
            row["producer"],
            str(row["writers"]),
            *(f"{row[f'p{q}_ms']:.0f}" for q in (50, 90, 99)),
            f"{row['appends_per_s']:,.0f}",
            *(f"{row['requests_per_append'].get(name, 0):.2f}" for name in operations),
        )
    return table


def cost_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=f"Dollars of a million appends by size of the request ({US_EAST_1.region}, {US_EAST_1.date})")
    for column in ("bytes", "path", "append", "waiting", "after", "total"):
        table.add_column(column, justify="left" if column == "path" else "right")
    for row in rows:
        for path in PATHS:
            if path in row:
                table.add_row(f"{row['bytes']:,}", path, *(f"{dollars:.2f}" for dollars in row[path].values()))
    return table


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the appends")
    parser.add_argument("--put-p50-ms", type=float, default=60)
    parser.add_argument("--put-p99-ms", type=float, default=200)
    parser.add_argument("--express-p50-ms", type=float, default=7)
    parser.add_argument("--express-p99-ms", type=float, default=25)
    parser.add_argument(
        "--late-every", type=int, default=100, help="uploads of which one is late, in the table of tails"
    )
    parser.add_argument("--late-ms", type=float, default=900)
    parser.add_argument("--table-p50-ms", type=float, default=5)
    parser.add_argument("--table-p99-ms", type=float, default=16)
    arguments = parser.parse_args(argv)
    latencies = Latencies(
        Latency(arguments.table_p50_ms, arguments.table_p99_ms),
        Latency(arguments.put_p50_ms, arguments.put_p99_ms),
        arguments.late_every,
        arguments.late_ms,
    )
    even = replace(latencies, late_every=0)
    express = replace(latencies, put=Latency(arguments.express_p50_ms, arguments.express_p99_ms))
    appends = 200 if arguments.quick else 800
    results = [
        run(measure(path, writers, idempotent, appends, even))
        for path in PATHS
        for idempotent in (False, True)
        for writers in WRITERS
    ]
    tails = [
        run(measure(path, 1, False, 2 * appends, stores)) | {"path": name}
        for name, path, stores in (
            ("object", "object", latencies),
            ("hedged", HEDGED, latencies),
            ("Express", "object", express),
            ("Express hedged", HEDGED, express),
        )
    ]
    # What a lone writer meets is what a function waits for.
    means_ms = {row["path"]: row["mean_ms"] for row in results if (row["writers"], row["producer"]) == (1, "plain")}
    rows: list[dict[str, Any]] = [
        {"bytes": size}
        | {
            path: run(costs(path, size, 16, means_ms[path], even))
            for path in PATHS
            if path == "object" or size <= ITEM_BYTES_MAX
        }
        for size in SIZES
    ]
    lines = {
        "the append alone": ("append",),
        "and the function's waiting": ("append", "waiting"),
        "and what comes after": ("append", "waiting", "after"),
    }
    sizes = {name: run(crossover(parts, means_ms, even)) for name, parts in lines.items()}
    console = Console(width=max(Console().width, 110))
    console.print(latency_table(results, "Appends of 1 KB to one partition"))
    console.print(latency_table(tails, f"One upload of {latencies.late_every} takes {latencies.late_ms:.0f} ms more"))
    fastest = max(row["head_updates_per_s"] for row in results)
    console.print(
        f"A head took at most {fastest:,.0f} updates/s here; one key of DynamoDB takes {UPDATES_PER_S_MAX:,}."
    )
    console.print(cost_table(rows))
    saved_ms = means_ms["object"] - means_ms["item"]
    console.print(f"By latency an item is better at every size that it can have: by {saved_ms:.0f} ms a call.")
    for name, size in sizes.items():
        console.print(f"By cost, {name}: an item up to {size:,} bytes, an object above.")
    console.print(f"The setting item_bytes_max is {Settings().item_bytes_max:,}.")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps(
            {
                "latencies": asdict(latencies),
                "latency": results,
                "tails": tails,
                "dollars": rows,
                "item_up_to_bytes": sizes,
            },
            indent=2,
        )
        + "\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
