"""Keys and values, as PRINT shows them."""

from __future__ import annotations

import base64

import pytest
from odradek.sql.parse import parse
from odradek.sql.plan import Selected
from odradek.sql.running.printed import Printer, format_of, shown
from odradek.sql.script import Planner


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "", "<null>"),
        (b"", "KAFKA_STRING", ""),
        (b"abc", "KAFKA_STRING", "abc"),
        (b"four", "KAFKA_STRING", "four"),
        ("é😀".encode(), "KAFKA_STRING", "é😀"),
        (b'{"A": 1}', "JSON", '{"A": 1}'),
        (b"[1]", "JSON", "[1]"),
        (b"{no", "KAFKA_STRING", "{no"),
        ((7).to_bytes(4, "big"), "KAFKA_INT", "7"),
        ((-2).to_bytes(8, "big", signed=True), "KAFKA_BIGINT", "-2"),
        (b"\x1b[2J\nrm", "KAFKA_STRING", "\\u001b[2J\\u000arm"),
        ("a\u202eb".encode(), "KAFKA_STRING", "a\\u202eb"),
        (b"\0\0\0\0\x05\x02a", "KAFKA_STRING", "\\u0000\\u0000\\u0000\\u0000\\u0005\\u0002a"),
        (b"\0\0\0\0\x05\xff\x80", "SCHEMA_REGISTRY", "(schema 5) 0xff80"),
        (b"\xff\xfe", "BYTES", "0xfffe"),
    ],
)
def test_keys_and_values_are_shown_as_what_they_look_like(data: bytes | None, form: str, text: str) -> None:
    assert format_of(data) == form
    assert shown(data) == text
    assert shown(data).isprintable()


def test_the_formats_come_once_before_the_first_records() -> None:
    def row(key: bytes | None, value: bytes | None) -> tuple[str, str | None, str | None, int]:
        parts = [None if each is None else base64.b64encode(each).decode() for each in (key, value)]
        return ("2026-01-02T03:04:05.006Z", parts[0], parts[1], 0)

    printer = Printer()
    assert printer.lines([row(b"k", b"{}"), row(None, b"x")]) == [
        "Key format: KAFKA_STRING",
        "Value format: JSON or KAFKA_STRING",
        "rowtime: 2026/01/02 03:04:05.006 Z, key: k, value: {}, partition: 0",
        "rowtime: 2026/01/02 03:04:05.006 Z, key: <null>, value: x, partition: 0",
    ]
    assert printer.lines([row(None, None)]) == [
        "rowtime: 2026/01/02 03:04:05.006 Z, key: <null>, value: <null>, partition: 0"
    ]


@pytest.mark.parametrize("word", ["SAMPLE", "INTERVAL"])
def test_a_sample_takes_every_nth_offset(word: str) -> None:
    [statement] = parse(f"PRINT s FROM BEGINNING {word} 5 LIMIT 2;")
    action = Planner().plan(statement)
    assert isinstance(action, Selected)
    assert action.prints
    assert action.plan.sql.endswith("WHERE offset % 5 = 0")
    assert action.plan.limit == 2
