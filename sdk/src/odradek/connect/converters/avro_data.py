"""Connect's values as Avro: schemas and data both ways, by the rules of Confluent's AvroData.

    int8, int16      int with connect.type                 string, bytes, boolean, float, double, int, long   themselves
    Decimal          bytes, decimal                        optional      union of null and the type, null by default
    Date, Time       int, date and time-millis             map           map; array of key-value records for other keys
    Timestamp        long, timestamp-millis                struct        record, by the name of the schema

Read from Avro: an enum and a fixed are a string and bytes; a union of several types is a struct with a field for each.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from odradek.connect.data import logical, semantic
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct, check_value
from odradek.connect.data.structs import plain as plain_of
from odradek.connect.errors import DataError

_NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = f"{_NAMESPACE}.ConnectDefault"
_ENTRY_TYPE = "MapEntry"
_ENTRY = f"{_NAMESPACE}.{_ENTRY_TYPE}"
_INTERNAL = "connect.internal.type"
_PARAMETERS = "connect.parameters"
_UNION = f"{_NAMESPACE}.Union"
_PRECISION_DEFAULT = 64
_PRIMITIVE = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_READ = {
    "int": schemas.INT32,
    "long": schemas.INT64,
    "float": schemas.FLOAT32,
    "double": schemas.FLOAT64,
    "boolean": schemas.BOOLEAN,
    "string": schemas.STRING,
    "bytes": schemas.BYTES,
}
_LOGICAL = {
    logical.DATE_NAME: "date",
    logical.TIME_NAME: "time-millis",
    logical.TIMESTAMP_NAME: "timestamp-millis",
}
_OF_LOGICAL = {
    "date": logical.DATE,
    "time-millis": logical.TIME,
    "timestamp-millis": logical.TIMESTAMP,
    "timestamp-micros": logical.TIMESTAMP,
    "local-timestamp-millis": logical.TIMESTAMP,
    "time-micros": semantic.MICRO_TIME,
    "local-timestamp-micros": semantic.MICRO_TIMESTAMP,
}


# --- to Avro ----------------------------------------------------------------------------------------------------------


def avro_schema(schema: Schema) -> Any:
    """Return the Avro schema, as JSON data, of a schema."""
    return _Writer().optional(schema)


class _Writer:
    """Names of records that are written already are referred to."""

    def __init__(self) -> None:
        self._named: dict[str, Schema] = {}

    def optional(self, schema: Schema) -> Any:
        required = self._required(schema.as_optional(False))
        return ["null", required] if schema.optional else required

    def _required(self, schema: Schema) -> Any:
        if schema.name == logical.DECIMAL_NAME:
            scale = logical.scale_of(schema)
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": int(schema.parameter(logical.PRECISION) or _PRECISION_DEFAULT),
                "scale": scale,
            }
        if schema.name in _LOGICAL:
            return {"type": _PRIMITIVE[schema.type], "logicalType": _LOGICAL[schema.name or ""]}
        if schema.type is Type.STRUCT:
            return self._record(schema)
        if schema.type is Type.ARRAY:
            return self._noted(schema, {"type": "array", "items": self.optional(schema.elements)})
        if schema.type is Type.MAP:
            return self._noted(schema, self._map(schema))
        return self._noted(schema, {"type": _PRIMITIVE[schema.type]})

    def _map(self, schema: Schema) -> dict[str, Any]:
        assert schema.key_schema is not None
        if schema.key_schema.type is Type.STRING and not schema.key_schema.optional:
            return {"type": "map", "values": self.optional(schema.elements)}
        entry = {
            "type": "record",
            "name": schema.name or _ENTRY,
            "fields": [
                {"name": "key", "type": self.optional(schema.key_schema)},
                {"name": "value", "type": self.optional(schema.elements)},
            ],
        }
        if schema.name:  # several maps in one schema need entries with names of their own
            entry[_INTERNAL] = _ENTRY_TYPE
        return {"type": "array", "items": entry}

    def _noted(self, schema: Schema, made: dict[str, Any]) -> Any:
        """Add what Avro has no place for; a plain type is its name alone."""
        if schema.type in (Type.INT8, Type.INT16):
            made["connect.type"] = schema.type.value
        if schema.name is not None:
            made["connect.name"] = schema.name
        if schema.version is not None:
            made["connect.version"] = schema.version
        if schema.doc is not None:
            made["connect.doc"] = schema.doc
        if schema.parameters:
            made[_PARAMETERS] = dict(schema.parameters)
        return made["type"] if made.keys() == {"type"} else made

    def _record(self, schema: Schema) -> Any:
        name = ".".join(_avro_name(part) for part in (schema.name or DEFAULT_NAME).split("."))
        if self._named.get(name) == schema:
            return name
        while name in self._named:  # two structs without a name, or with the same one
            name += "_"
        self._named[name] = schema
        made: dict[str, Any] = {
            "type": "record",
            "name": name,
            "fields": [self._field(field) for field in schema.fields],
        }
        if schema.name is not None and schema.name != name:
            made["connect.name"] = schema.name
        if schema.version is not None:
            made["connect.version"] = schema.version
        if schema.doc is not None:
            made["doc"] = schema.doc
        if schema.parameters:
            made[_PARAMETERS] = dict(schema.parameters)
        return made

    def _field(self, field: schemas.Field) -> dict[str, Any]:
        made: dict[str, Any] = {"name": _avro_name(field.name), "type": self.optional(field.schema)}
        if field.name != made["name"]:
            made["connect.field"] = field.name
        default = field.schema.default
        if default is not None:
            made["default"] = _json_default(field.schema, default)
            if field.schema.optional:
                made["type"].reverse()  # a default is one of the first type
        elif field.schema.optional:
            made["default"] = None
        return made


def _avro_name(name: str) -> str:
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    return made if made and not made[0].isdigit() else f"_{made}"


def _json_default(schema: Schema, value: Any) -> Any:
    if logical.is_logical(schema):
        value = logical.encode(schema, value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Struct):
        return {_avro_name(field.name): _json_default(field.schema, value[field.name]) for field in schema.fields}
    return plain_of(value)


def datum(schema: Schema, value: Any) -> Any:
    """Return a value as fastavro takes it. Raises DataError if it does not fit its schema."""
    if value is None:
        if schema.default is not None:
            return datum(schema, schema.default)
        if not schema.optional:
            raise DataError("null for a required value")
        return None
    if logical.is_logical(schema):
        check_value(schema, value)
        return value if not isinstance(value, dt.datetime) or value.tzinfo else value.replace(tzinfo=dt.UTC)
    if schema.type is Type.STRUCT:
        if not isinstance(value, Struct):
            raise DataError(f"a struct was expected, not {type(value).__name__}")
        return {
            _avro_name(field.name): datum(field.schema, value.without_default(field.name)) for field in schema.fields
        }
    if schema.type is Type.ARRAY:
        return [datum(schema.elements, element) for element in value]
    if schema.type is Type.MAP:
        assert schema.key_schema is not None
        if schema.key_schema.type is Type.STRING and not schema.key_schema.optional:
            return {key: datum(schema.elements, element) for key, element in value.items()}
        return [{"key": datum(schema.key_schema, k), "value": datum(schema.elements, v)} for k, v in value.items()]
    check_value(schema, value)
    return bytes(value) if schema.type is Type.BYTES else value


# --- from Avro --------------------------------------------------------------------------------------------------------


def connect_schema(avro: Any, named: Mapping[str, Any] | None = None) -> Schema:
    """Return the schema of a parsed Avro schema. Raises DataError for one that refers to itself.

    Args:
        named: parsed schemas by full name, which the schema may refer to.
    """
    return _read(avro, dict(named or {}), ())


def _read(avro: Any, named: dict[str, Any], inside: tuple[str, ...]) -> Schema:
    if isinstance(avro, list):
        return _read_union(avro, named, inside)
    if isinstance(avro, str):
        if avro in _READ:
            return _READ[avro]
        if avro in inside:
            raise DataError(f"the Avro schema {avro!r} refers to itself, which Connect's schemas cannot")
        if avro in named:
            return _read(named[avro], named, inside)
        raise DataError(f"unknown Avro type {avro!r}")
    type_name = avro["type"]
    if isinstance(type_name, dict | list):
        return _read(type_name, named, inside)
    if avro.get("logicalType") == "decimal":
        made = logical.decimal(int(avro.get("scale", 0)))
        precision = int(avro.get("precision", _PRECISION_DEFAULT))
        more = () if precision == _PRECISION_DEFAULT else ((logical.PRECISION, str(precision)),)
        return replace(made, parameters=(*more, *made.parameters))
    if avro.get("logicalType") in _OF_LOGICAL and type_name != "fixed":
        return _OF_LOGICAL[avro["logicalType"]]
    if type_name in ("record", "error"):
        return _read_record(avro, named, inside)
    if type_name == "array":
        return _described(_array_or_map(avro, named, inside), avro)
    if type_name == "map":
        return _described(schemas.map_of(schemas.STRING, _read(avro["values"], named, inside)), avro)
    if type_name == "enum":
        named[avro["name"]] = avro
        return schemas.STRING
    if type_name == "fixed":
        named[avro["name"]] = avro
        return schemas.BYTES
    if type_name not in _READ:
        return _read(type_name, named, inside)
    narrow = {"int8": schemas.INT8, "int16": schemas.INT16}.get(avro.get("connect.type", ""), _READ[type_name])
    return _described(narrow, avro)


def _described(schema: Schema, avro: Mapping[str, Any]) -> Schema:
    version = avro.get("connect.version")
    made = replace(schema, name=avro.get("connect.name"), version=version, doc=avro.get("connect.doc"))
    return _with_parameters(made, avro)


def _with_parameters(schema: Schema, avro: Mapping[str, Any]) -> Schema:
    stored_parameters = avro.get(_PARAMETERS)
    if not isinstance(stored_parameters, Mapping):
        return schema
    return replace(
        schema, parameters=tuple(sorted((str(name), str(value)) for name, value in stored_parameters.items()))
    )


def _array_or_map(avro: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Schema:
    items = avro["items"]
    if isinstance(items, dict) and (items.get("name") == _ENTRY or items.get(_INTERNAL) == _ENTRY_TYPE):
        key, value = (_read(field["type"], named, inside) for field in items["fields"])
        return schemas.map_of(key, value)
    return schemas.array(_read(items, named, inside))


def _read_record(avro: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Schema:
    name = str(avro["name"])
    named[name] = avro
    fields = []
    for field in avro["fields"]:
        of_field = _read(field["type"], named, (*inside, name))
        default = field.get("default")
        if default is not None:
            of_field = replace(of_field, default=_default(of_field, default))
        fields.append((field.get("connect.field", field["name"]), of_field))
    is_default = name.rstrip("_") == DEFAULT_NAME
    made_name = avro.get("connect.name") or (None if is_default else name)
    made = schemas.struct(fields, name=made_name, version=avro.get("connect.version"), doc=avro.get("doc"))
    return _with_parameters(made, avro)


def _default(schema: Schema, value: Any) -> Any:
    if schema.type is Type.BYTES and isinstance(value, str):
        value = value.encode("latin-1")
    if logical.is_logical(schema):
        return logical.decode(schema, value)
    if schema.name == _UNION:  # a default is one of the first type
        first = schema.fields[0]
        return Struct(schema, {first.name: _default(first.schema, value)})
    if schema.type is Type.STRUCT:
        fields = {field.name: field.schema for field in schema.fields}
        return Struct(
            schema, {name: _default(fields[name], element) for name, element in value.items() if name in fields}
        )
    return value


def _read_union(avro: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> Schema:
    branches = [branch for branch in avro if branch != "null"]
    optional = len(branches) < len(avro)
    if len(branches) == 1:
        return _read(branches[0], named, inside).as_optional(optional)
    fields = [(_branch(branch), _read(branch, named, inside).as_optional()) for branch in branches]
    return schemas.struct(fields, name=_UNION, optional=optional)


def _branch(avro: Any) -> str:
    name = avro if isinstance(avro, str) else avro.get("name") or avro["type"]
    return str(name).rpartition(".")[2]


def value_of(schema: Schema, datum_read: Any) -> Any:
    """Return the value of a datum that fastavro has read with `return_named_type`."""
    if datum_read is None:
        return None
    if schema.name == _UNION:
        return _union_value(schema, datum_read)
    if isinstance(datum_read, tuple) and len(datum_read) == 2 and isinstance(datum_read[0], str):
        datum_read = datum_read[1]  # (name of the record, value), in a union
    if schema.type is Type.STRUCT:
        names = {_avro_name(field.name): field for field in schema.fields}
        made = Struct(schema)
        for name, value in datum_read.items():
            field = names.get(name)
            if field is not None:
                made[field.name] = value_of(field.schema, value)
        return made
    if schema.type is Type.ARRAY:
        return [value_of(schema.elements, element) for element in datum_read]
    if schema.type is Type.MAP:
        if isinstance(datum_read, list):
            assert schema.key_schema is not None
            key, elements = schema.key_schema, schema.elements
            return {value_of(key, pair["key"]): value_of(elements, pair["value"]) for pair in datum_read}
        return {key: value_of(schema.elements, element) for key, element in datum_read.items()}
    if isinstance(datum_read, UUID):  # fastavro's, of the logical type uuid
        return datum_read.bytes if schema.type is Type.BYTES else str(datum_read)
    if schema.type is Type.INT64 and isinstance(datum_read, dt.datetime | dt.time) and not logical.is_logical(schema):
        return _micros(datum_read)
    if schema.name == logical.TIMESTAMP_NAME and isinstance(datum_read, dt.datetime) and datum_read.tzinfo is None:
        return datum_read.replace(tzinfo=dt.UTC)
    if schema.name == logical.DECIMAL_NAME and not isinstance(datum_read, Decimal):
        return logical.decode(schema, datum_read)
    return datum_read


def _micros(moment: dt.datetime | dt.time) -> int:
    """Return microseconds since midnight, or since 1970."""
    if isinstance(moment, dt.time):
        return logical.time_ms(moment) * 1000 + moment.microsecond % 1000
    return logical.ms_of(moment) * 1000 + moment.microsecond % 1000


def _union_value(schema: Schema, datum_read: Any) -> Struct:
    named = (
        datum_read[0].rpartition(".")[2] if isinstance(datum_read, tuple) and isinstance(datum_read[0], str) else None
    )
    for field in schema.fields:
        if named is not None and field.name != named:
            continue
        try:
            value = value_of(field.schema, datum_read)
            check_value(field.schema, value)
        except (DataError, AttributeError, TypeError):
            continue
        return Struct(schema, {field.name: value})
    raise DataError(f"no branch of the union fits {datum_read!r:.80}")
