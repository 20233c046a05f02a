"""Contention of many members on one window of a share group: requests, writes and waits a record.

The real engine over memory stores that take their time, in virtual time (bench/engine/contention.py): neither the
machine nor a client's code is in the figures. Members of one group take records of one partition, process each for a
while, and acknowledge them with the next poll, as stock clients do. A record that comes a second time is one whose
acknowledgement was refused, or given up.

    functions    each member's requests meet a warm function of their own: only the item knows of the others
    gateway      all members' requests meet one process, which merges what they do to a window

    calls, writes   of the groups table, a record; refused: writes that another one was first for
    p50, p99, max   of a poll that acknowledges and returns records, in ms; waits: of these in back-off, a record
    again           records that were delivered a second time
    failed          acknowledgements that were answered with an error

    python -m bench.engine.share_window [--quick] [--work-ms 5] [--table-p50-ms 7.6 --table-p99-ms 16]
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

from odradek.engine.engine import Engine
from odradek.engine.maintenance.wal_uploads import HOUR_MS
from odradek.errors import ErrorCode
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.model.share import AcknowledgeType
from odradek.settings import Settings
from odradek.testing.latency import Latency
from rich.console import Console
from rich.table import Table

from bench.engine.append import Latencies, Store
from bench.engine.contention import CountedTable, Sleeps
from tests.simulation.loop import run
from tests.support.clients.share_member import Acks, ShareMember, ack
from tests.support.loop_clock import START_MS, LoopClock

RESULTS = Path(__file__).parents[1] / "results" / "share_window.json"
MEMBERS = (1, 4, 8, 16)
PLACES = ("functions", "gateway")
POLLED = 10  # records of a poll
BATCH_RECORDS = 100
HEARTBEAT_S = 5.0
EARLY = {"share.auto.offset.reset": "earliest"}


class Figures:
    """Counts of the members' requests and waits."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.done: set[int] = set()
        self.took_s: list[float] = []
        self.deliveries: Counter[int] = Counter()  # by offset
        self.failed: Counter[str] = Counter()  # acknowledgements, by error


async def _work(member: ShareMember, clock: LoopClock, chance: random.Random, work_s: float, figures: Figures) -> None:
    """Poll, process and acknowledge until all is done."""
    pending: Acks = {}
    beaten_s = clock.monotonic()
    while len(figures.done) < figures.records:
        if clock.monotonic() - beaten_s > HEARTBEAT_S:
            await member.beat()
            beaten_s = clock.monotonic()
        if member.session_epoch == 0:
            pending = {}
        began_s = clock.monotonic()
        records = await member.fetch_records(
            acknowledgements=pending, max_records=POLLED, is_strict=True, max_wait_ms=500
        )
        if records and pending:
            figures.took_s.append(clock.monotonic() - began_s)
        for result in member.answer.results:
            if result.acknowledge_error is not ErrorCode.NONE:
                figures.failed[result.acknowledge_error.name] += 1
            elif result.partition in pending:
                figures.done |= {batch.first_offset for batch in pending[result.partition]}
        pending = {}
        for tp, record, _ in records:
            figures.deliveries[record.offset] += 1
            pending.setdefault(tp, []).append(ack(record.offset, record.offset, AcknowledgeType.ACCEPT))
        await asyncio.sleep(len(records) * work_s * chance.uniform(0.5, 1.5))


async def measure(topology: str, members: int, records: int, work_s: float, latencies: Latencies) -> dict[str, Any]:
    """Members of one group on one partition, until all of its records are done."""
    clock, chance = Sleeps(), random.Random(members)
    store = Store(LoopClock(), latencies, seed=members)
    tables: Any = store.slow_tables
    tables.groups = groups = CountedTable(tables.groups)
    settings = Settings(catalog_cache_ms=HOUR_MS, leader_cache_ms=HOUR_MS)

    def engine() -> Engine:
        return Engine(tables=tables, objects=store.slow_objects, clock=clock, rng=store.rng, settings=settings)

    shared = engine()
    await shared.topics.create("t", 1)
    await shared.group_configs.alter("q", set=EARLY)
    for _ in range(records // BATCH_RECORDS):
        builder = RecordBatchBuilder()
        for _ in range(BATCH_RECORDS):
            builder.append(START_MS, None, bytes(100))
        [result] = await shared.produce([ProducePartition("t", 0, builder.build())])
        assert not result.error
    crew = [
        ShareMember(engine() if topology == "functions" else shared, f"member {n}", "t", group_id="q")
        for n in range(members)
    ]
    for member in crew:
        assert (await member.beat()).error is ErrorCode.NONE
        await member.fetch(max_records=0)  # opens the session
    groups.calls.clear()
    clock.total_s = 0.0
    figures, began_s = Figures(records), clock.monotonic()
    await asyncio.gather(*(_work(member, clock, chance, work_s, figures) for member in crew))
    elapsed_s = clock.monotonic() - began_s
    took = sorted(figures.took_s) or [0.0]
    count = sum(figures.deliveries.values())
    return {
        "place": topology,
        "members": members,
        "records": len(figures.deliveries),
        "records_per_s": count / elapsed_s,
        **{f"p{q}_ms": took[min(len(took) - 1, len(took) * q // 100)] * 1000 for q in (50, 99, 100)},
        "calls": sum(n for operation_kind, n in groups.calls.items() if not operation_kind.endswith("refused")) / count,
        "writes": groups.calls["put"] / count,
        "refused": groups.calls["put, refused"] / count,
        "waits_ms": clock.total_s / count * 1000,
        "again": sum(n - 1 for n in figures.deliveries.values()),
        "failed": dict(figures.failed),
    }


def table(results: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="Members of a share group on one partition, virtual time; counts are of one record")
    for column in ("place", "members", "records/s", "p50 ms", "p99 ms", "max ms", "calls", "writes", "refused"):
        table.add_column(column, justify="left" if column == "place" else "right")
    for column in ("waits ms", "again", "failed"):
        table.add_column(column, justify="right")
    for row in results:
        table.add_row(
            row["place"],
            str(row["members"]),
            f"{row['records_per_s']:,.0f}",
            *(f"{row[f'p{q}_ms']:,.0f}" for q in (50, 99, 100)),
            *(f"{row[column]:.2f}" for column in ("calls", "writes", "refused")),
            f"{row['waits_ms']:.1f}",
            str(row["again"]),
            str(sum(row["failed"].values())),
        )
    return table


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--work-ms", type=float, default=5, help="that a member takes for a record, on average")
    parser.add_argument("--put-p50-ms", type=float, default=30)
    parser.add_argument("--put-p99-ms", type=float, default=100)
    parser.add_argument("--table-p50-ms", type=float, default=7.6)
    parser.add_argument("--table-p99-ms", type=float, default=16)
    arguments = parser.parse_args(argv)
    latencies = Latencies(
        Latency(arguments.table_p50_ms, arguments.table_p99_ms), Latency(arguments.put_p50_ms, arguments.put_p99_ms)
    )
    records = 2_000 if arguments.quick else 8_000
    results = [
        run(measure(topology, members, records, arguments.work_ms / 1000, latencies))
        for topology in PLACES
        for members in MEMBERS
    ]
    Console(width=max(Console().width, 120)).print(table(results))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"latencies": asdict(latencies), "results": results}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
