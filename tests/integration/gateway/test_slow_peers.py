"""Peers that announce, trickle, do not log in, do not read, or come in numbers; and a client beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import odradek
import pytest
from odradek.dispatcher.answer import build
from odradek.local import Listener, ThreadedService
from odradek.model.quota import CONNECTION_CREATION_RATE, QuotaEntity
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema
from odradek.settings import Settings

from tests.support.counted import at_least
from tests.support.engine import batch
from tests.support.kafka import port
from tests.support.kafka.messages import request_frame
from tests.support.kafka.port import until
from tests.support.kafka.raw import RawConnection

METADATA = request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff")
BUFFERED = 3_000_000


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service(
        gateway_buffered_bytes_max=BUFFERED, gateway_peer_timeout_ms=1_000, gateway_peer_bytes_per_s_min=500_000
    ) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        yield service


def produce_frame(size: int) -> bytes:
    fields = {
        "acks": -1,
        "timeout": 10_000,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch([b"x" * size])}]}],
    }
    return encode_request(build(request_schema(0, 9), fields), correlation_id=1, client_id="raw")


def large_request_is_answered(servers: str) -> bool:
    with RawConnection(servers) as connection:
        connection.send(produce_frame(900_000))
        response = decode_response(connection.receive(), response_schema(0, 9), correlation_id=1)
        return bool(response.responses[0].partition_responses[0].error_code == 0)


def connect(stack: ExitStack, servers: str, count: int) -> list[RawConnection]:
    return [stack.enter_context(RawConnection(servers)) for _ in range(count)]


def test_an_announced_length_blocks_nobody() -> None:
    """Six peers that send seven hundred bytes of a hundred megabytes, and stay."""
    with port.kafka_service(gateway_buffered_bytes_max=BUFFERED) as service, ExitStack() as stack:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        for peer in connect(stack, service.kafka_bootstrap_servers, 6):
            peer.send_bytes((100_000_000).to_bytes(4, "big") + b"x" * 700)
        assert large_request_is_answered(service.kafka_bootstrap_servers)


def test_requests_that_fill_the_memory_and_never_end_are_ended(service: ThreadedService) -> None:
    """More half requests than there is memory, each with most of its bytes there."""
    with ExitStack() as stack:
        peers = connect(stack, service.kafka_bootstrap_servers, 8)
        frame = produce_frame(900_000)
        for peer in peers:
            peer.send_bytes(len(frame).to_bytes(4, "big") + frame[:600_000])
        assert large_request_is_answered(service.kafka_bootstrap_servers)
        assert all(peer.is_closed_by_peer() for peer in peers)


def test_half_requests_that_go_on_are_all_answered() -> None:
    """One after the other they get the memory that they need, although together they fill it before one is whole."""
    with port.kafka_service(gateway_buffered_bytes_max=BUFFERED) as service, ExitStack() as stack:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        peers = connect(stack, service.kafka_bootstrap_servers, 10)
        frame = produce_frame(900_000)
        for peer in peers:
            peer.send_bytes(len(frame).to_bytes(4, "big") + frame[:400_000])
        for peer in peers:
            peer.socket.setblocking(False)
        left = dict.fromkeys(peers, frame[400000:])
        deadline_s = time.monotonic() + 60
        while left and time.monotonic() < deadline_s:
            for peer, data in list(left.items()):
                try:
                    left[peer] = data[peer.socket.send(data[:50_000]) :]
                except BlockingIOError:
                    continue
                if not left[peer]:
                    del left[peer]
            time.sleep(0.001)
        for peer in at_least(10, peers):
            peer.socket.settimeout(60)
            response = decode_response(peer.receive(), response_schema(0, 9), correlation_id=1)
            assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("size", [20, 900_000])
def test_a_request_that_trickles_is_ended(service: ThreadedService, size: int) -> None:
    with RawConnection(service.kafka_bootstrap_servers) as peer:
        frame = produce_frame(size)
        peer.send_bytes(len(frame).to_bytes(4, "big"))
        peer.socket.settimeout(0.05)
        ended, sent = False, 0
        while not ended and sent < 2_000:
            try:
                peer.send_bytes(frame[:1])
                sent += 1
                ended = peer.socket.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
        assert ended


def test_an_answer_that_nobody_reads_is_ended(service: ThreadedService) -> None:
    with odradek.Producer(**service.client_config) as producer:
        for _ in range(20):
            producer.send("t", b"y" * 500_000)
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 10_000_000,
        "topics": [
            {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000_000}]}
        ],
    }
    frame = encode_request(build(request_schema(1, 4), fields), correlation_id=1, client_id="raw")
    until(lambda: service.service.kafka_connections == 0, what="earlier connections are gone")
    with RawConnection(service.kafka_bootstrap_servers) as peer:
        for _ in range(5):
            peer.send(frame)
        until(lambda: service.service.kafka_connections == 1)
        until(lambda: service.service.kafka_connections == 0, what="the peer that does not read is closed")


def test_tiny_requests_in_masses_are_counted(service: ThreadedService) -> None:
    """A peer that sends more requests than it may have under way, in one piece: each is answered, in order."""
    with RawConnection(service.kafka_bootstrap_servers) as peer:
        frames = b"".join(len(METADATA).to_bytes(4, "big") + METADATA for _ in range(3_000))
        peer.send_bytes(frames)
        for _ in range(3_000):
            assert len(peer.receive()) > 10


def test_who_does_not_log_in_is_ended() -> None:
    with (
        port.kafka_service(Listener(port=0, sasl=True), gateway_peer_timeout_ms=500) as service,
        RawConnection(service.kafka_bootstrap_servers) as peer,
    ):
        peer.send(request_frame(ApiKey.API_VERSIONS, 0, b""))
        peer.receive()
        assert peer.is_closed_by_peer()


def test_who_never_asks_anything_is_ended(service: ThreadedService) -> None:
    with RawConnection(service.kafka_bootstrap_servers) as peer:
        assert peer.is_closed_by_peer()


def test_no_address_and_no_user_takes_all_connections(caplog: pytest.LogCaptureFixture) -> None:
    with port.kafka_service(gateway_connections_per_address_max=3) as service, ExitStack() as stack:
        held = connect(stack, service.kafka_bootstrap_servers, 3)
        until(lambda: service.service.kafka_connections == 3)
        with RawConnection(service.kafka_bootstrap_servers) as fourth:
            assert fourth.is_closed_by_peer()
        assert "there are 3 from its address" in caplog.text
        held[0].socket.close()
        until(lambda: service.service.kafka_connections == 2)
        with RawConnection(service.kafka_bootstrap_servers) as another:
            another.send(METADATA)
            assert len(another.receive()) > 10
    listener = Listener(port=0, sasl=True, plain_without_tls=True)
    with port.kafka_service(listener, gateway_connections_per_principal_max=2) as service, ExitStack() as stack:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_user("ann", "secret")
            admin.create_user("bob", "secret")

        def log_in(user: bytes) -> int:
            peer = stack.enter_context(RawConnection(service.kafka_bootstrap_servers))
            peer.send(request_frame(ApiKey.SASL_HANDSHAKE, 1, b"\x00\x05PLAIN"))
            peer.receive()
            token = b"\0" + user + b"\0secret"
            peer.send(request_frame(ApiKey.SASL_AUTHENTICATE, 0, len(token).to_bytes(4, "big") + token))
            held.append(peer)
            return int.from_bytes(peer.receive()[4:6], "big")

        held.clear()
        assert [log_in(b"ann") for _ in range(3)] == [0, 0, 58]
        assert log_in(b"bob") == 0
        held[0].socket.close()
        until(lambda: log_in(b"ann") == 0, what="the place of a closed connection is free")


def test_an_address_that_connects_too_fast_is_refused_and_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with port.kafka_service(acl_cache_ms=0) as service, ExitStack() as stack:
        servers = service.kafka_bootstrap_servers
        with odradek.Admin(**service.client_config) as admin:
            admin.alter_client_quotas(QuotaEntity(ip="127.0.0.1"), {CONNECTION_CREATION_RATE: 1})
            assert admin.describe_client_quotas() == {QuotaEntity(ip="127.0.0.1"): {CONNECTION_CREATION_RATE: 1}}
        with RawConnection(servers) as first:  # the gateway reads the quotas when one connects
            first.send(METADATA)
            assert first.receive()
        connect(stack, servers, 40)
        until(lambda: "faster than its connection_creation_rate" in caplog.text)
        until(lambda: service.service.kafka_connections < 20)
        with RawConnection(servers, source="127.0.0.9") as other:
            other.send(METADATA)
            assert other.receive()


def test_a_gateway_that_was_frozen_serves_nothing_that_was_sent_meanwhile() -> None:
    """The process is stopped by its debugger, a hypervisor or a signal; the kernel takes requests all the same."""
    with odradek.local(kafka_port=0, settings=Settings(request_timeout_ms=500), synchronous="NORMAL") as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        with (
            RawConnection(service.kafka_bootstrap_servers) as idle,
            RawConnection(service.kafka_bootstrap_servers) as peer,
        ):
            for connection in (idle, peer):
                connection.send(METADATA)
                connection.receive()
            service.loop.call_soon_threadsafe(time.sleep, 2)  # nothing of the service's loop runs
            time.sleep(0.2)
            peer.send(produce_frame(10))
            assert peer.is_closed_by_peer()
            assert idle.is_closed_by_peer()
        with odradek.Consumer(**service.client_config) as consumer:
            tp = odradek.TopicPartition("t", 0)
            assert consumer.end_offsets([tp]) == {tp: 0}
        assert large_request_is_answered(service.kafka_bootstrap_servers), "and it goes on"
