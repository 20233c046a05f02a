"""Parts of JSON as Jackson writes them."""

from __future__ import annotations

import pytest
from odradek.sql.functions.as_java.json_nodes import json_concat, json_field, json_items, json_records

TEXT = '{"a": 1.50, "b": [1.0, 2e5, 1e-7, 1.0E2, -0.0], "c": {"x": 10.00, "y": "1.0", "é": "é\\u0001"}, "d e": null}'


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.a", "1.50"), ("$.b", "[1.0,2E+5,1E-7,1.0E+2,0.0]"), ("$.b[1]", "2E+5"), ("$.b.1", "2E+5"),
        ("$.c", '{"x":10.00,"y":"1.0","é":"é\\u0001"}'), ("$.c.y", "1.0"), ('$["d e"]', "null"), ("$.z", None),
        ("$.a.x", None), ("$.b[5]", None), ("$.b.x", None), ("$.c[0]", None), ("$.", None), ("a", None), (None, None),
    ],
)  # fmt: skip
def test_a_field_has_all_its_digits(path: str | None, found: str | None) -> None:
    assert json_field(TEXT, path) == found


def test_items_and_records_have_all_digits() -> None:
    assert json_items('[1.50, {"a": 2e5}, "x", null] x') == ["1.50", '{"a":2E+5}', '"x"', "null"]
    assert json_records('{"a": 1.50, "b": "x", "c": [10.00], "a": 1.0}') == {"a": "1.0", "b": "x", "c": "[10.00]"}
    assert [json_items(each) for each in ("{}", "1", "", "x", None)] == [None] * 5
    assert [json_records(each) for each in ("[]", "1", "", "x", None)] == [None] * 5


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (['{"a": 1.50}', '{"b": 2e5}'], '{"a":1.50,"b":200000}'),
        (["[1e-7]", "2.0", '{"a": 1}'], '[0.0000001,2.0,{"a":1}]'),
        (["1.50"], "1.50"), (["1e9999"], "1" + "0" * 9999), (["1e10000"], None), (["1e999999999999"], None),
        (["[1]", None], None), (["[1]", "x"], None), (["1" * 1000], "1" * 1000), (["1" * 1001], None), ([], None),
    ],
)  # fmt: skip
def test_joined_json_has_no_exponents(texts: list[str | None], found: str | None) -> None:
    assert json_concat(texts) == found


def test_texts_are_escaped_as_by_jackson() -> None:
    assert json_items('["\\u001f\\"\\\\\\/\\n\\u007f"]') == ['"\\u001F\\"\\\\/\\n\x7f"']


def test_what_comes_after_the_first_value_counts_for_nothing() -> None:
    assert json_field('[1.10, {"a": 2.0}] x', "$[1]") == '{"a":2.0}'


def test_what_is_deep_enough_to_be_read_is_written() -> None:
    text = '[{"a":' * 200 + "1.50" + "}]" * 200
    assert json_field(text, "$") == text


NONE = ["", "1.", "{1.0}", "[1.0", "NaN", '{"a": Infinity}', "01.0", "[" * 100_000 + "1.0", None]


@pytest.mark.parametrize("text", NONE, ids=range(len(NONE)))
def test_what_is_no_json_is_null(text: str | None) -> None:
    assert json_field(text, "$") is None
