"""How fast, and for how much, through the functions? Produce and consume on the embedded store, one process each side.

The service runs as `odradek local` does: SQLite and files with fsync, functions behind the local function-URL server
with SigV4, base64 and AWS's payload limits. The dollars are what the same calls would have cost on AWS by its meter.

    python -m bench.throughput [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import odradek
from odradek.cost.prices import US_EAST_1, cost
from odradek.local import load_credentials
from odradek.ports.meter import Usage
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results" / "throughput.json"
WARM_UP_RECORDS = (
    300_000  # a consumer that reads so many has loaded its compiled loops; before, it is a quarter as fast
)
PARTITIONS = 4


class Service:
    """The embedded service in a process of its own."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        credentials = load_credentials(folder)
        self._usage = folder / "usage.json"
        self.client_config: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_region": credentials.region,
        }

    def usage(self) -> Usage:
        """Return the requests billed so far; the service writes them once a second."""
        time.sleep(2.5)
        return Usage(**json.loads(self._usage.read_text())["usage"])


@contextmanager
def started() -> Iterator[Service]:
    """A service on a new folder, stopped at the end."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "odradek.local", "--data-dir", name, "--usage-file", f"{name}/usage.json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield Service(Path(name), json.loads(process.stdout.readline())["bootstrap_servers"])
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def measure(service: Service, topic: str, count: int, size: int) -> dict[str, Any]:
    """Produce and consume `count` records of `size` bytes: rates as the client sees them, costs of the service."""
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic(topic, num_partitions=PARTITIONS)])
    values = [os.urandom(size) for _ in range(64)]
    before = service.usage()
    started_s = time.perf_counter()
    with odradek.Producer(**service.client_config, linger_ms=50) as producer:
        for number in range(count):
            producer.send(topic, values[number & 63], key=b"%d" % (number & 1023))
    produce_s = time.perf_counter() - started_s
    produced = service.usage()
    started_s = time.perf_counter()
    received = 0
    with odradek.Consumer(**service.client_config, auto_offset_reset="earliest") as consumer:
        consumer.assign([odradek.TopicPartition(topic, number) for number in range(PARTITIONS)])
        while received < count:
            received += sum(len(records) for records in consumer.poll(1000, max_records=100_000).values())
    consume_s = time.perf_counter() - started_s
    consumed = service.usage()
    return {
        "value_bytes": size,
        "records": count,
        "produce": _side(count, size, produce_s, produced - before),
        "consume": _side(count, size, consume_s, consumed - produced),
    }


def _side(count: int, size: int, seconds: float, usage: Usage) -> dict[str, float]:
    gib = count * size / 2**30
    return {
        "records_per_s": count / seconds,
        "mb_per_s": count * size / seconds / 1e6,
        "function_requests_per_gib": usage.function_requests / gib,
        "object_requests_per_gib": (usage.object_put_requests + usage.object_get_requests) / gib,
        "table_units_per_gib": (usage.table_write_units + usage.table_read_units) / gib,
        "dollars_per_gib": cost(usage, US_EAST_1).total / gib,
    }


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    arguments = parser.parse_args(argv)
    scale = 10 if arguments.quick else 1
    results = []
    with started() as service:
        measure(service, "warm-up", WARM_UP_RECORDS, 100)
        for size, count in ((100, 1_000_000), (1024, 300_000)):
            results.append(measure(service, f"bytes-{size}", count // scale, size))
    table = Table(title="Through the functions, embedded store, one client")
    for column in (
        "side",
        "value",
        "records/s",
        "MB/s",
        "calls/GiB",
        "object requests/GiB",
        "table units/GiB",
        "$/GiB on AWS",
    ):
        table.add_column(column, justify="right")
    for result in results:
        for side in ("produce", "consume"):
            row = result[side]
            table.add_row(
                side,
                f"{result['value_bytes']} B",
                f"{row['records_per_s']:,.0f}",
                f"{row['mb_per_s']:.1f}",
                f"{row['function_requests_per_gib']:,.0f}",
                f"{row['object_requests_per_gib']:,.0f}",
                f"{row['table_units_per_gib']:,.0f}",
                f"{row['dollars_per_gib']:.4f}",
            )
    Console(width=120).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
