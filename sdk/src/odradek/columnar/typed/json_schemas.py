"""The fields of a JSON Schema as kinds; what it leaves open has none."""

from __future__ import annotations

import json
from typing import Any

from odradek.errors import FormatError
from odradek.model import kinds
from odradek.model.kinds import Fields, Kind
from odradek.model.value_schema import ValueSchema

_DEPTH_MAX = 8
_KINDS = {"boolean": kinds.BOOLEAN, "integer": kinds.BIGINT, "number": kinds.DOUBLE, "string": kinds.STRING}


def json_fields(schema: ValueSchema) -> Fields:
    """Return the properties of an object's schema that have one type. Raises FormatError if it is not JSON."""
    try:
        root = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the JSON Schema is not JSON: {error}") from error
    document = root
    while isinstance(root, dict) and "$ref" in root and root is not (target := _at(document, root["$ref"])):
        root = target
    properties = root.get("properties") if isinstance(root, dict) else None
    target = properties.items() if isinstance(properties, dict) else ()
    pairs = [(name, _kind(property_schema, document, 0)) for name, property_schema in target if kinds.is_name(name)]
    return [(name, data_type) for name, data_type in pairs if data_type is not None]


def _kind(schema: Any, document: Any, depth: int) -> Kind | None:
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return None
    if "$ref" in schema:
        return _kind(_at(document, schema["$ref"]), document, depth + 1)
    type_name = schema.get("type")
    options = schema.get("anyOf") or schema.get("oneOf")
    if type_name is None and isinstance(options, list):
        left = [option for option in options if not (isinstance(option, dict) and option.get("type") == "null")]
        return _kind(left[0], document, depth + 1) if len(left) == 1 else None
    if isinstance(type_name, list):
        left = [name for name in type_name if name != "null"]
        type_name = left[0] if len(left) == 1 else None
    if type_name == "object":
        return _object(schema, document, depth)
    if type_name == "array":
        inner = _kind(schema.get("items"), document, depth + 1)
        return None if inner is None else Kind("array", (inner,))
    return _KINDS.get(type_name) if isinstance(type_name, str) else None


def _object(schema: Any, document: Any, depth: int) -> Kind | None:
    properties = schema.get("properties")
    if not properties:
        inner = _kind(schema.get("additionalProperties"), document, depth + 1)
        return None if inner is None else Kind("map", (kinds.STRING, inner))
    if not isinstance(properties, dict):
        return None
    fields = {name: _kind(property_schema, document, depth + 1) for name, property_schema in properties.items()}
    typed = [(name, data_type) for name, data_type in fields.items() if data_type is not None and kinds.is_name(name)]
    return kinds.struct(typed) if len(typed) == len(fields) and kinds.are_distinct(fields) else None


def _at(document: Any, reference: Any) -> Any:
    """Return what a reference within the document names, else None."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node = document
    for part in reference[2:].split("/"):
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node
