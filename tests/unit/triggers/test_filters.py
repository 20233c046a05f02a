"""Filter criteria: EventBridge's patterns over a record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.errors import KafkaError
from odradek.model.record import Record
from odradek.triggers.filters import check_pattern, matches
from odradek.triggers.patterns import events

ORDER = {"id": 7, "city": "Prague", "price": 12.5, "tags": ["new", "gift"], "paid": True, "ip": "192.0.2.3", "to": None}
RECORD = Record(5, 1_000, b"ada", json.dumps({**ORDER, "inner": {"kind": "a"}}).encode(), (("source", b"shop"),))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"value": {"city": ["Prague"]}}, True),
        ({"value": {"city": ["Brno", {"prefix": "Pra"}]}}, True),
        ({"value": {"city": [{"suffix": "gue"}], "id": [8]}}, False),
        ({"value": {"city": [{"equals-ignore-case": "PRAGUE"}]}}, True),
        ({"value": {"city": [{"anything-but": ["Brno", "Prague"]}]}}, False),
        ({"value": {"city": [{"anything-but": {"prefix": "B"}}]}}, True),
        ({"value": {"price": [{"numeric": [">", 10, "<=", 12.5]}]}}, True),
        ({"value": {"price": [{"numeric": ["=", 12]}]}}, False),
        ({"value": {"tags": ["gift"]}}, True),
        ({"value": {"tags": ["old"]}}, False),
        ({"value": {"inner": {"kind": ["a"]}}}, True),
        ({"value": {"gone": [{"exists": False}], "city": [{"exists": True}]}}, True),
        ({"value": {"city": [{"wildcard": "P*g*"}]}}, True),
        ({"value": {"ip": [{"cidr": "192.0.2.0/24"}]}}, True),
        ({"value": {"paid": [True]}}, True),
        ({"value": {"paid": [1]}}, False),
        ({"value": {"to": [None]}}, True),
        ({"key": ["ada"], "headers": {"source": ["shop"]}, "partition": [2], "topic": ["orders"]}, True),
        ({"offset": [{"numeric": [">=", 6]}]}, False),
        ({"$or": [{"key": ["bob"]}, {"headers": {"source": ["shop"]}}]}, True),
    ],
)
def test_a_pattern_matches_as_eventbridge_s_do(pattern: dict[str, Any], *, expected: bool) -> None:
    text = json.dumps(pattern)
    check_pattern(text)
    assert matches([text], "orders", 2, RECORD) is expected


@pytest.mark.parametrize("value", [b' {"a": 1}', b'\n{"a": 1}\r\n', b'\t[{"a": 1}] ', b'{"a": NaN, "a": 1.0}'])
def test_json_is_json_with_white_space_around_it(value: bytes) -> None:
    assert matches(['{"value": {"a": [1]}}'], "orders", 0, Record(0, 0, None, value))


def test_names_of_headers_may_have_dots_and_come_twice() -> None:
    headers = (("ce.type", b"order"), ("ce.type", b"paid"), ("ce", b"1"))
    record = Record(0, 0, None, None, headers)
    for pattern in ('{"headers": {"ce.type": ["paid"], "ce": ["1"]}}', '{"headers": {"ce": {"type": ["order"]}}}'):
        assert matches([pattern], "orders", 0, record)
    assert not matches(['{"headers": {"type": ["order"]}}'], "orders", 0, record)


def test_what_is_missing_is_absent() -> None:
    absent = ['{"value": [{"exists": false}]}']
    assert matches(absent, "orders", 0, Record(0, 0, b"k", None))
    assert not matches(absent, "orders", 0, Record(0, 0, b"k", b""))


def test_large_lists_take_a_step_an_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three fields of two lists of a thousand objects, none of which fits: a billion combinations."""
    items = [{"a": 1, "b": number, "c": [{"d": 1, "e": number}]} for number in range(1_000)]
    record = Record(0, 0, None, json.dumps({"x": items, "y": items}).encode())
    steps = 0
    original = events._consistent

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return original(*arguments)

    monkeypatch.setattr(events, "_consistent", counted)

    def pattern(x: int, y: int) -> str:
        wanted = {"a": [1], "c": {"d": [1], "e": [{"numeric": [">=", 0]}]}}
        return json.dumps({"value": {"x": {**wanted, "b": [x]}, "y": {**wanted, "b": [y]}}})

    assert not matches([pattern(7, -1)], "orders", 0, record)
    assert matches([pattern(7, 8)], "orders", 0, record)
    assert steps < 50_000


def test_one_of_several_patterns_is_enough_and_none_lets_everything_through() -> None:
    assert matches(['{"key": ["bob"]}', '{"key": ["ada"]}'], "orders", 0, RECORD)
    assert matches([], "orders", 0, RECORD)


@pytest.mark.parametrize("value", [None, b"", b"text", b"{broken", b"[1, 2]", b"\xff\xfe"])
def test_any_value_can_be_looked_at(value: bytes | None) -> None:
    assert not matches(['{"value": {"a": ["b"]}}'], "orders", 0, Record(0, 0, None, value))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"values": ["a"]}', '{"value": "a"}', '{"value": []}', '{"value": [{"like": "a"}]}',
     '{"value": [{"numeric": [">"]}]}', '{"value": [{"cidr": "x"}]}', '{"value": [{"exists": "yes"}]}', '{"$or": []}',
     '{"value": [{"prefix": 1}]}', '{"value": [["a"]]}', '{"value": [{"prefix": "a", "suffix": "b"}]}'],
)  # fmt: skip
def test_a_malformed_pattern_is_refused(text: str) -> None:
    with pytest.raises(KafkaError, match="filter"):
        check_pattern(text)
