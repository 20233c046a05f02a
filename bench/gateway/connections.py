"""Memory and CPU of a gateway for each of thousands of connections, and the latency of one more client.

The gateway (a process: SQLite and files with fsync) gets the connections from another process, which asks each for
metadata first, as clients do. Then each does what its kind does; beside them one client makes one request after the
other, a produce request of one small record and a fetch of it.

    idle        nothing: a client between two refreshes of its metadata
    heartbeats  a heartbeat of a group that does not exist, every 3 s (Kafka's default interval): one read each
    waiting     fetches an empty partition, and waits for records up to 5 s in each request, as idle consumers do
    producing   a produce request with one record of 100 bytes every 10 s

    python -m bench.gateway.connections [--quick] [--keep] [--count N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import odradek
from odradek.format.record_batch import RecordBatchBuilder
from odradek.protocol.api import ApiKey
from odradek.settings import Settings
from rich.console import Console
from rich.table import Table

from bench.gateway.abuse import framed, latencies_ms, peers_possible, process_of

RESULTS = Path(__file__).parents[1] / "results" / "connections.json"
KEPT = Path(__file__).parents[1] / "kept" / "connections.json"  # committed: docs/CLIENTS.md has its figures
COUNT, QUICK_COUNT = 10_000, 300
SECONDS, QUICK_SECONDS = 20.0, 2.0
PARTITIONS = 24
MODULE = "bench.gateway.connections"
KINDS = ("idle", "heartbeats", "waiting", "producing")
_PAUSE_S = {"idle": 3600.0, "heartbeats": 3.0, "waiting": 0.0, "producing": 10.0}
_WAIT_MS = 5_000
_OPENED_AT_ONCE = 200
_TICKS_A_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Carried:
    """The figures of one gateway with a number of connections of a kind."""

    kind: str
    connections: int
    opened_s: float
    kb_each: float  # resident memory of the service, more than without them
    requests_per_s: float  # of all of them
    cpu: float  # of the service, cores
    p50_ms: float  # of the client beside them
    p99_ms: float
    closed: int  # connections that the gateway closed: none should be


# --- the processes ----------------------------------------------------------------------------------------------------


def serve(count: int) -> None:
    """Run the service until the standard input ends; print its address and process."""
    settings = Settings(gateway_connections_max=count + 100, gateway_connections_per_address_max=count + 100)
    with (
        tempfile.TemporaryDirectory() as folder,
        odradek.local(folder, kafka_port=0, settings=settings) as service,
    ):
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", PARTITIONS), odradek.NewTopic("empty", PARTITIONS)])
        print(service.kafka_bootstrap_servers, os.getpid(), flush=True)
        sys.stdin.read()


class Client(asyncio.Protocol):
    """One connection: a request, its answer, a pause, again."""

    answers = closed = 0

    def __init__(self, request: bytes, pause_s: float) -> None:
        self._request, self._pause_s = request, pause_s
        self._left = self._length = 0
        self.is_open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(METADATA)

    def data_received(self, data: bytes) -> None:
        if self._left == 0:
            self._left = int.from_bytes(data[:4], "big") + 4
        self._left -= len(data)
        if self._left > 0:
            return
        if not self.is_open.done():
            self.is_open.set_result(None)
            asyncio.get_running_loop().call_later(random.uniform(0, self._pause_s or 5.0), self._ask)
            return
        Client.answers += 1
        if self._pause_s:
            asyncio.get_running_loop().call_later(self._pause_s, self._ask)
        else:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        Client.closed += 1

    def _ask(self) -> None:
        self._transport.write(self._request)


METADATA = framed(ApiKey.METADATA, 9, {"topics": [{"name": "t"}]})


def request_of(activity: str, number: int) -> bytes:
    """Return the request that a connection sends."""
    partition = number % PARTITIONS
    if activity == "heartbeats":
        fields: dict[str, Any] = {"group_id": f"g{number % 100}", "generation_id": 1, "member_id": f"m{number}"}
        return framed(ApiKey.HEARTBEAT, 4, fields)
    if activity == "waiting":
        partition_request = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        fields = {"replica_id": -1, "max_wait": _WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 20}
        return framed(ApiKey.FETCH, 4, {**fields, "topics": [{"topic": "empty", "partitions": [partition_request]}]})
    builder = RecordBatchBuilder()
    builder.append(int(time.time() * 1000), b"key", b"v" * 100)
    data = [{"index": partition, "records": builder.build()}]
    return framed(
        ApiKey.PRODUCE, 9, {"acks": -1, "timeout": 30_000, "topic_data": [{"name": "t", "partition_data": data}]}
    )


async def connect(servers: str, activity: str, count: int) -> None:
    """Open the connections, then print what they did for each line of the standard input."""
    loop = asyncio.get_running_loop()
    host, _, port = servers.rpartition(":")
    began_s = time.monotonic()
    for first in range(0, count, _OPENED_AT_ONCE):
        numbers = range(first, min(count, first + _OPENED_AT_ONCE))
        made = await asyncio.gather(
            *(
                loop.create_connection(
                    partial(Client, request_of(activity, number), _PAUSE_S[activity]), host, int(port)
                )
                for number in numbers
            )
        )
        await asyncio.gather(*(client.is_open for _, client in made))
    print(time.monotonic() - began_s, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(Client.answers, Client.closed, flush=True)


# --- the measurement --------------------------------------------------------------------------------------------------


def resident_kb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def cpu_s(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_S


def carried(activity: str, count: int, seconds: float) -> Carried:
    """Measure one kind."""
    with process_of(MODULE, "--serve", str(count)) as (_, line):
        servers, pid_text = line.split()
        pid = int(pid_text)
        latencies_ms(servers, seconds / 4)  # what is imported and connected first
        before_kb = resident_kb(pid)
        with process_of(MODULE, "--connect", servers, activity, str(count)) as (clients, opened_s):
            assert clients.stdin is not None
            assert clients.stdout is not None

            def told() -> tuple[int, int]:
                print(file=clients.stdin, flush=True)
                answers, closed = clients.stdout.readline().split()  # type: ignore[union-attr]
                return int(answers), int(closed)

            time.sleep(seconds / 2)  # until all have asked once
            began_s, began_cpu_s, began = time.monotonic(), cpu_s(pid), told()
            time.sleep(seconds)
            ended, passed_s, used_s = told(), time.monotonic() - began_s, cpu_s(pid) - began_cpu_s
            percentiles = statistics.quantiles(latencies_ms(servers, seconds), n=100)
            return Carried(
                activity,
                count,
                float(opened_s),
                (resident_kb(pid) - before_kb) / count,
                (ended[0] - began[0]) / passed_s,
                used_s / passed_s,
                percentiles[49],
                percentiles[98],
                told()[1],
            )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    parser.add_argument("--count", type=int, help="connections; 10,000")
    parser.add_argument("--serve", type=int, metavar="COUNT", help=argparse.SUPPRESS)
    parser.add_argument("--connect", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.serve is not None:
        peers_possible(arguments.serve)
        serve(arguments.serve)
        return 0
    if arguments.connect is not None:
        servers, activity, wanted = arguments.connect
        asyncio.run(connect(servers, activity, peers_possible(int(wanted))))
        return 0
    count = peers_possible(arguments.count or (QUICK_COUNT if arguments.quick else COUNT))
    seconds = QUICK_SECONDS if arguments.quick else SECONDS
    results = [carried(activity, count, seconds) for activity in KINDS]
    table = Table(title="connections of one gateway")
    for heading in ("kind", "connections", "opened in s", "kB each", "requests/s", "cores", "p50 ms", "p99 ms", "lost"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for result in results:
        table.add_row(
            result.kind,
            f"{result.connections:,}",
            f"{result.opened_s:.1f}",
            f"{result.kb_each:.1f}",
            f"{result.requests_per_s:,.0f}",
            f"{result.cpu:.2f}",
            f"{result.p50_ms:.1f}",
            f"{result.p99_ms:.1f}",
            str(result.closed),
        )
    Console(width=120).print(table)
    for path in (RESULTS, KEPT) if arguments.keep else (RESULTS,):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
