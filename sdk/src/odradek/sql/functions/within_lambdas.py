"""What asks Python outside of lambdas asks Spark within them, where it runs no Python. Pure.

Whether a text is a pattern or a time zone is tried: where a function of Spark raises, `try_to_binary` around it is
NULL. It catches what its argument raises as well, and Spark takes it everywhere, also in aggregates, GROUP BY and JOIN.

A group of a pattern exists if a match can be replaced by it: `(?:pattern)?` matches the empty text. Of a number of two
digits Java may take the first digit alone, so that those groups are counted in the pattern's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from odradek.sql.functions.as_java.date_patterns import DATES, TIMES, is_pattern, spark_reads
from odradek.sql.functions.bindings import calls_of_python
from odradek.sql.functions.json_text import (
    JSON_CONCAT,
    JSON_FIELD,
    JSON_ITEMS,
    JSON_RECORDS,
    sparks_json_concat,
    sparks_json_field,
    sparks_json_items,
    sparks_json_records,
)
from odradek.sql.functions.signature import text_of
from odradek.sql.functions.times import READ_DATE, READ_TIME, SHORT_ZONES, SHOW_TIME

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[(),]", re.DOTALL)
_NO_GROUPS = text_of(r"(?s)\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")  # escaped characters, and classes
_QUOTED = text_of("'[^']*'")
_NOT_READ = text_of("[qQEFG]")  # letters that Spark shows, but does not read
_NOT_SHOWN = {"'DATE'": text_of(f"[A-Za-z&&[^{DATES}]]"), "'TIME'": text_of(f"[A-Za-z&&[^{TIMES}]]")}
_AT_EPOCH = "timestamp_seconds(0)"
# Spark has more zones than java.time.ZoneId: names of three letters, and offsets with one digit.
_NO_ZONES = text_of(rf"^(?:{'|'.join(SHORT_ZONES)})\z|[+-]\d:|[+-]\d\d:\d\z")
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


def _raises(text: str) -> str:
    """Return where a text, which is never NULL, cannot be computed."""
    return f"try_to_binary({text}, 'utf-8') IS NULL"


def _replaced(pattern: str, by: str) -> str:
    return f"regexp_replace('', concat('(?:', {pattern}, ')?'), {by})"


def _no_pattern(arguments: Sequence[str]) -> str:
    [pattern] = arguments
    no_pattern = _raises(f"regexp_replace('', {pattern}, '')")
    return f"({pattern} IS NOT NULL AND {no_pattern})"


def _no_zone(arguments: Sequence[str]) -> str:
    [zone] = arguments
    no_zone = _raises(f"CAST(from_utc_timestamp({_AT_EPOCH}, {zone}) AS STRING)")
    return f"({zone} IS NOT NULL AND ({zone} RLIKE {_NO_ZONES} OR {no_zone}))"


def _no_replacement(arguments: Sequence[str]) -> str:
    given = _fields(arguments)
    new, pattern = given["new"], given["pattern"]
    return f"({new} IS NOT NULL AND {pattern} IS NOT NULL AND {_raises(_replaced(pattern, new))})"


def _has_group(arguments: Sequence[str]) -> str:
    given = _fields(arguments)
    pattern, number = given["pattern"], given["group"]
    by = f"concat('$', {number})"
    exists = f"NOT {_raises(_replaced(pattern, by))}"
    counted = f"size(regexp_extract_all(regexp_replace({pattern}, {_NO_GROUPS}, ''), {_GROUP}, 0))"
    return f"IF({number} < 10, {exists}, NOT {_no_pattern([pattern])} AND {number} <= {counted})"


def _bare(pattern: str) -> str:
    """Return a pattern of dates without its texts. Raises NotInLambdas for one that is written: Spark has it not."""
    if pattern.startswith("'"):
        raise NotInLambdas("a pattern of dates that Spark does not take")
    return f"regexp_replace({pattern}, {_QUOTED}, '')"


def _show_time(arguments: Sequence[str]) -> str:
    kind, value, pattern, zone = arguments
    at = {"'DATE'": f"date_from_unix_date({value})", "'TIME'": f"timestamp_millis({value})"}.get(kind)
    bare = _bare(pattern)
    if at is None:
        at, wrong = f"from_utc_timestamp(timestamp_micros({value}), {zone})", _no_zone([zone])
    else:
        wrong = f"{bare} RLIKE {_NOT_SHOWN[kind]}"
    is_wrong = _raises(f"date_format({_AT_EPOCH}, {pattern})")
    return f"IF({is_wrong} OR {wrong}, NULL, date_format({at}, {pattern}))"


def _read_time(arguments: Sequence[str]) -> str:
    kind, text, pattern, zone = arguments
    at = f"try_to_timestamp({text}, {pattern})"
    is_wrong = _raises(f"coalesce(CAST(try_to_timestamp('', {pattern}) AS STRING), '')")
    wrong = f"({is_wrong} OR {_bare(pattern)} RLIKE {_NOT_READ})"
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
    JSON_ITEMS: lambda arguments: sparks_json_items(*arguments),
    JSON_RECORDS: lambda arguments: sparks_json_records(*arguments),
    JSON_CONCAT: lambda arguments: sparks_json_concat(_arguments(arguments[0].removeprefix("array(")[:-1])),
    "ksql_has_group": _has_group,
    "ksql_no_pattern": _no_pattern,
    "ksql_no_replacement": _no_replacement,
    "ksql_no_zone": _no_zone,
}
