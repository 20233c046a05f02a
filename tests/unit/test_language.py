"""Names, docstrings and sentences that a stranger can read: rules with bounds that only fall. Part of `make check`.

tools/house.py (`make house`) prints the share of filler names of each area.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.support.repository import MODULES, PAGES, text, trees
from tools import house

# Bindings of filler words (tools/house.py) in areas still to be renamed; elsewhere a few at most. They only fall.
FILLERS_MAX = {
    "adapters": 40,
    "connect": 62,
    "console": 145,
    "dispatcher": 150,
    "engine": 530,
    "gateway": 30,
    "operations": 460,
    "sql": 1130,
    "tests/browser": 20,
    "tests/conformance": 92,
    "tests/integration": 325,
    "tests/mutants": 60,
    "tests/peers": 34,
    "tests/support": 90,
    "tests/unit": 340,
}
FILLERS_ELSEWHERE_MAX = 9
# Where a filler may be bound: to parse every module takes seconds.
FILLER = rf"\b(?:{'|'.join(sorted(house.FILLERS))})\b(?=\s*(?:[^\w\s.(\[]|in\b|if\b))"


def filler_names(names: Sequence[str]) -> Counter[str]:
    """Count the bindings of filler words, by area."""
    return Counter(
        house.area_of(name)
        for name, tree in trees(names, FILLER)
        for word in house.bound_names(tree)
        if word in house.FILLERS
    )


def test_names_say_what_the_thing_is() -> None:
    """A reader should know a value by its name: `topic`, `batch`, `row`, `response`, `tp`."""
    counts = filler_names(MODULES)
    assert {area: n for area, n in counts.items() if n > FILLERS_MAX.get(area, FILLERS_ELSEWHERE_MAX)} == {}


def test_every_binding_of_a_filler_is_counted() -> None:
    code = "for each, x in y: pass\nwith a as given: pass\nself.found = lambda kind: 1\ndef f(*rest): [1 for way in z]"
    fillers = [name for name in house.bound_names(ast.parse(code)) if name in house.FILLERS]
    assert sorted(fillers) == ["each", "found", "given", "kind", "rest", "way"]


# Docstrings that begin with a question word, in areas that are still to be mended. They only fall.
QUESTIONS_MAX = {
    "adapters": 6,
    "cli": 2,
    "client": 1,
    "console": 8,
    "engine": 46,
    "sql": 20,
    "tests/browser": 4,
    "tests/mutants": 6,
    "tests/support": 1,
}
QUESTION = re.compile(r"(What|Who|Where|Whether)\b")


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_docstrings_are_contracts_and_not_questions() -> None:
    """A docstring names the thing or begins with a verb: "Return the end offset of each partition." """
    counts = Counter(
        house.area_of(name)
        for name, tree in trees(MODULES, r'"""(What|Who|Where|Whether)\b')
        for docstring in docstrings(tree)
        if QUESTION.match(docstring)
    )
    assert {area: n for area, n in counts.items() if n > QUESTIONS_MAX.get(area, 0)} == {}
    assert QUESTION.match("Whether it is")


# Constructions that make a reader guess who does what to which thing (docs/CONTRIBUTING: plain English), by what to
# write instead. In pages, docstrings and messages.
CONSTRUCTIONS = {
    "an invalid ..., there is no ...": r"\b(?:is|are) no (?:valid|\w+ name)\b",
    "recreated, again": r"\banew\b",
    "no longer": r"\b(?:is|are|was|were|has|have|does|do|it|they)\b[^.;:|]{0,40}\bno more\b(?! than| to\b)",
    "is named twice": r"\bstands? (?:twice|there|in one)\b",
    "a noun: a client that ...": r"(?:^|[.:;] )Who(?:ever)? (?![^.]*\?)[a-z]+",
    "reports, returns, answers with": r"\b(?:is|are|was|were|be|been) told\b",
    "the number": r"\b(?:to|for|with|after|at|up to) so many\b",
    "a noun: of the client that ...": r"\b(?:of|for|by|from|with|to) (?:who|whoever) (?!may\b)\w+",
    "is stored in, is in": r"\b(?:lies|lie|lay) (?:in|on|under|beside|with|there)\b",
}
CONSTRUCTION = re.compile("|".join(CONSTRUCTIONS.values()))
CONSTRUCTIONS_MAX = {  # what is still to be mended; it only falls
    "docs/CORRECTNESS.md": 2,
    "docs/SQL.md": 2,
    "docs/console.md": 1,
    "adapters": 7,
    "cli": 7,
    "client": 1,
    "connect": 5,
    "console": 3,
    "dispatcher": 3,
    "engine": 31,
    "gateway": 1,
    "operations": 7,
    "sql": 8,
}


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module: its docstrings and messages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_constructions_that_readers_stumble_over_do_not_come_back() -> None:
    counts = Counter(name for name in PAGES for line in text(name).splitlines() if CONSTRUCTION.search(line))
    shipped = [name for name in MODULES if not name.startswith("tests/")]
    for name, tree in trees(shipped, CONSTRUCTION.pattern):
        counts[house.area_of(name)] += sum(bool(CONSTRUCTION.search(string)) for string in texts(tree))
    assert {where: n for where, n in counts.items() if n > CONSTRUCTIONS_MAX.get(where, 0)} == {}


@pytest.mark.parametrize(
    "sentence",
    ["'x' is no valid topic name", "a topic was made anew", "what it was made for is there no more", "It stands twice.",
     "Who is alone in its group never waits", "the client is told the address", "after so many records",
     "the head of who was refused", "The log lies in S3"],
)  # fmt: skip
def test_constructions_are_recognized(sentence: str) -> None:
    assert CONSTRUCTION.search(sentence)
