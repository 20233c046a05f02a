"""Frames: headers, sizes and bodies, to the byte of the protocol guide."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.fetch.v16 import response as fetch16
from kio.schema.metadata.v1.request import MetadataRequest as MetadataRequest1
from kio.schema.produce.v9 import request as produce9
from kio.schema.produce.v9.response import ProduceResponse
from kio.static.primitive import Records, i16, i32, i32Timedelta
from odradek.dispatcher.answer import build
from odradek.errors import ErrorCode, FormatError
from odradek.protocol.api import ApiKey
from odradek.protocol.conditional_produce import conditional
from odradek.protocol.frame import (
    decode_request,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    parse_request_header,
    preload,
    request_schema,
    response_schema,
)
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.kafka.messages import request_frame


def produce_request(records: bytes) -> Any:
    data = produce9.PartitionProduceData(index=i32(2), records=Records(records))
    return produce9.ProduceRequest(
        transactional_id=None,
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=30)),
        topic_data=(produce9.TopicProduceData(name="flights", partition_data=(data,)),),
    )


def test_a_request_reads_back_with_its_header() -> None:
    message = produce_request(b"batch")
    request = decode_request(encode_request(message, correlation_id=7, client_id="me"))
    assert (request.api_key, request.api_version) == (ApiKey.PRODUCE, 9)
    assert (request.correlation_id, request.client_id) == (7, "me")
    assert request.message == conditional(message, {}, {}), "with the fields that are ours"


def test_the_bytes_of_a_request_are_those_of_the_protocol_guide() -> None:
    frame = encode_request(MetadataRequest1(topics=None), correlation_id=258, client_id="ab")
    assert frame == bytes.fromhex("0003 0001 00000102 0002 6162 ffffffff")


def test_a_flexible_header_ends_with_its_tags() -> None:
    frame = encode_request(produce_request(b""), correlation_id=1, client_id=None)
    assert frame[:11] == bytes.fromhex("0000 0009 00000001 ffff 00")
    assert parse_request_header(frame).body_position == 11
    assert decode_request(frame).client_id is None


def test_unknown_tags_in_a_header_are_skipped() -> None:
    frame = encode_request(produce_request(b"x"), correlation_id=1, client_id=None)
    tagged = frame[:10] + b"\x01\x63\x03abc" + frame[11:]
    assert decode_request(tagged) == decode_request(frame)


def test_records_are_neither_copied_in_nor_out() -> None:
    blob = bytes(100_000)
    parts = encode_request_parts(produce_request(blob), correlation_id=1, client_id=None)
    assert any(part is blob for part in parts)
    frame = b"".join(parts)
    records = decode_request(frame).message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_a_header_of_an_unknown_api_is_read_all_the_same() -> None:
    header = parse_request_header(request_frame(999, 77, b"anything", correlation_id=-5))
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (999, 77, -5, "test")


@pytest.mark.parametrize(
    "frame", [b"", b"\0" * 9, bytes.fromhex("0003 0001 00000001 fffe"), request_frame(3, 9, b"")[:12]]
)
def test_a_broken_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(FormatError):
        parse_request_header(frame)


def test_an_api_or_version_that_is_not_served_is_named() -> None:
    for key, version in ((999, 0), (3, 99), (0, 2), (3, -1)):
        with pytest.raises(FormatError) as caught:
            decode_request(request_frame(key, version, b""))
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_bytes_that_librdkafka_leaves_after_a_request_are_ignored() -> None:
    """Metadata as librdkafka 2.16 sends it (three bytes more), ListGroups as 2.0 does (empty tags twice), users."""
    frame = bytes.fromhex("0003000d 00000003 0007 72646b61666b61 00 00000000 01 00 00")
    assert decode_request(frame).message.topics is None
    for api_key, version, fields in (
        (ApiKey.LIST_GROUPS, 4, {"states_filter": []}),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": []}),
    ):
        body = build(request_schema(api_key, version), fields)
        sent = encode_request(body, correlation_id=1, client_id="rdkafka")
        assert decode_request(sent + b"\0").message == body


def test_a_response_reads_back_and_must_answer_this_request() -> None:
    response = ProduceResponse(responses=())
    frame = b"".join(encode_response(response, correlation_id=9))
    assert frame == bytes.fromhex("00000009 00 01 00000000 00")
    assert decode_response(frame, ProduceResponse, correlation_id=9) == response
    with pytest.raises(FormatError, match="answers request 9"):
        decode_response(frame, ProduceResponse, correlation_id=10)
    with pytest.raises(FormatError, match="after the end"):
        decode_response(frame + b"\0", ProduceResponse, correlation_id=9)
    with pytest.raises(FormatError):
        decode_response(frame[:-1], ProduceResponse, correlation_id=9)
    with pytest.raises(FormatError):
        decode_response(b"", ProduceResponse, correlation_id=9)


def test_the_answer_to_api_versions_has_no_header_tags_in_any_version() -> None:
    for version in range(5):
        schema = response_schema(ApiKey.API_VERSIONS, version)
        frame = b"".join(encode_response(build(schema, {"error_code": ErrorCode.NONE}), correlation_id=1))
        assert frame[4:6] == b"\0\0", "the error code follows the correlation id at once"
        assert decode_response(frame, schema, correlation_id=1).api_keys == ()


def test_an_error_code_of_a_newer_server_reads_as_unknown() -> None:
    response = fetch16.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)), error_code=KioErrorCode.none, responses=()
    )
    frame = b"".join(encode_response(response, correlation_id=1))
    newer = frame[:9] + (32_000).to_bytes(2, "big") + frame[11:]
    assert (
        decode_response(newer, fetch16.FetchResponse, correlation_id=1).error_code is KioErrorCode.unknown_server_error
    )


@pytest.mark.parametrize("timestamp_ms", [-2, -86_400_000_000, 0, 1_357_000_000_000])
def test_times_before_1970_survive(timestamp_ms: int) -> None:
    schema = response_schema(ApiKey.PRODUCE, 9)
    partition = {"index": 0, "base_offset": 1, "log_append_time": timestamp_ms}
    message = build(schema, {"responses": [{"name": "t", "partition_responses": [partition]}]})
    frame = b"".join(encode_response(message, correlation_id=1))
    read = decode_response(frame, schema, correlation_id=1).responses[0].partition_responses[0].log_append_time
    assert isinstance(read, datetime)
    assert read.tzinfo is UTC
    assert (read - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) == timestamp_ms


@pytest.mark.parametrize("milliseconds", [-(2**63), -1, 0, 2**63 - 1])
def test_a_duration_beyond_what_python_holds_is_clamped(milliseconds: int) -> None:
    """The retention time of an OffsetCommit: group, generation, member, retention, no topics."""
    body = b"\0\1g" + b"\xff" * 4 + b"\0\0" + milliseconds.to_bytes(8, "big", signed=True) + bytes(4)
    retention: timedelta = decode_request(request_frame(ApiKey.OFFSET_COMMIT, 2, body)).message.retention_time
    assert timedelta.min <= retention <= timedelta.max
    if abs(milliseconds) < 2**32:
        assert retention == timedelta(milliseconds=milliseconds)


def test_a_value_that_its_field_cannot_hold_is_a_format_error() -> None:
    schema = response_schema(ApiKey.LIST_OFFSETS, 1)
    for topic in ({"name": "x" * 40_000}, {"name": "t", "partitions": [{"partition_index": 2**31}]}):
        with pytest.raises(FormatError):
            encode_response(build(schema, {"topics": [topic]}), correlation_id=1)
    with pytest.raises(FormatError, match="client id"):
        encode_request(produce_request(b""), correlation_id=1, client_id="x" * 40_000)


def test_preload_takes_any_api() -> None:
    preload(ApiKey)
    preload([ApiKey.PRODUCE, ApiKey.FETCH], versions=[9, 12])
    assert SUPPORTED_VERSIONS
