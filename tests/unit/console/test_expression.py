"""Expressions: what they find, what they refuse, and that nothing in them reaches Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.records.expression import LENGTH_MAX, NAMES, compile_expression, numbers_within, texts_within

SCOPE: dict[str, Any] = {
    "key": "order-7",
    "value": {
        "id": 7,
        "customer": {"country": "CH", "name": "Zoë"},
        "items": [{"price": 4.5, "tags": ["a", "b"]}, {"price": 20}],
        "paid": True,
        "note": None,
        "a b": 1,
    },
    "text": '{"id": 7, "Error": "x"}',
    "headers": {"trace-id": "7f", "empty": None},
    "partition": 2,
    "offset": 100,
    "timestamp": 1_795_305_600_000,
    "size": 64,
}

TRUE = [
    'value.customer.country == "CH"',
    '$.customer.country == "CH"',
    '$["a b"] == 1',
    "'$' != 'value' and \"$.x\" == \"$.x\"",
    "value.id == 7 and offset > 99",
    "value.id != 8 or value.nothing.at.all == 1",
    "not (value.id == 8)",
    "value['items'][0].price * 2 >= 9",
    "value['items'][-1].price == 20",
    '"a" in value["items"][0].tags',
    'value.customer.country in ["CH", "DE"]',
    "value.paid and not value.note",
    "value.paid == true and value.note == null",
    "value.note is None",
    "exists(value.note) and not exists(value.nothing)",
    'header("trace-id") == "7f"',
    'headers["trace-id"] != null',
    'matches(key, "^order-[0-9]+$")',
    '"error" in lower(text)',
    'contains(text, "Error")',
    'starts_with(key, "order") and ends_with(key, "7")',
    "len(value.items) == 2",
    'upper(value.customer.name) == "ZOË"',
    'number("7") == value.id',
    'string(value.id) == "7"',
    "1 < value.id < 10",
    "partition == 2 and size == 64 and timestamp > 1e12",
    "value.id % 2 == 1 and -value.id == -7 and value.id - 1 == 6 and value.id / 2 == 3.5",
]
FALSE = [
    "value.nothing",
    "value.nothing == null",
    "value.nothing != 1",
    'value.id > "a"',
    "value.id.deeper.still == 1",
    "value.items.price == 1",
    "value['items'][9].price == 1",
    "1 / 0 == 1",
    "1 % 0 == 1",
    "'a' * 1000000000 == 'a'",
    "value.customer + 1 == 2",
    "len(5) == 1",
    "lower(5) == 'a'",
    "number('x') == 1",
    'matches(value, "a")',
    'header("nothing") != "x"',
    "1e300 * 1e300 > 0 and 1e29 * 1e29 * 1e29 > 0",
]
REFUSED = {
    "": "invalid syntax",
    "value.": "invalid syntax",
    "nonsense == 1": "unknown name 'nonsense'",
    "__import__('os').system('x')": "is not allowed",
    "value.__class__()": "is not allowed",
    "(lambda: 1)()": "is not allowed",
    "[x for x in value]": "is not allowed",
    "value if offset else key": "is not allowed",
    "f'{value}'": "is not allowed",
    "value := 1": "invalid syntax",
    "2 ** 99999": "use + - * / %",
    "1 << 99999": "use + - * / %",
    "~1 == 1": "is not allowed",
    "b'a' == key": "is not a text",
    "1j == 1": "is not a text",
    "len()": "len takes 1 argument",
    "contains(key)": "contains takes 2 arguments",
    "len(key, key=1)": "is not allowed",
    'matches(key, "(")': "the pattern",
    "matches(key, key)": "a text in quotes",
    "eval('1')": "functions are",
    "(" * 500 + "1" + ")" * 500: "",
    "not " * 300 + "true": "nested too deeply",
    "1 + " * 300 + "1": "nested too deeply",
    "a" * (LENGTH_MAX + 1): "more than",
    "key\x00": "",
}


@pytest.mark.parametrize("text", TRUE)
def test_what_holds(text: str) -> None:
    assert compile_expression(text)(SCOPE) is True


@pytest.mark.parametrize("text", FALSE)
def test_what_does_not_hold_and_raises_nothing(text: str) -> None:
    assert compile_expression(text)(SCOPE) is False


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        compile_expression(text)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert REFUSED[text] in caught.value.message


def test_a_member_with_the_name_of_pythons_is_data() -> None:
    """`value.items` and `value.__class__` are members of the record; they never name an attribute of an object."""
    assert compile_expression("value.__class__ == 1")({"value": {"__class__": 1}})
    assert not compile_expression("exists(value.__class__) or exists(key.upper)")(SCOPE)


_parts = st.sampled_from(
    [*sorted(NAMES), "$", ".a", "[0]", "(", ")", "==", "<", "in", "and", "not", "len", "'x'", "1", "-", "*", ","]
)


@given(st.lists(_parts, max_size=12).map(" ".join))
def test_any_text_is_refused_or_evaluated(text: str) -> None:
    try:
        holds = compile_expression(text)
    except KafkaError:
        return
    assert holds(SCOPE) in (True, False)


@given(st.text(max_size=40))
def test_any_letters_are_refused_or_evaluated(text: str) -> None:
    try:
        compile_expression(text)(SCOPE)
    except KafkaError:
        pass  # nothing else is raised


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('value.a == "x"', ["x"]),
        ('"x" == $.a.b[0] and offset > 3 and value["c"] == "y"', ["x", "y"]),
        ('value.a == "x" or value.b == "y"', []),
        ('not value.a == "x"', []),
        ('value.a != "x"', []),
        ('key == "x" and header("h") == "y"', []),
        ('lower(value.a) == "x"', []),
        ('value.a == ""', []),
        ("value.a == 3", []),
        ('value == "x"', ["x"]),
    ],
)
def test_texts_that_a_match_holds_are_found(text: str, found: list[str]) -> None:
    assert texts_within(text) == found


VALUES = [
    b'{"a": "x/y"}', b'{"a": "x\\/y"}', b'{"a": "\\u0078/y"}', b'{"a": "z"}', b'{"a": "Z\xc3\xbcrich"}', b"x/y", None,
    b'["x/y"]', b'{"a": {"b": "x/y"}}', b'{"x/y": 1}', b' {"a": "x/y"}', b"\x00\x00\x00\x00\x01\x02",
    b'{"a": "Z\\u00fcrich"}', '{"a": "x/y"}'.encode("utf-16-le"),
    b'{"a": "quo\\"te"}', b"{broken x/y", b"",
]  # fmt: skip


NUMBERS = [
    b'{"a": 5}', b'{"a": 5.5}', b'{"a": -7, "b": {"c": 3}}', b'{"a": null}', b"{}", b'{"a": 9007199254740993}', None,
    b'{"b": {"c": 50, "d": 1}, "a": 6}', b'{"b": null}',
]  # fmt: skip
UNEVEN = [
    b'{"a": 1e400}',
    b'{"a": "5"}',
    b'{"a": true}',
    b'{"a": 1, "a": 7}',
    b'{"b": 5}',
    b"[5]",
    b' {"a": 9}',
    b"6",
    b"{broken",
    b"",
]
BOUNDS = [
    "value.a > 5", "5 < value.a and offset >= 0", "value.a >= 5.5", "value.a == 5", "value.a <= -7", "value.a < 6",
    "value.b.c > 10 and value.a == 6", 'value["b"]["c"] == 3', "value.a > 9007199254740992", "value.a == 1",
    "value.a != 5", "value.a > 5 or value.b.c == 3", "value.b.c > 1 and value.b > 1", "value.a > 100",
]  # fmt: skip


@pytest.mark.parametrize("where", BOUNDS)
@pytest.mark.parametrize("more", [None, *UNEVEN])
@pytest.mark.parametrize("form", ["auto", "hex"])
def test_a_look_at_the_numbers_drops_no_record_that_matches(where: str, more: bytes | None, form: str) -> None:
    kept, after, before = _looked_at(where, form, NUMBERS if more is None else [*NUMBERS, more])
    assert after == before
    if more is None and form == "auto" and where == "value.a > 100":
        assert kept == 1, "one number is too large for a float; the others are not decoded"


def test_numbers_that_a_match_fulfils_are_found() -> None:
    assert numbers_within("3 <= value.a.b and value['c'] == -2.5 and text == 'x'") == [
        (("a", "b"), ">=", 3),
        (("c",), "==", -2.5),
    ]
    for none in ("value.a != 1", "not value.a > 1", "value.a > 1 or value.a < 0", "value[0] > 1", "offset > 1",
                 "value > 1", "value.a > true", "value.a > 9007199254740993", "len(value.a) > 1"):  # fmt: skip
        assert numbers_within(none) == []
    assert len(numbers_within("value.a > 1 and value.a < 5 and value.a.b > 2")) == 2, "the paths do not fit together"


@pytest.mark.parametrize(
    "where",
    ['value.a == "x/y"', 'value[0] == "x/y"', 'value.a == "Zürich"', "value.a == 'quo\"te'", 'value == "x/y"',
     'value.a.b == "x/y" and offset >= 0', 'value.a == "nothing"'],
)  # fmt: skip
@pytest.mark.parametrize("form", ["auto", "json", "text", "hex"])
def test_a_look_at_the_bytes_drops_no_record_that_matches(where: str, form: str) -> None:
    _, after, before = _looked_at(where, form, VALUES)
    assert after == before


def _looked_at(where: str, form: str, values: list[bytes | None]) -> tuple[int, list[int], list[int]]:
    """How many rows a look at columns leaves, and the offsets of those that match, after it and without it."""
    import pyarrow as pa
    from odradek.client.consumer.record import ConsumerRecord
    from odradek.model.record import TimestampType
    from odradek.operations.records.filters import Filter
    from odradek.operations.records.formats import Decoder
    from odradek.operations.records.view import Candidate, Formats

    wanted, formats = Filter(where=where), Formats("auto", form)
    table = pa.table({"key": pa.array([None] * len(values), pa.binary()), "value": pa.array(values, pa.binary()),
                      "offset": list(range(len(values)))})  # fmt: skip
    holds = wanted.records()

    def matching(rows: pa.Table) -> list[int]:
        records = [
            ConsumerRecord("t", 0, row["offset"], 0, TimestampType.CREATE_TIME, None, row["value"], ())
            for row in rows.to_pylist()
        ]
        return [each.offset for each in records if holds(Candidate(each, Decoder(), formats))]

    kept = wanted.rows(formats)(table)
    return len(kept), matching(kept), matching(table)
