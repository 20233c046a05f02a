"""Avro's schema resolution as a table: reader, writer, and a word of what stands against it (None: nothing)."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from odradek.registry import avro
from odradek.registry.avro import canonical, normalized, parse
from odradek.registry.compatibility_avro import unreadable
from odradek.registry.errors import SchemaInvalid


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, field_type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": field_type, **more}


A, B = field("a", "int"), field("b", "string")
E = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
F = {"type": "fixed", "name": "F", "size": 4}
LIST = record(field("next", ["null", "R"], default=None), field("v", "int"))
TREE = record(field("next", ["null", "R"], default=None), field("v", "long"))

CASES: list[tuple[Any, Any, str | None]] = [
    ("int", "int", None),
    ("long", "int", None),
    ("float", "long", None),
    ("double", "float", None),
    ("int", "long", "cannot read"),
    ("long", "float", "cannot read"),
    ("string", "bytes", None),
    ("bytes", "string", None),
    ("string", "int", "cannot read"),
    (record(A), record(A, B), None),
    (record(A, B), record(A), "no default"),
    (record(A, {**B, "default": ""}), record(A), None),
    (record(field("c", "int", aliases=["a"])), record(A), None),
    (record(field("c", "int")), record(A), "no default"),
    (record(field("a", "long")), record(A), None),
    (record(A), record(field("a", "long")), "/fields/0/type"),
    (record(A, name="S"), record(A), "different names"),
    (record(A, name="S", aliases=["R"]), record(A), None),
    (record(A, name="n.R"), record(A, name="m.R"), None),
    (E, {**E, "symbols": ["X"]}, None),
    ({**E, "symbols": ["X"]}, E, "lacks the writer's symbols Y"),
    ({**E, "symbols": ["X"], "default": "X"}, E, None),
    (F, F, None),
    ({**F, "size": 5}, F, "bytes"),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, None),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, "/items"),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "cannot read"),
    (["null", "int"], "int", None),
    (["null", "long"], "int", None),
    (["null", "string"], "int", "no branch"),
    ("int", ["null", "int"], "cannot read"),
    (["null", "int", "string"], ["null", "int"], None),
    (["null", "int"], ["null", "int", "string"], "no branch"),
    (LIST, LIST, None),
    (TREE, LIST, None),
    (LIST, TREE, "/fields/1/type"),
]


@pytest.mark.parametrize(("reader", "writer", "why"), CASES)
def test_the_table(reader: Any, writer: Any, why: str | None) -> None:
    problems = unreadable(parse(json.dumps(reader)), parse(json.dumps(writer)))
    assert bool(problems) == (why is not None), problems
    assert why is None or any(why in problem for problem in problems)


@pytest.mark.parametrize(("reader", "writer", "why"), [case for case in CASES if case[2] is None])
def test_what_is_readable_is_read_by_fastavro(reader: Any, writer: Any, why: None) -> None:
    samples = {"int": 1, "long": 1, "float": 1.0, "string": "s", "bytes": b"s"}
    values = {"R": {"a": 1, "b": "s", "v": 1, "next": None}, "E": "X", "F": b"1234", "array": [1], "m.R": {"a": 1}}
    primitive = writer if isinstance(writer, str) else None
    value: Any = samples.get(primitive or "", 1)
    if isinstance(writer, dict):
        value = values[writer.get("name", writer["type"])]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), value)
    fastavro.schemaless_reader(io.BytesIO(out.getvalue()), fastavro.parse_schema(writer), fastavro.parse_schema(reader))


def test_many_mentions_of_one_type_cost_no_more_than_a_few() -> None:
    """Types that name each other in two branches each would be compared 2^40 times without a memory."""
    text: Any = "int"
    for i in range(25):
        text = record(field("f", ["null", text]), field("g", ["null", f"T{i - 1}" if i else "int"]), name=f"T{i}")
    tree = parse(json.dumps(text))
    assert unreadable(tree, parse(json.dumps(text))) == []


def within_itself(levels: int) -> str:
    """A record with a field of its own type, with a default of so many levels."""
    default: Any = None
    for _ in range(levels):
        default = {"next": default}
    node = record(field("next", ["null", "N"]), name="N")
    return json.dumps(record(field("first", node, default=default), name="R"))


def test_a_default_may_be_nested() -> None:
    assert parse(within_itself(30))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("12", "a type must be"),
        ('"nonsense"', "defined neither"),
        ('{"type": "record", "name": "R"}', "no list of fields"),
        ('{"type": "record", "name": "9", "fields": []}', "not a valid name"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "a name and a type"),
        (json.dumps(record(A, A)), "two fields"),
        (json.dumps(record(field("a", "int", default="x"))), "the default"),
        ('["int", "int"]', "twice"),
        ('["int", ["null"]]', "must not contain a union"),
        ('{"type": "enum", "name": "E", "symbols": ["a", "a"]}', "symbols"),
        ('{"type": "fixed", "name": "F"}', "size"),
        ('{"type": "fixed", "name": "F", "size": -1}', "size"),
        ('{"type": "fixed", "name": "F", "size": true}', "size"),
        (within_itself(60), "the default"),
        ("[" * 2_000 + "]" * 2_000, "nested"),
        ('{"type":"array","items":' * 90 + '"int"' + "}" * 90, "nested"),
    ],
)
def test_what_is_no_schema_is_told(text: str, why: str) -> None:
    with pytest.raises(SchemaInvalid, match=why):
        parse(text)


@pytest.mark.parametrize(
    ("schema", "is_taken"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, False),
        (record(field("e", {"type": "enum", "name": "E", "symbols": ["A"]}, default="B")), True),
        (record(field("f", {"type": "fixed", "name": "F", "size": 4}, default="B")), True),
        (record(field("stra\u00dfe", "int"), field("\u540d", "int"), name="Gr\u00f6\u00dfe"), True),
        ({"type": "enum", "name": "E", "symbols": ["\u00c4", "\u00e92"]}, True),
        (record(field("a\u00bd", "int")), False),
        (record(field("\u0663a", "int")), False),
        (record(field("a\u0663", "int")), True),
        (record(field("\U00010400", "int")), False),
        (record(field("a-b", "int")), False),
        (record(field("a", "int"), namespace="a-b"), False),
        (record(field("a", "int", default=1.0)), False),
        (record(field("a", "double", default="NaN")), True),
        (record(field("a", ["null", "int"], default=1)), True),
        (record(field("a", "bytes", default="\u0100")), True),
        ({"type": "fixed", "name": "F", "size": 0}, True),
    ],
)
def test_schemas_that_avros_java_library_takes_are_taken(schema: Any, *, is_taken: bool) -> None:
    """As Schema.Parser of Avro 1.12.0 with validated defaults, which Confluent's registry asks."""
    if is_taken:
        assert parse(json.dumps(schema))
    else:
        with pytest.raises(SchemaInvalid):
            parse(json.dumps(schema))


def test_spelling_does_not_make_another_schema() -> None:
    assert canonical(
        '{"name": "R", "type": "record", "fields": [{"type": {"type": "int"}, "name": "a"}]}'
    ) == canonical(json.dumps(record(A)))
    assert canonical("string") == canonical('{"type": "string"}') == '"string"'
    assert canonical(json.dumps(record(A, B))) != canonical(json.dumps(record(B, A)))  # the order of fields is content
    one = record(field("x", "n.E"), name="R", namespace="n")
    other = record(field("x", "E"), name="n.R")
    assert normalized(json.dumps(one)) == normalized(json.dumps(other))


def test_names_of_references_are_known() -> None:
    names: avro.Names = {}
    parse(json.dumps({**E, "namespace": "n"}), names)
    assert parse('{"type": "array", "items": "n.E"}', names).element is names["n.E"]
