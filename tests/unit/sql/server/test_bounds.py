"""Bounds on what a request may make the stream SQL server do: sizes before any work, and no backtracking."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from odradek.errors import KafkaError
from odradek.sql.parse import SCRIPT_CHARACTERS_MAX, SCRIPT_PARTS_MAX, parse, substituted

from tests.support.sql_server import STREAM, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.service.close()


def refused(world: World, text: str, **more: object) -> str:
    answer = world.client.post("/ksql", json={"ksql": text, **more})
    assert answer.status_code == 400, answer.text
    return str(answer.json()["message"])


def test_variables_are_not_replaced_beyond_the_bound(world: World) -> None:
    with pytest.raises(KafkaError, match="variables replaced"):
        substituted("${x}" * 10_000, {"X": "y" * 1_000})
    assert "variables replaced" in refused(world, "${x}" * 1_000, sessionVariables={"x": "y" * 1_000})
    text = "DEFINE x = '" + "y" * 1_000 + "';" + "${x}" * 1_000
    assert "variables replaced" in refused(world, text)
    assert substituted("a ${x} b", {"X": "1"}) == "a 1 b"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (";" * (SCRIPT_PARTS_MAX + 1), "at most"),
        ("SELECT " + "a," * (SCRIPT_PARTS_MAX + 1) + "a FROM s EMIT CHANGES;", "at most"),
        (" " * (SCRIPT_CHARACTERS_MAX + 1), "at most"),
        ("SELECT * FROM s WHERE " + "a OR " * 3_000 + "a EMIT CHANGES;", "nested too deeply"),
        ("SELECT * FROM s EMIT CHANGES LIMIT " + "9" * 5_000 + ";", "whole number"),
    ],
    ids=range(5),
)
def test_texts_beyond_the_bounds_are_refused_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(KafkaError, match=why):
        parse(text)


def test_patterns_of_topics_to_delete_do_not_backtrack(world: World) -> None:
    world.ksql(STREAM)
    for pattern, why in (("(a)\\1", "RE2"), ("(?=a)", "RE2"), ("a" * 1_001, "more than"), ("\ud800", "")):
        answer = world.client.post("/ksql/terminate", content=json.dumps({"deleteTopicList": [pattern]}))
        assert answer.status_code == 400, answer.text
        assert why in answer.json()["message"]
    many = world.client.post("/ksql/terminate", json={"deleteTopicList": ["a"] * 1_001})
    assert (many.status_code, "at most 1,000" in many.json()["message"]) == (400, True)
    assert world.client.post("/ksql/terminate", json={"deleteTopicList": ["(a+)+b", "S"]}).status_code == 200
