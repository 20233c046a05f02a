"""Avro: the fields of a schema as kinds, and values to data by Avro's own resolution of schemas (fastavro).

    int, long, float, double, boolean, string, bytes    the same          fixed    binary
    decimal, date, time-*, timestamp-*, local-timestamp-*    decimal, date, time, timestamp, timestamp_ntz
    uuid, enum, a union of several types, a type within itself    string: the last two as JSON, but text as it is
    a record whose fields differ in case alone    string, as JSON
    nullable    the type      record, array, map    struct, array, map

Counts of nanoseconds, which microseconds do not hold, stay bigint.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import UUID

from odradek.errors import FormatError
from odradek.extras import extra
from odradek.model import decimals, kinds
from odradek.model.kinds import Fields, Kind
from odradek.model.value_schema import ValueSchema

_DEPTH_MAX = 12
_PRIMITIVES = {
    "boolean": kinds.BOOLEAN,
    "int": kinds.INT,
    "long": kinds.BIGINT,
    "float": kinds.FLOAT,
    "double": kinds.DOUBLE,
    "string": kinds.STRING,
    "bytes": kinds.BINARY,
}
_LOGICAL = {
    ("int", "date"): kinds.DATE,
    ("int", "time-millis"): kinds.TIME,
    ("long", "time-micros"): kinds.TIME,
    ("long", "timestamp-millis"): kinds.TIMESTAMP,
    ("long", "timestamp-micros"): kinds.TIMESTAMP,
    ("long", "local-timestamp-millis"): kinds.TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): kinds.TIMESTAMP_NTZ,
    ("string", "uuid"): kinds.STRING,
}


def avro_fields(schema: ValueSchema) -> Fields:
    """Return the fields of a record. Raises FormatError for a schema that is not a record's, or does not parse."""
    try:
        names: dict[str, Any] = {}
        for _, text in schema.references:
            collect_names(json.loads(text), "", names)
        root = json.loads(schema.text)
        collect_names(root, "", names)
        root, space = resolved(_only(root), "", names)
        if not isinstance(root, dict) or root.get("type") not in ("record", "error"):
            raise FormatError("the Avro schema is not a record's")
        return _fields(root, space, names, ())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"the Avro schema cannot be read: {error}") from error


def _fields(record: Any, space: str, names: dict[str, Any], within: tuple[str, ...]) -> Fields:
    name = full_name(record["name"], record.get("namespace", space))
    inside = name.rpartition(".")[0]
    return [
        (each["name"], _kind(each["type"], inside, names, (*within, name)))
        for each in record["fields"]
        if kinds.is_name(each["name"])
    ]


def _kind(schema: Any, space: str, names: dict[str, Any], within: tuple[str, ...]) -> Kind:
    schema = _only(schema)
    if isinstance(schema, list):
        return kinds.STRING
    schema, space = resolved(schema, space, names)
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema, kinds.STRING)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _kind(kind, space, names, within)
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        try:
            return kinds.decimal(int(schema["precision"]), int(schema.get("scale", 0)))
        except ValueError:
            return kinds.STRING  # more digits than a file's decimal has
    if (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    if kind in ("record", "error"):
        if full_name(schema["name"], schema.get("namespace", space)) in within or len(within) > _DEPTH_MAX:
            return kinds.STRING
        fields = _fields(schema, space, names, within)
        return kinds.struct(fields) if fields and kinds.are_distinct(name for name, _ in fields) else kinds.STRING
    if kind == "array":
        return Kind("array", (_kind(schema["items"], space, names, within),))
    if kind == "map":
        return Kind("map", (kinds.STRING, _kind(schema["values"], space, names, within)))
    if kind == "fixed":
        return kinds.STRING if logical == "uuid" else kinds.BINARY
    return _PRIMITIVES.get(kind, kinds.STRING)


def _only(schema: Any) -> Any:
    """Return the type of a nullable union; a union of several stays one."""
    if isinstance(schema, list):
        left = [each for each in schema if each != "null"]
        return left[0] if len(left) == 1 else left
    return schema


def resolved(schema: Any, space: str, names: dict[str, Any]) -> tuple[Any, str]:
    """Return the definition of a name, and the namespace around it."""
    if isinstance(schema, str) and schema not in _PRIMITIVES:
        for name in (full_name(schema, space), schema):
            if name in names:
                return names[name], name.rpartition(".")[0]
    return schema, space


def full_name(name: str, space: str | None) -> str:
    """Return the name of a type with its namespace."""
    return name if "." in name or not space else f"{space}.{name}"


def collect_names(schema: Any, space: str, names: dict[str, Any]) -> None:
    """Add the named types of a schema."""
    if isinstance(schema, list):
        for each in schema:
            collect_names(each, space, names)
        return
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind in ("record", "error", "enum", "fixed"):
        name = full_name(schema["name"], schema.get("namespace", space))
        names[name], space = schema, name.rpartition(".")[0]
        for each in schema.get("fields", ()):
            collect_names(each["type"], space, names)
    for inner in ("type", "items", "values"):
        if isinstance(schema.get(inner), dict | list):
            collect_names(schema[inner], space, names)


def _has_free_items(schema: Any, space: str, names: dict[str, Any]) -> bool:
    """Return True if a type has arrays whose items take no bytes: a short value may have any number of them."""
    if isinstance(schema, list):
        return any(_has_free_items(each, space, names) for each in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") in ("record", "error"):
        inside = full_name(schema["name"], schema.get("namespace", space)).rpartition(".")[0]
        return any(_has_free_items(each["type"], inside, names) for each in schema["fields"])
    if schema.get("type") == "array" and _is_free(schema["items"], space, names, {}):
        return True
    return any(_has_free_items(schema.get(inner), space, names) for inner in ("type", "items", "values"))


def _is_free(schema: Any, space: str, names: dict[str, Any], known: dict[str, bool]) -> bool:
    """Return True if data of a type take no bytes. `known` has what is known of records."""
    schema, space = resolved(schema, space, names)
    if not isinstance(schema, dict):
        return bool(schema == "null")
    kind = schema["type"]
    if kind in ("record", "error"):
        name = full_name(schema["name"], schema.get("namespace", space))
        if name not in known:
            known[name] = True
            inside = name.rpartition(".")[0]
            known[name] = all(_is_free(each["type"], inside, names, known) for each in schema["fields"])
        return known[name]
    return bool(kind == "null" or (kind == "fixed" and not schema["size"]))


# fastavro rounds a decimal to its declared precision, and leaves a uuid of fixed(16) bytes. Types of our own names have
# readers of ours; those of a program that uses fastavro as well stay as they are.
_OWN = {("bytes", "decimal"), ("fixed", "decimal"), ("fixed", "uuid")}


def _with_own_types(schema: Any) -> Any:
    """Return a schema with logical types of _OWN under names of ours."""
    if isinstance(schema, list):
        return [_with_own_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: _with_own_types(inner) if name in ("type", "items", "values", "fields") else inner
        for name, inner in schema.items()
    }
    if (str(schema.get("type")), schema.get("logicalType")) in _OWN:
        found["logicalType"] = f"odradek-{schema['logicalType']}"
    return found


def _read_decimal(data: bytes, writer: Any, _: Any = None) -> Any:
    return decimals.of_bytes(bytes(data), int(writer.get("scale", 0)))


def _read_uuid(data: bytes, *_: Any) -> UUID:
    return UUID(bytes=bytes(data))


class AvroValues:
    """Reads values by the schema that each was written with, as data of the newest schema."""

    def __init__(self, newest: ValueSchema | None) -> None:
        with extra("avro"):
            self._fastavro = import_module("fastavro")
        for kind, logical in _OWN:
            read = _read_uuid if logical == "uuid" else _read_decimal
            self._fastavro.read.LOGICAL_READERS[f"{kind}-odradek-{logical}"] = read
        self._newest = None if newest is None else self._parsed(newest)

    def reader(self, writer: ValueSchema) -> Callable[[bytes], Any]:
        """Return a function of payloads; it raises ValueError for one that does not fit."""
        written, newest, read = self._parsed(writer), self._newest, self._fastavro.schemaless_reader

        def data(payload: bytes) -> Any:
            source = io.BytesIO(payload)
            try:
                found = read(source, written, newest)
            except Exception as error:  # fastavro raises EOFError, IndexError and others for bytes that end too early
                raise ValueError(f"{type(error).__name__}: {error}") from error
            if source.tell() != len(payload):
                raise ValueError("bytes follow the Avro value")
            return found

        return data

    def _parsed(self, schema: ValueSchema) -> Any:
        names: dict[str, Any] = {}
        own: dict[str, Any] = {}
        try:
            texts = [json.loads(text) for text in (*(text for _, text in schema.references), schema.text)]
            for each in texts:
                collect_names(each, "", own)
            if any(_has_free_items(each, "", own) for each in texts):
                raise FormatError("it has arrays of items without bytes")
            for _, text in schema.references:
                self._fastavro.parse_schema(_with_own_types(json.loads(text)), named_schemas=names)
            return self._fastavro.parse_schema(_with_own_types(json.loads(schema.text)), named_schemas=names)
        except Exception as error:  # of fastavro, of any kind
            raise FormatError(f"the Avro schema cannot be read: {error}") from error
