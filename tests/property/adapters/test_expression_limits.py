"""The size of an expression by validation.py is never less than that of its text by expression_text.py."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.adapters.validation import _check_actions, _check_condition, check_operation
from odradek.errors import StoreRejected
from odradek.limits import TABLE_EXPRESSION_BYTES_MAX, TABLE_EXPRESSION_OPERATORS_MAX
from odradek.ports.expression_text import Expressions, condition_operators, update_operators
from odradek.ports.table import (
    Absent,
    Action,
    Add,
    AllOf,
    AnyOf,
    Append,
    Compare,
    Condition,
    Contains,
    Copy,
    Exists,
    Key,
    Not,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Update,
)

pytestmark = pytest.mark.hypothesis

NAMES = st.sampled_from(["a", "p", "17", "AND", "a.b c#:", "(", *(f"n{number}" for number in range(30))])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map(tuple)
SCALARS = st.one_of(st.integers(-9, 9), st.binary(max_size=3), st.sampled_from(["x", " AND ", "#1 = :2", "("]))
LEAVES: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Exists, PATHS),
    st.builds(Absent, PATHS),
    st.builds(Compare, PATHS, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), SCALARS),
    st.builds(Contains, PATHS, SCALARS),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=1, max_size=40).map(lambda parts: AllOf(tuple(parts))),
        st.lists(inner, min_size=1, max_size=40).map(lambda parts: AnyOf(tuple(parts))),
    ),
    max_leaves=60,
)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Set, PATHS, SCALARS),
    st.builds(Copy, PATHS, PATHS),
    st.builds(Add, PATHS, st.integers(-9, 9)),
    st.builds(Append, PATHS, st.lists(SCALARS, max_size=3).map(tuple)),
    st.builds(RemoveFirst, PATHS, st.integers(0, 300)),
    st.builds(Remove, PATHS),
)

OPERATOR = re.compile(r"<>|<=|>=|[=<>+]|\b(?:AND|OR|NOT)\b|\b[a-z_]+(?=\()")


def operators_in(text: str, *, assignments: int = 0) -> int:
    return len(OPERATOR.findall(text)) - assignments


def has_redundant_parentheses(text: str) -> bool:
    """A group that is the whole content of another; a function's parentheses are none."""
    opened: list[int] = []
    closes: dict[int, int] = {}
    for at, character in enumerate(text):
        if character == "(":
            opened.append(at)
        elif character == ")":
            closes[opened.pop()] = at
    groups = {at: end for at, end in closes.items() if at == 0 or not (text[at - 1].isalnum() or text[at - 1] == "_")}
    return any(at + 1 in groups and groups[at + 1] == end - 1 for at, end in groups.items())


@given(CONDITIONS)
def test_a_condition_is_never_longer_than_its_bound(condition: Condition) -> None:
    text = Expressions().condition(condition)
    bound = _check_condition(condition)
    assert len(text) <= bound
    assert condition_operators(condition) == operators_in(text)
    assert bound > TABLE_EXPRESSION_BYTES_MAX or condition_operators(condition) <= TABLE_EXPRESSION_OPERATORS_MAX
    assert not has_redundant_parentheses(text)


@given(st.lists(ACTIONS, min_size=1, max_size=80))
def test_an_update_is_never_longer_than_its_bound(actions: list[Action]) -> None:
    try:
        bound = _check_actions(actions)
    except ValueError:
        return  # overlapping paths
    text = Expressions().update(actions)
    assignments = sum(not isinstance(action, (Remove, RemoveFirst)) for action in actions)
    assert len(text) <= bound
    assert update_operators(actions) == operators_in(text, assignments=assignments)
    assert bound > TABLE_EXPRESSION_BYTES_MAX or update_operators(actions) <= TABLE_EXPRESSION_OPERATORS_MAX


@given(st.integers(0, 700), st.integers(1, 120), st.integers(1, 400), st.integers(0, 200))
def test_what_is_taken_is_what_fits(removed: int, clauses: int, sets: int, nots: int) -> None:
    """Exact at the limits: rejected if and only if the text or its operators exceed them."""
    condition: Condition = AllOf(tuple(Compare(("p", str(n), "e"), "=", n) for n in range(clauses)))
    for _ in range(nots):
        condition = Not(condition)
    actions = (RemoveFirst(("t",), removed), *(Set(("p", str(number), "r"), b"") for number in range(sets)))
    update = Update(Key("pk", "sk"), actions, condition)
    expressions = Expressions()
    texts = (expressions.update(actions), expressions.condition(condition))
    fits = max(map(len, texts)) <= TABLE_EXPRESSION_BYTES_MAX
    fits = fits and condition_operators(condition) <= TABLE_EXPRESSION_OPERATORS_MAX
    try:
        check_operation(update)
    except StoreRejected:
        assert not fits
    else:
        assert fits


def test_a_condition_of_a_put_is_measured_alone() -> None:
    condition = AllOf(tuple(Compare(("n",), "=", n) for n in range(151)))
    with pytest.raises(StoreRejected, match="301"):
        check_operation(Put(Key("pk", "sk"), {}, condition))
