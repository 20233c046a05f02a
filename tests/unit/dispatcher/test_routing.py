"""Frames that no handler sees, and handlers that fail."""

from __future__ import annotations

import logging
import struct

import pytest
from odradek.dispatcher import BadFrame
from odradek.dispatcher.handlers import HANDLERS
from odradek.errors import ErrorCode, KafkaError
from odradek.protocol.api import OWNED, ApiKey, FunctionName
from odradek.protocol.frame import decode_response, response_schema
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.dispatching import ask, context, dispatcher
from tests.support.fake_engine import FakeEngine
from tests.support.kafka.messages import request_frame


def test_every_supported_api_has_a_handler_and_no_other() -> None:
    assert set(HANDLERS) == set(SUPPORTED_VERSIONS)


@pytest.mark.parametrize(
    ("frame", "status", "code"),
    [
        (b"", 400, ErrorCode.INVALID_REQUEST),
        (b"GET / HTTP/1.1", 400, ErrorCode.INVALID_REQUEST),
        (request_frame(3, 9, b"")[:13], 400, ErrorCode.INVALID_REQUEST),
        (request_frame(999, 0, b""), 404, ErrorCode.UNSUPPORTED_VERSION),
        (request_frame(7, 0, b""), 404, ErrorCode.UNSUPPORTED_VERSION),  # ControlledShutdown
        (request_frame(27, 0, b""), 404, ErrorCode.UNSUPPORTED_VERSION),  # WriteTxnMarkers, of brokers among themselves
        (request_frame(3, 99, b""), 400, ErrorCode.UNSUPPORTED_VERSION),
        (request_frame(0, 2, b""), 400, ErrorCode.UNSUPPORTED_VERSION),
        (request_frame(3, 1, b"\0\0"), 400, ErrorCode.INVALID_REQUEST),
        (request_frame(3, 1, b"\xff\xff\xff"), 400, ErrorCode.INVALID_REQUEST),  # truncated
    ],
)
async def test_frames_that_cannot_be_answered(frame: bytes, status: int, code: ErrorCode) -> None:
    engine = FakeEngine()
    with pytest.raises(BadFrame) as caught:
        await dispatcher(engine).dispatch(frame, context())
    assert (caught.value.http_status, caught.value.code) == (status, code)
    assert engine.calls == []


async def test_an_api_of_another_function_is_misdirected_and_its_owner_named() -> None:
    allowed = OWNED[FunctionName.PRODUCE]
    with pytest.raises(BadFrame, match="'coordinator'") as caught:
        await dispatcher(FakeEngine()).dispatch(request_frame(3, 1, b"\xff\xff\xff\xff"), context(allowed=allowed))
    assert caught.value.http_status == 421


async def test_api_versions_lists_what_this_function_owns() -> None:
    frame = request_frame(18, 3, b"\x03me" + b"\x02" + b"1" + b"\x00")
    parts = await dispatcher(FakeEngine()).dispatch(frame, context(allowed=OWNED[FunctionName.PRODUCE]))
    response = decode_response(b"".join(parts or []), response_schema(18, 3), correlation_id=1)
    listed = {(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys}
    assert listed == {(0, 0, 13), (18, 0, 4)}


async def test_api_versions_of_a_future_version_is_answered_in_version_0() -> None:
    parts = await dispatcher(FakeEngine()).dispatch(request_frame(18, 42, b"whatever comes"), context())
    response = decode_response(b"".join(parts or []), response_schema(18, 0), correlation_id=1)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert {entry.api_key for entry in response.api_keys} == set(SUPPORTED_VERSIONS)


async def test_an_unexpected_failure_is_logged_and_answered_in_the_apis_shape(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = FakeEngine(failure=ZeroDivisionError("a bug"))
    with caplog.at_level(logging.ERROR, "odradek.dispatcher"):
        response = await ask(engine, ApiKey.LIST_GROUPS, 4, {})
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ZeroDivisionError" in caplog.text

    topics = {"topic_data": [{"name": "flights", "partition_data": [{"index": 3}]}], "acks": 1}
    response = await ask(engine, ApiKey.PRODUCE, 9, topics)
    [partition] = response.responses[0].partition_responses
    assert (partition.index, partition.error_code) == (3, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "bug" not in partition.error_message


async def test_a_kafka_error_keeps_its_code_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine(failure=KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere"))
    response = await ask(engine, ApiKey.INIT_PRODUCER_ID, 4, {})
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    assert caplog.text == ""


async def test_a_frame_may_be_any_buffer() -> None:
    frame = request_frame(3, 1, struct.pack(">i", 0))
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        assert await dispatcher(FakeEngine()).dispatch(buffer, context())
