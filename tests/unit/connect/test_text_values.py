"""Values as databases send them: the fast way for what Python's datetime has, and the other way, agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.connect.connectors.cdc import text_values
from odradek.connect.connectors.cdc.text_values import timestamp_us, zoned_timestamp
from odradek.connect.converters.json import JsonConverter, load
from odradek.connect.data import logical
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import struct
from odradek.connect.data.structs import Struct
from odradek.connect.errors import DataError


@given(st.datetimes())
def test_both_ways_of_reading_a_timestamp_agree(moment: object) -> None:
    text = str(moment)
    assert timestamp_us(text) == text_values._any_timestamp_us(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-29 12:34:56.1", 1_709_210_096_100_000),
        ("1969-12-31 23:59:59.999999", -1),
        ("2024-02-29 24:00:00", 1_709_251_200_000_000),
        ("10000-01-01 00:00:00", 253_402_300_800_000_000),
        ("0001-01-01 00:00:00 BC", -62_167_219_200_000_000),
        ("infinity", text_values.POSITIVE_INFINITY_US),
        ("-infinity", text_values.NEGATIVE_INFINITY_US),
    ],
)
def test_timestamps_of_every_year(text: str, expected: int) -> None:
    assert timestamp_us(text) == expected


@pytest.mark.parametrize(
    ("text", "digits", "expected"),
    [
        ("2024-02-29 12:34:56+00", 6, "2024-02-29T12:34:56.000000Z"),
        ("2024-02-29 12:34:56.5+00", 3, "2024-02-29T12:34:56.500Z"),
        ("2024-02-29 12:34:56+00", 0, "2024-02-29T12:34:56Z"),
        ("0044-03-15 12:00:00+00 BC", 0, "-0043-03-15T12:00:00Z"),
        ("1800-01-01 00:00:00+00:00:00", 0, "1800-01-01T00:00:00Z"),
    ],
)
def test_timestamps_with_a_zone(text: str, digits: int, expected: str) -> None:
    assert zoned_timestamp(text, digits) == expected


def written(schema: schemas.Schema, value: object, **configs: str) -> bytes | None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false", **configs}, is_key=False)
    return converter.from_connect("t", schema, value)


INNER = struct({"n": schemas.INT16}, optional=True)
ROW = struct(
    {
        "id": schemas.INT64,
        "name": schemas.STRING,
        "note": schemas.OPTIONAL_STRING.with_default("-"),
        "price": logical.decimal(2, optional=True),
        "ratio": schemas.FLOAT64,
        "inner": INNER,
    }
)


def test_json_of_a_struct_is_in_the_order_of_its_schema_with_defaults_and_nulls() -> None:
    row = Struct(ROW, {"ratio": 1, "name": 'a "b"', "id": 7})
    expected = b'{"id":7,"name":"a \\"b\\"","note":"-","price":null,"ratio":1.0,"inner":null}'
    assert written(ROW, row) == expected
    assert written(ROW, row, **{"replace.null.with.default": "false"}) == expected.replace(b'"-"', b"null")


@pytest.mark.parametrize("missing", ["id", "name", "ratio"])
def test_json_of_a_struct_without_a_required_field_is_refused(missing: str) -> None:
    row = Struct(ROW, {name: value for name, value in {"id": 1, "name": "a", "ratio": 0.5}.items() if name != missing})
    with pytest.raises(DataError):
        written(ROW, row)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_is_read_in_each_of_its_encodings(encoding: str) -> None:
    assert load('{"a": "ö"}'.encode(encoding)) == {"a": "ö"}


def test_a_lone_surrogate_is_read_as_json_has_it() -> None:
    assert load(b'"\xed\xa0\x80"') == "\ud800"
