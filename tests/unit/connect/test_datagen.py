"""Datagen's shapes: what a schema asks for is what comes, again and again."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from odradek.connect.connectors.datagen.chance import Chance, texts_like
from odradek.connect.connectors.datagen.quickstarts import QUICKSTARTS, quickstart
from odradek.connect.connectors.datagen.shape import Shape
from odradek.connect.connectors.datagen.source import DatagenConnector
from odradek.connect.converters.avro_data import avro_schema, connect_schema
from odradek.connect.data.structs import check_value, plain
from odradek.connect.errors import ConfigError

NOW_MS = 1_795_305_600_000


def values(shape: Shape, count: int = 40) -> list[Any]:
    return [plain(shape.value(Chance("0/0", number), NOW_MS)) for number in range(count)]


@pytest.mark.parametrize("name", list(QUICKSTARTS))
def test_a_quickstart_makes_values_of_its_schema_and_the_same_ones_again(name: str) -> None:
    shape = quickstart(name)
    for number in range(30):
        value = shape.value(Chance("0/0", number), NOW_MS)
        check_value(shape.schema, value)
        assert value[shape.key] is not None
    assert values(shape) == values(shape)
    assert len({repr(each) for each in values(shape)}) > 5
    assert connect_schema(avro_schema(shape.schema)).fields == shape.schema.fields, "converters can write it"


def test_the_orders_of_the_tutorials() -> None:
    orders = values(quickstart("orders"))
    assert [each["orderid"] for each in orders] == list(range(40))
    assert all(re.fullmatch("Item_[1-9][0-9]{0,2}", each["itemid"]) for each in orders)
    assert all(0.1 <= each["orderunits"] < 10 for each in orders)
    assert set(orders[0]["address"]) == {"city", "state", "zipcode"}


def own(kind: Any, **asked: Any) -> Shape:
    field = {"type": kind, "arg.properties": asked} if isinstance(kind, str) else {**kind, "arg.properties": asked}
    return Shape({"type": "record", "name": "r", "fields": [{"name": "f", "type": field}]}, None)


def made(kind: Any, **asked: Any) -> list[Any]:
    return [each["f"] for each in values(own(kind, **asked))]


def test_what_arg_properties_ask_for() -> None:
    assert set(made("int", range={"min": -1, "max": 2})) == {-1, 0, 1}
    assert set(made("string", options=["a", "b"])) == {"a", "b"}
    assert made("long", iteration={"start": 5, "step": 2, "restart": 10})[:4] == [5, 7, 9, 5]
    assert made("string", iteration={"start": 0}, prefix="n", suffix="!")[:2] == ["n0!", "n1!"]
    assert all(len(each) == 3 for each in made("string", length=3))
    assert {len(each) for each in made("bytes", length={"min": 1, "max": 4})} == {1, 2, 3}
    assert set(made("boolean", odds=1)) == {True}
    assert all(0 <= each < 1 for each in made("double"))
    assert {len(each) for each in made({"type": "array", "items": "int"}, length={"min": 0, "max": 2})} == {0, 1}
    found = made({"type": "map", "values": "int"}, length=2, keys={"iteration": {"start": 7}})
    assert set(found[0]) == {"7"}
    assert set(made({"type": "enum", "name": "e", "symbols": ["A", "B"]})) == {"A", "B"}
    assert made({"type": "long", "logicalType": "timestamp-millis"}, now=True)[0] == dt.datetime.fromtimestamp(
        NOW_MS / 1000, dt.UTC
    )
    price = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    assert all(
        Decimal(1) <= each <= 3 and each.as_tuple().exponent == -2 for each in made(price, range={"min": 1, "max": 3})
    )
    assert set(made("int", iteration={"start": 2**31 - 1})) >= {2**31 - 1, -(2**31)}, "as Java's numbers"


def test_fields_that_may_be_null_and_types_that_are_named_twice() -> None:
    place = {"type": "record", "name": "p", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": place}, {"name": "b", "type": ["null", "p"]}]
    found = values(Shape({"type": "record", "name": "r", "fields": fields}, "a"))
    assert {each["b"] is None for each in found} == {True, False}
    assert len({each["a"]["x"] for each in found}) > 30


@pytest.mark.parametrize(
    "pattern",
    ["User_[1-9]", "[A-Z]{2}\\d{6}[A-Z]", "(ab|c[d-f]+)*x?", "lab-\\d{1}", "a{2,}", "\\[[0-9][0-9]\\]", "^x.y$"],
)
def test_texts_match_their_pattern(pattern: str) -> None:
    like = texts_like(pattern)
    found = {like(Chance("1", number), "n") for number in range(50)}
    assert all(re.fullmatch(pattern, each) for each in found)
    assert len(found) > 1 or pattern == "^x.y$" or len(found) == 1


@pytest.mark.parametrize(
    "pattern", ["a)", "(a", "[b-a]", "[^a]", "a{2", "*", "a{3,2}", "(?=a)", "\\q", "[]", "a{9999}"]
)
def test_a_pattern_that_cannot_be_made_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="the pattern"):
        texts_like(pattern)


@pytest.mark.parametrize(
    ("kind", "asked", "said"),
    [
        ("int", {"options": []}, "at least one value"),
        ("int", {"options": ["x"]}, "the option 'x' is no int32"),
        ("int", {"range": {"min": 3, "max": 3}}, "min below max"),
        ("int", {"range": {"min": "a"}}, "is to be a number"),
        ("int", {"iteration": {"step": 1}}, "a start"),
        ("int", {"iteration": {"start": 0, "restart": 0}}, "has no step"),
        ("string", {"length": -1}, "length"),
        ("string", {"malformation.rate": 1}, "'malformation.rate': use"),
        ({"type": ["int", "string"]}, {}, "several types"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(kind: Any, asked: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        own(kind, **asked)


def test_configurations(tmp_path: Path) -> None:
    file = tmp_path / "own.avsc"
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "f", "type": "int"}]})
    file.write_text(text)

    def errors(**configs: str) -> list[str]:
        found = DatagenConnector.validate({"kafka.topic": "t", **configs})
        return [error for each in found.values() for error in each.errors]

    assert errors(quickstart="ORDERS") == errors(**{"schema.string": text, "schema.keyfield": "f"}) == []
    assert errors(**{"schema.filename": str(file)}) == []
    for configs, said in [
        ({"quickstart": "no"}, "must be one of"),
        ({"schema.string": "{"}, "no JSON"),
        ({"schema.string": '{"type": "what"}'}, "no Avro schema"),
        ({"schema.string": '"int"'}, "of a record"),
        ({"schema.string": text, "schema.keyfield": "g"}, "no field 'g'"),
        ({"schema.string": text, "schema.filename": str(file)}, "choose one"),
        ({"schema.filename": str(tmp_path / "none")}, "cannot be read"),
        ({"schema.keyfield": "f"}, "schema of your own"),
    ]:
        [error] = errors(**configs)
        assert said in error
