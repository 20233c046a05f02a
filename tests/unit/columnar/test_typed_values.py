"""Typed columns of odd values: what does not fit is counted, whatever it makes a library raise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from odradek.columnar.bounds import columns_with_bounds, leaves_with_nan
from odradek.columnar.typed import typed_values
from odradek.columnar.typed.typed_values import TypedValues
from odradek.model.kinds import Column, columns_of, is_name

NAN = float("nan")


def read(schema: str, *values: bytes) -> tuple[list[list[Any]], int]:
    columns = [Column(name, data_type, name) for name, data_type in columns_of(schema)]
    arrays, misfits = TypedValues(columns).read(pa.array(values, pa.binary()))
    for array in arrays:
        array.validate(full=True)
    return [array.to_pylist() for array in arrays], misfits


@pytest.mark.parametrize("companion", [b'{"i": 7}', b' {"i": 7}'])  # read by Arrow, or one by one
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("s string", b'{"s": "\xff"}'),
        ("s string", b'{"s": "\\ud800"}'),
        ("s string", b'{"s": "\xed\xa0\x80"}'),
        ("f float", b'{"f": 1e39}'),
        ("f array<float>", b'{"f": [1e39]}'),
        ("t timestamp", b'{"t": "9999-12-31T23:59:59-05:00"}'),
        ("m map<string,int>", b'{"m": {"\\udfff": 1}}'),
    ],
)
def test_a_value_that_no_reader_takes_does_not_fit(schema: str, value: bytes, companion: bytes) -> None:
    assert read(f"{schema}, i int", value, companion) == ([[None, None], [None, 7]], 1)


def test_floats_are_rounded_alike_however_they_are_read() -> None:
    text = b'{"f": 1.00000017881393432617187499}'
    [[alone]], _ = read("f float", text)
    [[beside, _]], _ = read("f float", text, b' {"f": 1}')
    assert alone == beside


def test_decimals_have_all_their_digits() -> None:
    most = "9" * 28 + "." + "9" * 10
    assert read("d decimal(38,10)", b'{"d": "%s"}' % most.encode()) == ([[Decimal(most)]], 0)
    assert read("d decimal(38,10)", b'{"d": "%s1"}' % most.encode()) == ([[None]], 1)


def test_a_cell_that_only_arrow_refuses_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_values, "fitter", lambda data_type: lambda value: value)
    assert read("i int, s string", b'{"i": 1, "s": 5}', b' {"i": 2, "s": "x"}') == ([[None, 2], [None, "x"]], 1)


def test_half_a_surrogate_pair_is_in_no_name() -> None:
    assert is_name("\ud7ff")
    assert not is_name("a\ud800")


def test_leaves_with_nan_are_named_as_files_name_them() -> None:
    cells = {
        "a": ([[1.0], None, [NAN]], pa.list_(pa.field("element", pa.float64())), {"a.list.element"}),
        "b": ([{"x": 1.0, "y": NAN}], pa.struct([("x", pa.float64()), ("y", pa.float32())]), {"b.y"}),
        "c": ([[("k", NAN)]], pa.map_(pa.string(), pa.float64()), {"c.key_value.value"}),
        "d": ([1.0, None], pa.float64(), set()),
        "e": ([NAN, None], pa.float32(), {"e"}),
        "f": (["x"], pa.string(), set()),
    }
    for name, (rows, data_type, expected) in cells.items():
        assert leaves_with_nan(pa.field(name, data_type), pa.array(rows, data_type)) == expected, name


def test_any_table_has_bounds_of_columns_without_nan() -> None:
    table = pa.table({"a": [1.0, None], "b": [NAN, 1.0], "c": ["x", "y"], "d": [[1.0], []]})
    assert columns_with_bounds(table) == ["a", "c"]
