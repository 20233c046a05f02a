"""JsonSchemaConverter: JSON with the JSON Schema of a registry, by the rules of Confluent's JsonSchemaData.

Types that JSON does not have are named by `connect.type`, logical types by `title`; an optional value is `oneOf` null
and its type; fields keep their order by `connect.index`. A field that is not set and not optional is left out, since in
a JSON Schema only the fields of `required` must be there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.client.serializers import registry as registries
from odradek.columnar.typed.schema_prefix import decode_prefix
from odradek.connect.config import ConfigDef, Kind, one_of
from odradek.connect.converters.json import dump, load
from odradek.connect.converters.json_format import from_json, to_json
from odradek.connect.converters.registered import RegisteredConverter, as_data_error
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.values import NULL, SchemaAndValue, infer_schema
from odradek.connect.errors import DataError
from odradek.errors import FormatError

_TYPES = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), "integer"),
    Type.FLOAT32: "number",
    Type.FLOAT64: "number",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "string",
    Type.ARRAY: "array",
    Type.MAP: "object",
    Type.STRUCT: "object",
}
_NAMED = {
    schema_type.name.lower(): schema_type
    for schema_type in Type
    if schema_type not in (Type.STRING, Type.BOOLEAN, Type.ARRAY, Type.STRUCT)
}
_PLAIN = {
    "integer": schemas.INT64,
    "number": schemas.FLOAT64,
    "boolean": schemas.BOOLEAN,
    "string": schemas.STRING,
}


def json_schema(schema: Schema) -> dict[str, Any]:
    """Return the JSON Schema of a schema."""
    made: dict[str, Any] = {"type": _TYPES[schema.type]}
    if schema.type.name.lower() in _NAMED and schema.type not in (Type.INT64, Type.FLOAT64):
        made["connect.type"] = schema.type.name.lower()
    if schema.name is not None:
        made["title"] = schema.name
    if schema.version is not None:
        made["connect.version"] = schema.version
    if schema.doc is not None:
        made["description"] = schema.doc
    if schema.parameters:
        made["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = to_json(schema, schema.default)
    if schema.type is Type.STRUCT:
        made["properties"] = {
            field.name: {**json_schema(field.schema), "connect.index": index}
            for index, field in enumerate(schema.fields)
        }
    elif schema.type is Type.ARRAY:
        made["items"] = json_schema(schema.elements)
    elif schema.type is Type.MAP:
        assert schema.key_schema is not None
        if schema.key_schema.type is Type.STRING:
            made["additionalProperties"] = json_schema(schema.elements)
        else:
            made |= {"type": "array", "items": {"type": "array", "items": [
                json_schema(schema.key_schema), json_schema(schema.elements)]}}  # fmt: skip
    return {"oneOf": [{"type": "null"}, made]} if schema.optional else made


def read_json_schema(document: Any, root: Any = None) -> Schema:
    """Return the schema of a JSON Schema. Raises DataError for what Connect's schemas cannot describe."""
    root = document if root is None else root
    if not isinstance(document, Mapping):
        raise DataError(f"the JSON Schema {document!r} does not describe one type")
    if "$ref" in document:
        return read_json_schema(_referred(root, str(document["$ref"])), root)
    for name in ("oneOf", "anyOf"):
        if name in document:
            branches = [branch for branch in document[name] if branch.get("type") != "null"]
            if len(branches) != 1:
                raise DataError(f"{name} of several types has no counterpart in Connect's schemas")
            return read_json_schema(branches[0], root).as_optional(len(branches) < len(document[name]))
    type_name = document.get("type")
    if isinstance(type_name, list):
        [only] = (
            [one_type for one_type in type_name if one_type != "null"]
            if len(type_name) - ("null" in type_name) == 1
            else [None]
        )
        if only is None:
            raise DataError("a type of several types has no counterpart in Connect's schemas")
        return read_json_schema({**document, "type": only}, root).as_optional("null" in type_name)
    if type_name is None and "enum" in document:
        type_name = "string"
    made = _read_type(document, str(type_name), root)
    version = document.get("connect.version")
    made = replace(
        made,
        name=document.get("title"),
        version=version,
        doc=document.get("description"),
        parameters=tuple(sorted((document.get("connect.parameters") or {}).items())),
    )
    default = document.get("default")
    return made if default is None else replace(made, default=from_json(made, default))


def _referred(root: Any, reference: str) -> Any:
    subschema = root
    if not reference.startswith("#"):
        raise DataError(f"the reference {reference!r} leads out of the JSON Schema, which is not supported")
    for step in filter(None, reference[1:].split("/")):
        subschema = (
            subschema.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(subschema, Mapping) else None
        )
    if subschema is None or subschema is root:
        raise DataError(f"the reference {reference!r} of the JSON Schema leads nowhere, or to itself")
    return subschema


def _read_type(document: Mapping[str, Any], type_name: str, root: Any) -> Schema:
    connect = document.get("connect.type")
    if connect == "map" and type_name == "array":
        key, value = document["items"]["items"]
        return schemas.map_of(read_json_schema(key, root), read_json_schema(value, root))
    if type_name == "array":
        return schemas.array(read_json_schema(document.get("items") or {}, root))
    if type_name == "object":
        if connect == "map":
            return schemas.map_of(schemas.STRING, read_json_schema(document["additionalProperties"], root))
        fields = document.get("properties") or {}
        order = sorted(fields, key=lambda name: fields[name].get("connect.index", len(fields)))
        required = set(document.get("required") or ())
        is_strict = "required" not in document
        return schemas.struct(
            (name, field_schema if is_strict or name in required else field_schema.as_optional())
            for name, field_schema in ((name, read_json_schema(fields[name], root)) for name in order)
        )
    if connect in _NAMED and (
        type_name != "string" or connect == "bytes"
    ):  # a text is no number, whatever it is called
        return Schema(_NAMED[connect])
    if type_name not in _PLAIN:
        raise DataError(f"the JSON Schema type {type_name!r} has no counterpart in Connect's schemas")
    return _PLAIN[type_name]


class JsonSchemaConverter(RegisteredConverter):
    """JSON with the JSON Schemas of a registry."""

    config_def = RegisteredConverter.config_def + (
        ConfigDef().define(
            "decimal.format", Kind.STRING, "BASE64", "How decimals are written: BASE64, or NUMERIC.",
            allowed=one_of("BASE64", "NUMERIC", ignore_case=True),
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(configs, is_key=is_key)
        self._written: dict[Schema, registries.Schema] = {}
        self._read: dict[int, Schema] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        schema = schema or infer_schema(value)
        if schema is None:
            raise DataError("a JSON Schema does not follow from the value: use JsonConverter with schemas.enable=false")
        if schema not in self._written:
            self._written[schema] = registries.Schema(json.dumps(json_schema(schema)), "JSON")
        schema_id = self.written_id(topic, self._written[schema], schema.name or "")
        decimals = str(self.configs["decimal.format"]).upper()
        return self.prefixed(schema_id, dump(to_json(schema, value, decimal_format=decimals, leave_out=True)))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            schema_id, payload = decode_prefix(data)
        except FormatError as error:
            raise as_data_error(error) from error
        if schema_id not in self._read:
            registered = self.asked(lambda: self.registry.schema(schema_id))
            if registered.kind != "JSON":
                raise DataError(f"schema {schema_id} is {registered.kind}, not JSON")
            self._read[schema_id] = read_json_schema(json.loads(registered.text))
        schema = self._read[schema_id]
        return SchemaAndValue(schema, from_json(schema, load(payload), leave_out=True))
