"""Dates by patterns of Java's SimpleDateFormat, in UTC, as timestamp transforms and partitioners take them.

    y year   M month   d day   D day of the year   E weekday   u weekday number   'text' and '' for a quote
    H hour 0-23   h hour 1-12   k hour 1-24   K hour 0-11   a AM/PM   m minute   s second   S ms   z, Z, X zone

A year of two digits is one from 1950 to 2049; Java's window moves with the present year.

Source: the documentation of java.text.SimpleDateFormat.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from odradek.connect.data.logical import UTC
from odradek.connect.errors import ConfigError, DataError

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = frozenset("yYMLdDEuHhkKamsSzZX")
_WEEK, _DECEMBER, _LAST_OF_DECEMBER, _HOURS = 7, 12, 31, 24
_LAST_YEAR_OF_2000 = 49  # of two digits


class DateFormat:
    """A pattern. Raises ConfigError for a letter that is not supported."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = list(_parts(pattern))

    def format(self, moment: dt.datetime) -> str:
        """Return the text of a moment."""
        return "".join(text if is_text else _formatted(text, moment) for text, is_text in self._parts)

    def parse(self, text: str) -> dt.datetime:
        """Return the moment of a text that begins as the pattern says. Raises DataError."""
        fields: dict[str, str] = {}
        at = 0
        for index, (part, is_text) in enumerate(self._parts):
            if is_text:
                if not text.startswith(part, at):
                    raise self._refused(text)
                at += len(part)
                continue
            follows = index + 1 < len(self._parts) and not self._parts[index + 1][1]
            match = _pattern(part, follows).match(text, at)
            if match is None:
                raise self._refused(text)
            fields[part[0]] = match[0]
            at = match.end()
        try:
            return _moment(fields, self.pattern)
        except (ValueError, OverflowError):
            raise self._refused(text) from None

    def _refused(self, text: str) -> DataError:
        return DataError(f"the timestamp {text!r} does not match the format {self.pattern!r}")


def _parts(pattern: str) -> Iterator[tuple[str, bool]]:
    """Yield (text, True) and (repeated letter, False)."""
    for match in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|''|[^A-Za-z']+|'", pattern):
        whole = match[0]
        if whole == "''":
            yield "'", True
        elif whole.startswith("'"):
            if match[1] is None:
                raise ConfigError(f"the date format {pattern!r} has a quote that is not closed")
            yield match[1].replace("''", "'"), True
        elif match[2]:
            if match[2] not in _LETTERS:
                raise ConfigError(f"the date format {pattern!r} has the letter {match[2]!r}, which is not supported")
            yield whole, False
        else:
            yield whole, True


def _formatted(part: str, moment: dt.datetime) -> str:
    letter, width = part[0], len(part)
    if letter in "yY":
        year = _week_year(moment) if letter == "Y" else moment.year
        return f"{year % 100:02}" if width == 2 else str(year).zfill(width)
    if letter in "ML" and width >= 3:
        name = _MONTHS[moment.month - 1]
        return name if width >= 4 else name[:3]
    if letter == "E":
        name = _DAYS[moment.weekday()]
        return name if width >= 4 else name[:3]
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter in "zZX":
        return {"z": "UTC" if width < 4 else "Coordinated Universal Time", "Z": "+0000", "X": "Z"}[letter]
    number = {
        "M": moment.month,
        "L": moment.month,
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "u": moment.isoweekday(),
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "S": moment.microsecond // 1000,
    }[letter]
    return str(number).zfill(width)


def _week_year(moment: dt.datetime) -> int:
    """Return the year of a week that begins on Sunday: the first week is that of the 1st of January."""
    to_saturday = 6 - moment.isoweekday() % _WEEK
    return moment.year if moment.month < _DECEMBER else moment.year + (moment.day + to_saturday > _LAST_OF_DECEMBER)


def _pattern(part: str, follows: bool) -> re.Pattern[str]:
    """Return what a part matches; digits of a neighbouring part end it."""
    letter, width = part[0], len(part)
    if letter in "ML" and width >= 3:
        return re.compile("|".join([*_MONTHS, *(name[:3] for name in _MONTHS)]), re.IGNORECASE)
    if letter == "E":
        return re.compile("|".join([*_DAYS, *(name[:3] for name in _DAYS)]), re.IGNORECASE)
    if letter == "a":
        return re.compile("AM|PM", re.IGNORECASE)
    if letter == "X":
        return re.compile("Z|[+-]" + (r"\d\d", r"\d{4}", r"\d\d:\d\d")[min(width, 3) - 1])
    if letter in "zZ":
        return re.compile(r"(?:GMT)?[+-]\d\d?(?::?\d\d)?|Z|UTC|GMT")
    return re.compile(rf"\d{{{width}}}" if follows else r"-?\d+")


def _moment(fields: dict[str, str], pattern: str) -> dt.datetime:
    def number(letter: str, default: int) -> int:
        return int(fields.get(letter, default))

    year = number("y", number("Y", 1970))
    if "y" in fields and len(fields["y"]) == 2 and re.search(r"(?<!y)yy(?!y)", pattern):
        year += 1900 if year > _LAST_YEAR_OF_2000 else 2000
    month = fields.get("M", fields.get("L", "1"))
    if not month.lstrip("-").isdigit():
        month = str(next(n for n, name in enumerate(_MONTHS, 1) if name.lower().startswith(month.lower()[:3])))
    # Java's calendar is lenient: 13 hours PM are 1 AM of the next day.
    clock = number("k", 0)
    hour = number("H", 0 if clock == _HOURS else clock)
    if "h" in fields or "K" in fields:
        half = number("h", number("K", 0))
        hour = (0 if "h" in fields and half == _HOURS // 2 else half) + (
            12 if fields.get("a", "AM").upper() == "PM" else 0
        )
    moment = dt.datetime(year, 1, 1, tzinfo=UTC)
    if "Y" in fields and "y" not in fields:  # a year of weeks: its first week, whatever month and day are
        days = _day_of_week(fields) - moment.isoweekday() % _WEEK
    else:
        # Java's calendar is lenient: the 32nd of January is the 1st of February.
        months = int(month) - 1
        moment = moment.replace(year=moment.year + months // 12, month=months % 12 + 1)
        days = number("D", 1) - 1 if "D" in fields else number("d", 1) - 1
    moment += dt.timedelta(days=days, hours=hour, minutes=number("m", 0), seconds=number("s", 0))
    moment += dt.timedelta(milliseconds=number("S", 0))
    return moment - _shift(fields)


def _day_of_week(fields: dict[str, str]) -> int:
    """Return days behind the Sunday that begins a week."""
    if "u" in fields:
        return int(fields["u"]) % _WEEK
    name = fields.get("E", "Sunday").lower()[:3]
    return next(number for number, day in enumerate(_DAYS, 1) if day.lower().startswith(name)) % _WEEK


def _shift(fields: dict[str, str]) -> dt.timedelta:
    zone = fields.get("Z") or fields.get("X") or fields.get("z") or ""
    match = re.fullmatch(r"(?:GMT)?([+-])(\d\d?):?(\d\d)?", zone)
    if match is None:
        return dt.timedelta()
    shift = dt.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    return shift if match[1] == "+" else -shift
