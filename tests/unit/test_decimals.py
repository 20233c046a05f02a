"""Exact decimals in every place that reads or writes them: a wei amount of 78 digits, 38 digits, large exponents."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.serializers.registry import MemoryRegistry
from odradek.columnar.typed import protobuf_built_in
from odradek.columnar.typed.fitting import fitter
from odradek.connect.connectors.aws.dynamodb import attribute
from odradek.connect.connectors.jdbc.database import fitted
from odradek.connect.converters.protobuf import ProtobufConverter
from odradek.connect.data import logical, semantic
from odradek.connect.data.schema import struct
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import parse_text
from odradek.connect.errors import DataError
from odradek.model import decimals
from odradek.model.kinds import kind_of
from odradek.sql.running.registered import stored

WEI = Decimal(2**256 - 1)
EXACT = Decimal("-1234567890123456789012345678.0123456789")  # of decimal(38,10)


@given(st.integers(-(10**120), 10**120), st.integers(-60, 60))
def test_a_decimal_is_its_unscaled_number_and_back(unscaled: int, scale: int) -> None:
    value = decimals.of_unscaled(unscaled, scale)
    assert decimals.to_unscaled(value, scale) == unscaled
    assert decimals.of_bytes(decimals.to_bytes(unscaled), scale) == value
    assert decimals.rescaled(value, scale + 3).as_tuple().exponent == -scale - 3
    assert decimals.fits(value, scale)
    assert decimals.fits(value, scale - 1) == (unscaled % 10 == 0)


@pytest.mark.parametrize(
    ("number", "size"), [(-129, 2), (-128, 1), (-1, 1), (0, 1), (127, 1), (128, 2), (255, 2), (-32768, 2), (-32769, 3)]
)
def test_bytes_are_as_few_as_those_of_javas_big_integer(number: int, size: int) -> None:
    data = decimals.to_bytes(number)
    assert (int.from_bytes(data, "big", signed=True), len(data)) == (number, size)


def by_protobuf(value: Decimal) -> Any:
    converter = ProtobufConverter()
    converter.configure({}, is_key=False)
    converter._registry = MemoryRegistry()
    row = struct({"f": logical.decimal(10, precision=38)})
    return converter.to_connect("t", converter.from_connect("t", row, Struct(row, {"f": value}))).value["f"]


def built_in(value: Decimal) -> Any:
    message = SimpleNamespace()
    protobuf_built_in.set_value(message, value)
    return protobuf_built_in.VALUES[protobuf_built_in.DECIMAL](message)


@pytest.mark.parametrize("value", [EXACT, Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001")])
def test_thirty_eight_digits_go_through_every_place_unchanged(value: Decimal) -> None:
    decimal_type = SimpleNamespace(name="DECIMAL", scale=10)
    assert by_protobuf(value) == value
    assert built_in(value) == value
    assert fitted(logical.decimal(10), value) == value
    assert stored(value, decimal_type) == value  # type: ignore[arg-type]
    assert fitter(kind_of("decimal(38,10)"))(str(value)) == value
    assert logical.decode(logical.decimal(10), logical.encode(logical.decimal(10), value)) == value
    assert semantic.natural(semantic.VARIABLE_SCALE_DECIMAL, semantic.variable_scale(value)) == value


def test_a_wei_amount_keeps_its_last_digits() -> None:
    written = semantic.variable_scale(WEI)
    assert int.from_bytes(written["value"], "big") == 2**256 - 1
    assert semantic.natural(semantic.VARIABLE_SCALE_DECIMAL, written) == WEI
    assert fitter(kind_of("decimal(38,0)"))("9" * 38) == Decimal("9" * 38)
    assert attribute(Decimal("9" * 38)) == {"N": "9" * 38}
    with pytest.raises(DataError, match="more than 38 digits"):
        attribute(WEI)


@pytest.mark.parametrize("text", ["1e400000", "-7E+999999", "1" + "0" * 30])
def test_a_header_with_an_exponent_is_a_decimal_of_that_scale_and_not_written_out(text: str) -> None:
    header = parse_text(text)
    exponent = Decimal(text).as_tuple().exponent
    assert header.value == Decimal(text)
    assert header.schema == logical.decimal(-int(exponent))
    assert len(logical.encode(header.schema, header.value)) <= 13


def test_numbers_of_too_many_digits_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        decimals.to_unscaled(Decimal("1e2000000"), 0)
    with pytest.raises(ValueError, match="does not fit"):
        decimals.to_unscaled(Decimal("0.1"), 0)
    with pytest.raises(ValueError, match="too many digits"):
        decimals.rounded(Decimal("1e2000000"), 0)
