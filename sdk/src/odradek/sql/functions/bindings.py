"""A value that an expression needs more than once is written once, so that a plan is as long as its script is deep.

Spark SQL has no name for a part of an expression. An array of one element has: its elements are changed by a lambda,
whose parameter is the name.

    transform(array(struct(<value> AS f0)), b1 -> IF(b1.f0 < 0, NULL, b1.f0))[0]

A short value is repeated instead: Spark compiles an expression without lambdas. Spark runs no Python within a lambda,
so that calls of Python are values as well.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

LONG = 160  # characters from which a value is written once
_STEP = " -> "
_PYTHON = "ksql_"
_OPEN, _CLOSE = "\u27e6", "\u27e7"  # around the marks
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[()]", re.DOTALL)
_numbers = itertools.count()


class Bindings:
    """Values that stand in an expression as marks, until it is known how often each is needed."""

    def __init__(self) -> None:
        self._values: list[str] = []
        self._mark = re.compile(f"{_OPEN}{next(_numbers)}[.]([0-9]+){_CLOSE}")

    def add(self, value: str) -> str:
        """Return a mark that stands for a value."""
        self._values.append(value)
        return self._mark.pattern.replace("[.]([0-9]+)", f".{len(self._values) - 1}")

    def __bool__(self) -> bool:
        return bool(self._values)

    def bound(self, body: str) -> str:
        """Return an expression with its marks resolved: each value is written once, if it can be."""
        numbers = [int(each) for each in self._mark.findall(body)]
        is_in_lambda = _STEP in body and any(_PYTHON in self._values[each] for each in numbers)
        if len(numbers) == len(set(numbers)) and not is_in_lambda:
            return self._resolved(body)
        for call in dict.fromkeys(calls_of_python(body)):
            body = body.replace(call, self.add(self._resolved(call)))
        used = sorted({int(each) for each in self._mark.findall(body)})
        name = f"b{1 + body.count(_STEP)}"  # no lambda within has it
        fields = ", ".join(f"{self._values[each]} AS f{each}" for each in used)
        inner = self._mark.sub(lambda mark: f"{name}.f{mark[1]}", body)
        return f"transform(array(struct({fields})), {name}{_STEP}{inner})[0]"

    def _resolved(self, text: str) -> str:
        return self._mark.sub(lambda mark: self._values[int(mark[1])], text)


def once(values: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """Return an expression of some values in which each long one is written once."""
    if all(len(each) <= LONG or each.startswith("'") for each in values):
        return body(values)
    bindings = Bindings()
    marks = [each if each.startswith("'") or not _is_bound(each) else bindings.add(each) for each in values]
    return bindings.bound(body(marks))


def _is_bound(value: str) -> bool:
    """Return True for a long value, and for one that is or may be in Python, which cannot be within the lambda."""
    return len(value) > LONG or _PYTHON in value or _OPEN in value


def may_be_error(value: str) -> bool:
    """Return True for a large part that comes with whether it is an error: a call of Python would repeat all of it."""
    return f"{_CLOSE}.v" in value


def calls_of_python(body: str) -> list[str]:
    """Return the calls of functions in Python in an expression, those within others too."""
    found = []
    for start in re.finditer(rf"\b{_PYTHON}\w+\(", body):
        depth = 0
        for token in _TOKEN.finditer(body, start.end() - 1):
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            if depth == 0:
                found.append(body[start.start() : token.end()])
                break
    return found
