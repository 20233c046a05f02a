"""Produce with acks=0: no answer, so that an error ends the connection, as on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import odradek
import pytest
from odradek.dispatcher.answer import build
from odradek.local import ThreadedService
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import encode_request, request_schema

from tests.support.engine import batch
from tests.support.kafka import port
from tests.support.kafka.messages import request_frame
from tests.support.kafka.raw import RawConnection


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        yield service


def produce(topic: str, records: bytes) -> bytes:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    message = build(request_schema(ApiKey.PRODUCE, 9), {"acks": 0, "topic_data": data})
    return encode_request(message, correlation_id=1, client_id="tests")


def goes_on(service: ThreadedService, frame: bytes) -> bool:
    """Return True if the connection answers a request that follows a frame."""
    with RawConnection(service.kafka_bootstrap_servers) as connection:
        connection.send(frame)
        connection.send(request_frame(ApiKey.API_VERSIONS, 0, b""))
        try:
            return len(connection.receive()) > 0
        except (EOFError, ConnectionError):
            return False


def test_an_error_ends_the_connection(service: ThreadedService) -> None:
    assert not goes_on(service, produce("missing", batch([b"a"])))
    assert not goes_on(service, produce("t", b"nonsense"))


def test_a_batch_that_is_taken_leaves_it_open(service: ThreadedService) -> None:
    assert goes_on(service, produce("t", batch([b"a"])))
