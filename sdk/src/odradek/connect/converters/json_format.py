"""Values and schemas as plain JSON data: the rules of Connect's JsonConverter.

Source: Kafka's org.apache.kafka.connect.json.JsonConverter.
"""

from __future__ import annotations

import base64
import binascii
import struct as structs
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from odradek.connect.data import logical
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct, check_value, same_struct
from odradek.connect.data.values import short_float32
from odradek.connect.errors import DataError

_TYPES = {each.value: each for each in Type}


def schema_json(schema: Schema, *, decimal_format: str = "BASE64") -> dict[str, Any]:
    """Return the JSON of a schema, as in the envelope."""
    made: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY:
        made["items"] = schema_json(schema.elements)
    elif schema.type is Type.MAP:
        assert schema.key_schema is not None
        made["keys"] = schema_json(schema.key_schema)
        made["values"] = schema_json(schema.elements)
    elif schema.type is Type.STRUCT:
        made["fields"] = [{**schema_json(each.schema), "field": each.name} for each in schema.fields]
    made["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            made[name] = getattr(schema, name)
    if schema.parameters:
        made["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = to_json(schema, schema.default, decimal_format=decimal_format)
    return made


def read_schema(document: Any) -> Schema | None:
    """Return the schema of an envelope's JSON, None for null. Raises DataError."""
    if document is None:
        return None
    if not isinstance(document, Mapping) or document.get("type") not in _TYPES:
        raise DataError(f"a schema needs a 'type' of {', '.join(_TYPES)}: {document!r:.200}")
    kind = _TYPES[document["type"]]
    version = document.get("version")
    made = Schema(
        kind,
        optional=document.get("optional") is True,
        name=_text(document, "name"),
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        doc=_text(document, "doc"),
        parameters=_parameters(document),
    )
    if kind is Type.ARRAY:
        made = replace(made, value_schema=_part(document, "items"))
    elif kind is Type.MAP:
        made = replace(made, key_schema=_part(document, "keys"), value_schema=_part(document, "values"))
    elif kind is Type.STRUCT:
        fields = document.get("fields")
        if not isinstance(fields, list) or not all(isinstance(each, Mapping) and "field" in each for each in fields):
            raise DataError("the schema of a struct needs 'fields', a list of schemas with a 'field' name")
        made = made.with_fields((str(each["field"]), _of(each)) for each in fields)
    default = document.get("default")
    return made if default is None else replace(made, default=from_json(made, default))


def _of(document: Any) -> Schema:
    found = read_schema(document)
    if found is None:
        raise DataError("the schema of a field, key, value or element must not be null")
    return found


def _part(document: Mapping[str, Any], name: str) -> Schema:
    if name not in document:
        raise DataError(f"a schema of type {document['type']} needs {name!r}")
    return _of(document[name])


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _parameters(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = document.get("parameters") or {}
    if not isinstance(found, Mapping) or not all(isinstance(value, str) for value in found.values()):
        raise DataError("the parameters of a schema must be text")
    return tuple(sorted(found.items()))


def to_json(
    schema: Schema | None, value: Any, *, decimal_format: str = "BASE64", replace_null_with_default: bool = True
) -> Any:
    """Return a value as JSON data. Raises DataError if it does not fit its schema."""

    def convert(schema: Schema | None, value: Any) -> Any:
        if value is None:
            if schema is None:
                return None
            if schema.default is not None and replace_null_with_default:
                return convert(schema, schema.default)
            if schema.optional:
                return None
            raise DataError("a null value, but its field is required and has no default")
        if schema is None:
            return _plain_json(value)
        if schema.name == logical.DECIMAL_NAME and decimal_format == "NUMERIC":
            check_value(schema, value)
            return value
        if logical.is_logical(schema):
            value = logical.encode(schema, value)
            return base64.b64encode(value).decode() if isinstance(value, bytes) else value
        if schema.type.is_primitive:
            check_value(schema, value)
            return _primitive_json(schema.type, value)
        if schema.type is Type.STRUCT:
            if not isinstance(value, Struct) or not same_struct(value.schema, schema):
                raise DataError(f"the value is not a struct of its schema {schema.name or ''}: {value!r:.80}")
            return {each.name: convert(each.schema, value.without_default(each.name)) for each in schema.fields}
        if schema.type is Type.ARRAY:
            _check_kind(schema, value, list | tuple)
            return [convert(schema.elements, each) for each in value]
        _check_kind(schema, value, Mapping)
        pairs = [(convert(schema.key_schema, key), convert(schema.elements, each)) for key, each in value.items()]
        is_object = schema.key_schema is not None and schema.key_schema.type is Type.STRING
        return dict(pairs) if is_object else [list(pair) for pair in pairs]

    return convert(schema, value)


def _check_kind(schema: Schema, value: Any, kinds: Any) -> None:
    if not isinstance(value, kinds):
        raise DataError(f"a {schema.type.value} was expected, not {type(value).__name__}")


def _primitive_json(kind: Type, value: Any) -> Any:
    if kind is Type.BYTES:
        return base64.b64encode(bytes(value)).decode()
    if kind is Type.FLOAT32:
        return short_float32(float(value))
    return float(value) if kind is Type.FLOAT64 else value


def _plain_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | Decimal):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, list | tuple):
        return [_plain_json(each) for each in value]
    if isinstance(value, Struct):
        return to_json(value.schema, value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain_json(each) for key, each in value.items()}
        return [[_plain_json(key), _plain_json(each)] for key, each in value.items()]
    raise DataError(f"a {type(value).__name__} without a schema cannot be written as JSON")


def from_json(schema: Schema | None, value: Any, *, replace_null_with_default: bool = True) -> Any:
    """Return the value of JSON data. Raises DataError if it does not fit the schema."""

    def convert(schema: Schema | None, value: Any) -> Any:
        if schema is None:
            return _plain(value)
        if value is None:
            if schema.default is not None and replace_null_with_default:
                return schema.default
            if schema.optional:
                return None
            raise DataError(f"null for a required value of type {schema.type.value}")
        if schema.type is Type.BYTES and not (schema.name == logical.DECIMAL_NAME and _is_number(value)):
            value = _bytes(value)
        if schema.name == logical.DECIMAL_NAME and _is_number(value):
            return value if isinstance(value, Decimal) else Decimal(str(value))
        if logical.is_logical(schema):
            if schema.type is not Type.BYTES and (not isinstance(value, int) or isinstance(value, bool)):
                raise DataError(f"a {schema.name} is a whole number in JSON, not {value!r}")
            return logical.decode(schema, value)
        if schema.type.is_primitive:
            return _primitive(schema, value)
        if schema.type is Type.STRUCT:
            _check_kind(schema, value, Mapping)
            made = Struct(schema)
            for each in schema.fields:
                made[each.name] = convert(each.schema, value.get(each.name))
            return made
        if schema.type is Type.ARRAY:
            _check_kind(schema, value, list)
            return [convert(schema.elements, each) for each in value]
        if schema.key_schema is not None and schema.key_schema.type is Type.STRING:
            _check_kind(schema, value, Mapping)
            return {key: convert(schema.elements, each) for key, each in value.items()}
        _check_kind(schema, value, list)
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise DataError("a map whose keys are not text is a list of pairs in JSON")
        return {convert(schema.key_schema, key): convert(schema.elements, each) for key, each in value}

    return convert(schema, value)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise DataError(f"bytes are base64 text in JSON, not {value!r:.80}") from None


def _primitive(schema: Schema, value: Any) -> Any:
    if schema.type is Type.BYTES:
        return value
    if schema.type in (Type.FLOAT32, Type.FLOAT64) and _is_number(value):
        made = float(value)
        return structs.unpack(">f", structs.pack(">f", made))[0] if schema.type is Type.FLOAT32 else made
    if schema.type in schemas.INTEGER_BITS and isinstance(value, Decimal | float):
        raise DataError(f"{schema.type.value} is a whole number, not {value}")
    check_value(schema, value)
    return value
