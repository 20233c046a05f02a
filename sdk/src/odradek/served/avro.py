"""Avro's binary encoding to JSON values, by a schema's text. Pure; source: Avro 1.12 specification, "Binary Encoding".

    null, boolean, int, long, float, double, string     as JSON has them; NaN and the infinities as texts
    bytes, fixed                                        base64; with the logical type decimal: the number as a text
    record, map: object      array: list      enum: its symbol      union: the value of its branch
    other logical types                                 as the type beneath: times and dates are numbers

Functions have no fastavro, and rows are small. Every input gives a value or FormatError.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterable
from typing import Any

from odradek.errors import FormatError
from odradek.model import decimals

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_DEPTH_MAX = 64
_ITEMS_MAX = 1_000_000


def decode_avro(data: bytes, schema: str, references: Iterable[str] = ()) -> Any:
    """Decode one value.

    Args:
        schema: the text of the writer's schema.
        references: texts of schemas whose named types it uses, in an order in which each finds its own.

    Raises FormatError.
    """
    names: dict[str, Any] = {}
    try:
        for text in references:
            _collect(json.loads(text), "", names)
        parsed = json.loads(schema)
        _collect(parsed, "", names)
        reader = _Reader(data, names)
        value = reader.read(parsed, "", 0)
    except (KeyError, TypeError, ValueError, IndexError, struct.error, RecursionError, ArithmeticError) as error:
        raise FormatError(f"the bytes do not follow their Avro schema: {error}") from None
    if reader.at != len(data):
        raise FormatError(f"{len(data) - reader.at} bytes follow the Avro value")
    return value


def _full_name(schema: Any, namespace: str) -> str:
    name = str(schema["name"])
    if "." in name:
        return name
    space = schema.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def _collect(schema: Any, namespace: str, names: dict[str, Any]) -> None:
    """Note the named types of a schema, with the namespace in which their fields' types are looked up."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, names)
    elif isinstance(schema, dict):
        type_name = schema["type"]
        if type_name in ("record", "error", "enum", "fixed"):
            name = _full_name(schema, namespace)
            namespace = name.rpartition(".")[0]
            names[name] = (schema, namespace)
            for field in schema.get("fields", ()):
                _collect(field["type"], namespace, names)
        elif type_name == "array":
            _collect(schema["items"], namespace, names)
        elif type_name == "map":
            _collect(schema["values"], namespace, names)
        elif isinstance(type_name, dict | list):
            _collect(type_name, namespace, names)


class _Reader:
    def __init__(self, data: bytes, names: dict[str, Any]) -> None:
        self._data = data
        self._names = names
        self.at = 0

    def read(self, schema: Any, namespace: str, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        if isinstance(schema, list):
            return self.read(schema[self._index(len(schema))], namespace, depth + 1)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return self._primitive(schema)
            named_schema = self._names.get(f"{namespace}.{schema}" if namespace and "." not in schema else schema)
            named, space = named_schema if named_schema is not None else self._names[schema]
            return self._complex(named, space, depth)
        type_name = schema["type"]
        if type_name in ("record", "error", "enum", "fixed"):
            return self._complex(schema, _full_name(schema, namespace).rpartition(".")[0], depth)
        if type_name == "array":
            return [self.read(schema["items"], namespace, depth + 1) for _ in self._blocks()]
        if type_name == "map":
            return {self._text(): self.read(schema["values"], namespace, depth + 1) for _ in self._blocks()}
        if schema.get("logicalType") == "decimal" and type_name == "bytes":
            return self._decimal(self._bytes(), schema)
        return self.read(type_name, namespace, depth + 1)

    def _complex(self, schema: Any, namespace: str, depth: int) -> Any:
        type_name = schema["type"]
        if type_name == "enum":
            return schema["symbols"][self._index(len(schema["symbols"]))]
        if type_name == "fixed":
            data = self._take(int(schema["size"]))
            if schema.get("logicalType") == "decimal":
                return self._decimal(data, schema)
            return base64.b64encode(data).decode()
        return {field["name"]: self.read(field["type"], namespace, depth + 1) for field in schema["fields"]}

    def _primitive(self, type_name: str) -> Any:
        match type_name:
            case "null":
                return None
            case "boolean":
                return self._take(1) == b"\x01"
            case "int" | "long":
                return self._number()
            case "float":
                return _json_number(struct.unpack("<f", self._take(4))[0])
            case "double":
                return _json_number(struct.unpack("<d", self._take(8))[0])
            case "bytes":
                return base64.b64encode(self._bytes()).decode()
        return self._text()

    def _decimal(self, data: bytes, schema: Any) -> str:
        return f"{decimals.of_bytes(data, int(schema.get('scale', 0))):f}"

    def _number(self) -> int:
        """Zigzag and variable length; at most 10 bytes."""
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than 10 bytes")

    def _index(self, count: int) -> int:
        index = self._number()
        if not 0 <= index < count:
            raise ValueError(f"there is no branch {index}")
        return index

    def _blocks(self) -> Iterable[int]:
        total = 0
        while count := self._number():
            if count < 0:  # the block's size in bytes follows
                count = -count
                self._number()
            total += count
            if total > _ITEMS_MAX:
                raise ValueError("a list has too many elements")
            yield from range(count)

    def _text(self) -> str:
        return self._bytes().decode()

    def _bytes(self) -> bytes:
        return self._take(self._number())

    def _take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self._data):
            raise ValueError("it ends too early")
        taken = self._data[self.at : self.at + count]
        self.at += count
        return taken


def _json_number(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)
