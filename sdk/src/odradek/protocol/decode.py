"""Bytes to kio messages: a reader compiled from each schema at its first use.

kio owns the schemas (dataclasses generated from Apache Kafka's); this module decodes bytes into them. kio's native
reader is not used on bytes from outside (docs/decisions/0003): a hostile array length makes it abort the process, an
unknown tagged field is an error to it (KIP-482: ignore it), and it copies record blobs.

Guarantees for any bytes:

* the result is a message or FormatError, nothing else;
* an array allocates nothing before its elements are read, its count is checked against the remaining bytes, and a
  message holds at most `ELEMENTS_MAX` elements and tags, so time and memory are bounded;
* unknown tagged fields are skipped everywhere; null is malformed unless the schema allows it;
* `records` fields are memoryviews of the frame, uncopied, although kio's annotation says bytes.

Values are those of kio's reader (a property test compares them), except where that reader fails: negative times are
read, times after the year 9999 are clamped, unknown error codes become UNKNOWN_SERVER_ERROR, any non-zero bool is true.
"""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any
from uuid import UUID

from odradek.protocol import kio_alone  # noqa: F401  # before kio

# isort: split
from kio.schema.errors import ErrorCode as KioErrorCode

from odradek.errors import ErrorCode, FormatError
from odradek.model.log import Buffer

ELEMENTS_MAX = 500_000  # per message: more than fits a function's response, less than exhausts its memory

_NIL = b"\0" * 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MIN = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_MS_MAX = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_TIMEDELTA_MS_MIN = timedelta.min // timedelta(milliseconds=1)  # a day less than the maximum, by magnitude
_TIMEDELTA_MS_MAX = timedelta.max // timedelta(milliseconds=1)
_KIO_ERROR_CODES = {code.value: code for code in KioErrorCode}


class Cursor:
    """A position in a frame. Readers move `at`; nothing is read past the end."""

    __slots__ = ("at", "buffer", "end", "left")

    def __init__(self, frame: Buffer, at: int = 0) -> None:
        self.buffer = memoryview(frame)
        self.at = at
        self.end = len(self.buffer)
        self.left = ELEMENTS_MAX

    def take(self, count: int) -> memoryview:
        """Return the next `count` bytes, uncopied."""
        start, end = self.at, self.at + count
        if count < 0 or end > self.end:
            raise FormatError(f"{count} bytes are announced, {self.end - start} are left", ErrorCode.INVALID_REQUEST)
        self.at = end
        return self.buffer[start:end]

    def spend(self, count: int) -> None:
        """Account for announced elements; each takes at least one byte."""
        self.left -= count
        if count > self.end - self.at or self.left < 0:
            raise FormatError(f"{count} elements are announced, more than a frame may hold", ErrorCode.INVALID_REQUEST)


Reader = Callable[[Cursor], Any]


def malformed(message: str) -> FormatError:
    return FormatError(message, ErrorCode.INVALID_REQUEST)


def read_message(cursor: Cursor, schema: type[Any]) -> Any:
    """Read one message at the cursor and nothing after it. Raises FormatError."""
    try:
        return entity_reader(schema)(cursor)
    except (struct.error, IndexError):
        raise malformed("the frame ends in the middle of a field") from None
    except UnicodeDecodeError:
        raise malformed("a string is not UTF-8") from None


# --- primitives ---------------------------------------------------------------------------------------------------


def _fixed(layout: str) -> Callable[[Cursor], int]:
    unpack_from, size = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def read(cursor: Cursor) -> int:
        at = cursor.at
        cursor.at = at + size
        value: int = unpack_from(cursor.buffer, at)[0]
        return value

    return read


read_int8 = _fixed(">b")
read_int16 = _fixed(">h")
read_int32 = _fixed(">i")
read_int64 = _fixed(">q")


def read_unsigned_varint(cursor: Cursor) -> int:
    """Read up to 5 bytes, 7 bits each, least significant first."""
    buffer, at = cursor.buffer, cursor.at
    value = byte = buffer[at]
    at += 1
    if byte >= 0x80:
        value &= 0x7F
        shift = 7
        while True:
            byte = buffer[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise malformed("a varint has more than 5 bytes")
    cursor.at = at
    return value


def _compact_length(cursor: Cursor) -> int:
    """Read a length or count, -1 for null."""
    return read_unsigned_varint(cursor) - 1


def _blob(length: Reader, nullable: bool, convert: Callable[[memoryview], Any]) -> Reader:
    def read(cursor: Cursor) -> Any:
        size = length(cursor)
        if size < 0:
            if size == -1 and nullable:
                return None
            raise malformed("null or a negative length where a value is required")
        return convert(cursor.take(size))

    return read


def _as_text(data: memoryview) -> str:
    return str(data, "utf-8")


def _as_records(data: memoryview) -> memoryview:
    return data


def _read_bool(cursor: Cursor) -> bool:
    return read_int8(cursor) != 0


def _read_uuid(cursor: Cursor) -> UUID | None:
    data = bytes(cursor.take(16))
    return None if data == _NIL else UUID(bytes=data)


def _read_error_code(cursor: Cursor) -> KioErrorCode:
    return _KIO_ERROR_CODES.get(read_int16(cursor), KioErrorCode.unknown_server_error)  # type: ignore[call-overload,no-any-return]


def _read_timedelta_i32(cursor: Cursor) -> timedelta:
    return timedelta(milliseconds=read_int32(cursor))


def _read_timedelta_i64(cursor: Cursor) -> timedelta:
    return timedelta(milliseconds=max(_TIMEDELTA_MS_MIN, min(read_int64(cursor), _TIMEDELTA_MS_MAX)))


def _read_datetime(cursor: Cursor) -> datetime | None:
    value = read_int64(cursor)
    return None if value == -1 else ms_to_datetime(value)


def ms_to_datetime(timestamp_ms: int) -> datetime:
    """Convert milliseconds since the epoch to the datetime of kio's schemas, clamped to its range."""
    return _EPOCH + timedelta(milliseconds=max(_MS_MIN, min(timestamp_ms, _MS_MAX)))


_PLAIN: dict[str, Reader] = {
    "int8": read_int8,
    "int16": read_int16,
    "int32": read_int32,
    "int64": read_int64,
    "uint16": _fixed(">H"),
    "uint32": _fixed(">I"),
    "float64": _fixed(">d"),
    "bool": _read_bool,
    "uuid": _read_uuid,
    "error_code": _read_error_code,
    "timedelta_i32": _read_timedelta_i32,
    "timedelta_i64": _read_timedelta_i64,
    "datetime_i64": _read_datetime,
}


def _primitive_reader(kafka_type: str, flexible: bool, nullable: bool) -> Reader:
    if plain := _PLAIN.get(kafka_type):
        return plain
    if kafka_type == "string":
        return _blob(_compact_length if flexible else read_int16, nullable, _as_text)
    if kafka_type in ("bytes", "records"):
        convert = _as_records if kafka_type == "records" else bytes
        return _blob(_compact_length if flexible else read_int32, nullable, convert)
    raise AssertionError(f"no reader for schema type {kafka_type!r}")


# --- composed -----------------------------------------------------------------------------------------------------


def _array(count: Reader, element: Reader, nullable: bool) -> Reader:
    def read(cursor: Cursor) -> tuple[Any, ...] | None:
        size = count(cursor)
        if size < 0:
            if size == -1 and nullable:
                return None
            raise malformed("null or a negative count where an array is required")
        cursor.spend(size)
        return tuple([element(cursor) for _ in range(size)])

    return read


def _nullable_entity(read_entity: Reader) -> Reader:
    """Return a reader of a nullable struct: a signed byte first, negative for null (KIP-893)."""

    def read(cursor: Cursor) -> Any:
        return None if read_int8(cursor) < 0 else read_entity(cursor)

    return read


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """Return a type without its `None`, and whether it had one."""
    if typing.get_origin(annotation) not in (UnionType, typing.Union):
        return annotation, False
    members = [part for part in typing.get_args(annotation) if part is not NoneType]
    assert len(members) == 1, annotation
    return members[0], True


def _field_reader(field: dataclasses.Field[Any], flexible: bool) -> Reader:
    annotation, nullable = _without_none(field.type)
    is_array = typing.get_origin(annotation) is tuple
    element, element_nullable = _without_none(typing.get_args(annotation)[0]) if is_array else (annotation, nullable)
    if dataclasses.is_dataclass(element):
        reader = entity_reader(typing.cast("type[Any]", element))
        if element_nullable and not is_array and "tag" not in field.metadata:
            reader = _nullable_entity(reader)
    else:
        reader = _primitive_reader(field.metadata["kafka_type"], flexible, element_nullable)
    return _array(_compact_length if flexible else read_int32, reader, nullable) if is_array else reader


def _default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the value of an absent tagged field."""
    assert field.default is not dataclasses.MISSING, f"tagged field {field.name} has no default"
    return field.default


_READERS: dict[type[Any], Reader] = {}


def entity_reader(schema: type[Any]) -> Reader:
    """Return the reader of one schema class (message or nested struct), compiled once."""
    reader = _READERS.get(schema)
    if reader is None:
        reader = _READERS[schema] = _compile(schema)
    return reader


def _compile(schema: type[Any]) -> Reader:
    flexible: bool = schema.__flexible__
    fields = dataclasses.fields(schema)
    plain = [(field.name, _field_reader(field, flexible)) for field in fields if "tag" not in field.metadata]
    tagged = {
        field.metadata["tag"]: (field.name, _field_reader(field, flexible))
        for field in fields
        if "tag" in field.metadata
    }
    defaults = {field.name: _default_of(field) for field in fields if "tag" in field.metadata}

    def read_tags(cursor: Cursor, count: int, values: dict[str, Any]) -> None:
        cursor.spend(count)
        for _ in range(count):
            tag, size = read_unsigned_varint(cursor), read_unsigned_varint(cursor)
            start = cursor.at
            cursor.take(size)
            if tag not in tagged:
                continue
            name, reader = tagged[tag]
            cursor.at = start
            values[name] = reader(cursor)
            if cursor.at != start + size:
                raise malformed(f"tagged field {tag} takes {cursor.at - start} bytes, but {size} are announced")

    def read(cursor: Cursor) -> Any:
        values = dict(defaults)
        for name, reader in plain:
            values[name] = reader(cursor)
        if flexible and (count := read_unsigned_varint(cursor)):
            read_tags(cursor, count, values)
        return schema(**values)

    return read
