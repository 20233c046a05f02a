"""What asks Python outside of lambdas asks Java or Spark within them, where Spark runs no Python. Pure.

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

from odradek.sql.functions.as_java.date_patterns import is_pattern, spark_reads
from odradek.sql.functions.bindings import calls_of_python
from odradek.sql.functions.json_text import JSON_FIELD, sparks_json_field
from odradek.sql.functions.signature import text_of
from odradek.sql.functions.times import READ_DATE, READ_TIME, SHOW_TIME

_REFLECTED = re.compile(r"try_reflect\('[\w.]+', '\w+', ")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[(),]", re.DOTALL)
_NO_GROUPS = text_of(r"(?s)\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")  # escaped characters, and classes
_QUOTED = text_of("'[^']*'")
_NOT_SPARKS = text_of("[uYwWecBAnNpvQqEFG]|y{7}|M{5}|L{5}")  # the letters that Spark does not show, or does not read
_GROUP = text_of(r"\((?!\?)|\(\?<(?![=!])")


class NotInLambdas(Exception):
    """A call that Spark cannot make within a lambda. Its argument: what it is."""


def within_lambda(text: str) -> str:
    """Return a lambda's body without calls of Python. Raises NotInLambdas."""
    while True:
        calls = calls_of_python(text)
        if not calls:
            return text
        call = min(calls, key=len)  # the innermost first
        name, _, rest = call.partition("(")
        if name not in _IN_JAVA:
            raise NotInLambdas(f"{name.removeprefix('ksql_').upper()} with these arguments")
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


def _no_format(pattern: str) -> str:
    """Return where a pattern of dates is wrong, or not one of Spark's. Raises NotInLambdas for one that is written."""
    if pattern.startswith("'"):
        raise NotInLambdas("a pattern of dates that Spark does not take")
    bare = f"regexp_replace({pattern}, {_QUOTED}, '')"
    is_wrong = f"try_reflect('java.time.format.DateTimeFormatter', 'ofPattern', {pattern}) IS NULL"
    return f"({is_wrong} OR {bare} RLIKE {_NOT_SPARKS})"


def _show_time(arguments: Sequence[str]) -> str:
    kind, value, pattern, zone = arguments
    at = {"'DATE'": f"date_from_unix_date({value})", "'TIME'": f"timestamp_millis({value})"}.get(kind)
    wrong = _no_format(pattern)
    if at is None:
        at, wrong = f"from_utc_timestamp(timestamp_micros({value}), {zone})", f"({wrong} OR {_no_zone([zone])})"
    return f"IF({wrong}, NULL, date_format({at}, {pattern}))"


def _read_time(arguments: Sequence[str]) -> str:
    kind, text, pattern, zone = arguments
    at, wrong = f"try_to_timestamp({text}, {pattern})", _no_format(pattern)
    if kind == "'TIMESTAMP'":
        found, wrong = f"unix_millis(to_utc_timestamp({at}, {zone}))", f"({wrong} OR {_no_zone([zone])})"
    else:
        found = f"pmod(unix_millis({at}), 86400000)" if kind == "'TIME'" else f"unix_date(CAST({at} AS DATE))"
    return f"IF({wrong}, NULL, {found})"


def _read_date(arguments: Sequence[str]) -> str:
    text, pattern, _ = arguments
    written = pattern[1:-1] if pattern.startswith("'") else "{"  # which is no pattern
    if is_pattern(written) and spark_reads(written):  # a year of two digits is from 2000 on there
        return f"unix_date(CAST(try_to_timestamp({text}, {pattern}) AS DATE))"
    return _read_time(("'DAYS'", text, pattern, "'GMT'"))


_IN_JAVA: dict[str, Callable[[Sequence[str]], str]] = {
    READ_DATE: _read_date,
    READ_TIME: _read_time,
    SHOW_TIME: _show_time,
    JSON_FIELD: lambda arguments: sparks_json_field(*arguments),
    "ksql_has_group": _has_group,
    "ksql_no_pattern": _no_pattern,
    "ksql_no_replacement": _no_replacement,
    "ksql_no_zone": _no_zone,
}
