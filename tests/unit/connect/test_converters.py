"""Converters: every value comes back as it was; bytes of others are read; what does not fit is a DataError."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.serializers import AvroSerializer, MemoryRegistry
from odradek.connect.converters.avro import AvroConverter
from odradek.connect.converters.json import JsonConverter
from odradek.connect.converters.json_schema import JsonSchemaConverter, read_json_schema
from odradek.connect.converters.primitive import SimpleHeaderConverter
from odradek.connect.converters.protobuf import ProtobufConverter
from odradek.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Struct,
    array,
    decimal,
    map_of,
    parse_text,
    struct,
)
from odradek.connect.errors import DataError
from odradek.connect.plugins import find

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
_MS = st.integers(-(10**12), 4 * 10**12)
_MOMENTS = _MS.map(lambda ms: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms))
_SCALARS: list[tuple[Schema, Any]] = [
    (INT8, st.integers(-128, 127)),
    (INT16, st.integers(-(2**15), 2**15 - 1)),
    (INT32, st.integers(-(2**31), 2**31 - 1)),
    (INT64, st.integers(-(2**63), 2**63 - 1)),
    (FLOAT32, st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (FLOAT64, st.floats(allow_nan=False, allow_infinity=False)),
    (BOOLEAN, st.booleans()),
    (STRING, _TEXT),
    (BYTES, st.binary(max_size=8)),
    (decimal(3), st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-3))),
    (decimal(3, precision=30), st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-3))),
    (DATE, st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    (TIME, st.integers(0, 86_399_999).map(lambda ms: (dt.datetime.min + dt.timedelta(milliseconds=ms)).time())),
    (TIMESTAMP, _MOMENTS),
]


def _pairs(depth: int) -> Any:
    """Strategies of (schema, value)."""
    scalar = st.sampled_from(_SCALARS).flatmap(lambda each: st.tuples(st.just(each[0]), each[1]))
    if depth == 0:
        return scalar
    inner = _pairs(depth - 1)
    lists = st.sampled_from(_SCALARS).flatmap(
        lambda each: st.lists(each[1], max_size=3).map(lambda values: (array(each[0]), values))
    )
    maps = st.sampled_from(_SCALARS).flatmap(
        lambda each: st.dictionaries(_TEXT, each[1], max_size=3).map(lambda v: (map_of(STRING, each[0]), v))
    )
    return st.one_of(scalar, lists, maps, _structs(inner))


def _structs(inner: Any) -> Any:
    def made(fields: list[tuple[tuple[Schema, Any], bool, bool]]) -> tuple[Schema, Struct]:
        schema = struct(
            [(f"f{n}", pair[0].as_optional(optional)) for n, (pair, optional, _) in enumerate(fields)],
            name="some.Record",
        )
        values = {f"f{n}": None if optional and null else pair[1] for n, (pair, optional, null) in enumerate(fields)}
        return schema, Struct(schema, values)

    return st.lists(st.tuples(inner, st.booleans(), st.booleans()), min_size=1, max_size=4).map(made)


def converter(kind: type[Any], registry: MemoryRegistry | None = None, **configs: Any) -> Any:
    made = kind()
    made.configure({name.replace("_", "."): value for name, value in configs.items()}, is_key=False)
    if registry is not None:
        made.registry = registry
    return made


@given(_structs(_pairs(1)))
def test_json_with_schemas(pair: tuple[Schema, Struct]) -> None:
    for decimals in ("BASE64", "NUMERIC"):
        made = converter(JsonConverter, decimal_format=decimals)
        assert made.to_connect("t", made.from_connect("t", *pair)) == pair


@given(_structs(_pairs(1)))
def test_avro(pair: tuple[Schema, Struct]) -> None:
    registry = MemoryRegistry()
    data = converter(AvroConverter, registry).from_connect("t", *pair)
    assert converter(AvroConverter, registry).to_connect("t", data) == pair


@given(_structs(_pairs(1)))
def test_json_schema(pair: tuple[Schema, Struct]) -> None:
    registry = MemoryRegistry()
    data = converter(JsonSchemaConverter, registry).from_connect("t", *pair)
    found = converter(JsonSchemaConverter, registry).to_connect("t", data)
    assert found.value.as_dict() == pair[1].as_dict()


@given(_structs(_pairs(0)))
def test_protobuf(pair: tuple[Schema, Struct]) -> None:
    registry = MemoryRegistry()
    data = converter(ProtobufConverter, registry).from_connect("t", *pair)
    found = converter(ProtobufConverter, registry).to_connect("t", data)
    assert found.value.as_dict() == pair[1].as_dict()
    assert found.schema.name == "some.Record"


def test_protobuf_lists_maps_and_nested_structs() -> None:
    inner = struct({"n": INT64})
    schema = struct(
        {"tags": array(STRING), "sizes": map_of(STRING, INT64), "inner": inner, "list": array(inner), "day": DATE}
    )
    value = Struct(
        schema,
        {
            "tags": ["a", "b"],
            "sizes": {"x": 1},
            "inner": Struct(inner, {"n": 7}),
            "list": [Struct(inner, {"n": 8})],
            "day": dt.date(1970, 1, 11),
        },
    )
    registry = MemoryRegistry()
    data = converter(ProtobufConverter, registry).from_connect("t", schema, value)
    found = converter(ProtobufConverter, registry).to_connect("t", data).value.as_dict()
    assert found == {"tags": ["a", "b"], "sizes": {"x": 1}, "inner": {"n": 7}, "list": [{"n": 8}], "day": value["day"]}


@given(_structs(_pairs(1)))
def test_protobuf_with_boxes(pair: tuple[Schema, Struct]) -> None:
    registry = MemoryRegistry()
    data = converter(ProtobufConverter, registry, wrapper_for_nullables=True).from_connect("t", *pair)
    found = converter(ProtobufConverter, registry).to_connect("t", data).value.as_dict()
    given = pair[1].as_dict()
    empties = {"array": [], "map": {}}  # a list or map that is null is empty
    empty = {each.name: empties.get(each.schema.type.value) for each in pair[0].fields}
    assert found == {name: empty[name] if value is None else value for name, value in given.items()}


def test_optional_scalars_are_boxes_if_that_is_configured() -> None:
    registry = MemoryRegistry()
    schema = struct({"n": INT32.as_optional(), "s": STRING, "tags": array(STRING.as_optional())})
    made = converter(ProtobufConverter, registry, wrapper_for_nullables=True)
    data = made.from_connect("t", schema, Struct(schema, {"n": 0, "s": "", "tags": ["a"]}))
    assert data[6:] == b"\n\x00\x1a\x03\n\x01a", "0 in a box is there, and has no bytes in it"
    assert b"google/protobuf/wrappers.proto" in base64.b64decode(registry.schema(1).text)


def test_avro_of_others_is_read() -> None:
    registry = MemoryRegistry()
    avro = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "either", "type": ["null", "string", "long"]},
            {"name": "note", "type": "string", "default": "none"},
        ],
    }
    data = AvroSerializer(registry, json.dumps(avro), "t-value")({"id": 1, "kind": "B", "either": 5, "note": "n"})
    schema, value = converter(AvroConverter, registry).to_connect("t", data)
    assert schema.name == "shop.Order"
    assert value.as_dict() == {"id": 1, "kind": "B", "either": {"string": None, "long": 5}, "note": "n"}
    assert schema.field("note").schema.default == "none"


def test_a_json_schema_of_others_is_read() -> None:
    schema = read_json_schema(
        {
            "title": "Order",
            "type": "object",
            "properties": {"id": {"type": "integer"}, "to": {"$ref": "#/definitions/place"}, "x": {"type": "number"}},
            "definitions": {"place": {"type": "object", "properties": {"city": {"type": ["null", "string"]}}}},
            "required": ["id"],
        }
    )
    assert [(each.name, each.schema.optional) for each in schema.fields] == [("id", False), ("to", True), ("x", True)]
    place = schema.field("to")
    assert place is not None
    assert place.schema.field("city") is not None


@pytest.mark.parametrize(("kind", "named", "found"), [
    ("string", "int32", STRING), ("string", "bytes", BYTES), ("integer", "int32", INT32),
    ("number", "float32", FLOAT32),
])  # fmt: skip
def test_a_type_of_connect_is_one_of_the_json_type(kind: str, named: str, found: Schema) -> None:
    assert read_json_schema({"type": kind, "connect.type": named}) == found


def test_a_json_schema_need_not_have_all_its_fields() -> None:
    place = struct({"city": STRING, "zip": INT32})
    schema = struct({"id": INT64, "kind": STRING, "note": STRING.as_optional(), "to": place, "n": INT32})
    registry = MemoryRegistry()
    made = converter(JsonSchemaConverter, registry)
    data = made.from_connect("t", schema, Struct(schema, {"id": 1, "to": Struct(place, {"zip": 7})}))
    assert json.loads(data[5:]) == {"id": 1, "note": None, "to": {"zip": 7}}, "what is not set is not written"
    found = made.to_connect("t", data).value
    assert dict(found.present) == {"id": 1, "note": None, "to": Struct(place, {"zip": 7})}
    with pytest.raises(DataError, match="null"):
        made.to_connect("t", data[:5] + b'{"id": null}')
    with pytest.raises(DataError, match="id is null, but is required"):
        converter(JsonConverter).from_connect("t", schema, Struct(schema, {"kind": "a"}))


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
@pytest.mark.parametrize("data", [b"", b"no", b"\x07\x00\x00\x00\x01x", b"\x00\x00\x00\x00\x63x"])
def test_bytes_without_a_known_schema_are_refused(kind: type[Any], data: bytes) -> None:
    with pytest.raises(DataError):
        converter(kind, MemoryRegistry()).to_connect("t", data)


@given(st.binary(max_size=60))
def test_no_bytes_crash_a_converter(data: bytes) -> None:
    registry = MemoryRegistry()
    schema = struct({"a": INT64, "b": array(STRING)})
    value = Struct(schema, {"a": 1, "b": []})
    for kind in (AvroConverter, ProtobufConverter, JsonSchemaConverter):
        made = converter(kind, registry)
        prefix = made.from_connect(kind.__name__, schema, value)[:6]
        for read in (data, prefix + data):
            try:
                made.to_connect("t", read)
            except DataError:
                continue
    for with_schemas in ("true", "false"):
        try:
            converter(JsonConverter, schemas_enable=with_schemas).to_connect("t", data)
        except DataError:
            continue


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("ShortConverter", -2, b"\xff\xfe"),
        ("IntegerConverter", 7, b"\x00\x00\x00\x07"),
        ("LongConverter", 7, b"\x00" * 7 + b"\x07"),
        ("FloatConverter", 1.5, b"\x3f\xc0\x00\x00"),
        ("DoubleConverter", 1.5, b"\x3f\xf8" + b"\x00" * 6),
        ("BooleanConverter", True, b"\x01"),
        ("StringConverter", "é", "é".encode()),
        ("ByteArrayConverter", b"x", b"x"),
    ],
)
def test_single_values(name: str, value: Any, data: bytes) -> None:
    made = converter(find("converters", name).load())
    assert made.from_connect("t", None, value) == data
    assert made.to_connect("t", data).value == value
    assert made.to_connect("t", None).value is None
    with pytest.raises(DataError):
        made.from_connect("t", None, {"a": object()})


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | _TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=6,
    )
)
def test_json_without_schemas(value: Any) -> None:
    made = converter(JsonConverter, schemas_enable="false")
    assert made.to_connect("t", made.from_connect("t", None, value)) == (None, value)


def test_json_says_what_to_do_about_plain_json() -> None:
    with pytest.raises(DataError, match=r"set schemas\.enable=false"):
        converter(JsonConverter).to_connect("t", b'{"a": 1}')


def test_headers_as_text_have_the_narrowest_type() -> None:
    made = converter(SimpleHeaderConverter)
    found = {
        text: made.to_connect("t", text.encode()).schema for text in ("1", "300", "true", "x", "2024-01-31", "1.5")
    }
    assert found == {"1": INT8, "300": INT16, "true": BOOLEAN, "x": STRING, "2024-01-31": DATE, "1.5": FLOAT32}
    assert made.to_connect("t", b"\xff\xfe").value == b"\xff\xfe"
    assert made.from_connect("t", None, {"a": [1, "b"]}) == b'{"a":[1,"b"]}'
    assert parse_text('{"a": 1, "b": 300}').schema == map_of(STRING, INT16)
