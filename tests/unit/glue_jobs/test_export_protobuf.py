"""Protobuf values by the registry's schemas alone: the columns that a table gets of them, and what is no such value."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import struct_pb2, timestamp_pb2
from google.type import date_pb2
from odradek.client.serializers import (
    AvroSerializer,
    MemoryRegistry,
    ProtobufSerializer,
    Schema,
    SchemaReference,
)
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.export_table.dynamic_protobuf import DynamicProtobufDeserializer
from odradek.glue_jobs.export_table.registry_values import decode_batch

from tests.support.clients.protobuf import descriptor_of, framed, messages_of

HEAD = 'syntax = "proto3"; package shop; '
ORDER = (
    HEAD
    + """import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/any.proto";
    enum State { NEW = 0; SENT = 1; }
    message Order {
      int64 orderId = 1; uint64 big = 2; int32 count = 3; float price = 4; double share = 5; bool is_paid = 6;
      string who = 7; bytes raw = 8; State state = 9; State next = 10; optional string note = 11;
      repeated fixed64 lines = 12; map<string, int64> stock = 13; map<bool, Line> by_gift = 14; Line line = 15;
      oneof pay { string card = 16; bool cash = 17; }
      google.protobuf.Timestamp at = 18; google.protobuf.Duration wait = 19;
      google.protobuf.Int64Value limit = 20; google.protobuf.StringValue coupon = 21;
      google.protobuf.Struct more = 22; google.protobuf.Any any = 23; google.protobuf.Any other = 24;
      message Line { sint64 item = 1; message Note { string text = 1; } }
      message Empty { }
    }
    message Sent { string to = 1; }"""
)


def as_json(registry: MemoryRegistry, *values: bytes | None) -> list[Any]:
    """Return the values as the export writes them; None where one becomes a dead letter."""
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    decoded = decode_batch(batch, DynamicProtobufDeserializer(registry)).column("value").to_pylist()
    return [json.loads(value) if value else None for value in decoded]


def test_a_message_becomes_an_object_of_its_fields() -> None:
    registry = MemoryRegistry()
    schema_id = registry.register("orders-value", Schema(ORDER, "PROTOBUF"))
    order = messages_of(ORDER)("shop.Order")(
        orderId=-(2**63), big=2**64 - 1, count=3, price=0.1, share=float("nan"), who="Änne", raw=b"\x00\xff",
        state=1, next=7, lines=[1, 2**63], stock={"a": 2**40}, cash=True,
    )  # fmt: skip
    order.by_gift[True].item = -5
    order.at.FromJsonString("2013-01-02T03:04:05.006Z")
    order.wait.FromJsonString("1.5s")
    order.limit.value = 2**53 + 1
    order.coupon.value = ""
    order.more.update({"deep": [1, {"x": None}]})
    order.any.Pack(messages_of(ORDER)("shop.Sent")(to="Rome"))
    order.other.Pack(date_pb2.Date(year=2013))
    assert as_json(registry, framed(schema_id, [0], order)) == [
        {
            "orderId": -(2**63),
            "big": 2**64 - 1,
            "count": 3,
            "price": 0.1,
            "share": None,
            "is_paid": False,  # a field that does not know whether it was set has its default
            "who": "Änne",
            "raw": "AP8=",
            "state": "SENT",
            "next": "7",
            "lines": [1, 2**63],
            "stock": {"a": 2**40},
            "by_gift": {"true": {"item": -5}},
            "cash": True,
            "at": "2013-01-02T03:04:05.006Z",
            "wait": "1.500s",
            "limit": 2**53 + 1,
            "coupon": "",
            "more": {"deep": [1, {"x": None}]},
            "any": {"@type": "type.googleapis.com/shop.Sent", "to": "Rome"},
            "other": {"@type": "type.googleapis.com/google.type.Date", "value": "CN0P"},
        }
    ]


def test_a_field_that_was_not_set_is_null_or_its_default() -> None:
    registry = MemoryRegistry()
    fields = "optional int32 a = 1 [default = 5]; repeated int32 b = 2; required int32 c = 3;"
    text = f'syntax = "proto2"; message M {{ {fields} }}'
    schema_id = registry.register("s", Schema(text, "PROTOBUF"))
    assert as_json(registry, framed(schema_id, [0], messages_of(text)("M")(c=0))) == [{"b": [], "c": 0}]


@pytest.mark.parametrize(
    ("indexes", "name", "fields"),
    [
        ([0, 0], "shop.Order.Line", {"item": 9}),
        ([0, 0, 0], "shop.Order.Line.Note", {"text": "x"}),
        ([0, 1], "shop.Order.Empty", {}),
        ([1], "shop.Sent", {"to": "Oslo"}),
    ],
)
def test_the_indexes_lead_to_the_type(indexes: list[int], name: str, fields: dict[str, Any]) -> None:
    registry = MemoryRegistry()
    schema_id = registry.register("s", Schema(ORDER, "PROTOBUF"))
    assert as_json(registry, framed(schema_id, indexes, messages_of(ORDER)(name)(**fields))) == [fields]


@pytest.mark.parametrize("is_text", [True, False])
def test_references_are_followed(is_text: bool) -> None:
    """Both forms of a schema: text, and a descriptor whose name says nothing."""
    day = HEAD + "message Day { int32 year = 1; }"
    line = HEAD + 'import "shop/0.proto"; message Line { Day day = 1; }'
    gift = HEAD + 'import "shop/0.proto"; message Gift { Day day = 1; }'
    order = (
        HEAD + 'import "shop/1.proto"; import "shop/2.proto"; message Order { repeated Line lines = 1; Gift gift = 2; }'
    )
    registry = MemoryRegistry()

    def register(subject: str, references: list[SchemaReference], text: str, *imported: str) -> int:
        if not is_text:
            text = base64.b64encode(descriptor_of(text, *imported).SerializeToString()).decode()
        return registry.register(subject, Schema(text, "PROTOBUF", tuple(references)))

    to_day, *to_both = (
        SchemaReference(f"shop/{i}.proto", subject, 1) for i, subject in enumerate(("day", "line", "gift"))
    )
    register("day", [], day)
    register("line", [to_day], line, day)
    register("gift", [to_day], gift, day)
    schema_id = register("order", to_both, order, day, line, gift)
    message = messages_of(order, day, line, gift)("shop.Order")()
    message.gift.day.year = 2013
    message.lines.add().day.year = 2014
    assert as_json(registry, framed(schema_id, [0], message)) == [
        {"lines": [{"day": {"year": 2014}}], "gift": {"day": {"year": 2013}}}
    ]


def test_imports_that_clients_do_not_register_are_googles_or_of_options_alone() -> None:
    registry = MemoryRegistry()
    imports = 'import "google/type/date.proto"; import "confluent/meta.proto"; '
    schema_id = registry.register("s", Schema(HEAD + imports + "message M { google.type.Date at = 1; }", "PROTOBUF"))
    alike = messages_of(HEAD + "message Date { int32 year = 1; } message M { Date at = 1; }")("shop.M")()
    alike.at.year = 2013
    assert as_json(registry, framed(schema_id, [0], alike)) == [{"at": {"year": 2013, "month": 0, "day": 0}}]


def test_confluents_files_need_no_registration_whatever_the_registry_returns() -> None:
    text = (
        HEAD
        + """
        import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/money.proto";
        message M {
          confluent.type.Decimal price = 1 [(confluent.field_meta) = { params: [{ key: "scale", value: "2" }] }];
          google.type.Money paid = 2;
        }"""
    )
    registry = MemoryRegistry()
    ids = [registry.register(subject, Schema(schema_text, "PROTOBUF")) for subject, schema_text in (
        ("text", text), ("descriptor", base64.b64encode(descriptor_of(text).SerializeToString()).decode()),
    )]  # fmt: skip
    alike = HEAD + "message D { bytes v = 1; uint32 p = 2; int32 s = 3; } message M { D a = 1; D b = 2; }"
    message = messages_of(alike)("shop.M")()
    message.a.v, message.a.p, message.a.s, message.b.v = b"\x7b", 3, 2, b"EUR"
    row = {"price": {"value": "ew==", "precision": 3, "scale": 2},
           "paid": {"currency_code": "EUR", "units": 0, "nanos": 0}}  # fmt: skip
    assert as_json(registry, *(framed(schema_id, [0], message) for schema_id in ids)) == [row, row]


def test_versions_of_a_schema_do_not_meet() -> None:
    registry = MemoryRegistry()
    old = HEAD + "message Order { int64 id = 1; string who = 2; }"
    new = HEAD + "message Order { int64 id = 1; string whom = 2; repeated string tags = 3; }"
    first, second = (registry.register("orders-value", Schema(text, "PROTOBUF")) for text in (old, new))
    one = messages_of(old)("shop.Order")(id=1, who="ann")
    two = messages_of(new)("shop.Order")(id=2, whom="bob", tags=["x"])
    assert as_json(registry, framed(first, [0], one), framed(second, [0], two), framed(first, [0], one)) == [
        {"id": 1, "who": "ann"},
        {"id": 2, "whom": "bob", "tags": ["x"]},
        {"id": 1, "who": "ann"},
    ]


def test_what_our_serializer_writes_is_read() -> None:
    registry = MemoryRegistry()
    value = struct_pb2.Struct()
    value.update({"a": 1.5})
    date = date_pb2.Date(year=2013, month=1)
    serialized = (ProtobufSerializer(registry, type(message), "s")(message) for message in (value, date))
    assert as_json(registry, *serialized) == [{"a": 1.5}, {"year": 2013, "month": 1, "day": 0}]


def test_what_is_no_message_of_its_schema_becomes_a_dead_letter() -> None:
    registry = MemoryRegistry()
    schema_id = registry.register("s", Schema(ORDER, "PROTOBUF"))
    missing = registry.register("m", Schema(HEAD + 'import "gone.proto"; message M { Gone a = 1; }', "PROTOBUF"))
    avro = AvroSerializer(registry, '{"type": "record", "name": "R", "fields": []}', subject="a")({})
    whole = framed(schema_id, [0], messages_of(ORDER)("shop.Order")(who="somebody"))
    too_late = messages_of(ORDER)("shop.Order")()
    too_late.at.seconds = 2**60
    timestamp = ProtobufSerializer(registry, timestamp_pb2.Timestamp, "t")(timestamp_pb2.Timestamp())
    bad = [
        b"", b"no Protobuf", whole[:-1], whole[:5], avro, timestamp,
        framed(99, [0], messages_of(ORDER)("shop.Sent")()),
        framed(schema_id, [2], messages_of(ORDER)("shop.Sent")()),
        framed(schema_id, [1, 0], messages_of(ORDER)("shop.Sent")()),
        framed(missing, [0], messages_of(ORDER)("shop.Sent")()),
        framed(schema_id, [0], too_late),
    ]  # fmt: skip
    assert as_json(registry, *bad) == [None] * len(bad)
    assert as_json(registry, whole)[0]["who"] == "somebody"


def test_what_is_wrong_is_told() -> None:
    registry = MemoryRegistry()
    schema_id = registry.register("s", Schema(ORDER, "PROTOBUF"))
    avro = registry.register("a", Schema('"string"'))
    for data, why in [
        (encode_prefix(schema_id, [0, 5]), r"no message type at \[0, 5\]"),
        (encode_prefix(avro, [0]), "is AVRO, not PROTOBUF"),
        (encode_prefix(schema_id, [0]) + b"\x08", "do not match schema 1: DecodeError"),
    ]:
        with pytest.raises(KafkaError, match=why):
            DynamicProtobufDeserializer(registry)(data)


def test_a_registry_that_does_not_answer_makes_no_dead_letters() -> None:
    class Away(MemoryRegistry):
        def schema(self, schema_id: int, *, serialized: bool = False) -> Schema:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the registry does not answer")

    with pytest.raises(KafkaError, match="does not answer"):
        as_json(Away(), b"\x00\x00\x00\x00\x01\x00")
