"""How many examples a property is asked for, and how many cases of one question `make test` tries.

A property's examples are a third of them there, the same ones at every run; all are tried by `.ci/run`, which says so
in ODRADEK_EXAMPLES, and by `make explore`, whose examples are new ones. Of many cases that differ in a number or a
fault `make test` tries some, and `make test-slow` the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

_SHARE = 3
_ENOUGH = 20  # below, a property is hardly asked at all


def examples(count: int, environment: Mapping[str, str] = os.environ) -> int:
    """Return how many of so many examples this run tries."""
    if environment.get("ODRADEK_EXAMPLES") == "all" or environment.get("ODRADEK_EXPLORE"):
        return count
    return min(count, max(_ENOUGH, count // _SHARE))


def some(cases: Iterable[Any], *, every: int = 3) -> list[Any]:
    """Return the parameters of a test, all but one in so many marked slow.

    Args:
        cases: values, or tuples of them where the test has several parameters, as of `itertools.product`. `every` and
            the number of the last one's values should have no common divisor: each of them is tried then.
    """
    marked = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marked.append(pytest.param(*values, marks=[] if number % every == 0 else pytest.mark.slow))
    return marked
