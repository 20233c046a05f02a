"""Values in Avro's binary encoding as forms: the id of the schema and branches of unions are the form, data the texts.

A nullable scalar is one text with its branch, since a cell says whether it is null. Arrays, maps, enums, fixed and
unions of several types are texts that no column makes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from odradek.columnar.recipes.forms import Hole, KnownForms, Split
from odradek.columnar.typed.avro_values import collect_names, full_name, resolved
from odradek.errors import FormatError
from odradek.format.varint import decode_varlong, encode_varlong
from odradek.model.value_schema import ValueSchema

_DEPTH_MAX, _TYPES_MAX = 32, 10_000
_WHOLE = dict.fromkeys(("int", "bigint", "date", "timestamp", "timestamp_ntz"), "zm")
_ENCODINGS = {
    "int": _WHOLE,
    "long": _WHOLE,
    "float": {"float": "F"},
    "double": {"double": "D"},
    "boolean": {"boolean": "B"},
    "string": {"string": "l"},
    "bytes": {"binary": "l"},
}
_FIXED = {"float": 4, "double": 8, "boolean": 1}
_NOWHERE = Hole((), {})

Spans = list[tuple[int, int, Hole]]
_Walk = Callable[[bytes, int, Spans], int]  # from a position on: adds texts, returns where the data end


class AvroForms:
    """Splits the values of one schema. Raises FormatError for a schema that cannot be read.

    Args:
        prefix_bytes: before the data, such as the id of the schema.
    """

    def __init__(self, schema: ValueSchema, prefix_bytes: int) -> None:
        self._prefix_bytes = prefix_bytes
        self._forms = KnownForms()
        self._names: dict[str, Any] = {}
        self._types = 0
        try:
            for _, text in schema.references:
                collect_names(json.loads(text), "", self._names)
            root = json.loads(schema.text)
            collect_names(root, "", self._names)
            self._walk = self._walk_of(root, "", (), 0)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(f"the Avro schema cannot be read: {error}") from error

    def split(self, value: bytes) -> Split | None:
        """See forms.Forms."""
        spans: Spans = []
        try:
            end = self._walk(value, self._prefix_bytes, spans)
        except (IndexError, FormatError):
            return None
        return self._forms.split(value, spans) if end == len(value) else None

    def _walk_of(self, schema: Any, space: str, path: tuple[str, ...], depth: int) -> _Walk:
        self._types += 1
        if depth > _DEPTH_MAX or self._types > _TYPES_MAX:
            raise ValueError("it has too many types, or a type within itself")
        schema, space = resolved(schema, space, self._names)
        if isinstance(schema, list):
            return self._union(schema, space, path, depth)
        type_name = schema if isinstance(schema, str) else schema["type"]
        if isinstance(type_name, dict | list):
            return self._walk_of(type_name, space, path, depth + 1)
        if type_name in ("record", "error"):
            inside = full_name(schema["name"], schema.get("namespace", space)).rpartition(".")[0]
            walks = [
                self._walk_of(field["type"], inside, (*path, field["name"]), depth + 1) for field in schema["fields"]
            ]
            return lambda data, at, spans: _all(walks, data, at, spans)
        if type_name in ("array", "map"):
            item = self._walk_of(schema["items" if type_name == "array" else "values"], space, (), depth + 1)
            return _as_text(_blocks(item, has_keys=type_name == "map"), _NOWHERE)
        if type_name == "fixed":
            size = int(schema["size"])
            return _as_text(lambda data, at, _: _checked(data, at + size), _NOWHERE)
        return _as_text(_scalar(type_name), Hole(path, _ENCODINGS.get(type_name, {})))

    def _union(self, schema: list[Any], space: str, path: tuple[str, ...], depth: int) -> _Walk:
        walks = [self._walk_of(branch, space, path, depth + 1) for branch in schema]
        value_branches = [number for number, branch in enumerate(schema) if branch != "null"]
        if len(schema) != 2 or len(value_branches) != 1:
            return _as_text(lambda data, at, _: _branch(walks, data, at, []), _NOWHERE)
        value_type, _ = resolved(schema[value_branches[0]], space, self._names)
        if isinstance(value_type, dict) and not isinstance(value_type["type"], dict | list):
            value_type = value_type["type"]
        if value_type not in _ENCODINGS:
            return lambda data, at, spans: _branch(walks, data, at, spans)
        hole = Hole(
            path, _ENCODINGS[value_type], encode_varlong(1 - value_branches[0]), encode_varlong(value_branches[0])
        )
        return _as_text(lambda data, at, _: _branch(walks, data, at, []), hole)


def _all(walks: list[_Walk], data: bytes, at: int, spans: Spans) -> int:
    for walk in walks:
        at = walk(data, at, spans)
    return at


def _as_text(walk: _Walk, hole: Hole) -> _Walk:
    def text(data: bytes, at: int, spans: Spans) -> int:
        end = walk(data, at, [])
        spans.append((at, end, hole))
        return end

    return text


def _branch(walks: list[_Walk], data: bytes, at: int, spans: Spans) -> int:
    number, at = decode_varlong(data, at)
    if number < 0:
        raise IndexError
    return walks[number](data, at, spans)


def _blocks(item: _Walk, *, has_keys: bool) -> _Walk:
    def blocks(data: bytes, at: int, spans: Spans) -> int:
        while True:
            count, at = decode_varlong(data, at)
            if count < 0:  # with the size of the block
                count = -count
                _, at = decode_varlong(data, at)
            if not count:
                return at
            for _ in range(count):
                start = at
                at = item(data, _sized(data, at) if has_keys else at, spans)
                if at == start:  # items of no bytes: there may be any number of them
                    raise IndexError

    return blocks


def _scalar(type_name: str) -> _Walk:
    if type_name == "null":
        return lambda data, at, spans: at
    if type_name in _FIXED:
        size = _FIXED[type_name]
        return lambda data, at, spans: _checked(data, at + size)
    if type_name in ("string", "bytes"):
        return lambda data, at, spans: _sized(data, at)
    if type_name in ("int", "long", "enum"):
        return lambda data, at, spans: decode_varlong(data, at)[1]
    raise ValueError(f"no type {type_name}")


def _sized(data: bytes, at: int) -> int:
    size, at = decode_varlong(data, at)
    if size < 0:
        raise IndexError
    return _checked(data, at + size)


def _checked(data: bytes, end: int) -> int:
    if end > len(data):
        raise IndexError
    return end
