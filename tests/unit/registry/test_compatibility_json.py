"""JSON Schema as sets of documents: a table, and a search for a document that is taken wrongly."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.registry.compatibility_json import unreadable
from odradek.registry.errors import SchemaInvalid
from odradek.registry.json_schema import Document, canonical, load

from tests.support.examples import examples

S, INT, N = {"type": "string"}, {"type": "integer"}, {"type": "null"}


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


CLOSED = {"additionalProperties": False}
LIST = {"$defs": {"n": obj({"next": {"$ref": "#/$defs/n"}, "v": INT})}, "$ref": "#/$defs/n"}
WIDER = {"$defs": {"n": obj({"next": {"$ref": "#/$defs/n"}, "v": {"type": ["integer", "null"]}})}, "$ref": "#/$defs/n"}


def kind(name: str) -> dict[str, Any]:
    return obj({"kind": {"const": name}}, required=["kind"])


CASES: list[tuple[Any, Any, str | None]] = [
    (S, S, None),
    (True, S, None),
    ({}, S, None),
    (S, {}, "no longer allowed"),
    (S, False, None),
    ({"type": "number"}, INT, None),
    (INT, {"type": "number"}, "number"),
    ({"type": ["string", "null"]}, S, None),
    ({**S, "maxLength": 5}, S, "maxLength"),
    ({**S, "maxLength": 5}, {**S, "maxLength": 4}, None),
    ({**S, "minLength": 1}, {**S, "minLength": 2}, None),
    ({**S, "pattern": "a"}, S, "pattern"),
    (S, {**S, "pattern": "a"}, None),
    ({**INT, "minimum": 1}, {**INT, "minimum": 2}, None),
    ({**INT, "minimum": 1}, {**INT, "exclusiveMinimum": 1}, None),
    ({**INT, "exclusiveMinimum": 1}, {**INT, "minimum": 1}, "minimum"),
    ({**INT, "multipleOf": 2}, {**INT, "multipleOf": 4}, None),
    ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 2}, "multipleOf"),
    ({"enum": [1, 2]}, {"enum": [1]}, None),
    ({"enum": [1]}, {"enum": [1, 2]}, "2"),
    ({"const": 1}, INT, "some values"),
    (S, {"enum": ["a"]}, None),
    ({**INT, "minimum": 2}, {"enum": [1]}, "minimum"),
    (obj({"a": S, "b": S}), obj({"a": S}), "added, but the earlier schema allows other"),
    (obj({"a": S, "b": {}}), obj({"a": S}), None),
    (obj({"a": S, "b": S}, **CLOSED), obj({"a": S}, **CLOSED), None),
    (obj({"a": S}), obj({"a": S, "b": S}), None),
    (obj({"a": S}, **CLOSED), obj({"a": S, "b": S}, **CLOSED), "it was removed"),
    (obj({"a": S}, additionalProperties=S), obj({"a": S, "b": S}, **CLOSED), None),
    (obj({"a": S}, **CLOSED), obj({"a": S}), "additionalProperties"),
    (obj({"a": S}, required=["a"]), obj({"a": S}), "required"),
    (obj({"a": {**S, "default": ""}}, required=["a"]), obj({"a": S}), None),
    (obj({"a": S}), obj({"a": S}, required=["a"]), None),
    ({"type": "array", "items": {"type": "number"}}, {"type": "array", "items": INT}, None),
    ({"type": "array", "items": INT}, {"type": "array"}, "/items"),
    ({"prefixItems": [S], "items": INT}, {"type": "array", "items": [S, INT], "additionalItems": False}, None),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, "uniqueItems"),
    (LIST, LIST, None),
    (WIDER, LIST, None),
    (LIST, WIDER, "null"),
    ({"anyOf": [S, N]}, S, None),
    ({"anyOf": [S, N]}, INT, "anyOf"),
    (S, {"anyOf": [S, N]}, "/anyOf/1"),
    ({"oneOf": [S, INT, N]}, {"oneOf": [S, N]}, None),
    ({"oneOf": [kind("a"), kind("b"), kind("c")]}, {"oneOf": [kind("a"), kind("b")]}, None),
    ({"oneOf": [kind("a"), obj({})]}, {"oneOf": [kind("a")]}, "cannot be distinguished"),
    ({"allOf": [S, {"maxLength": 9}]}, {**S, "maxLength": 8}, None),
    (S, {"allOf": [S, {"maxLength": 9}]}, None),
    ({"not": S}, {"not": S}, None),
    ({"not": S}, INT, "cannot be compared"),
    ({"title": "new"}, {"title": "old"}, None),
    (obj({"title": S}), obj({"title": INT}), "/properties/title"),
    ({"$ref": "#/x", "x": {"anyOf": [{"$ref": "#/x"}]}}, S, "only by itself"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "why"), CASES)
def test_the_table(reader: Any, writer: Any, why: str | None) -> None:
    problems = unreadable(Document(load(json.dumps(reader))), Document(load(json.dumps(writer))))
    assert bool(problems) == (why is not None), problems
    assert why is None or any(why in problem for problem in problems), problems


_NAMES = st.sampled_from(["a", "b"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, "", "x", "yy"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
_LEAVES = (
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
            | st.lists(st.sampled_from(["integer", "string", "object"]), min_size=1, max_size=2, unique=True),
            "minimum": st.integers(-1, 2),
            "exclusiveMaximum": st.integers(0, 3),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "required": st.lists(_NAMES, max_size=2, unique=True),
            "maxProperties": st.integers(0, 2),
        },
    )
    | st.builds(lambda values: {"enum": values}, st.lists(_VALUES, min_size=1, max_size=3))
    | st.builds(lambda value: {"const": value}, _VALUES)
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string"]),
            "properties": st.dictionaries(_NAMES, inner, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=1),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
        },
    ),
    max_leaves=5,
)


@settings(max_examples=examples(300))
@given(_SCHEMAS, st.data())
def test_what_is_called_readable_takes_every_document(writer: Any, data: st.DataObject) -> None:
    """No document that the writer's schema takes is refused by the reader's."""
    reader = data.draw(st.sampled_from([writer]) | _SCHEMAS | _changed(writer))
    documents = data.draw(st.lists(_VALUES, min_size=6, max_size=12))
    if unreadable(Document(load(json.dumps(reader))), Document(load(json.dumps(writer)))):
        return
    old, new = jsonschema.Draft202012Validator(writer), jsonschema.Draft202012Validator(reader)
    for document in documents:
        if old.is_valid(document):
            assert new.is_valid(document), (reader, writer, document)


def _changed(schema: Any) -> st.SearchStrategy[Any]:
    """The schema with one keyword less or another value in it, so that the two are near each other."""
    if not isinstance(schema, dict) or not schema:
        return _SCHEMAS
    keys = sorted(schema)
    return st.sampled_from(keys).map(lambda dropped: {key: schema[key] for key in keys if key != dropped}) | st.builds(
        lambda added: {**schema, **added} if isinstance(added, dict) else added, _LEAVES
    )


@settings(max_examples=examples(100))
@given(_SCHEMAS)
def test_a_schema_reads_itself_unless_it_cannot_be_judged(schema: Any) -> None:
    problems = unreadable(Document(load(json.dumps(schema))), Document(load(json.dumps(schema))))
    assert all(
        "judged" in problem or "cannot be distinguished" in problem or "branch" in problem for problem in problems
    ), problems


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"type": "text"}', '{"required": "a"}', '{"properties": []}', '{"items": 3}', '{"minimum": "1"}',
     '{"multipleOf": 0}', '{"$ref": "#/nowhere"}', '{"$ref": 3}', "[" * 3_000, '{"not":' * 90 + "{}" + "}" * 90],
)  # fmt: skip
def test_what_is_no_schema_is_told(text: str) -> None:
    with pytest.raises(SchemaInvalid):
        Document(load(text)).check_refs()


def test_the_order_of_keys_does_not_make_another_schema() -> None:
    assert canonical('{"type":"object", "title":"a"}') == canonical('{"title": "a", "type": "object"}')
