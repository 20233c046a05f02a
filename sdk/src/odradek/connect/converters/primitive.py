"""Converters of single values: text, bytes, numbers, booleans, and the simple text of headers."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

from odradek.connect.config import ConfigDef, Kind
from odradek.connect.converters.base import Converter
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import check_value
from odradek.connect.data.values import NULL, SchemaAndValue, parse_text, short_float32, to_text
from odradek.connect.errors import DataError


class ByteArrayConverter(Converter):
    """Bytes as they are."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"ByteArrayConverter takes bytes, not {schema.type.value}: choose another converter")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter takes bytes, not {type(value).__name__}: choose another converter")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(schemas.OPTIONAL_BYTES, data)


_ENCODING = ConfigDef().define("converter.encoding", Kind.STRING, "UTF-8", "The character set.", importance="HIGH")


class StringConverter(Converter):
    """Text; other values are written in their text form."""

    config_def = _ENCODING

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return to_text(_as_typed(schema, value)).encode(self.configs["converter.encoding"])
        except (LookupError, UnicodeError) as error:
            raise DataError(f"the text cannot be encoded: {error}") from error

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(schemas.OPTIONAL_STRING, None)
        try:
            return SchemaAndValue(schemas.OPTIONAL_STRING, data.decode(self.configs["converter.encoding"]))
        except (LookupError, UnicodeError) as error:
            raise DataError(f"the bytes are not text: {error}") from error


def _as_typed(schema: Schema | None, value: Any) -> Any:
    """Return a value whose floats have the digits of their type: 0.1, not 0.10000000149011612, of 32 bits."""
    if schema is None or value is None:
        return value
    if schema.type is Type.FLOAT32:
        return short_float32(float(value))
    if schema.type is Type.FLOAT64:
        return float(value)
    if schema.type is Type.ARRAY:
        return [_as_typed(schema.elements, each) for each in value]
    if schema.type is Type.MAP:
        return {key: _as_typed(schema.elements, each) for key, each in value.items()}
    return value


class SimpleHeaderConverter(Converter):
    """Headers as text, which is parsed to the narrowest type that holds it; Connect's default for headers."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else to_text(_as_typed(schema, value)).encode()

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            return parse_text(data.decode())
        except UnicodeDecodeError:
            return SchemaAndValue(schemas.BYTES, data)


class _NumberConverter(Converter):
    """Numbers in big-endian bytes, as Kafka's serializers write them."""

    _schema: ClassVar[Schema]
    _format: ClassVar[struct.Struct]

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not self._schema.type:
            raise DataError(f"{type(self).__name__} takes {self._schema.type.value}, not {schema.type.value}")
        if value is None:
            return None
        check_value(self._schema, value)
        try:
            return self._format.pack(value)
        except (struct.error, OverflowError) as error:
            raise DataError(f"{value!r} does not fit {self._schema.type.value}: {error}") from error

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        schema = self._schema.as_optional()
        if data is None:
            return SchemaAndValue(schema, None)
        if len(data) != self._format.size:
            raise DataError(f"{self._schema.type.value} has {self._format.size} bytes, not {len(data)}")
        return SchemaAndValue(schema, self._format.unpack(data)[0])


class ShortConverter(_NumberConverter):
    """16-bit integers."""

    _schema, _format = schemas.INT16, struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """32-bit integers."""

    _schema, _format = schemas.INT32, struct.Struct(">i")


class LongConverter(_NumberConverter):
    """64-bit integers."""

    _schema, _format = schemas.INT64, struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """32-bit floating point numbers."""

    _schema, _format = schemas.FLOAT32, struct.Struct(">f")


class DoubleConverter(_NumberConverter):
    """64-bit floating point numbers."""

    _schema, _format = schemas.FLOAT64, struct.Struct(">d")


class BooleanConverter(Converter):
    """Booleans: one byte, 0 or 1."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"BooleanConverter takes boolean, not {schema.type.value}")
        if value is None:
            return None
        check_value(schemas.BOOLEAN, value)
        return b"\x01" if value else b"\x00"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError("a boolean is one byte, 0 or 1")
        return SchemaAndValue(schemas.OPTIONAL_BOOLEAN, None if data is None else data == b"\x01")
