"""Functions of times. Patterns are those of Java's DateTimeFormatter; the zone is UTC unless one is given.

TIMESTAMPADD and its like, whose first argument is a word, are rendered by expressions.py with shifted().
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from odradek.sql.functions.signature import Function, literal_of, template
from odradek.sql.types import BIGINT, DATE, INT, TIME, TIMESTAMP, UNIT_MS, VARCHAR, Rendered, SqlType

SHIFTS: dict[str, tuple[SqlType, int]] = {
    "TIMESTAMPADD": (TIMESTAMP, 1),
    "TIMESTAMPSUB": (TIMESTAMP, -1),
    "DATEADD": (DATE, 1),
    "DATESUB": (DATE, -1),
    "TIMEADD": (TIME, 1),
    "TIMESUB": (TIME, -1),
}
UNITS = ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS", "WEEKS", "MONTHS", "YEARS")
_DAY_MS = 86_400_000
_OF_ONE_LENGTH = re.compile(r"(yyyy|MM|dd|[^A-Za-z'])+")  # patterns whose dates have as many characters as they


def shifted(name: str, unit: str, amount: str, time: str) -> Rendered:
    """Return TIMESTAMPADD(unit, amount, time) and its like; the unit in the plural."""
    kind, sign = SHIFTS[name]
    number = amount if sign > 0 else f"(- {amount})"
    word = unit.removesuffix("S")
    if kind == TIME:
        step = f"CAST({number} AS BIGINT) * {UNIT_MS.get(word, _DAY_MS)}"
        return Rendered(f"CAST(pmod({time} + {step}, {_DAY_MS}) AS INT)", TIME)
    text = f"timestampadd({word}, {number}, {time})"
    return Rendered(f"CAST({text} AS DATE)", DATE) if kind == DATE else Rendered(text, TIMESTAMP)


def text_as_time(value: str) -> str:
    """Return text such as 10:20, 10:20:30 or 10:20:30.5 as a TIME."""
    return f"CAST(unix_millis(try_to_timestamp(concat('1970-01-01 ', {value}))) AS INT)"


def text_as_timestamp(value: str) -> str:
    """Return text as a TIMESTAMP: a year, and as many more parts as are given; a zone as +01:00 or +0100."""
    zoned = f"regexp_replace({value}, '([+-]\\\\d\\\\d)(\\\\d\\\\d)$', '$1:$2')"
    return f"try_cast({zoned} AS TIMESTAMP)"


def time_of(value: str, kind: SqlType) -> str:
    """Return text as a DATE, TIME or TIMESTAMP; NULL for what it does not say."""
    if kind == TIMESTAMP:
        return text_as_timestamp(value)
    return text_as_time(value) if kind == TIME else f"try_cast({value} AS {kind.spark})"


def _zone(text: str, arguments: Sequence[Rendered], function: str) -> str:
    return f"{function}({text}, {arguments[2].text})" if len(arguments) == 3 else text


def _shown(value: str, arguments: Sequence[Rendered]) -> Rendered:
    pattern = arguments[1].text
    zone = literal_of(arguments[2]) if len(arguments) == 3 else None
    bare = re.sub("'[^']*'", "", literal_of(arguments[1]) or "")
    if zone is not None and re.search("[OVXZxz]", bare) and _is_zone(zone):
        # The pattern shows the zone, and of Spark's functions only those that write documents take one.
        options = f"map('timestampFormat', {pattern}, 'timeZone', {arguments[2].text})"
        return Rendered(f"get_json_object(to_json(named_struct('t', {value}), {options}), '$.t')", VARCHAR)
    return Rendered(f"date_format({_zone(value, arguments, 'from_utc_timestamp')}, {pattern})", VARCHAR)


def _is_zone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name))
    except (OSError, ValueError):
        return False


def _format_timestamp(arguments: Sequence[Rendered]) -> Rendered:
    return _shown(arguments[0].text, arguments)


def _to_string(arguments: Sequence[Rendered]) -> Rendered:
    return _shown(f"timestamp_millis({arguments[0].text})", arguments)


def _parse_timestamp(arguments: Sequence[Rendered]) -> Rendered:
    read = f"try_to_timestamp({arguments[0].text}, {arguments[1].text})"
    return Rendered(_zone(read, arguments, "to_utc_timestamp"), TIMESTAMP)


def _from_string(arguments: Sequence[Rendered]) -> Rendered:
    return Rendered(f"unix_millis({_parse_timestamp(arguments).text})", BIGINT)


def _parse_date(arguments: Sequence[Rendered]) -> Rendered:
    """Return a DATE; as in ksqlDB, text after it counts for nothing, which is known of patterns of a known length."""
    text, pattern = arguments
    read = f"try_to_timestamp({text.text}, {pattern.text})"
    written = literal_of(pattern) or ""
    if _OF_ONE_LENGTH.fullmatch(written):
        read = f"coalesce({read}, try_to_timestamp(substring({text.text}, 1, {len(written)}), {pattern.text}))"
    return Rendered(f"CAST({read} AS DATE)", DATE)


def _parse_time(arguments: Sequence[Rendered]) -> Rendered:
    read = f"try_to_timestamp({arguments[0].text}, {arguments[1].text})"
    return Rendered(f"CAST(pmod(unix_millis({read}), {_DAY_MS}) AS INT)", TIME)


def _now(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0].text if arguments else "current_timestamp()"
    return Rendered(f"unix_millis({value})", BIGINT)


def _today(arguments: Sequence[Rendered]) -> Rendered:
    return Rendered(f"unix_date({arguments[0].text if arguments else 'current_date()'})", INT)


TIMES = [
    Function("FORMAT_TIMESTAMP", 2, 3, _format_timestamp, ("TIMESTAMP", "text")),
    template("FORMAT_DATE", "date_format({0}, {1})", 2, 2, VARCHAR, "DATE text"),
    template("FORMAT_TIME", "date_format(timestamp_millis({0}), {1})", 2, 2, VARCHAR, "TIME text"),
    Function("PARSE_TIMESTAMP", 2, 3, _parse_timestamp, ("text",)),
    Function("PARSE_DATE", 2, 2, _parse_date, ("text",)),
    Function("PARSE_TIME", 2, 2, _parse_time, ("text",)),
    Function("TIMESTAMPTOSTRING", 2, 3, _to_string, ("integer", "text")),
    Function("STRINGTOTIMESTAMP", 2, 3, _from_string, ("text",)),
    template("DATETOSTRING", "date_format(date_from_unix_date({0}), {1})", 2, 2, VARCHAR, "integer text"),
    template("STRINGTODATE", "unix_date(CAST(try_to_timestamp({0}, {1}) AS DATE))", 2, 2, INT, "text"),
    template("FROM_UNIXTIME", "timestamp_millis({0})", 1, 1, TIMESTAMP, "integer"),
    template("FROM_DAYS", "date_from_unix_date({0})", 1, 1, DATE, "INT"),
    template(
        "CONVERT_TZ", "from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})", 3, 3, TIMESTAMP, "TIMESTAMP text text"
    ),
    Function("UNIX_TIMESTAMP", 0, 1, _now, ("TIMESTAMP",)),
    Function("UNIX_DATE", 0, 1, _today, ("DATE",)),
]
