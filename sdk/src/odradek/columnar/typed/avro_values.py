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
        (field["name"], _kind(field["type"], inside, names, (*within, name)))
        for field in record["fields"]
        if kinds.is_name(field["name"])
    ]


def _kind(schema: Any, space: str, names: dict[str, Any], within: tuple[str, ...]) -> Kind:
    schema = _only(schema)
    if isinstance(schema, list):
        return kinds.STRING
    schema, space = resolved(schema, space, names)
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema, kinds.STRING)
    type_name = schema["type"]
    if isinstance(type_name, dict | list):
        return _kind(type_name, space, names, within)
    logical = schema.get("logicalType")
    if logical == "decimal" and type_name in ("bytes", "fixed"):
        try:
            return kinds.decimal(int(schema["precision"]), int(schema.get("scale", 0)))
        except ValueError:
            return kinds.STRING  # more digits than a file's decimal has
    if (type_name, logical) in _LOGICAL:
        return _LOGICAL[type_name, logical]
    if type_name in ("record", "error"):
        if full_name(schema["name"], schema.get("namespace", space)) in within or len(within) > _DEPTH_MAX:
            return kinds.STRING
        fields = _fields(schema, space, names, within)
        return kinds.struct(fields) if fields and kinds.are_distinct(name for name, _ in fields) else kinds.STRING
    if type_name == "array":
        return Kind("array", (_kind(schema["items"], space, names, within),))
    if type_name == "map":
        return Kind("map", (kinds.STRING, _kind(schema["values"], space, names, within)))
    if type_name == "fixed":
        return kinds.STRING if logical == "uuid" else kinds.BINARY
    return _PRIMITIVES.get(type_name, kinds.STRING)


def _only(schema: Any) -> Any:
    """Return the type of a nullable union; a union of several stays one."""
    if isinstance(schema, list):
        left = [branch for branch in schema if branch != "null"]
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
        for branch in schema:
            collect_names(branch, space, names)
        return
    if not isinstance(schema, dict):
        return
    type_name = schema.get("type")
    if type_name in ("record", "error", "enum", "fixed"):
        name = full_name(schema["name"], schema.get("namespace", space))
        names[name], space = schema, name.rpartition(".")[0]
        for field in schema.get("fields", ()):
            collect_names(field["type"], space, names)
    for inner in ("type", "items", "values"):
        if isinstance(schema.get(inner), dict | list):
            collect_names(schema[inner], space, names)


def _has_free_items(schema: Any, space: str, names: dict[str, Any]) -> bool:
    """Return True if a type has arrays whose items take no bytes: a short value may have any number of them."""
    if isinstance(schema, list):
        return any(_has_free_items(branch, space, names) for branch in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") in ("record", "error"):
        inside = full_name(schema["name"], schema.get("namespace", space)).rpartition(".")[0]
        return any(_has_free_items(field["type"], inside, names) for field in schema["fields"])
    if schema.get("type") == "array" and _is_free(schema["items"], space, names, {}):
        return True
    return any(_has_free_items(schema.get(inner), space, names) for inner in ("type", "items", "values"))


def _is_free(schema: Any, space: str, names: dict[str, Any], is_free: dict[str, bool]) -> bool:
    """Return True if data of a type take no bytes. `is_free` has what is known of records."""
    schema, space = resolved(schema, space, names)
    if not isinstance(schema, dict):
        return bool(schema == "null")
    type_name = schema["type"]
    if type_name in ("record", "error"):
        name = full_name(schema["name"], schema.get("namespace", space))
        if name not in is_free:
            is_free[name] = True
            inside = name.rpartition(".")[0]
            is_free[name] = all(_is_free(field["type"], inside, names, is_free) for field in schema["fields"])
        return is_free[name]
    return bool(type_name == "null" or (type_name == "fixed" and not schema["size"]))


# fastavro rounds a decimal to its declared precision, and leaves a uuid of fixed(16) bytes. Types of our own names have
# readers of ours; those of a program that uses fastavro as well stay as they are.
_OWN = {("bytes", "decimal"), ("fixed", "decimal"), ("fixed", "uuid")}


def _with_own_types(schema: Any) -> Any:
    """Return a schema with logical types of _OWN under names of ours."""
    if isinstance(schema, list):
        return [_with_own_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {
        name: _with_own_types(inner) if name in ("type", "items", "values", "fields") else inner
        for name, inner in schema.items()
    }
    if (str(schema.get("type")), schema.get("logicalType")) in _OWN:
        renamed["logicalType"] = f"odradek-{schema['logicalType']}"
    return renamed


def _read_decimal(data: bytes, writer: Any, _: Any = None) -> Any:
    return decimals.of_bytes(bytes(data), int(writer.get("scale", 0)))


def _read_uuid(data: bytes, *_: Any) -> UUID:
    return UUID(bytes=bytes(data))


class AvroValues:
    """Reads values by the schema that each was written with, as data of the newest schema."""

    def __init__(self, newest: ValueSchema | None) -> None:
        with extra("avro"):
            self._fastavro = import_module("fastavro")
        for type_name, logical in _OWN:
            read = _read_uuid if logical == "uuid" else _read_decimal
            self._fastavro.read.LOGICAL_READERS[f"{type_name}-odradek-{logical}"] = read
        self._newest = None if newest is None else self._parsed(newest)

    def reader(self, writer: ValueSchema) -> Callable[[bytes], Any]:
        """Return a function of payloads; it raises ValueError for one that does not fit."""
        written, newest, read = self._parsed(writer), self._newest, self._fastavro.schemaless_reader

        def data(payload: bytes) -> Any:
            source = io.BytesIO(payload)
            try:
                value = read(source, written, newest)
            except Exception as error:  # fastavro raises EOFError, IndexError and others for bytes that end too early
                raise ValueError(f"{type(error).__name__}: {error}") from error
            if source.tell() != len(payload):
                raise ValueError("bytes follow the Avro value")
            return value

        return data

    def _parsed(self, schema: ValueSchema) -> Any:
        names: dict[str, Any] = {}
        own: dict[str, Any] = {}
        try:
            texts = [json.loads(text) for text in (*(text for _, text in schema.references), schema.text)]
            for text in texts:
                collect_names(text, "", own)
            if any(_has_free_items(text, "", own) for text in texts):
                raise FormatError("it has arrays of items without bytes")
            for _, text in schema.references:
                self._fastavro.parse_schema(_with_own_types(json.loads(text)), named_schemas=names)
            return self._fastavro.parse_schema(_with_own_types(json.loads(schema.text)), named_schemas=names)
        except Exception as error:  # of fastavro, of any kind
            raise FormatError(f"the Avro schema cannot be read: {error}") from error
