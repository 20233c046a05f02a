"""Messages to bytes and back by their schemas: any API in any version.

A message is a dict by the names of its schema. What is left out has the schema's default; what the schema or the
version lacks is an error, so that a probe does not ask another question than it says. Bytes and records stay bytes, a
UUID is a uuid.UUID, an unknown tagged field comes back under UNKNOWN_TAGS.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.peers.schemas import Field, Message, Versions

UNKNOWN_TAGS = "_unknown_tags"
NO_UUID = uuid.UUID(int=0)
_NUMBERS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
_BYTES = ("bytes", "records")


class Malformed(Exception):
    """Bytes that are not the message; says where."""


# --- to bytes ---------------------------------------------------------------------------------------------------------


def encode(message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    """Encode a message. Raises ValueError if a value has no field in this version."""
    return _Writer(message, version).structure(message.fields, values)


def unsigned_varint(number: int) -> bytes:
    """Encode as Kafka's unsigned varint."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def encode_string(text: str | bytes | None, is_compact: bool) -> bytes:
    """Encode a string or null with its length."""
    data = text.encode() if isinstance(text, str) else text
    return _length(None if data is None else len(data), ">h", is_compact) + (data or b"")


def _length(count: int | None, form: str, is_compact: bool) -> bytes:
    if is_compact:
        return unsigned_varint(0 if count is None else count + 1)
    return struct.pack(form, -1 if count is None else count)


class _Writer:
    def __init__(self, message: Message, version: int) -> None:
        self._structures = message.structures
        self._version = version
        self._is_flexible = version in message.flexible

    def structure(self, fields: Sequence[Field], values: Mapping[str, Any]) -> bytes:
        fields_there = [field for field in fields if self._version in field.versions]
        if unknown := set(values) - {field.name for field in fields_there}:
            raise ValueError(f"version {self._version} has no field {', '.join(sorted(unknown))}")
        parts, tagged = [], {}
        for field in fields_there:
            if self._version in field.tagged:
                if field.name in values:
                    tagged[field.tag or 0] = self._field(field, values[field.name])
            else:
                parts.append(self._field(field, values.get(field.name, self._default(field))))
        if self._is_flexible:
            parts.append(unsigned_varint(len(tagged)))
            for tag, data in sorted(tagged.items()):
                parts += unsigned_varint(tag), unsigned_varint(len(data)), data
        return b"".join(parts)

    def _field(self, field: Field, value: Any) -> bytes:
        is_compact = self._is_flexible if field.flexible is None else self._version in field.flexible
        if field.is_array:
            count = None if value is None else len(value)
            elements = (self._element(field.element, element, is_compact) for element in value or ())
            return _length(count, ">i", is_compact) + b"".join(elements)
        if field.element in self._structures and self._version in field.nullable:
            return b"\xff" if value is None else b"\x01" + self._element(field.element, value, is_compact)
        return self._element(field.element, value, is_compact)

    def _element(self, field_type: str, value: Any, is_compact: bool) -> bytes:
        if field_type in _NUMBERS:
            return struct.pack(_NUMBERS[field_type], value)
        if field_type == "string":
            return encode_string(value, is_compact)
        if field_type == "uuid":
            return (value or NO_UUID).bytes
        if field_type in _BYTES:
            return _length(None if value is None else len(value), ">i", is_compact) + (value or b"")
        return self.structure(self._structures[field_type], value)

    def _default(self, field: Field) -> Any:
        default = field.default
        if default == "null":
            return None
        if field.is_array:
            return []
        if field.type == "bool":
            return str(default).lower() == "true"
        if field.type == "float64":
            return float(default or 0)
        if field.type in _NUMBERS:
            return int(str(default or 0), 0)
        if field.type == "string":
            return default or ""
        return {"uuid": NO_UUID, "bytes": b"", "records": None}.get(field.type, {})


# --- from bytes -------------------------------------------------------------------------------------------------------


def decode(message: Message, version: int, data: bytes) -> dict[str, Any]:
    """Decode a message that ends with the data. Raises Malformed."""
    reader = _Reader(message, version, data)
    values = reader.structure(message.fields)
    if left := len(data) - reader.position:
        raise Malformed(f"{left} bytes after {message.name} {version}")
    return values


class _Reader:
    def __init__(self, message: Message, version: int, data: bytes) -> None:
        self._message = message
        self._version = version
        self._is_flexible = version in message.flexible
        self._data = data
        self.position = 0

    def structure(self, fields: Sequence[Field]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        tagged = {}
        for field in fields:
            if self._version not in field.versions:
                continue
            if self._version in field.tagged:
                tagged[field.tag] = field
            else:
                values[field.name] = self._field(field)
        if self._is_flexible:
            self._tags(tagged, values)
        return values

    def _tags(self, tagged: Mapping[int | None, Field], values: dict[str, Any]) -> None:
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            end = self.position + size
            if tag in tagged:
                values[tagged[tag].name] = self._field(tagged[tag])
                if self.position != end:
                    raise Malformed(f"tagged field {tagged[tag].name} of {self._message.name} has not {size} bytes")
            else:
                values.setdefault(UNKNOWN_TAGS, {})[tag] = self._take(size)

    def _field(self, field: Field) -> Any:
        is_compact = self._flexible(field.flexible)
        if field.is_array:
            count = self._length(">i", is_compact)
            return None if count is None else [self._element(field.element, is_compact) for _ in range(count)]
        if field.element in self._message.structures and self._version in field.nullable:
            return self._element(field.element, is_compact) if self._number(">b") >= 0 else None
        return self._element(field.element, is_compact)

    def _flexible(self, own: Versions | None) -> bool:
        return self._is_flexible if own is None else self._version in own

    def _element(self, field_type: str, is_compact: bool) -> Any:
        if field_type in _NUMBERS:
            return self._number(_NUMBERS[field_type])
        if field_type == "string":
            size = self._length(">h", is_compact)
            return None if size is None else self._take(size).decode()
        if field_type == "uuid":
            return uuid.UUID(bytes=self._take(16))
        if field_type in _BYTES:
            size = self._length(">i", is_compact)
            return None if size is None else self._take(size)
        return self.structure(self._message.structures[field_type])

    def _length(self, form: str, is_compact: bool) -> int | None:
        count = self._varint() - 1 if is_compact else self._number(form)
        return None if count < 0 else int(count)

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def _take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > len(self._data):
            raise Malformed(f"{self._message.name} {self._version} ends at {len(self._data)}, not {self.position}")
        return self._data[start : self.position]
