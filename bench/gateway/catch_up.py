"""How fast does a consumer catch up through a gateway, with and without reading ahead, and what does that ask of S3?

The real engine over memory stores that take their time, in virtual time: a GET takes a log-normal first byte (p50 30,
p99 100 ms) and then `--stream-mb-s` for its bytes, a read of a table 5 ms. The client asks for what comes next when it
has worked through an answer, at `--client-mb-s`. Computing takes no time, so a real gateway is bound by its processor
as well (bench.kafka_port). A log of 1 KiB records is read from its start, once as uploads and once as merged segments.

    python -m bench.gateway.catch_up [--quick] [--mib 128] [--fetch-bytes 1048576]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.cost.metering import UsageMeter, total
from odradek.engine.engine import Engine
from odradek.format.record_batch import RecordBatchBuilder, iter_headers
from odradek.model.log import FetchPartition, ProducePartition
from odradek.settings import SERVER_MEMORY, Settings
from odradek.testing.latency import Latency, SlowTables
from odradek.testing.seeded_rng import SeededRng
from rich.console import Console
from rich.table import Table

from tests.simulation.loop import run
from tests.support.loop_clock import LoopClock

RESULTS = Path(__file__).parents[1] / "results" / "catch_up.json"
RECORD_BYTES, UPLOAD_RECORDS = 1024, 1000
READ_AHEAD = {"none": 0, "ahead": SERVER_MEMORY["read_ahead_bytes"]}
MERGING = {"merge_delay_ms": 0, "merge_rows_min": 1, "merge_age_ms": 0, "paged_appends": 8, "spill_entries": 1}


@dataclass(frozen=True, slots=True)
class Pace:
    """Of the stores and the client."""

    get: Latency
    table: Latency
    stream_bytes_s: float
    client_bytes_s: float
    fetch_bytes: int


@dataclass(frozen=True, slots=True)
class Measured:
    partitions: int
    stored: str
    read_ahead: str
    mb_s: float
    fetches: int
    gets: float


class _Slow:
    """An object store whose ranges take a first byte, and then as long as their size."""

    def __init__(self, objects: Any, pace: Pace, clock: LoopClock) -> None:
        self._objects, self._pace, self._clock, self._rng = objects, pace, clock, SeededRng(2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        await self._clock.sleep(self._pace.get.draw_s(self._rng) + length / self._pace.stream_bytes_s)
        data: bytes = await self._objects.get_range(key, start, length)
        return data


async def measure(mib: int, partitions: int, stored: str, read_ahead: str, pace: Pace) -> Measured:
    """Read a log to its end."""
    clock, meter = LoopClock(), UsageMeter()
    tables, objects = MemoryStore(meter), MemoryObjectStore(clock, meter)

    def engine(tables: Any, objects: Any, **settings: Any) -> Engine:
        return Engine(tables=tables, objects=objects, clock=clock, rng=SeededRng(1), settings=Settings(**settings))

    writer = engine(tables, objects, **MERGING)
    await writer.topics.create("t", partitions, {"retention.ms": "-1"})
    values = [os.urandom(RECORD_BYTES)] * (UPLOAD_RECORDS // partitions)
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(clock.now_ms(), None, value)
    batch = builder.build()
    for _ in range(mib * 1024 * 1024 // RECORD_BYTES // UPLOAD_RECORDS):
        await writer.produce([ProducePartition("t", partition, batch) for partition in range(partitions)])
    if stored == "segments":
        for _ in range(8):
            await clock.sleep(3600)
            await writer.maintenance.run()
    server = engine(
        SlowTables(tables, pace.table, clock, SeededRng(3)),
        _Slow(objects, pace, clock),
        read_ahead_bytes=READ_AHEAD[read_ahead],
    )
    before, began_s = total(meter.by_operation()).object_get_requests, clock.monotonic()
    at = [0] * partitions
    fetches, read_bytes, is_done = 0, 0, False
    while not is_done:
        wanted = [
            FetchPartition("t", partition, at[partition], max_bytes=pace.fetch_bytes) for partition in range(partitions)
        ]
        results = await server.fetch(wanted, max_bytes=50 * 1024 * 1024)
        fetches += 1
        size = 0
        for partition, result in enumerate(results):
            if result.error:
                raise SystemExit(f"{result.error.name}: {result.message}")
            data = b"".join(result.records)
            size += len(data)
            for _, header in iter_headers(memoryview(data)):
                at[partition] = header.base_offset + header.last_offset_delta + 1
        read_bytes += size
        is_done = all(at[partition] == result.high_watermark for partition, result in enumerate(results))
        await clock.sleep(size / pace.client_bytes_s)
    took_s = clock.monotonic() - began_s
    gets = total(meter.by_operation()).object_get_requests - before
    return Measured(partitions, stored, read_ahead, read_bytes / took_s / 1e6, fetches, gets)


def show(results: Sequence[Measured], mib: int) -> None:
    table = Table(title=f"a consumer that reads {mib} MiB from the start", box=None)
    for name in ("partitions", "stored as", "read ahead", "MB/s", "fetches", "GETs"):
        table.add_column(name, justify="left" if name in ("stored as", "read ahead") else "right")
    for result in results:
        cells = (
            result.partitions,
            result.stored,
            result.read_ahead,
            f"{result.mb_s:,.0f}",
            result.fetches,
            f"{result.gets:,.0f}",
        )
        table.add_row(*map(str, cells))
    Console().print(table)


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 MiB")
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--fetch-bytes", type=int, default=1024 * 1024, help="of a partition, as Kafka's default")
    parser.add_argument("--get-p50-ms", type=float, default=30)
    parser.add_argument("--get-p99-ms", type=float, default=100)
    parser.add_argument("--table-ms", type=float, default=5)
    parser.add_argument("--stream-mb-s", type=float, default=90, help="of one GET, after its first byte")
    parser.add_argument("--client-mb-s", type=float, default=400)
    wanted = parser.parse_args(argv)
    mib = 16 if wanted.quick else wanted.mib
    pace = Pace(
        Latency(wanted.get_p50_ms, wanted.get_p99_ms),
        Latency(wanted.table_ms, 3 * wanted.table_ms),
        wanted.stream_mb_s * 1e6,
        wanted.client_mb_s * 1e6,
        wanted.fetch_bytes,
    )
    results = []
    for partitions in (1, 24):
        for stored in ("uploads", "segments"):
            for read_ahead in READ_AHEAD:
                one: Any = measure(mib, partitions, stored, read_ahead, pace)
                results.append(run(one))
    show(results, mib)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
