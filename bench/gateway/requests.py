"""CPU time of the service for one request on the Kafka port, by request.

The service runs in a process of its own (SQLite and files); this one sends frames that were encoded before, so that
nothing of a client counts. Each step has topics of its own.

    produce          16 KB of one idempotent producer to one partition, five requests in flight, as Java's producer has
    produce, spread  24 KB over 24 partitions of one topic, which share a head, one request in flight
    fetch            16 KB from the tail, by the topic's id, one request in flight
    waiting          so many consumers whose long polls of half a second find nothing; the share of a core

CPU is that of all threads of the service, by the kernel's scheduler. Each step is measured several times; the least
counts, so that other load on the machine counts for little. Calls of Python functions in the thread of the loop, with
one request in flight, are the same on every machine and at every load. `--profile` prints what the functions of the
service took in one step in place of figures (cProfile's own cost is in them).

    python -m bench.gateway.requests [--quick] [--synced] [--profile produce|spread|fetch|waiting]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from odradek.protocol.api import ApiKey

from tests.support.engine import batch
from tests.support.services.function_calls import decode, frame

RESULTS = Path(__file__).parents[1] / "results" / "gateway_requests.json"
STEPS = ("produce", "spread", "fetch", "waiting")
IN_FLIGHT = 5
BATCH_BYTES, RECORD_BYTES = 16 * 1024, 1024
SPREAD = 24
CONSUMERS, WAIT_MS = 200, 500
PRODUCE, FETCH = 9, 13  # versions of the requests

# --- the service ------------------------------------------------------------------------------------------------------


async def serve(folder: str, *, is_synced: bool, profile: str | None) -> None:
    """Serve until the standard input ends; print the address first, and a profile at the end."""
    import cProfile
    import pstats

    from odradek.gateway import Listener
    from odradek.local import LocalService
    from odradek.settings import SERVER_MEMORY, Settings

    async with LocalService(
        folder,
        synchronous="FULL" if is_synced else "NORMAL",
        kafka=Listener(port=0),
        settings=Settings(**SERVER_MEMORY),  # type: ignore[arg-type]
    ) as service:
        print(service.kafka_bootstrap_servers, flush=True)
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call"

        profiler = cProfile.Profile(time.thread_time)  # what others on the machine do is not in it
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            if profile is not None and line.startswith("begin"):
                profiler.enable()
            elif profile is not None and line.startswith("end"):
                profiler.disable()
            elif line.startswith("begin"):
                calls = 0
                sys.setprofile(count)
            elif line.startswith("end"):
                sys.setprofile(None)
                print(calls, flush=True)
        if profile is not None:
            pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(70)


class Service:
    """A running service: its address and the CPU that it has taken."""

    def __init__(self, folder: str, *, is_synced: bool, profile: str | None = None) -> None:
        command = [sys.executable, "-m", "bench.gateway.requests", "--serve", folder]
        command += ["--synced"] * is_synced + (["--profile", profile] if profile else [])
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        host, _, port = self._process.stdout.readline().strip().rpartition(":")
        self.address = host, int(port)

    def cpu_s(self) -> float:
        """The CPU of all threads so far, in seconds."""
        folder = Path(f"/proc/{self._process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in folder.iterdir()) / 1e9

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        time.sleep(0.2)

    @contextlib.contextmanager
    def counted(self, calls: list[int]) -> Iterator[None]:
        """Add the number of calls of Python functions that the service makes meanwhile."""
        self.tell("begin")
        yield
        self.tell("end")
        assert self._process.stdout is not None
        calls.append(int(self._process.stdout.readline()))

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@contextlib.contextmanager
def running(*, is_synced: bool, profile: str | None = None) -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="odradek-gateway-requests-") as folder:
        service = Service(folder, is_synced=is_synced, profile=profile)
        try:
            yield service
        finally:
            service.stop()


# --- the client -------------------------------------------------------------------------------------------------------


class Client:
    """One connection; frames out, frames in."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        self.socket.sendall(len(request).to_bytes(4, "big") + request)

    def receive(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            data = self.socket.recv(size)
            if not data:
                raise ConnectionError("the service has closed the connection")
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def ask(self, api_key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        self.send(frame(api_key, version, fields))
        return decode(self.receive(), api_key, version)

    def ask_all(self, requests: list[bytes], in_flight: int) -> list[bytes]:
        """Send requests, so many at a time; return the responses."""
        responses: list[bytes] = []
        for position, request in enumerate(requests):
            if position >= in_flight:
                responses.append(self.receive())
            self.send(request)
        while len(responses) < len(requests):
            responses.append(self.receive())
        return responses


def create(client: Client, topic: str, partitions: int) -> Any:
    """Create a topic; return its id."""
    fields = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
    [created] = client.ask(
        ApiKey.CREATE_TOPICS, 7, {"topics": (fields,), "timeout": 10_000, "validate_only": False}
    ).topics
    assert created.error_code == 0, created
    return created.topic_id


def producer_id(client: Client) -> int:
    fields = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    return int(client.ask(ApiKey.INIT_PRODUCER_ID, 4, fields).producer_id)


def produce_frame(topic: str, batches: list[bytes]) -> bytes:
    partitions = tuple({"index": number, "records": records} for number, records in enumerate(batches))
    return frame(
        ApiKey.PRODUCE,
        PRODUCE,
        {
            "transactional_id": None,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": ({"name": topic, "partition_data": partitions},),
        },
    )


def fetch_frame(topic_id: Any, offset: int, wait_ms: int) -> bytes:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1024 * 1024}
    return frame(
        ApiKey.FETCH,
        FETCH,
        {
            "max_wait": wait_ms,
            "min_bytes": 1,
            "max_bytes": 50 * 1024 * 1024,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": ({"topic_id": topic_id, "partitions": (partition,)},),
            "forgotten_topics_data": (),
            "rack_id": "",
        },
    )


def check_produced(responses: list[bytes]) -> None:
    for response in responses:
        [topic] = decode(response, ApiKey.PRODUCE, PRODUCE).responses
        assert not any(partition.error_code for partition in topic.partition_responses), topic


def fetched_bytes(response: bytes) -> int:
    [topic] = decode(response, ApiKey.FETCH, FETCH).responses
    [partition] = topic.partitions
    assert partition.error_code == 0, partition
    return len(partition.records or b"")


# --- steps ------------------------------------------------------------------------------------------------------------

Step = Callable[[Service, int], tuple[float, float]]
"""Makes so many requests; returns the service's CPU seconds and their number, or the seconds that passed."""


def batches_of(client: Client, count: int, size: int) -> list[bytes]:
    """Batches of one producer that follow each other."""
    values = [os.urandom(min(size, RECORD_BYTES)) for _ in range(max(1, size // RECORD_BYTES))]
    producer = producer_id(client)
    return [batch(values, producer=(producer, 0, number * len(values))) for number in range(count)]


def measure_produce(service: Service, count: int) -> tuple[float, float]:
    client, topic = Client(service.address), f"produce-{time.monotonic_ns()}"
    create(client, topic, 1)
    requests = [produce_frame(topic, [records]) for records in batches_of(client, count + 50, BATCH_BYTES)]
    check_produced(client.ask_all(requests[:50], IN_FLIGHT))
    began_s = service.cpu_s()
    responses = client.ask_all(requests[50:], IN_FLIGHT)
    taken_s = service.cpu_s() - began_s
    check_produced(responses)
    return taken_s, count


def measure_spread(service: Service, count: int) -> tuple[float, float]:
    client, topic = Client(service.address), f"spread-{time.monotonic_ns()}"
    create(client, topic, SPREAD)
    requests = [produce_frame(topic, [records] * SPREAD) for records in batches_of(client, count + 20, RECORD_BYTES)]
    check_produced(client.ask_all(requests[:20], 1))
    began_s = service.cpu_s()
    responses = client.ask_all(requests[20:], 1)
    taken_s = service.cpu_s() - began_s
    check_produced(responses)
    return taken_s, count


def measure_fetch(service: Service, count: int) -> tuple[float, float]:
    client, topic = Client(service.address), f"fetch-{time.monotonic_ns()}"
    topic_id = create(client, topic, 1)
    written = [produce_frame(topic, [records]) for records in batches_of(client, 40, BATCH_BYTES)]
    check_produced(client.ask_all(written, 1))
    request = fetch_frame(topic_id, 39 * (BATCH_BYTES // RECORD_BYTES), WAIT_MS)
    assert fetched_bytes(client.ask_all([request] * 20, 1)[-1]) > BATCH_BYTES
    began_s = service.cpu_s()
    client.ask_all([request] * count, 1)
    return service.cpu_s() - began_s, count


def count_calls(service: Service, requests: list[bytes]) -> float:
    """Return the calls of Python functions a request, with one in flight; the first ones are not counted."""
    client, calls = Client(service.address), list[int]()
    client.ask_all(requests[:10], 1)
    with service.counted(calls):
        client.ask_all(requests[10:], 1)
    return calls[0] / (len(requests) - 10)


def calls_by_step(service: Service) -> dict[str, float]:
    """Return the calls of one request of each step."""
    client, topic, spread = Client(service.address), f"calls-{time.monotonic_ns()}", f"spread-{time.monotonic_ns()}"
    topic_id = create(client, topic, 1)
    create(client, spread, SPREAD)
    batches = [produce_frame(topic, [records]) for records in batches_of(client, 40, BATCH_BYTES)]
    spread_batches = [produce_frame(spread, [records] * SPREAD) for records in batches_of(client, 40, RECORD_BYTES)]
    records_each = BATCH_BYTES // RECORD_BYTES
    return {
        "produce": count_calls(service, batches),
        "spread": count_calls(service, spread_batches),
        "fetch": count_calls(service, [fetch_frame(topic_id, 39 * records_each, WAIT_MS)] * 40),
        "empty poll": count_calls(service, [fetch_frame(topic_id, 40 * records_each, 60)] * 20),
    }


def measure_waiting(service: Service, count: int) -> tuple[float, float]:
    """`count` is the number of milliseconds for which the consumers wait."""
    topic = f"waiting-{time.monotonic_ns()}"
    clients = [Client(service.address) for _ in range(CONSUMERS)]
    topic_id = create(clients[0], topic, 1)
    [written] = [produce_frame(topic, [records]) for records in batches_of(clients[0], 1, BATCH_BYTES)]
    check_produced(clients[0].ask_all([written], 1))
    request = fetch_frame(topic_id, BATCH_BYTES // RECORD_BYTES, WAIT_MS)
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send(request)
        until_s = time.monotonic() + 1.0
        began_s, cpu_s, polls = 0.0, 0.0, 0
        while time.monotonic() < until_s or not began_s:
            if not began_s and time.monotonic() >= until_s:
                began_s, cpu_s, polls = time.monotonic(), service.cpu_s(), 0
                until_s = began_s + count / 1000
            for key, _ in selector.select(0.1):
                assert fetched_bytes(key.data.receive()) == 0
                key.data.send(request)
                polls += 1
        taken_s, passed_s = service.cpu_s() - cpu_s, time.monotonic() - began_s
    assert polls > CONSUMERS * passed_s * 1000 / WAIT_MS / 2, f"{polls} polls in {passed_s:.1f} s"
    return taken_s, passed_s


MEASURES: dict[str, tuple[Step, int, int]] = {  # with the number of requests, synced and not
    "produce": (measure_produce, 1500, 300),
    "spread": (measure_spread, 300, 100),
    "fetch": (measure_fetch, 1500, 500),
    "waiting": (measure_waiting, 5000, 5000),
}


def run(*, is_synced: bool, is_quick: bool) -> dict[str, Any]:
    """Measure, print the table, write the JSON; return what was written."""
    rounds = 2 if is_quick else 5
    best_s: dict[str, float] = {}
    with running(is_synced=is_synced) as service:
        for name, (step, unsynced, synced) in MEASURES.items():
            count = (synced if is_synced else unsynced) // (3 if is_quick and name != "waiting" else 1)
            figures = [step(service, count) for _ in range(1 if name == "waiting" else rounds)]
            best_s[name] = min(taken_s / amount for taken_s, amount in figures)
        calls = calls_by_step(service)
    print("CPU of the service, " + ("synced" if is_synced else "not synced"))
    for name in STEPS[:3]:
        print(f"{name:<10}{best_s[name] * 1e6:>10.0f} us a request")
    print(f"{'waiting':<10}{best_s['waiting'] * 100:>10.1f} % of a core, {CONSUMERS} consumers")
    print("calls of Python functions: " + ", ".join(f"{name} {number:.0f}" for name, number in calls.items()))
    results = {"bench": "gateway.requests", "is_synced": is_synced, "python": sys.version.split()[0], "calls": calls}
    results |= best_s
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return results


def profile(name: str, *, is_synced: bool) -> None:
    """Print the profile of one step."""
    step, unsynced, synced = MEASURES[name]
    with running(is_synced=is_synced, profile=name) as service:
        step(service, 30 if name != "waiting" else 1000)
        service.tell("begin")
        step(service, (synced if is_synced else unsynced) // (1 if name == "waiting" else 2))
        service.tell("end")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU of the service for one request on the Kafka port.")
    parser.add_argument("--quick", action="store_true", help="fewer requests and rounds")
    parser.add_argument("--synced", action="store_true", help="what is acknowledged is on disk")
    parser.add_argument("--profile", choices=STEPS, help="print a profile of this step in place of figures")
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.serve:
        asyncio.run(serve(arguments.serve, is_synced=arguments.synced, profile=arguments.profile))
    elif arguments.profile:
        profile(arguments.profile, is_synced=arguments.synced)
    else:
        run(is_synced=arguments.synced, is_quick=arguments.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
