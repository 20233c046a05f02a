"""Every statement form and every refusal, as they are in tests/golden/sql."""

from __future__ import annotations

import pytest

from tests.golden.sql.cases import Case, outcome, read


def cases(name: str) -> list[object]:
    return [pytest.param(each, id=each.title.replace(" ", "_")) for each in read(name)]


@pytest.mark.parametrize("case", cases("statements.txt"))
def test_what_a_statement_comes_to(case: Case) -> None:
    assert not case.wanted.startswith("INVALID_REQUEST")
    assert outcome(case.script) == case.wanted


@pytest.mark.parametrize("case", cases("expressions.txt"))
def test_what_an_expression_is_in_sparks_words(case: Case) -> None:
    assert not case.wanted.startswith("INVALID_REQUEST")
    assert outcome(case.script, brief=True) == case.wanted


@pytest.mark.parametrize("case", cases("errors.txt"))
def test_what_is_refused_and_where(case: Case) -> None:
    assert case.wanted.startswith("INVALID_REQUEST: line ")
    assert case.wanted.endswith("^")
    assert outcome(case.script) == case.wanted


def test_no_two_cases_have_one_title() -> None:
    titles = [each.title for name in ("statements.txt", "expressions.txt", "errors.txt") for each in read(name)]
    assert len(set(titles)) == len(titles)
