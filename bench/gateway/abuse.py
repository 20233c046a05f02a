"""The latency of a healthy client's requests, alone and beside two thousand bad peers of each kind.

The service, the bad peers and the healthy client are three processes. The healthy client makes one request after the
other over one connection: a produce request of one small record, and a fetch of it. Peers whose connection is closed
connect again. Limits are the defaults, but those of connections, since all peers of one machine are one address.

    idle             connect and send nothing
    half-open        announce a request of 1 MB and send 700 bytes of it
    trickling        announce a request of 1 MB and send a byte twice a second
    never-reading    ask twenty times for 1 MB, and read nothing

    python -m bench.gateway.abuse [--quick]
"""

from __future__ import annotations

import argparse
import json
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import odradek
from odradek.dispatcher.answer import build
from odradek.format.record_batch import RecordBatchBuilder
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import encode_request, request_schema
from odradek.settings import Settings
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[1] / "results" / "abuse.json"
KEPT = Path(__file__).parents[1] / "kept" / "abuse.json"  # committed: docs/SECURITY.md has its figures
PEERS, QUICK_PEERS = 2_000, 200
SECONDS, QUICK_SECONDS = 15.0, 2.0
TRICKLE_S = 0.5
READY = "ready"
_SPARE_FILES = 200


def framed(api_key: ApiKey, version: int, fields: dict[str, Any]) -> bytes:
    """A request as it goes over a connection."""
    frame = encode_request(build(request_schema(api_key, version), fields), correlation_id=1, client_id="bench")
    return len(frame).to_bytes(4, "big") + frame


def _fetch(topic: str, offset: int, size: int) -> bytes:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": size}
    fields = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": size}
    return framed(ApiKey.FETCH, 4, {**fields, "topics": [{"topic": topic, "partitions": [partition]}]})


def _produce() -> bytes:
    builder = RecordBatchBuilder()
    builder.append(int(time.time() * 1000), b"key", b"v" * 100)
    data = [{"index": 0, "records": builder.build()}]
    return framed(
        ApiKey.PRODUCE, 9, {"acks": -1, "timeout": 30_000, "topic_data": [{"name": "t", "partition_data": data}]}
    )


_ANNOUNCED = (1_000_000).to_bytes(4, "big")
KINDS: dict[str, Callable[[], bytes]] = {
    "idle": lambda: b"",
    "half-open": lambda: _ANNOUNCED + b"x" * 700,
    "trickling": lambda: _ANNOUNCED,
    "never-reading": lambda: _fetch("full", 0, 1_000_000) * 20,
}
MIXED = "all kinds"


@dataclass
class Felt:
    """The latency of the healthy client beside some peers, milliseconds: just after they came, and later."""

    beside: str
    peers: int
    first_requests: int
    first_p50_ms: float
    first_slowest_ms: float
    requests: int
    p50_ms: float
    p99_ms: float
    slowest_ms: float
    reconnected: int  # connections of peers that the service closed


# --- the processes --------------------------------------------------------------------------------------------------


def serve(peers: int) -> None:
    """Run the service until the standard input ends."""
    settings = Settings(gateway_connections_max=peers + 100, gateway_connections_per_address_max=peers + 100)
    with (
        tempfile.TemporaryDirectory() as folder,
        odradek.local(folder, kafka_port=0, settings=settings, synchronous="NORMAL") as service,
    ):
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1), odradek.NewTopic("full", 1)])
        with odradek.Producer(**service.client_config) as producer:
            for _ in range(4):
                producer.send("full", b"y" * 500_000)
        print(service.kafka_bootstrap_servers, flush=True)
        sys.stdin.read()


class _Peers:
    """Bad peers on one selector."""

    def __init__(self, servers: str, kinds: list[str], count: int) -> None:
        host, _, port = servers.rpartition(":")
        self._place = host, int(port)
        self._selector = selectors.DefaultSelector()
        self._first: dict[str, bytes] = {abuse_kind: KINDS[abuse_kind]() for abuse_kind in kinds}
        self.reconnected = 0
        for number in range(count):
            self._connect(kinds[number % len(kinds)])

    def _connect(self, abuse_kind: str) -> None:
        peer = socket.socket()
        peer.settimeout(30)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        peer.connect(self._place)
        with suppress(OSError):
            peer.sendall(self._first[abuse_kind])
        peer.setblocking(False)
        self._selector.register(peer, selectors.EVENT_READ, abuse_kind)

    def run_for(self, seconds: float) -> None:
        """Close and open what has ended, and trickle."""
        until_s = time.monotonic() + seconds
        for key, _ in self._selector.select(timeout=0):
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            if self._has_ended(peer, key.data):
                self._selector.unregister(peer)
                peer.close()
                self.reconnected += 1
                self._connect(key.data)
        for key in list(self._selector.get_map().values()):
            if key.data == "trickling":
                with suppress(OSError):
                    key.fileobj.send(b"x")  # type: ignore[union-attr]
        time.sleep(max(0.0, until_s - time.monotonic()))

    @staticmethod
    def _has_ended(peer: socket.socket, abuse_kind: str) -> bool:
        if abuse_kind == "never-reading":  # nothing is read, so only an error shows that the connection is reset
            return peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
        try:
            return peer.recv(1 << 16) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def abuse(servers: str, abuse_kind: str, count: int) -> None:
    """Keep so many bad peers until the standard input ends; print how many connections were closed meanwhile."""
    peers = _Peers(servers, list(KINDS) if abuse_kind == MIXED else [abuse_kind], count)
    print(READY, flush=True)
    ended = selectors.DefaultSelector()
    ended.register(sys.stdin, selectors.EVENT_READ)
    while not ended.select(timeout=0):
        peers.run_for(TRICKLE_S)
    print(peers.reconnected, flush=True)


# --- the healthy client ---------------------------------------------------------------------------------------------


def latencies_ms(servers: str, seconds: float) -> list[float]:
    """Each request's time from the first byte to the whole answer."""
    host, _, port = servers.rpartition(":")
    measured: list[float] = []
    with socket.create_connection((host, int(port)), timeout=60) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            for request in (_produce(), _fetch("t", 0, 1_000)):
                began_s = time.perf_counter()
                peer.sendall(request)
                left = int.from_bytes(_exactly(peer, 4), "big")
                _exactly(peer, left)
                measured.append((time.perf_counter() - began_s) * 1000)
    return measured


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise EOFError("the service closed the healthy client's connection")
        data += part
    return data


def felt(beside: str, servers: str, count: int, seconds: float) -> Felt:
    """Measure beside so many peers of a kind."""
    if not count:
        return _felt(beside, 0, latencies_ms(servers, seconds), latencies_ms(servers, seconds), 0)
    with process_of("bench.gateway.abuse", "--peers", servers, beside, str(count)) as (peers, first_line):
        assert first_line == READY, first_line
        first = latencies_ms(servers, seconds)
        measured = latencies_ms(servers, seconds)
        out, _ = peers.communicate(timeout=60)
    return _felt(beside, count, first, measured, int(out))


def _felt(beside: str, count: int, first: list[float], later: list[float], reconnected: int) -> Felt:
    percentiles = statistics.quantiles(later, n=100)
    return Felt(
        beside,
        count,
        len(first),
        statistics.median(first),
        max(first),
        len(later),
        percentiles[49],
        percentiles[98],
        max(later),
        reconnected,
    )


@contextmanager
def process_of(module: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of a bench, and its first line; it ends when its standard input is closed."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
            process.wait(timeout=60)


def peers_possible(wanted: int) -> int:
    """Raise the limit of open files, and return how many connections it allows, up to `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _SPARE_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, soft - _SPARE_FILES)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true", help="write bench/kept, which is committed")
    parser.add_argument("--serve", type=int, metavar="PEERS", help=argparse.SUPPRESS)
    parser.add_argument("--peers", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    count = peers_possible(QUICK_PEERS if arguments.quick else PEERS)
    if arguments.serve is not None:
        peers_possible(arguments.serve)
        serve(arguments.serve)
        return 0
    if arguments.peers is not None:
        servers, abuse_kind, wanted = arguments.peers
        peers_possible(int(wanted))
        abuse(servers, abuse_kind, int(wanted))
        return 0
    seconds = QUICK_SECONDS if arguments.quick else SECONDS
    results = []
    for beside in ("nobody", *KINDS, MIXED):
        with process_of("bench.gateway.abuse", "--serve", str(count)) as (_, servers):
            latencies_ms(servers, seconds / 4)  # what is imported and connected first
            results.append(felt(beside, servers, 0 if beside == "nobody" else count, seconds))
    table = Table(title="a healthy client's requests, ms")
    for heading in ("beside", "peers", "first p50", "slowest", "later p50", "p99", "slowest", "requests", "back"):
        table.add_column(heading, justify="left" if heading == "beside" else "right")
    for result in results:
        times = (result.first_p50_ms, result.first_slowest_ms, result.p50_ms, result.p99_ms, result.slowest_ms)
        counts = (f"{result.requests:,}", f"{result.reconnected:,}")
        table.add_row(result.beside, f"{result.peers:,}", *(f"{number:.1f}" for number in times), *counts)
    Console(width=120).print(table)
    for path in (RESULTS, KEPT) if arguments.keep else (RESULTS,):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
