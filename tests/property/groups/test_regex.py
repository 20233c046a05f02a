"""Topic patterns agree with Python's `re` where both know them, in linear time, and refuse the rest."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.groups.topic_pattern import TopicPattern
from odradek.errors import ErrorCode, KafkaError

QUICK = settings(max_examples=60)

ATOM = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", r"\w", "[a-c_]", "^", "$"])
PATTERN = st.recursive(
    ATOM,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("|".join)
        | inner.map("({})".format)
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        )
    ),
    max_leaves=8,
)


@QUICK
@given(PATTERN, st.text("ab1._", max_size=7))
def test_agrees_with_python(pattern: str, name: str) -> None:
    assert TopicPattern(pattern).matches(name) == (re.fullmatch(pattern, name, re.ASCII) is not None)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[a", "*a", "a**", "a\\", "(?=a)", r"\1", r"\b", "a{3,2}", "a{1001}", "[[:alpha:]]", "(?i)a"]
)
def test_what_is_not_regular_or_not_closed_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as raised:
        TopicPattern(pattern)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_that_explodes_elsewhere_is_answered() -> None:
    assert not TopicPattern("(a+)+b").matches("a" * 249)
    with pytest.raises(KafkaError):
        TopicPattern("((((a{99}){99}){99}){99}){99}")


@QUICK
@given(st.text(max_size=30))
def test_any_text_compiles_or_is_refused(pattern: str) -> None:
    try:
        compiled = TopicPattern(pattern)
    except KafkaError:
        return
    compiled.matches("a-topic.name_1")
