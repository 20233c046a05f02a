"""The decoder agrees with the schemas' own reader on good bytes, and ends in a message or FormatError on any bytes."""

from __future__ import annotations

import dataclasses
import tracemalloc
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader as kio_reader
from odradek.dispatcher.answer import build
from odradek.errors import FormatError
from odradek.protocol.decode import ELEMENTS_MAX, Cursor, read_message
from odradek.protocol.encode import unsigned_varint
from odradek.protocol.frame import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
    request_schema,
    response_schema,
)
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.examples import examples
from tests.support.kafka.messages import (
    ALL_REQUESTS,
    encode_from_the_future,
    encode_message,
    messages,
    request_frame,
    schema_of,
)

any_api = st.sampled_from(ALL_REQUESTS)
any_schema = st.builds(
    lambda direction, api: schema_of(direction, *api), st.sampled_from(["request", "response"]), any_api
)


def decode(data: bytes, schema: type[Any]) -> tuple[Any, int]:
    cursor = Cursor(data)
    return read_message(cursor, schema), cursor.at


@settings(max_examples=examples(200))
@given(st.data())
def test_what_kio_writes_is_read_as_kio_reads_it(data: st.DataObject) -> None:
    schema = data.draw(any_schema)
    message = data.draw(messages(schema))
    encoded = encode_message(message)
    ours = decode(encoded, schema)
    assert ours == (message, len(encoded))
    assert ours == kio_reader(schema)(encoded, 0)


@settings(max_examples=examples(200))
@given(st.data())
def test_unknown_tagged_fields_are_ignored_wherever_they_stand(data: st.DataObject) -> None:
    schema = data.draw(any_schema)
    message = data.draw(messages(schema))
    encoded = encode_from_the_future(message)
    assert decode(encoded, schema) == (message, len(encoded))


def test_unknown_tagged_fields_are_ignored_in_every_flexible_message() -> None:
    """Not left to chance: one message of every schema, with nested structs where there are any."""
    for api_key, version in ALL_REQUESTS:
        for direction in ("request", "response"):
            schema = schema_of(direction, api_key, version)
            encoded = _one_of_everything(schema)
            message, size = decode(encoded, schema)
            assert (message, size) == kio_reader(schema)(encoded, 0)
            assert decode(encode_from_the_future(message), schema)[0] == message


def _one_of_everything(schema: type[Any]) -> bytes:
    return encode_message(build(schema, _filled(schema)))


def _filled(schema: type[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        field_type: Any = field.type
        if typing.get_origin(field_type) not in (tuple, None):
            field_type = next(part for part in typing.get_args(field_type) if part is not type(None))
        inner = typing.get_args(field_type)[0] if typing.get_origin(field_type) is tuple else field_type
        if dataclasses.is_dataclass(inner):
            nested = _filled(typing.cast("type[Any]", inner))
            values[field.name] = [nested] if inner is not field_type else nested
    return values


@settings(max_examples=examples(200))
@given(api=any_api, body=st.binary(max_size=200))
def test_arbitrary_bodies_decode_or_are_malformed(api: tuple[int, int], body: bytes) -> None:
    frame = request_frame(*api, body)
    try:
        request = decode_request(frame)
    except FormatError:
        return
    assert encode_message(request.message) is not None


@settings(max_examples=examples(200))
@given(st.binary(max_size=100))
def test_arbitrary_frames_parse_or_are_malformed(frame: bytes) -> None:
    for read in (parse_request_header, decode_request):
        try:
            read(frame)
        except FormatError:
            pass


@settings(max_examples=examples(200))
@given(st.data())
def test_mutated_frames_decode_or_are_malformed(data: st.DataObject) -> None:
    api_key, version = data.draw(any_api)
    is_request = data.draw(st.booleans())
    if is_request:
        message = data.draw(messages(request_schema(api_key, version)))
        frame = bytearray(encode_request(message, correlation_id=1, client_id="c"))
    else:
        message = data.draw(messages(response_schema(api_key, version)))
        frame = bytearray(b"".join(encode_response(message, correlation_id=1)))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(frame) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert"])):
            case "flip":
                frame[position] = data.draw(st.integers(0, 255))
            case "cut":
                del frame[max(1, position) :]
            case _:
                frame[position:position] = data.draw(st.binary(min_size=1, max_size=5))
    try:
        if is_request:
            decode_request(bytes(frame))
        else:
            decode_response(bytes(frame), type(message), correlation_id=1)
    except FormatError:
        pass


@settings(max_examples=examples(100))
@given(st.data())
def test_every_truncation_is_malformed(data: st.DataObject) -> None:
    api_key, version = data.draw(any_api)
    message = data.draw(messages(request_schema(api_key, version)))
    frame = encode_request(message, correlation_id=1, client_id="c")
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(FormatError):
        decode_request(frame[:cut])


@settings(max_examples=examples(100))
@given(st.data())
def test_bytes_after_a_request_are_ignored(data: st.DataObject) -> None:
    """As Apache Kafka does: several clients leave some."""
    api_key, version = data.draw(any_api)
    message = data.draw(messages(request_schema(api_key, version)))
    trailing = data.draw(st.binary(min_size=1, max_size=8))
    frame = encode_request(message, correlation_id=1, client_id="c")
    assert encode_request(decode_request(frame + trailing).message, correlation_id=1, client_id="c") == frame


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x01"])
def test_a_hostile_array_length_allocates_nothing(count: bytes) -> None:
    """A native reader would reserve gigabytes for this frame of some twenty bytes, and abort."""
    for api_key, (_, version) in SUPPORTED_VERSIONS.items():
        frame = request_frame(api_key, version, count * 4)
        tracemalloc.start()
        try:
            with pytest.raises(FormatError):
                decode_request(frame)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()


def test_many_small_elements_are_refused_before_they_cost_memory() -> None:
    """OffsetFetch groups of three bytes each, well formed, would be objects of a hundred times that."""
    count = ELEMENTS_MAX + 1
    body = unsigned_varint(count + 1) + b"\x01\x00\x00" * count + b"\0\0"
    with pytest.raises(FormatError, match="elements"):
        decode_request(request_frame(9, 8, body))
    few_groups = unsigned_varint(4) + b"\x01\x00\x00" * 3 + b"\0\0"
    assert len(decode_request(request_frame(9, 8, few_groups)).message.groups) == 3


def test_nested_arrays_share_one_budget() -> None:
    inner = unsigned_varint(ELEMENTS_MAX // 2 + 1) + bytes(4 * (ELEMENTS_MAX // 2)) + b"\0"
    topics = b"\x04" + (b"\x02t" + inner) * 3
    with pytest.raises(FormatError, match="elements"):
        decode_request(request_frame(9, 8, b"\x02\x02g" + topics + b"\0\0\0"))
