"""Parts of JSON as Jackson writes them."""

from __future__ import annotations

import pytest
from odradek.sql.functions.as_java.json_nodes import json_field

TEXT = '{"a": 1.50, "b": [1.0, 2e5, 1e-7, 1.0E2, -0.0], "c": {"x": 10.00, "y": "1.0", "é": "é\\u0001"}, "d e": null}'


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.a", "1.50"), ("$.b", "[1.0,2E+5,1E-7,1.0E+2,-0.0]"), ("$.b[1]", "2E+5"), ("$.b.1", "2E+5"),
        ("$.c", '{"x":10.00,"y":"1.0","é":"é\\u0001"}'), ("$.c.y", "1.0"), ('$["d e"]', "null"), ("$.z", None),
        ("$.a.x", None), ("$.b[5]", None), ("$.b.x", None), ("$.c[0]", None), ("$.", None), ("a", None), (None, None),
    ],
)  # fmt: skip
def test_a_field_has_all_its_digits(path: str | None, found: str | None) -> None:
    assert json_field(TEXT, path) == found


def test_what_comes_after_the_first_value_counts_for_nothing() -> None:
    assert json_field('[1.10, {"a": 2.0}] x', "$[1]") == '{"a":2.0}'


def test_what_is_deep_enough_to_be_read_is_written() -> None:
    text = '[{"a":' * 200 + "1.50" + "}]" * 200
    assert json_field(text, "$") == text


NONE = ["", "1.", "{1.0}", "[1.0", "NaN", '{"a": Infinity}', "01.0", "[" * 100_000 + "1.0", None]


@pytest.mark.parametrize("text", NONE, ids=range(len(NONE)))
def test_what_is_no_json_is_null(text: str | None) -> None:
    assert json_field(text, "$") is None
