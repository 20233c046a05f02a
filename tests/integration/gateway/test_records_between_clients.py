"""Records that one client writes through the Kafka port are read byte for byte by every other one and the SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import odradek
import pytest
from odradek.local import ThreadedService

from tests.support.counted import at_least
from tests.support.kafka import port
from tests.support.kafka.port import Message

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]
PYTHON_COMPRESSIONS = ["none", "gzip"]  # what kafka-python knows without further libraries
MESSAGES = [
    Message(b"key %d" % i if i % 3 else None, bytes([i % 256]) * (i * 7 % 900), (("n", b"%d" % i), ("empty", b"")))
    for i in range(60)
] + [Message(b"tombstone", None), Message(None, b"")]


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service() as service:
        yield service


@pytest.fixture
def topic(service: ThreadedService, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic(name, 2)])
    return name


PRODUCERS: dict[str, Callable[..., list[int]]] = {
    "confluent": port.confluent_produce,
    "python": port.python_produce,
    "aio": port.aio_produce,
}


def read_by_all(
    service: ThreadedService, topic: str, count: int, *, python: bool = True
) -> dict[str, Sequence[Message]]:
    servers = service.kafka_bootstrap_servers
    messages_by_client: dict[str, Sequence[Message]] = {
        "confluent": port.confluent_consume(servers, topic, count, 1),
        "aio": port.aio_consume(servers, topic, count, 1),
        "sdk": port.sdk_consume(service, topic, count, 1),
    }
    if python:
        messages_by_client["python"] = port.python_consume(servers, topic, count, 1)
    return messages_by_client


@pytest.mark.parametrize("client", PRODUCERS)
def test_every_compression_is_read_by_every_client(service: ThreadedService, topic: str, client: str) -> None:
    expected: list[Message] = []
    for number, compression in enumerate(PYTHON_COMPRESSIONS if client == "python" else COMPRESSIONS):
        chosen = None if compression == "none" and client != "confluent" else compression
        marked = [m._replace(headers=(*m.headers, ("batch", b"%d" % number))) for m in MESSAGES]
        offsets = PRODUCERS[client](service.kafka_bootstrap_servers, topic, marked, 1, compression_type=chosen)
        assert offsets == list(range(len(expected), len(expected) + len(marked)))
        expected += marked
    readers = read_by_all(service, topic, len(expected), python=client == "python")
    for reader, messages in at_least(2, readers.items()):
        assert list(messages) == expected, reader


def test_what_the_sdk_writes_is_read_by_every_client(service: ThreadedService, topic: str) -> None:
    assert port.sdk_produce(service, topic, MESSAGES, 1) == list(range(len(MESSAGES)))
    for reader, messages in read_by_all(service, topic, len(MESSAGES)).items():
        assert list(messages) == MESSAGES, reader


@pytest.mark.parametrize("client", PRODUCERS)
def test_idempotent_producers_keep_order_with_many_requests_in_flight(
    service: ThreadedService, topic: str, client: str
) -> None:
    values = [Message(None, b"%06d" % i) for i in range(2_000)]
    idempotent = {"enable_idempotence": True}
    small: dict[str, dict[str, Any]] = {
        "confluent": {"batch_num_messages": 50},
        "python": {"batch_size": 1_000},
        "aio": {"max_batch_size": 1_000},
    }
    offsets = PRODUCERS[client](service.kafka_bootstrap_servers, topic, values, 1, **idempotent, **small[client])
    assert sorted(offsets) == list(range(len(values)))
    assert port.confluent_consume(service.kafka_bootstrap_servers, topic, len(values), 1) == values


def test_a_producer_without_acks_hears_nothing_and_loses_nothing(service: ThreadedService, topic: str) -> None:
    values = [Message(None, b"%d" % i) for i in range(100)]
    port.confluent_produce(service.kafka_bootstrap_servers, topic, values, 1, acks=0)
    assert port.confluent_consume(service.kafka_bootstrap_servers, topic, len(values), 1) == values


def test_large_records_pass_whole(service: ThreadedService, topic: str) -> None:
    big = [Message(b"k", bytes(range(256)) * 3_900)] * 5
    port.python_produce(service.kafka_bootstrap_servers, topic, big, 1, max_request_size=2_000_000)
    assert port.aio_consume(service.kafka_bootstrap_servers, topic, 5, 1) == big
    assert port.confluent_consume(service.kafka_bootstrap_servers, topic, 5, 1) == big
