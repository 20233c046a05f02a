"""Odd but valid values through converters, transforms and partitioners."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import struct as structs
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.serializers.registry import MemoryRegistry, Schema
from odradek.connect.connectors.files.sink import FileSinkTask
from odradek.connect.converters.avro import AvroConverter
from odradek.connect.converters.json import JsonConverter
from odradek.connect.data import schema as schemas
from odradek.connect.data import semantic
from odradek.connect.data.schema import struct
from odradek.connect.data.structs import Struct, plain
from odradek.connect.data.values import float32_of
from odradek.connect.record import SinkRecord
from odradek.model.topic_partition import TopicPartition
from odradek.testing import ManualClock


def avro() -> AvroConverter:
    converter = AvroConverter()
    converter.configure({}, is_key=False)
    converter._registry = MemoryRegistry()
    return converter


_FOREIGN: dict[str, tuple[Any, Any, Any]] = {
    "uuid": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, dt.time(1, 2, 3, 4), 3_723_000_004),
    "local-timestamp-micros": (
        {"type": "long", "logicalType": "local-timestamp-micros"}, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), -1,
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
        Decimal("1234567890123456789012345678.0123456789"), Decimal("1234567890123456789012345678.0123456789"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _FOREIGN)
def test_logical_types_of_other_writers_are_read(name: str) -> None:
    kind, value, expected = _FOREIGN[name]
    converter = avro()
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    number = converter.registry.register("t-value", Schema(json.dumps(schema)))
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema, named_schemas={}), {"f": value})
    read = converter.to_connect("t", b"\0" + structs.pack(">I", number) + data.getvalue())
    assert read.value["f"] == expected


def test_a_union_with_a_default_is_read() -> None:
    converter = avro()
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": ["int", "string"], "default": 1}]}
    number = converter.registry.register("t-value", Schema(json.dumps(schema)))
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema, named_schemas={}), {"f": "x"})
    read = converter.to_connect("t", b"\0" + structs.pack(">I", number) + data.getvalue())
    assert plain(read.value["f"])["string"] == "x"
    assert plain(read.schema.field("f").schema.default)["int"] == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("schema", "value"), [(semantic.bits(10), b"\1\2"), (semantic.enum(["a", "b"]), "a")], ids=["bits", "enum"]
)
def test_parameters_go_through_avro(schema: schemas.Schema, value: Any) -> None:
    converter, row = avro(), struct({"f": schema})
    read = converter.to_connect("t", converter.from_connect("t", row, Struct(row, {"f": value})))
    assert read.schema.field("f").schema == schema  # type: ignore[union-attr]
    assert read.value["f"] == value


@pytest.mark.parametrize("has_schema", ["true", "false"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_floats_that_json_has_not_are_text_and_read_as_floats(value: float, has_schema: str) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": has_schema}, is_key=False)
    row = struct({"f": schemas.FLOAT64, "s": schemas.FLOAT32, "l": schemas.array(schemas.FLOAT64)})
    data = converter.from_connect("t", row, Struct(row, {"f": value, "s": value, "l": [1.0, value]}))
    assert data is not None
    document = json.loads(data)
    payload = document["payload"] if has_schema == "true" else document
    name = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    assert payload == {"f": name, "s": name, "l": [1.0, name]}
    if has_schema == "true":
        assert repr(converter.to_connect("t", data).value["f"]) == repr(value)
    document = json.loads(converter.from_connect("t", None, {"x": value, "d": Decimal("1.5")}) or b"")
    assert (document["payload"] if has_schema == "true" else document) == {"x": name, "d": 1.5}


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3))
def test_a_decimal_near_the_middle_of_two_floats_is_rounded_once(number: float, shift: int) -> None:
    above = structs.unpack(">f", (int.from_bytes(structs.pack(">f", abs(number)), "big") + 1).to_bytes(4, "big"))[0]
    if not math.isfinite(above):
        return
    low, high = Decimal(abs(number)), Decimal(above)
    unit = Decimal((0, (1,), -400))
    middle = (Fraction(low) + Fraction(high)) / 2
    digits = middle + shift * Fraction(unit)
    text = f"{digits.numerator * 10**450 // digits.denominator}e-450"
    found = float32_of(Decimal(text))
    expected = {True: above, False: abs(number)}
    if shift:
        assert found == expected[shift > 0]
    else:
        assert found in expected.values()


class Context:
    """A sink's context that collects refused records."""

    clock = ManualClock()

    def __init__(self) -> None:
        self.errant_records = self
        self.refused: list[int] = []

    def report(self, record: SinkRecord, error: Exception) -> None:
        self.refused.append(record.source_position)


def test_a_record_without_the_partitioners_field_does_not_stop_the_others(tmp_path: Any) -> None:
    task, context = FileSinkTask(), Context()
    task.initialize(context)  # type: ignore[arg-type]
    task.start({
        "path": str(tmp_path), "format.class": "json", "flush.size": "1", "partitioner.class": "HourlyPartitioner",
        "timestamp.extractor": "RecordField", "timestamp.field": "meta.at",
    })  # fmt: skip
    values = [{"meta": {"at": 1_709_632_800_000}}, {"n": 2}, {"meta": {"at": "2024-03-05T11:00:00Z"}}, {"n": 4}]
    task.put([SinkRecord(topic="t", partition=0, offset=at, value=value) for at, value in enumerate(values)])
    folders = sorted(path.parent.name for path in tmp_path.rglob("*.json"))
    assert (folders, context.refused) == (["hour=10", "hour=11"], [1, 3])
    assert task.pre_commit({TopicPartition("t", 0): 4}) == {TopicPartition("t", 0): 4}
