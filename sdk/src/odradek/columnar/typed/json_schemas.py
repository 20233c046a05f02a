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
    while isinstance(root, dict) and "$ref" in root and root is not (found := _at(document, root["$ref"])):
        root = found
    properties = root.get("properties") if isinstance(root, dict) else None
    found = properties.items() if isinstance(properties, dict) else ()
    pairs = [(name, _kind(each, document, 0)) for name, each in found if kinds.is_name(name)]
    return [(name, kind) for name, kind in pairs if kind is not None]


def _kind(schema: Any, document: Any, depth: int) -> Kind | None:
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return None
    if "$ref" in schema:
        return _kind(_at(document, schema["$ref"]), document, depth + 1)
    kind = schema.get("type")
    options = schema.get("anyOf") or schema.get("oneOf")
    if kind is None and isinstance(options, list):
        left = [each for each in options if not (isinstance(each, dict) and each.get("type") == "null")]
        return _kind(left[0], document, depth + 1) if len(left) == 1 else None
    if isinstance(kind, list):
        left = [each for each in kind if each != "null"]
        kind = left[0] if len(left) == 1 else None
    if kind == "object":
        return _object(schema, document, depth)
    if kind == "array":
        inner = _kind(schema.get("items"), document, depth + 1)
        return None if inner is None else Kind("array", (inner,))
    return _KINDS.get(kind) if isinstance(kind, str) else None


def _object(schema: Any, document: Any, depth: int) -> Kind | None:
    properties = schema.get("properties")
    if not properties:
        inner = _kind(schema.get("additionalProperties"), document, depth + 1)
        return None if inner is None else Kind("map", (kinds.STRING, inner))
    if not isinstance(properties, dict):
        return None
    fields = {name: _kind(each, document, depth + 1) for name, each in properties.items()}
    known = [(name, kind) for name, kind in fields.items() if kind is not None and kinds.is_name(name)]
    return kinds.struct(known) if len(known) == len(fields) and kinds.are_distinct(fields) else None


def _at(document: Any, reference: Any) -> Any:
    """Return what a reference within the document names, else None."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found = document
    for part in reference[2:].split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
