"""Random kio messages of every API that Odradek speaks, and encodings that only a newer peer would send."""

from __future__ import annotations

import dataclasses
import io
import typing
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.serial._serialize import get_field_writer
from odradek.protocol.encode import string, unsigned_varint
from odradek.protocol.frame import request_schema, response_schema
from odradek.protocol.versions import SUPPORTED_VERSIONS

ALL_REQUESTS = [(key, version) for key, (low, high) in SUPPORTED_VERSIONS.items() for version in range(low, high + 1)]

_TEXT = st.text(max_size=12)
_PLAIN = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(),
    "bool": st.booleans(),
    "string": _TEXT,
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
    "error_code": st.sampled_from(ErrorCode),
    "uuid": st.none() | st.uuids(allow_nil=False),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**42).map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)),
}


def schema_of(direction: str, api_key: int, version: int) -> type[Any]:
    return request_schema(api_key, version) if direction == "request" else response_schema(api_key, version)


@cache
def messages(schema: type[Any]) -> st.SearchStrategy[Any]:
    """Messages of one schema, tagged fields at times left at their default."""
    return st.builds(schema, **{field.name: _field(field) for field in dataclasses.fields(schema)})


def _field(field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    field_type, nullable = _without_none(field.type)
    if typing.get_origin(field_type) is tuple:
        element = _without_none(typing.get_args(field_type)[0])[0]
        values = st.lists(_value(field, element), max_size=3).map(tuple)
    else:
        values = _value(field, field_type)
    tagged = "tag" in field.metadata
    if nullable and not tagged:
        values = st.none() | values
    return st.just(field.default) | values if tagged else values


def _value(field: dataclasses.Field[Any], field_type: Any) -> st.SearchStrategy[Any]:
    return messages(field_type) if dataclasses.is_dataclass(field_type) else _PLAIN[field.metadata["kafka_type"]]


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) not in (UnionType, typing.Union):
        return annotation, False
    return next(part for part in typing.get_args(annotation) if part is not NoneType), True


def encode_message(message: Any) -> bytes:
    """A message as kio writes it, without a header."""
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def encode_from_the_future(message: Any, tag: int = 9_999, content: bytes = b"new") -> bytes:
    """The message with a tagged field that nobody knows at the end of every flexible struct, however deep."""
    schema = type(message)
    flexible = schema.__flexible__
    out, tags = io.BytesIO(), []
    for field in dataclasses.fields(schema):
        value = getattr(message, field.name)
        field_tag = field.metadata.get("tag")
        if field_tag is None:
            _write(out, field, value, flexible)
        elif value != field.default:
            body = io.BytesIO()
            _write(body, field, value, flexible)
            tags.append((field_tag, body.getvalue()))
    if flexible:
        tags = sorted([*tags, (tag, content)])
        out.write(unsigned_varint(len(tags)))
        for number, body in tags:
            out.write(unsigned_varint(number) + unsigned_varint(len(body)) + body)
    return out.getvalue()


def _write(out: io.BytesIO, field: dataclasses.Field[Any], value: Any, flexible: bool) -> None:
    field_type, nullable = _without_none(field.type)
    is_array = typing.get_origin(field_type) is tuple
    element = _without_none(typing.get_args(field_type)[0])[0] if is_array else field_type
    if not dataclasses.is_dataclass(element):
        writer = get_field_writer(field, flexible=flexible, is_request_header=False, is_tag="tag" in field.metadata)
        writer(out, value)
        return
    if is_array:
        if value is None:
            out.write(b"\0" if flexible else b"\xff\xff\xff\xff")
            return
        out.write(unsigned_varint(len(value) + 1) if flexible else len(value).to_bytes(4, "big"))
        for item in value:
            out.write(encode_from_the_future(item))
        return
    if nullable and "tag" not in field.metadata:
        out.write(b"\xff" if value is None else b"\x01")
    if value is not None:
        out.write(encode_from_the_future(value))


def request_frame(
    api_key: int, version: int, body: bytes, *, correlation_id: int = 1, client_id: str | None = "test"
) -> bytes:
    """A request frame around any body."""
    header = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    header += correlation_id.to_bytes(4, "big", signed=True) + string(client_id, False)
    try:
        flexible = request_schema(api_key, version).__header_schema__.__flexible__
    except Exception:
        flexible = False
    return header + (b"\0" if flexible else b"") + body
