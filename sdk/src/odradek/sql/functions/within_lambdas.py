"""What asks Python outside of lambdas asks Java within them, where Spark runs no Python. Pure.

Whether a text is a pattern or a time zone is said by java.util.regex.Pattern and java.time.ZoneId themselves, which
Spark calls by name: `try_reflect` is NULL where Java raises. Spark takes such a call for one that may have another
result each time, and has none in aggregates, GROUP BY and JOIN: `deterministic` takes it out again. There, a text that
is no pattern ends the query.

A group of a pattern exists if a match can be replaced by it: `(?:pattern)?` matches the empty text. Of a number of two
digits Java may take the first digit alone, so that those groups are counted in the pattern's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from odradek.sql.functions.bindings import calls_of_python
from odradek.sql.functions.signature import text_of

_REFLECTED = re.compile(r"try_reflect\('[\w.]+', '\w+', ")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[(),]", re.DOTALL)
_NO_GROUPS = text_of(r"(?s)\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")  # escaped characters, and classes
_GROUP = text_of(r"\((?!\?)|\(\?<(?![=!])")


class NotInLambdas(Exception):
    """A call that Spark cannot make within a lambda. Its argument: the name of the function in Python."""


def within_lambda(text: str) -> str:
    """Return a lambda's body without calls of Python. Raises NotInLambdas."""
    while True:
        calls = calls_of_python(text)
        if not calls:
            return text
        call = min(calls, key=len)  # the innermost first
        name, _, rest = call.partition("(")
        if name not in _IN_JAVA:
            raise NotInLambdas(name)
        text = text.replace(call, _IN_JAVA[name](_arguments(rest[:-1])))


def deterministic(text: str) -> str:
    """Return an expression in which no text is asked about: each is taken for a pattern, and so on."""
    return _REFLECTED.sub("concat(", text)


def _arguments(text: str) -> list[str]:
    found, start, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if token[0] == "," and depth == 0:
            found.append(text[start : token.start()].strip())
            start = token.end()
    return [*found, text[start:].strip()]


def _fields(arguments: Sequence[str]) -> dict[str, str]:
    """Return the fields of the struct that is the only argument."""
    parts = _arguments(arguments[0].removeprefix("named_struct(").removesuffix(")"))
    return {name.strip("'"): value for name, value in zip(parts[::2], parts[1::2], strict=True)}


def _compiled(pattern: str) -> str:
    return f"try_reflect('java.util.regex.Pattern', 'compile', {pattern})"


def _replaced(pattern: str, by: str) -> str:
    """Return a text; NULL if a match of the pattern cannot be replaced so."""
    return f"try_reflect('org.apache.commons.lang3.RegExUtils', 'replaceAll', '', concat('(?:', {pattern}, ')?'), {by})"


def _no_pattern(arguments: Sequence[str]) -> str:
    return f"({arguments[0]} IS NOT NULL AND {_compiled(arguments[0])} IS NULL)"


def _no_zone(arguments: Sequence[str]) -> str:
    return f"({arguments[0]} IS NOT NULL AND try_reflect('java.time.ZoneId', 'of', {arguments[0]}) IS NULL)"


def _no_replacement(arguments: Sequence[str]) -> str:
    given = _fields(arguments)
    new, pattern = given["new"], given["pattern"]
    return f"({new} IS NOT NULL AND {pattern} IS NOT NULL AND {_replaced(pattern, new)} IS NULL)"


def _has_group(arguments: Sequence[str]) -> str:
    given = _fields(arguments)
    pattern, number = given["pattern"], given["group"]
    by = f"concat('$', {number})"
    exists = f"{_replaced(pattern, by)} IS NOT NULL"
    counted = f"size(regexp_extract_all(regexp_replace({pattern}, {_NO_GROUPS}, ''), {_GROUP}, 0))"
    return f"IF({number} < 10, {exists}, {_compiled(pattern)} IS NOT NULL AND {number} <= {counted})"


_IN_JAVA: dict[str, Callable[[Sequence[str]], str]] = {
    "ksql_has_group": _has_group,
    "ksql_no_pattern": _no_pattern,
    "ksql_no_replacement": _no_replacement,
    "ksql_no_zone": _no_zone,
}
