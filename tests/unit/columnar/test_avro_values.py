"""Avro's values as typed columns: logical types that fastavro has not, or rounds."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from odradek.columnar.typed.avro_values import avro_fields
from odradek.columnar.typed.typed_values import TypedValues
from odradek.model.kinds import Column
from odradek.model.value_schema import ValueSchema


def read(field_type: Any, *payloads: bytes) -> tuple[str, list[Any], int]:
    """Return the type of the column of a record's only field, its cells, and how many values do not fit."""
    schema = ValueSchema(
        "AVRO", json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": field_type}]})
    )
    [(name, data_type)] = avro_fields(schema)
    values = TypedValues([Column(name, data_type, name)], schema, is_prefixed=False)
    [cells], misfits = values.read(pa.array(payloads, pa.binary()))
    return str(data_type), cells.to_pylist(), misfits


def test_a_uuid_of_sixteen_bytes_is_text() -> None:
    uuid = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert read(uuid, bytes(range(16))) == ("string", [text], 0)
    assert read(["null", uuid], b"\x02" + bytes(range(16)), b"\0") == ("string", [text, None], 0)
    assert read({"type": "array", "items": uuid}, b"\x02" + bytes(range(16)) + b"\0")[1] == [[text]]


def test_a_decimal_of_more_digits_than_declared_does_not_fit() -> None:
    decimal_type = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    payloads = [b"\x04" + number.to_bytes(2, "big", signed=True) for number in (9_999, -9_999, 12_345)]
    assert read(decimal_type, *payloads) == ("decimal(4,2)", [Decimal("99.99"), Decimal("-99.99"), None], 1)


def test_a_decimal_of_38_digits_is_exact() -> None:
    decimal_type = {"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 10}
    assert read(decimal_type, (10**38 - 1).to_bytes(16, "big"))[1] == [Decimal("9" * 28 + "." + "9" * 10)]


def test_a_text_of_a_union_is_itself_and_everything_else_json() -> None:
    union = ["null", "string", "long", {"type": "array", "items": "int"}]
    payloads = [b"\x02\x02x", b"\x04\x0e", b"\x06\x02\x02\0", b"\0"]
    assert read(union, *payloads) == ("string", ["x", "7", "[1]", None], 0)


def test_a_record_whose_fields_differ_in_case_is_text() -> None:
    fields = [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]
    assert read({"type": "record", "name": "I", "fields": fields}, b"\x02\x04") == ("string", ['{"a": 1, "A": 2}'], 0)
