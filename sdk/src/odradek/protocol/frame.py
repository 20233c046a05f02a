"""Kafka frames: one request or response without the 4-byte length that precedes it on TCP (docs/formats/frames.md).

    request    api key i16 | api version i16 | correlation id i32 | client id (nullable string) | [tags] | message
    response   correlation id i32 | [tags] | message

Only flexible versions have tags in the header (KIP-482). The response header of ApiVersions never has them, so that a
client can read the response before it knows which versions the server supports (KIP-511).

For any bytes, decoding ends in a message or in FormatError. Bytes after the end of a request are ignored, as Apache
Kafka does: librdkafka leaves three after Metadata of all topics (its issue 5049), and empty tags after ListGroups and
AlterUserScramCredentials. After the end of a response they are malformed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from odradek.protocol import kio_alone  # noqa: F401  # before kio

# isort: split
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer
from kio.serial.errors import SerialError

from odradek.errors import ErrorCode, FormatError
from odradek.model.log import Buffer
from odradek.protocol.api import ApiKey
from odradek.protocol.conditional_produce import with_conditions, with_next_offset
from odradek.protocol.decode import Cursor, entity_reader, malformed, read_int32, read_message, read_unsigned_varint
from odradek.protocol.numbered_commit import with_added, with_uploaded
from odradek.protocol.versions import SUPPORTED_VERSIONS, is_supported

ResponseT = TypeVar("ResponseT")

CLIENT_ID_BYTES_MAX = 32_767
_PASS_UNCOPIED_BYTES = 1024  # parts of at least this size are passed on uncopied; smaller ones are joined

_REQUEST_PREFIX = struct.Struct(
    ">"
    "h"  # api key
    "h"  # api version
    "i"  # correlation id
    "h"  # length of the client id, -1 null
)


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The fields that route a request and answer an error. `api_key` may be unknown."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int  # where the message starts; meaningless for an unsupported version


@dataclass(frozen=True, slots=True)
class Request:
    """A decoded request; `message` is the kio request dataclass of that API and version."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any


@cache
def request_schema(api_key: int, api_version: int) -> type[Any]:
    """Return the kio class of a request. Raises FormatError(UNSUPPORTED_VERSION) if it is not served."""
    if not is_supported(api_key, api_version):
        raise FormatError(f"API {api_key} version {api_version} is not served here", ErrorCode.UNSUPPORTED_VERSION)
    schema = load_request_schema(api_key, api_version)
    if api_key == ApiKey.END_TXN:
        return with_uploaded(schema)
    return with_conditions(schema) if api_key == ApiKey.PRODUCE else schema


@cache
def response_schema(api_key: int, api_version: int) -> type[Any]:
    """Return the kio class of a response. Raises FormatError(UNSUPPORTED_VERSION) if it is not served."""
    if not is_supported(api_key, api_version):
        raise FormatError(f"API {api_key} version {api_version} is not served here", ErrorCode.UNSUPPORTED_VERSION)
    schema = load_response_schema(api_key, api_version)
    if api_key == ApiKey.END_TXN:
        return with_added(schema)
    return with_next_offset(schema) if api_key == ApiKey.PRODUCE else schema


def preload(api_keys: Iterable[ApiKey], versions: Iterable[int] | None = None) -> None:
    """Load schemas before the first request: each takes 5 to 15 ms, which the first request with it would spend.

    Args:
        api_keys: the APIs.
        versions: only these versions of each; None loads the highest one.
    """
    wanted = None if versions is None else frozenset(versions)
    for key in api_keys:
        if key not in SUPPORTED_VERSIONS:
            continue
        low, high = SUPPORTED_VERSIONS[key]
        for version in (high,) if wanted is None else (v for v in range(low, high + 1) if v in wanted):
            entity_reader(request_schema(key, version))
            entity_writer(response_schema(key, version))


# --- requests -----------------------------------------------------------------------------------------------------


def encode_request(message: Any, *, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a kio request message with its header. Raises FormatError for a value that its field cannot hold."""
    return b"".join(encode_request_parts(message, correlation_id=correlation_id, client_id=client_id))


def encode_request_parts(message: Any, *, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Encode like `encode_request`, in parts: record blobs are passed on uncopied."""
    name = None if client_id is None else client_id.encode()
    if name is not None and len(name) > CLIENT_ID_BYTES_MAX:
        raise malformed(f"a client id may have at most {CLIENT_ID_BYTES_MAX} bytes")
    header = _REQUEST_PREFIX.pack(
        message.__api_key__, message.__version__, correlation_id, -1 if name is None else len(name)
    )
    header += name or b""
    if message.__header_schema__.__flexible__:
        header += b"\0"
    return _encode(header, message)


def parse_request_header(frame: Buffer) -> RequestHeader:
    """Parse the header only, also of an unsupported API or version. Raises FormatError."""
    cursor = Cursor(frame)
    if cursor.end < _REQUEST_PREFIX.size:
        raise malformed(f"a request must have at least {_REQUEST_PREFIX.size} bytes, not {cursor.end}")
    api_key, api_version, correlation_id, size = _REQUEST_PREFIX.unpack_from(cursor.buffer, 0)
    cursor.at = _REQUEST_PREFIX.size
    if size < -1:
        raise malformed("the client id has a negative length")
    try:
        client_id = None if size == -1 else str(cursor.take(size), "utf-8")
    except UnicodeDecodeError:
        raise malformed("the client id is not UTF-8") from None
    if is_supported(api_key, api_version) and request_schema(api_key, api_version).__header_schema__.__flexible__:
        _skip_tags(cursor)
    return RequestHeader(api_key, api_version, correlation_id, client_id, cursor.at)


def decode_request(frame: Buffer, header: RequestHeader | None = None) -> Request:
    """Decode a whole request.

    Args:
        frame: header and message.
        header: of this frame, if it is already parsed.

    Raises:
        FormatError: UNSUPPORTED_VERSION for an API or version that is not served, otherwise INVALID_REQUEST: malformed
            or truncated.
    """
    header = header or parse_request_header(frame)
    schema = request_schema(header.api_key, header.api_version)
    cursor = Cursor(frame, header.body_position)
    message = read_message(cursor, schema)
    return Request(ApiKey(header.api_key), header.api_version, header.correlation_id, header.client_id, message)


# --- responses ----------------------------------------------------------------------------------------------------


def response_header(schema: type[Any], correlation_id: int) -> bytes:
    """Encode the header of a response of this schema."""
    return correlation_id.to_bytes(4, "big", signed=True) + (b"\0" if schema.__header_schema__.__flexible__ else b"")


def encode_response(message: Any, *, correlation_id: int) -> list[Buffer]:
    """Encode a kio response message with its header, in parts: large blobs are passed on uncopied."""
    return _encode(response_header(type(message), correlation_id), message)


def decode_response(frame: Buffer, response_type: type[ResponseT], *, correlation_id: int) -> ResponseT:
    """Decode the response to the request with that correlation id.

    Raises FormatError if the bytes are malformed, too many, or the response to another request.
    """
    cursor = Cursor(frame)
    if cursor.end < 4:
        raise malformed(f"a response must have at least 4 bytes, not {cursor.end}")
    answered = read_int32(cursor)
    if answered != correlation_id:
        raise malformed(f"the response answers request {answered}, not {correlation_id}")
    if response_type.__header_schema__.__flexible__:  # type: ignore[attr-defined]
        _skip_tags(cursor)
    message: ResponseT = read_message(cursor, response_type)
    _require_end(cursor)
    return message


# --- shared -------------------------------------------------------------------------------------------------------


class PartWriter:
    """The output of kio's writers: joins small pieces and keeps large ones uncopied."""

    __slots__ = ("_parts", "_small")

    def __init__(self, start: bytes = b"") -> None:
        self._parts: list[Buffer] = []
        self._small: list[Buffer] = [start]

    def write(self, data: Buffer) -> None:
        if len(data) < _PASS_UNCOPIED_BYTES:
            self._small.append(data)
            return
        self._flush()
        self._parts.append(data)

    def _flush(self) -> None:
        if self._small:
            self._parts.append(b"".join(self._small))
            self._small = []

    def parts(self) -> list[Buffer]:
        self._flush()
        return self._parts


def size_bytes(parts: Sequence[Buffer]) -> int:
    """Return the length of a frame in parts."""
    return sum(len(part) for part in parts)


def _encode(header: bytes, message: Any) -> list[Buffer]:
    writer = PartWriter(header)
    try:
        entity_writer(type(message))(writer, message)  # type: ignore[arg-type]
    except (SerialError, struct.error, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise malformed(f"{type(message).__name__} cannot be encoded: {error}") from error
    return writer.parts()


def _skip_tags(cursor: Cursor) -> None:
    try:
        count = read_unsigned_varint(cursor)
        cursor.spend(count)
        for _ in range(count):
            read_unsigned_varint(cursor)
            cursor.take(read_unsigned_varint(cursor))
    except IndexError:
        raise malformed("the frame ends in its header") from None


def _require_end(cursor: Cursor) -> None:
    if cursor.at != cursor.end:
        raise malformed(f"{cursor.end - cursor.at} bytes are left after the end of the message")
