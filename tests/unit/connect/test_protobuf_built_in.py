"""Protobuf schemas that import Confluent's decimals and Google's common types without a reference."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from odradek.client.serializers.registry import MemoryRegistry, Schema
from odradek.columnar.typed.protobuf_built_in import built_in_descriptor, is_repeated
from odradek.columnar.typed.protobuf_values import ProtobufValues, protobuf_fields
from odradek.connect.converters.protobuf import ProtobufConverter
from odradek.connect.data import STRING, array, logical, map_of, struct
from odradek.connect.data.structs import Struct
from odradek.connect.errors import DataError
from odradek.model.protobuf_types import BUILT_IN
from odradek.model.value_schema import ValueSchema
from odradek.registry.errors import SchemaInvalid
from odradek.registry.protobuf.files import resolve
from odradek.registry.protobuf.text import parse_text
from odradek.registry.protobuf.wire import encode_descriptor, parse_descriptor

TEXT = """
syntax = "proto3";
package shop;
import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "google/type/money.proto";
message Order {
  confluent.type.Decimal price = 1 [(confluent.field_meta) = {
    params: [{ value: "6", key: "precision" }, { key: "scale", value: "2" }]
  }];
  google.type.Date day = 2;
  google.type.TimeOfDay at = 3;
  google.type.Money paid = 4;
  repeated google.type.Date days = 5;
  confluent.type.Decimal bare = 6;
  map<string, confluent.type.Decimal> prices = 7;
}
"""


META = '{{ params : [ {{ key : "precision" , value : "{precision}" }} , {{ key : "scale" , value : "{scale}" }} ] }}'


def descriptor(text: str = TEXT) -> str:
    return encode_descriptor(*resolve(parse_text(text), {}), "order.proto")


@pytest.fixture
def converter() -> ProtobufConverter:
    made = ProtobufConverter()
    made.configure({}, is_key=False)
    registry = MemoryRegistry()
    registry.register("t-value", Schema(descriptor(), "PROTOBUF"))
    made.registry = registry
    return made


@pytest.mark.parametrize("path", [each for each in BUILT_IN if each.startswith("google/")])
def test_googles_common_types_are_those_of_google(path: str) -> None:
    wanted = FileDescriptorProto()
    import_module(path.replace("/", ".").replace(".proto", "_pb2")).DESCRIPTOR.CopyToProto(wanted)
    found = built_in_descriptor(path)

    def shape(message: Any) -> Any:
        fields = [(f.name, f.number, f.type, f.type_name, f.label, f.HasField("oneof_index") and f.oneof_index)
                  for f in sorted(message.field, key=lambda each: each.number)]  # fmt: skip
        return message.name, fields, [each.name for each in message.oneof_decl], list(map(shape, message.nested_type))

    assert list(map(shape, found.message_type)) == list(map(shape, wanted.message_type))
    values = [[(v.name, v.number) for v in each.value] for file in (found, wanted) for each in file.enum_type]
    assert values[: len(found.enum_type)] == values[len(found.enum_type) :]
    assert (found.package, list(found.dependency)) == (wanted.package, list(wanted.dependency))


def test_a_registered_schema_reads_and_writes_decimals_dates_and_times(converter: ProtobufConverter) -> None:
    schema = converter.writes(1, [0])
    price, day, at = (schema.field(each).schema for each in ("price", "day", "at"))  # type: ignore[union-attr]
    assert (price.name, logical.scale_of(price), price.parameter(logical.PRECISION)) == (logical.DECIMAL_NAME, 2, "6")
    assert [day.name, at.name] == [logical.DATE_NAME, logical.TIME_NAME]
    row = {
        "price": Decimal("-12.34"), "day": dt.date(2026, 11, 27), "at": dt.time(4, 5, 6, 7_000),
        "days": [dt.date(1969, 12, 31)], "prices": {"a": "0.05"}, "bare": "100",
    }  # fmt: skip
    data = converter.from_connect("t", schema, Struct(schema, row))
    assert data is not None
    assert b"\n\x08\n\x02\xfb\x2e\x10\x04\x18\x02" in data, "value -1234 in two bytes, precision 4, scale 2"
    found = converter.to_connect("t", data).value.as_dict()
    assert {name: found[name] for name in row} == row
    assert found["paid"] is None


def test_logical_types_have_the_messages_of_confluents_converter() -> None:
    price = logical.decimal(2, precision=6, optional=True)
    schema = struct(
        {
            "price": price, "day": logical.DATE.as_optional(), "at": logical.TIME.as_optional(),
            "then": logical.TIMESTAMP.as_optional(), "prices": array(price), "days": map_of(STRING, logical.DATE),
            "by_name": map_of(STRING, price), "line": struct({"at": logical.TIME, "net": logical.decimal(3)}),
        },
        name="shop.Order",
    )  # fmt: skip
    line = schema.field("line").schema  # type: ignore[union-attr]
    row = {
        "price": Decimal("0.5"), "day": dt.date(2026, 11, 27), "at": dt.time(4, 5, 6, 7_000),
        "then": dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "prices": [Decimal("-1234.56"), Decimal(0)],
        "days": {"a": dt.date(1, 1, 1)}, "by_name": {"b": Decimal("0.05")},
        "line": Struct(line, {"at": dt.time(23, 59), "net": Decimal("10.000")}),
    }  # fmt: skip
    made, registry = ProtobufConverter(), MemoryRegistry()
    made.configure({}, is_key=False)
    made.registry = registry
    data = made.from_connect("t", schema, Struct(schema, row))
    assert data is not None
    assert b"\n\x07\n\x01\x32\x10\x02\x18\x02" in data, "0.50: value 50, two digits, scale 2"
    registered = parse_descriptor(registry.schema(1).text)
    kinds = {each.name: (each.type, each.options) for each in registered.messages[0].fields}
    of_price = (("(confluent.field_meta)", META.format(precision=6, scale=2)),)
    decimal, date = ".confluent.type.Decimal", ".google.type.Date"
    assert [kinds[each] for each in ("price", "prices")] == [(decimal, of_price)] * 2
    assert kinds["day"] == (date, ())
    names = [f".shop.Order.ConnectDefault{each}" for each in ("1Entry", "2Entry", "3")]
    assert [kinds[each][0] for each in ("days", "by_name", "line")] == names
    [days, by_name, _] = registered.messages[0].messages
    assert [(each.name, each.type) for each in days.fields] == [("key", "string"), ("value", date)]
    assert (by_name.fields[1].type, by_name.fields[1].options) == (decimal, of_price)
    assert (kinds["at"], kinds["then"][0]) == ((".google.type.TimeOfDay", ()), ".google.protobuf.Timestamp")
    reader = ProtobufConverter()
    reader.configure({}, is_key=False)
    reader.registry = registry
    found = reader.to_connect("t", data)
    assert found.value.as_dict() == Struct(schema, row).as_dict()
    again = found.schema.field("by_name").schema.elements  # type: ignore[union-attr]
    assert (logical.scale_of(again), again.parameter(logical.PRECISION)) == (2, "6")
    columns = {name: str(kind) for name, kind in protobuf_fields(ValueSchema("PROTOBUF", registry.schema(1).text))}
    assert (columns["prices"], columns["by_name"]) == ("array<decimal(6,2)>", "map<string, decimal(6,2)>")
    empty = made.from_connect("t", schema, Struct(schema, {"line": row["line"]}))
    nothing = reader.to_connect("t", empty).value
    assert [nothing[each] for each in ("price", "day", "at", "then")] == [None] * 4


def test_typed_columns_have_them_too(converter: ProtobufConverter) -> None:
    values = ValueSchema("PROTOBUF", descriptor())
    kinds = {name: str(kind) for name, kind in protobuf_fields(values)}
    assert kinds == {
        "price": "decimal(6,2)", "day": "date", "at": "time", "days": "array<date>", "bare": "string",
        "paid": "struct<currency_code: string, units: bigint, nanos: int>", "prices": "map<string, string>",
    }  # fmt: skip
    schema = converter.writes(1, [0])
    row = {"price": Decimal("1.50"), "day": dt.date(2026, 1, 2), "at": dt.time(1, 2), "bare": "7"}
    data = converter.from_connect("t", schema, Struct(schema, row))
    assert data is not None
    found = ProtobufValues(values).read(data[6:])
    assert [found[each] for each in row] == [Decimal("1.50"), dt.date(2026, 1, 2), dt.time(1, 2), "7"]


def test_a_date_that_is_none_is_told(converter: ProtobufConverter) -> None:
    kind, _ = converter._message_of(1, [0])
    message = kind()
    message.day.year = 2026
    data = converter.prefixed(1, message.SerializeToString(), [0])
    with pytest.raises(DataError, match=r"day is no google\.type\.Date"):
        converter.to_connect("t", data)


def test_an_import_that_nobody_knows_is_refused() -> None:
    for text in ('import "google/type/none.proto";', 'import "confluent/none.proto";'):
        with pytest.raises(SchemaInvalid, match="is not among the references"):
            resolve(parse_text(f'syntax = "proto3"; {text} message A {{}}'), {})
    with pytest.raises(SchemaInvalid, match="neither defined nor imported"):
        resolve(parse_text('syntax = "proto3"; message A { confluent.type.Decimal a = 1; }'), {})


def test_a_schema_may_bring_its_own_file_of_that_path() -> None:
    own = parse_text('syntax = "proto3"; package confluent.type; message Decimal { string text = 1; }')
    text = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message A { confluent.type.Decimal a = 1; }'
    _, types = resolve(parse_text(text), {"confluent/type/decimal.proto": own})
    assert [each.name for each in types.messages[".confluent.type.Decimal"].fields] == ["text"]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (SimpleNamespace(is_repeated=True), True),
        (SimpleNamespace(is_repeated=False), False),
        (SimpleNamespace(label=3, LABEL_REPEATED=3), True),  # of protobuf 5, which `pip install` may find there
        (SimpleNamespace(label=1, LABEL_REPEATED=3), False),
    ],
)
def test_a_field_is_repeated_in_descriptors_of_every_release(field: SimpleNamespace, expected: bool) -> None:
    assert is_repeated(field) is expected
