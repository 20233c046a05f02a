"""Filter criteria: EventBridge's patterns over a record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.errors import KafkaError
from odradek.model.record import Record
from odradek.triggers.filters import check_pattern, matches

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
