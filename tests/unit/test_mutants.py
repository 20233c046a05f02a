"""The list of mutants fits the code: each changes something, in one place, that can be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import page
from tests.mutants.listed import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", list(MUTANTS))
def test_a_mutant_applies(name: str) -> None:
    mutant = MUTANTS[name]
    compile(mutant.source(), mutant.path, "exec")
    assert mutant.old != mutant.new
    if mutant.killed_by:
        path, *test = mutant.killed_by.split("::")
        assert f"def {test[-1].split('[')[0]}(" in (ROOT / path).read_text(), "the test that is named is not there"


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 60


def test_the_page_has_the_figures_of_the_kept_results() -> None:
    text = page.PAGE.read_text()
    assert page.filled(text) == text, "run `make reference`"
    assert text.count("<!-- mutants ") == 2
