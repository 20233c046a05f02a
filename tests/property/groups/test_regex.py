"""Patterns of clients agree with Python's `re` where both know them, in linear time, and the rest is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.groups.topic_pattern import topic_pattern
from odradek.errors import ErrorCode, KafkaError
from odradek.patterns import Pattern, PatternInvalid

from tests.support.examples import examples

QUICK = settings(max_examples=examples(60))

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
    assert Pattern(pattern).matches(name) == (re.fullmatch(pattern, name, re.ASCII) is not None)
    assert Pattern(pattern).occurs_in(name) == (re.search(pattern, name, re.ASCII) is not None)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[a", "*a", "a**", "a\\", "(?=a)", r"\1", "a{3,2}", "a{1001}", "a" * 1001, "a\ud800",
     "((((a{99}){99}){99}){99}){99}", ".{0,1000}b.{0,900}"],
)  # fmt: skip
def test_what_is_not_regular_too_large_or_not_closed_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as raised:
        topic_pattern(pattern)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(("pattern", "name"), [("[[:alpha:]]+", "orders"), ("(?i)ORDERS", "orders"), (r"\p{L}+", "a")])
def test_the_syntax_is_re2s(pattern: str, name: str) -> None:
    assert topic_pattern(pattern).matches(name)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", "(a|b)*a(a|b){500}c", "(.*)*x", "(x+x+)+y|(a?){249}a{250}"])
def test_a_pattern_that_explodes_elsewhere_is_answered(pattern: str) -> None:
    assert not topic_pattern(pattern).matches("a" * 249)


@QUICK
@given(st.text(max_size=30), st.text(max_size=9))
def test_any_text_compiles_or_is_refused(pattern: str, text: str) -> None:
    try:
        compiled = Pattern(pattern)
    except PatternInvalid:
        return
    compiled.matches(text)
