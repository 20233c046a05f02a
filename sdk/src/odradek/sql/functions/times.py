"""Functions of times. Patterns are those of Java's DateTimeFormatter; the zone is UTC unless one is given.

Spark shows and reads by most patterns. By those that it refuses, and by those that are not written in the script, so
that they may be wrong, Python does (as_java).

TIMESTAMPADD and its like, whose first argument is a word, are rendered by expressions.py with shifted().
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from odradek.sql.functions.as_java.date_patterns import (
    DATES,
    OF_SIMPLE_FORMATS,
    ZONES,
    WrongPattern,
    letters_of,
    needed_letters,
    spark_reads,
    spark_shows,
)
from odradek.sql.functions.as_java.date_patterns import TIMES as TIMES_OF_DAY
from odradek.sql.functions.signature import Function, literal_of, template
from odradek.sql.functions.signature import text_of as written_text
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
NO_ZONE = "ksql_no_zone"  # of a text: TRUE if there is no such time zone
SHOW_TIME, READ_TIME, READ_DATE = "ksql_show_time", "ksql_read_time", "ksql_read_date"
_LETTERS = {
    "DATETOSTRING": DATES, "FORMAT_DATE": DATES, "FORMAT_TIME": TIMES_OF_DAY,
    "FORMAT_TIMESTAMP": DATES + TIMES_OF_DAY + ZONES, "TIMESTAMPTOSTRING": DATES + TIMES_OF_DAY + ZONES,
}  # fmt: skip
_VALUES = {  # the first argument as Spark shows it, and as Python does
    "DATETOSTRING": ("date_from_unix_date({0})", "{0}", "DATE"),
    "FORMAT_DATE": ("{0}", "unix_date({0})", "DATE"),
    "FORMAT_TIME": ("timestamp_millis({0})", "{0}", "TIME"),
    "FORMAT_TIMESTAMP": ("{0}", "unix_micros({0})", "TIMESTAMP"),
    "TIMESTAMPTOSTRING": ("timestamp_millis({0})", "{0} * 1000", "TIMESTAMP"),
}
# Zones that Spark has beside those of java.time.ZoneId.
SHORT_ZONES = (
    "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "EST", "HST", "IET",
    "IST", "JST", "MIT", "MST", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST",
)  # fmt: skip
_NOT_JAVAS = frozenset({*SHORT_ZONES, "Factory", "ROC", "localtime", "posixrules"})  # zones of Python
_OFFSET = re.compile(
    r"Z|UTC|GMT|UT|(?:UTC|GMT|UT)?[+-](?:18(?::?00){0,2}|\d|0\d|1[0-7]|(?:0\d|1[0-7])(?::[0-5]\d){1,2}"
    r"|(?:0\d|1[0-7])(?:[0-5]\d){1,2})"
)
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


def is_zone(name: str) -> bool:
    """Return True for a time zone of Java's ZoneId: a region, or an offset."""
    if _OFFSET.fullmatch(name):
        return True
    try:
        return name not in _NOT_JAVAS and bool(ZoneInfo(name))
    except (OSError, ValueError, KeyError):
        return False


def shows(function: str, pattern: str) -> bool:
    """Return True if a function such as FORMAT_DATE can show its values by a pattern of Java's DateTimeFormatter."""
    try:
        return needed_letters(pattern) <= set(_LETTERS[function])
    except WrongPattern:
        return False


def _zone(text: str, arguments: Sequence[Rendered], function: str) -> str:
    return text if len(arguments) < 3 else _in_zone(text, arguments[2], function)


def _in_zone(text: str, zone: Rendered, function: str) -> str:
    """Return a time in another time zone; NULL if there is none of that name, for which Spark ends the query."""
    written = literal_of(zone)
    if written is not None:
        return f"{function}({text}, {zone.text})" if is_zone(written) else "CAST(NULL AS TIMESTAMP)"
    return f"IF({NO_ZONE}({zone.text}), NULL, {function}({text}, {zone.text}))"


def shown_in_python(name: str, arguments: Sequence[Rendered]) -> bool:
    """Return True for a pattern that Spark does not take, and for one that is not written."""
    pattern = literal_of(arguments[1])
    if pattern is None:
        return True
    return shows(name, pattern) and not (spark_shows(pattern) and letters_of(pattern).keys() <= set(_LETTERS[name]))


def shown(name: str, arguments: Sequence[Rendered]) -> str:
    """Render FORMAT_DATE and its like."""
    value, number, kind = _VALUES[name]
    value, pattern = value.replace("{0}", arguments[0].text), arguments[1].text
    written = literal_of(arguments[1])
    if written is not None and not shows(name, written):
        return "CAST(NULL AS STRING)"
    if shown_in_python(name, arguments):
        zone = arguments[2].text if len(arguments) == 3 else "'GMT'"
        return f"{SHOW_TIME}('{kind}', {number.replace('{0}', arguments[0].text)}, {pattern}, {zone})"
    letters = letters_of(written or "").keys()
    zone_written = literal_of(arguments[2]) if len(arguments) == 3 else "GMT" if letters & set("Vz") else None
    if zone_written is not None and letters & set("OVXZxz") and is_zone(zone_written):
        # The pattern shows the zone, and of Spark's functions only those that write documents take one.
        options = f"map('timestampFormat', {pattern}, 'timeZone', {written_text(zone_written)})"
        return f"get_json_object(to_json(named_struct('t', {value}), {options}), '$.t')"
    return f"date_format({_zone(value, arguments, 'from_utc_timestamp')}, {pattern})"


def _showing(name: str, least: int, most: int, takes: str) -> Function:
    def render(arguments: Sequence[Rendered]) -> Rendered:
        return Rendered(shown(name, arguments), VARCHAR)

    return Function(name, least, most, render, tuple(takes.split()))


def _convert_zone(arguments: Sequence[Rendered]) -> Rendered:
    value, from_, to = arguments
    return Rendered(_in_zone(_in_zone(value.text, from_, "to_utc_timestamp"), to, "from_utc_timestamp"), TIMESTAMP)


def _read(kind: str, arguments: Sequence[Rendered]) -> str | None:
    """Return a call of Python for a pattern that Spark does not take, or that is not written; NULL for a wrong one.

    None: Spark takes it. The result is ms since the epoch, days, or ms of the day.
    """
    text, pattern = (each.text for each in arguments[:2])
    written = literal_of(arguments[1])
    try:
        if written is not None and spark_reads(written):
            return None
    except WrongPattern:
        return "CAST(NULL AS BIGINT)"
    zone = arguments[2].text if len(arguments) == 3 else "'GMT'"
    return f"{READ_TIME}('{kind}', {text}, {pattern}, {zone})"


def time_read(text: str, pattern: str) -> str:
    """Return a text as a TIMESTAMP. Args: the text in Spark SQL, the pattern as it is."""
    return _parse_timestamp((Rendered(text, VARCHAR), Rendered(written_text(pattern), VARCHAR))).text


def _parse_timestamp(arguments: Sequence[Rendered]) -> Rendered:
    read = _read("TIMESTAMP", arguments)
    if read is not None:
        return Rendered(f"timestamp_millis({read})", TIMESTAMP)
    read = f"try_to_timestamp({arguments[0].text}, {arguments[1].text})"
    return Rendered(_zone(read, arguments, "to_utc_timestamp"), TIMESTAMP)


def _from_string(arguments: Sequence[Rendered]) -> Rendered:
    read = _read("TIMESTAMP", arguments)
    return Rendered(f"unix_millis({_parse_timestamp(arguments).text})" if read is None else read, BIGINT)


def _parse_date(arguments: Sequence[Rendered]) -> Rendered:
    """Return a DATE; as in ksqlDB, text after it counts for nothing, which is known of patterns of a known length."""
    text, pattern = arguments
    written = literal_of(pattern) or ""
    if not _is_simple_to_spark(pattern):
        return Rendered(
            f"date_from_unix_date({READ_DATE}({text.text}, {pattern.text}, unix_date(current_date())))", DATE
        )
    read = f"try_to_timestamp({text.text}, {pattern.text})"
    if _OF_ONE_LENGTH.fullmatch(written):
        read = f"coalesce({read}, try_to_timestamp(substring({text.text}, 1, {len(written)}), {pattern.text}))"
    return Rendered(f"CAST({read} AS DATE)", DATE)


def _is_simple_to_spark(pattern: Rendered) -> bool:
    """Return True for a pattern of SimpleDateFormat by which Spark reads the same: not for years of two digits."""
    written = literal_of(pattern)
    try:
        letters = {} if written is None else letters_of(written)
        is_same = letters.get("y") != 2 and letters.keys() <= OF_SIMPLE_FORMATS
        return written is not None and is_same and spark_reads(written)
    except WrongPattern:
        return False


def _days(arguments: Sequence[Rendered]) -> Rendered:
    found = _read("DAYS", arguments)
    if found is not None:
        return Rendered(f"CAST({found} AS INT)", INT)
    return Rendered(f"unix_date(CAST(try_to_timestamp({arguments[0].text}, {arguments[1].text}) AS DATE))", INT)


def _parse_time(arguments: Sequence[Rendered]) -> Rendered:
    found = _read("TIME", arguments)
    if found is not None:
        return Rendered(f"CAST({found} AS INT)", TIME)
    read = f"try_to_timestamp({arguments[0].text}, {arguments[1].text})"
    return Rendered(f"CAST(pmod(unix_millis({read}), {_DAY_MS}) AS INT)", TIME)


def _now(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0].text if arguments else "current_timestamp()"
    return Rendered(f"unix_millis({value})", BIGINT)


def _today(arguments: Sequence[Rendered]) -> Rendered:
    return Rendered(f"unix_date({arguments[0].text if arguments else 'current_date()'})", INT)


TIMES = [
    _showing("FORMAT_TIMESTAMP", 2, 3, "TIMESTAMP text"),
    _showing("FORMAT_DATE", 2, 2, "DATE text"),
    _showing("FORMAT_TIME", 2, 2, "TIME text"),
    Function("PARSE_TIMESTAMP", 2, 3, _parse_timestamp, ("text",)),
    Function("PARSE_DATE", 2, 2, _parse_date, ("text",)),
    Function("PARSE_TIME", 2, 2, _parse_time, ("text",)),
    _showing("TIMESTAMPTOSTRING", 2, 3, "integer text"),
    Function("STRINGTOTIMESTAMP", 2, 3, _from_string, ("text",)),
    _showing("DATETOSTRING", 2, 2, "integer text"),
    Function("STRINGTODATE", 2, 2, _days, ("text",)),
    template("FROM_UNIXTIME", "timestamp_millis({0})", 1, 1, TIMESTAMP, "integer"),
    template("FROM_DAYS", "date_from_unix_date({0})", 1, 1, DATE, "INT"),
    Function("CONVERT_TZ", 3, 3, _convert_zone, ("TIMESTAMP", "text", "text")),
    Function("UNIX_TIMESTAMP", 0, 1, _now, ("TIMESTAMP",)),
    Function("UNIX_DATE", 0, 1, _today, ("DATE",)),
]
