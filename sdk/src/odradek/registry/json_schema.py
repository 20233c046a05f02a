"""JSON Schema: checking the shape of a text, its canonical form, and the resolution of `$ref`. Pure.

A `$ref` points into the document (`#/$defs/x`), to a part of it by `$id` or `$anchor`, or to a document that is given
by name, a reference. URLs are never fetched. Source: JSON Schema draft 7 and 2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from odradek.registry.budget import Budget
from odradek.registry.errors import SchemaInvalid
from odradek.registry.json_text import load_json

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_SCHEMAS = ("additionalProperties", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = (*_COUNTS, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_DEPTH_MAX = 64

Node = Any  # a schema: bool or dict


def load(text: str, budget: Budget | None = None) -> Node:
    """Parse the text of a schema and check its shape. Raises SchemaInvalid."""
    document = load_json(text)
    _check(document, "", 0, budget or Budget())
    return document


def canonical(text: str) -> str:
    """Return the text without differences of whitespace and order of keys."""
    return json.dumps(load(text), separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _check(node: Node, at: str, depth: int, budget: Budget) -> None:
    budget.spend(1 + len(at) // 256)  # the cost of the path in messages
    if depth > _DEPTH_MAX:
        raise SchemaInvalid(f"{at}: it is nested deeper than {_DEPTH_MAX}")
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise SchemaInvalid(f"{at or '/'}: a schema must be an object, true or false, not {json.dumps(node)[:40]}")
    kinds = node.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or not all(
        isinstance(type_name, str) and type_name in _TYPES for type_name in kinds
    ):
        raise SchemaInvalid(f"{at}/type: {json.dumps(node['type'])[:60]} is not a type of JSON Schema")
    required = node.get("required", [])
    is_draft_3 = isinstance(required, bool)
    if not is_draft_3 and (
        not isinstance(required, list) or not all(isinstance(name_required, str) for name_required in required)
    ):
        raise SchemaInvalid(f"{at}/required: it must be a list of names")
    if not isinstance(node.get("$ref", ""), str):
        raise SchemaInvalid(f"{at}/$ref: it must be a string")
    for key in _NUMBERS:
        value = node.get(key, 1)
        if not isinstance(value, int | float) or (isinstance(value, bool) and not key.startswith("exclusive")):
            raise SchemaInvalid(f"{at}/{key}: it must be a number")
        if (key == "multipleOf" and value <= 0) or (key in _COUNTS and (value < 0 or value != int(value))):
            raise SchemaInvalid(f"{at}/{key}: invalid value {value}")
    if "enum" in node and not isinstance(node["enum"], list):
        raise SchemaInvalid(f"{at}/enum: it must be a list of values")
    for key in _SCHEMAS:
        if key in node:
            _check(node[key], f"{at}/{key}", depth + 1, budget)
    items = node.get("items", True)
    for i, item_schema in enumerate(items if isinstance(items, list) else [items]):
        _check(item_schema, f"{at}/items/{i}", depth + 1, budget)
    for key in _LISTS:
        if not isinstance(node.get(key, []), list):
            raise SchemaInvalid(f"{at}/{key}: it must be a list of schemas")
        for i, branch in enumerate(node.get(key, [])):
            _check(branch, f"{at}/{key}/{i}", depth + 1, budget)
    for key in _MAPS:
        if not isinstance(node.get(key, {}), dict):
            raise SchemaInvalid(f"{at}/{key}: it must be an object of schemas")
        for name, subschema in node.get(key, {}).items():
            _check(subschema, f"{at}/{key}/{name}", depth + 1, budget)


class Document:
    """A schema with the documents that it refers to.

    Args:
        root: the parsed schema.
        references: their texts by the name that `$ref` uses.
        budget: for parsing the references.
    """

    def __init__(self, root: Node, references: Mapping[str, str] | None = None, budget: Budget | None = None) -> None:
        self.root = root
        self._named: dict[int, tuple[Node, dict[str, Node], dict[str, Node]]] = {}
        self._others = {name: load(text, budget) for name, text in (references or {}).items()}
        for other in list(self._others.values()):
            if isinstance(other, dict) and isinstance(other.get("$id"), str):
                self._others.setdefault(other["$id"], other)

    def resolve(self, ref: str, base: Node) -> tuple[Node, Node]:
        """Return the target of a `$ref` in the document `base`, and the target's document. Raises SchemaInvalid."""
        address, _, fragment = ref.partition("#")
        document = base
        own = base.get("$id", "") if isinstance(base, dict) else ""
        if address and address != own:
            if address not in self._others:
                target = self._parts(base)[0].get(address)
                if target is None:
                    raise SchemaInvalid(f"$ref {ref!r} is neither in the schema nor the name of a reference")
                return target, base
            document = self._others[address]
        if fragment and not fragment.startswith("/"):
            target = self._parts(document)[1].get(fragment)
            if target is None:
                raise SchemaInvalid(f"$ref {ref!r}: the anchor does not exist")
            return target, document
        node = document
        for step in fragment.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise SchemaInvalid(f"$ref {ref!r}: the target does not exist")
        if not isinstance(node, dict | bool):
            raise SchemaInvalid(f"$ref {ref!r}: the target is not a schema")
        return node, document

    def _parts(self, base: Node) -> tuple[dict[str, Node], dict[str, Node]]:
        """Return the parts of a document by `$id`, and those by `$anchor` or by an `$id` that is a fragment."""
        parts = self._named.get(id(base))
        if parts is None:
            parts = self._named[id(base)] = (base, *_named_parts(base))
        return parts[1], parts[2]

    def refs(self) -> Iterator[str]:
        """Yield every `$ref` of the schema, without those of its references."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            if isinstance(node, dict):
                if isinstance(node.get("$ref"), str):
                    yield node["$ref"]
                stack += [child for key, child in node.items() if key not in ("enum", "const", "default", "examples")]
            elif isinstance(node, list):
                stack += node

    def check_refs(self) -> None:
        """Raise SchemaInvalid if a `$ref` of the schema has no target. References are not checked."""
        for ref in self.refs():
            self.resolve(ref, self.root)


def _named_parts(base: Node) -> tuple[dict[str, Node], dict[str, Node]]:
    ids: dict[str, Node] = {}
    anchors: dict[str, Node] = {}
    stack = [base]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            own, anchor = node.get("$id"), node.get("$anchor")
            if isinstance(own, str):
                ids.setdefault(own, node)
                if own.startswith("#"):
                    anchors.setdefault(own[1:], node)
            if isinstance(anchor, str):
                anchors.setdefault(anchor, node)
            stack += list(node.values())
        elif isinstance(node, list):
            stack += node
    return ids, anchors
