"""Bytes that are no frames, frames that are no requests, peers that do not read or do not speak: each ends alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import odradek
import pytest
from odradek.dispatcher.answer import build
from odradek.local import ThreadedService
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema

from tests.support.engine import batch
from tests.support.kafka import port
from tests.support.kafka.messages import request_frame
from tests.support.kafka.port import until
from tests.support.kafka.raw import RawConnection

METADATA = request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff")


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service(gateway_connections_max=8, gateway_buffered_bytes_max=3_000_000) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        yield service


def is_served(service: ThreadedService) -> bool:
    with RawConnection(service.kafka_bootstrap_servers) as connection:
        connection.send(METADATA)
        return len(connection.receive()) > 10


def produce_frame(values: list[bytes], *, acks: int = -1, correlation_id: int = 1) -> bytes:
    fields = {
        "acks": acks,
        "timeout": 1_000,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch(values)}]}],
    }
    return encode_request(build(request_schema(0, 9), fields), correlation_id=correlation_id, client_id="raw")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
        b"\xff\xff\xff\xff",  # a negative length
        b"\x7f\xff\xff\xff",  # 2 GiB
        (0).to_bytes(4, "big"),
        (3).to_bytes(4, "big") + b"\0\x03\0",
        len(METADATA[:-1]).to_bytes(4, "big") + METADATA[:-1],  # a byte too few
        len(request_frame(999, 0, b"")).to_bytes(4, "big") + request_frame(999, 0, b""),
        len(request_frame(3, 99, b"")).to_bytes(4, "big") + request_frame(3, 99, b""),
    ],
)
def test_such_a_connection_is_closed_with_one_line_and_others_go_on(
    service: ThreadedService, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    with RawConnection(service.kafka_bootstrap_servers) as other:
        with RawConnection(service.kafka_bootstrap_servers) as connection:
            connection.send_bytes(data)
            assert connection.is_closed_by_peer()
        other.send(METADATA)
        assert len(other.receive()) > 10
    lines = [record for record in caplog.records if record.name.startswith("odradek")]
    assert [line.levelno for line in lines] == [logging.WARNING]
    assert lines[0].exc_info is None


def test_api_versions_of_the_future_is_answered_in_version_0(service: ThreadedService) -> None:
    with RawConnection(service.kafka_bootstrap_servers) as connection:
        connection.send(request_frame(ApiKey.API_VERSIONS, 99, b"\x00" * 20))
        response = decode_response(connection.receive(), response_schema(18, 0), correlation_id=1)
        assert response.error_code == 35
        assert {11, 12, 13, 14} <= {entry.api_key for entry in response.api_keys}
        connection.send(METADATA)  # and the connection stays
        assert len(connection.receive()) > 10


def test_pipelined_requests_are_answered_in_order(service: ThreadedService) -> None:
    frames = [produce_frame([b"%d" % i], correlation_id=1_000 + i) for i in range(30)]
    frames.insert(15, request_frame(ApiKey.METADATA, 1, b"\xff\xff\xff\xff"))
    with RawConnection(service.kafka_bootstrap_servers) as connection:
        connection.send_bytes(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
        answers = [connection.receive() for _ in frames]
    numbers = [int.from_bytes(response[:4], "big") for response in answers]
    expected = [int.from_bytes(frame[4:8], "big") for frame in frames]
    assert numbers == expected
    offsets = [
        decode_response(response, response_schema(0, 9), correlation_id=number).responses[0].partition_responses[0]
        for response, number in zip(answers, numbers, strict=True)
        if number >= 1_000
    ]
    assert all(partition_response.error_code == 0 for partition_response in offsets)
    bases = [partition_response.base_offset for partition_response in offsets]
    assert bases == sorted(bases)  # batches without sequences keep the order of their connection


def test_frames_in_single_bytes_are_frames(service: ThreadedService) -> None:
    with RawConnection(service.kafka_bootstrap_servers) as connection:
        for byte in len(METADATA).to_bytes(4, "big") + METADATA:
            connection.send_bytes(bytes([byte]))
        assert len(connection.receive()) > 10


def test_announced_frames_take_no_memory_from_others(service: ThreadedService) -> None:
    big = produce_frame([b"x" * 900_000])
    announcing = [RawConnection(service.kafka_bootstrap_servers) for _ in range(4)]
    try:
        for connection in announcing:
            connection.send_bytes(len(big).to_bytes(4, "big") + big[:100_000])
        assert is_served(service)
        for connection in announcing:  # more than the gateway's memory, one after the other
            connection.send_bytes(big[100_000:])
            assert len(connection.receive()) > 10
    finally:
        for connection in announcing:
            connection.socket.close()


def test_a_peer_that_does_not_read_is_not_served_further(service: ThreadedService) -> None:
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
    with RawConnection(service.kafka_bootstrap_servers) as connection:
        for _ in range(50):
            connection.send(frame)
        time.sleep(0.3)
        assert is_served(service)


def test_connections_beyond_the_limit_are_refused_and_room_is_made_by_those_that_leave(
    service: ThreadedService, caplog: pytest.LogCaptureFixture
) -> None:
    until(lambda: service.service.kafka_connections == 0, what="earlier connections are gone")
    held = [RawConnection(service.kafka_bootstrap_servers) for _ in range(8)]
    try:
        until(lambda: service.service.kafka_connections == 8)
        with RawConnection(service.kafka_bootstrap_servers) as ninth:
            assert ninth.is_closed_by_peer()
        assert "there are 8 already" in caplog.text
        held.pop().socket.close()
        until(lambda: service.service.kafka_connections == 7)
        assert is_served(service)
    finally:
        for connection in held:
            connection.socket.close()


def test_silent_connections_are_closed() -> None:
    with (
        port.kafka_service(gateway_idle_timeout_ms=200) as service,
        RawConnection(service.kafka_bootstrap_servers) as connection,
    ):
        connection.send(METADATA)
        connection.receive()
        assert connection.is_closed_by_peer()


def test_stopping_answers_what_was_asked() -> None:
    with port.kafka_service() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        with RawConnection(service.kafka_bootstrap_servers) as connection:
            connection.send(produce_frame([b"last"]))
            until(lambda: service.service.kafka_connections == 1)
            service.stop()
            response = decode_response(connection.receive(), response_schema(0, 9), correlation_id=1)
            assert response.responses[0].partition_responses[0].error_code == 0
            assert connection.is_closed_by_peer()


def test_an_address_that_is_taken_is_a_clear_error() -> None:
    with port.kafka_service() as service:
        taken = int(service.kafka_bootstrap_servers.rpartition(":")[2])
        with pytest.raises(odradek.KafkaError, match="cannot listen on"):
            odradek.local(kafka_port=taken)
