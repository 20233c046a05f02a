"""Two thousand bad peers, and hostile schemas, while a healthy client works. Nothing is timed; what it does is counted.

Slow: the peers have to connect, and stay until the service gets rid of them.
"""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import odradek
import pytest
from odradek.client.serializers import HttpRegistry, Schema
from odradek.dispatcher.answer import build
from odradek.errors import KafkaError
from odradek.local import ThreadedService
from odradek.protocol.frame import encode_request, request_schema
from odradek.settings import Settings

from tests.support.kafka import port
from tests.support.kafka.port import Message, until
from tests.unit.registry import test_hostile_schemas as hostile

pytestmark = pytest.mark.slow

PEERS = 2_000
RECORDS = 1_000
_SPARE_FILES = 600  # of the service itself, the clients and pytest


def peers_possible() -> int:
    """Both ends of each connection are files of this process: as many as it may have, up to PEERS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * PEERS + _SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(PEERS, (soft - _SPARE_FILES) // 2)


@pytest.fixture
def service() -> Iterator[ThreadedService]:
    settings = Settings(
        gateway_connections_max=3_000,
        gateway_connections_per_address_max=3_000,  # all peers of this machine are one address
        gateway_peer_timeout_ms=5_000,
        gateway_buffered_bytes_max=64 * 1024 * 1024,
        http_connections_max=1_000,
        http_read_timeout_ms=5_000,
    )
    with odradek.local(kafka_port=0, registry_port=0, settings=settings, synchronous="NORMAL") as running:
        with odradek.Admin(**running.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1), odradek.NewTopic("full", 1)])
        yield running


def place(url: str) -> tuple[str, int]:
    host, _, number = url.rpartition("/")[2].rpartition(":")
    return host, int(number)


def fetch_of_all() -> bytes:
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 10_000_000,
        "topics": [
            {"topic": "full", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}]}
        ],
    }
    frame = encode_request(build(request_schema(1, 4), fields), correlation_id=1, client_id="bad")
    return len(frame).to_bytes(4, "big") + frame


HTTP = b"POST /produce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
# What a peer of each kind sends when it has connected; then nothing, or a byte now and then.
KINDS: dict[str, Callable[[], bytes]] = {
    "idle": lambda: b"",
    "half-open": lambda: (1_000_000).to_bytes(4, "big") + b"x" * 700,
    "trickling": lambda: (1_000_000).to_bytes(4, "big"),
    "never-reading": lambda: fetch_of_all() * 20,
}


@contextmanager
def bad_peers(service: ThreadedService, count: int) -> Iterator[list[socket.socket]]:
    """Peers of all kinds, nine of ten at the Kafka port; those at the two HTTP ports, which have answers to read."""
    kafka = place(service.kafka_bootstrap_servers)
    others = [place(service.bootstrap_servers), place(service.registry_url)]
    first = {abuse_kind: make() for abuse_kind, make in KINDS.items()}
    stop = threading.Event()
    with ExitStack() as stack:
        peers: list[socket.socket] = []
        tricklers: list[socket.socket] = []
        for i in range(count):
            abuse_kind = list(KINDS)[i % len(KINDS)]
            is_http = i % 10 == 9
            peer = stack.enter_context(socket.socket())
            peer.settimeout(60)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)  # what nobody reads waits in the service
            peer.connect(others[i // 10 % 2] if is_http else kafka)
            if is_http:
                peers.append(peer)
            with suppress(OSError):
                peer.sendall((HTTP if abuse_kind != "idle" else b"") if is_http else first[abuse_kind])
            if abuse_kind == "trickling":
                tricklers.append(peer)

        def trickle() -> None:
            while not stop.wait(0.5):
                for peer in tricklers:
                    with suppress(OSError):
                        peer.send(b"x")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            yield peers
        finally:
            stop.set()
            thread.join()


def is_ended(peer: socket.socket) -> bool:
    """Return True if the service has closed the connection; data before the end is thrown away."""
    peer.setblocking(False)
    try:
        while peer.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def test_a_healthy_client_works_beside_bad_peers_which_are_ended(service: ThreadedService) -> None:
    with odradek.Producer(**service.client_config) as producer:
        for _ in range(20):
            producer.send("full", b"y" * 500_000)
    count = peers_possible()
    assert count >= 200, "raise the limit of open files (ulimit -n)"
    servers = service.kafka_bootstrap_servers
    with bad_peers(service, count) as peers:
        messages = [Message(b"k", b"value %d" % i) for i in range(RECORDS)]
        assert port.confluent_produce(servers, "t", messages) == list(range(RECORDS))
        assert port.confluent_consume(servers, "t", RECORDS) == messages
        assert port.sdk_produce(service, "t", messages[:50]) == list(range(RECORDS, RECORDS + 50))
        assert HttpRegistry(service.registry_url).register("t-value", Schema('"string"')) == 1
        large = [Message(b"k", b"z" * 900_000)] * 5
        assert len(port.confluent_produce(servers, "t", large)) == 5
        until(lambda: service.service.kafka_connections == 0, timeout_s=120, what="all bad Kafka clients are closed")
        until(lambda: all(is_ended(peer) for peer in peers), timeout_s=120, what="and all at the HTTP ports")
    assert port.confluent_consume(servers, "t", RECORDS) == messages


def test_hostile_schemas_hold_up_no_other_client(service: ThreadedService) -> None:
    """Each of them by a client of its own, again and again, until the healthy one is done."""
    url, done = service.registry_url, threading.Event()
    rounds: list[str] = []
    failures: list[BaseException] = []

    def attack(schema_type: str, make: Callable[[str], str], one: str, other: str) -> None:
        registry = HttpRegistry(url)
        while not done.is_set():
            for variant in (one, other):
                try:
                    registry.register(make.__name__, Schema(make(variant), schema_type))  # type: ignore[arg-type]
                except KafkaError as refused:
                    if refused.code.name == "UNKNOWN_SERVER_ERROR":
                        failures.append(refused)
            rounds.append(make.__name__)

    threads = [threading.Thread(target=attack, args=case) for case in hostile.HOSTILE]
    for thread in threads:
        thread.start()
    try:
        registry = HttpRegistry(url)
        for i in range(20):
            fields = [{"name": f"f{j}", "type": "int", "default": 0} for j in range(i + 1)]
            registry.register("healthy", Schema(json.dumps({"type": "record", "name": "R", "fields": fields})))
        messages = [Message(b"k", b"value %d" % i) for i in range(200)]
        assert port.confluent_produce(service.kafka_bootstrap_servers, "t", messages) == list(range(200))
        assert port.sdk_consume(service, "t", 200) == messages
        until(lambda: set(rounds) == {make.__name__ for _, make, _, _ in hostile.HOSTILE}, timeout_s=300)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
