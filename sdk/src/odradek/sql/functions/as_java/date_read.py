"""Text as dates and times by a pattern of Java's DateTimeFormatter, as ksqlDB reads them, locale en_US.

    text ──one field after the other──> fields by letter ──resolved──> a date and a time of day, in a zone

What the pattern has no field for is that of 1970-01-01T00:00, but for STRINGTODATE and PARSE_TIME, which need all. As
in Java a number before others takes as many digits as they leave, and a day of the week must be that of the date.
PARSE_DATE reads as SimpleDateFormat, which takes fewer or more digits, and text after the date.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from odradek.sql.functions.as_java import date_words as words
from odradek.sql.functions.as_java.date_patterns import (
    DATES,
    OF_SIMPLE_FORMATS,
    Part,
    WrongPattern,
    is_text,
    letters_of,
    parts_of,
)
from odradek.sql.functions.as_java.date_shown import zone_of

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_MS = 86_400_000
_FIXED = {  # by letter: the number of letters from which it has as many digits
    **dict.fromkeys("MLdHhKkmsQqw", 2), **dict.fromkeys("ceWS", 1), "D": 3,
}  # fmt: skip
_RANGES = {
    "M": (1, 12), "d": (1, 31), "D": (1, 366), "H": (0, 23), "k": (0, 24), "K": (0, 11), "h": (0, 12), "m": (0, 59),
    "s": (0, 59), "e": (1, 7), "w": (1, 53), "W": (0, 6), "A": (0, _DAY_MS - 1), "n": (0, 10**9 - 1),
    "N": (0, _DAY_MS * 10**6 - 1), "F": (1, 7),
}  # fmt: skip
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d)(?::?(\d\d))?)?")
_NAMED_ZONE = re.compile(
    r"(?:UTC|GMT|UT)?[+-]\d\d?(?::?\d\d(?::?\d\d)?)?|(?:UTC|GMT|UT)\b|[A-Z][\w/+-]*", re.IGNORECASE | re.ASCII
)
_YEARS_BACK = 80
_ABBREVIATED = {
    **dict.fromkeys(("PST", "PDT"), "America/Los_Angeles"), **dict.fromkeys(("MST", "MDT"), "America/Denver"),
    **dict.fromkeys(("CST", "CDT"), "America/Chicago"), **dict.fromkeys(("EST", "EDT"), "America/New_York"),
    **dict.fromkeys(("CET", "CEST"), "Europe/Paris"), "BST": "Europe/London", "JST": "Asia/Tokyo",
}  # fmt: skip
_SAME = {"L": "M", "q": "Q", "c": "e", "u": "y"}


class _Wrong(Exception):
    """The text does not fit."""


def read_date(text: str | None, pattern: str | None, today: int | None) -> int | None:
    """Return the days of a date as java.text.SimpleDateFormat reads it; None if it does not fit its pattern.

    Args:
        today: days; a year of two digits is the one from eighty years before to twenty years after, to the day.
    """
    if text is None or pattern is None or today is None:
        return None
    try:
        if not letters_of(pattern).keys() <= OF_SIMPLE_FORMATS:
            return None
        reader = _Reader(text, is_lenient=True)
        reader.all(parts_of(pattern))
        return _simple_date(reader.found, reader.short_year, _EPOCH.date() + dt.timedelta(days=today))
    except (_Wrong, WrongPattern, ValueError, OverflowError, KeyError, OSError):
        return None


def read_time(kind: str | None, text: str | None, pattern: str | None, zone: str | None) -> int | None:
    """Return what a text says: ms since the epoch, days, or ms of the day; None if it does not fit its pattern.

    Args:
        kind: TIMESTAMP; DAYS as STRINGTODATE; TIME.
        zone: of a text that does not name one.
    """
    if kind is None or text is None or pattern is None or zone is None:
        return None
    try:
        reader = _Reader(text, is_lenient=False)
        reader.all(parts_of(pattern))
        return _resolved(kind, reader.found, reader.zone or zone_of(zone))
    except (_Wrong, WrongPattern, ValueError, OverflowError, KeyError, OSError):
        return None


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str, *, is_lenient: bool) -> None:
        self._text, self._at, self._is_lenient = text, 0, is_lenient
        self.found: dict[str, int] = {}
        self.zone: dt.tzinfo | None = None
        self.short_year = ""  # the letter of a year of two digits

    def all(self, parts: Sequence[Part]) -> None:
        self._parts(parts)
        if self._at < len(self._text) and not self._is_lenient:
            raise _Wrong

    def _parts(self, parts: Sequence[Part]) -> None:
        for number, part in enumerate(parts):
            if part.optional is not None:
                before = self._at, dict(self.found), self.zone, self.short_year
                try:
                    self._parts(part.optional)
                except _Wrong:
                    self._at, self.found, self.zone, self.short_year = before
            elif not part.letter:
                self._literal(part.text)
            else:
                self._field(part, parts[number + 1 :])

    def _literal(self, text: str) -> None:
        given = self._text[self._at : self._at + len(text)]
        if given.lower() != text.lower():
            raise _Wrong
        self._at += len(text)

    def _field(self, part: Part, following: Sequence[Part]) -> None:
        if part.width:
            end = self._at + part.width
            self._at = end - len(self._text[self._at : end].lstrip(" "))
        letter = _SAME.get(part.letter, part.letter)
        if part.letter == "u" and self._is_lenient:  # the number of the day of the week there
            letter = "E"
        if letter in "VvzOXxZ":
            self.zone = self._zone(part)
        elif letter == "a":
            self._keep(letter, self._one_of(["AM", "PM"]))
        elif is_text(part):
            self._keep_word(part, letter)
        elif letter == "S":
            self._keep("n", int(self._digits(part.count, part.count).ljust(9, "0")))
        else:
            self._keep_number(part, letter, following)

    def _keep(self, letter: str, value: int) -> None:
        low, high = (value, value) if self._is_lenient else _RANGES.get(letter, (value, value))
        if not low <= value <= high or self.found.get(letter, value) != value:
            raise _Wrong
        self.found[letter] = value

    def _keep_word(self, part: Part, letter: str) -> None:
        counts = (3, 4) if self._is_lenient else (max(part.count, 3),)
        if letter == "G":
            self._keep(
                letter, self._one_of([words.ERAS[each][era] for era in (0, 1) for each in counts]) // len(counts)
            )
        elif letter == "Q":
            self._keep(letter, 1 + self._one_of([words.quarter(each, part.count) for each in range(1, 5)]))
        elif letter == "M":
            names = [words.month(each, count) for each in range(1, 13) for count in counts]
            self._keep(letter, 1 + self._one_of(names) // len(counts))
        else:
            names = [words.day(each, count) for each in range(1, 8) for count in counts]
            self._keep("E", 1 + self._one_of(names) // len(counts))

    def _one_of(self, names: Sequence[str]) -> int:
        """Return the number of the longest name that follows."""
        rest = self._text[self._at :].lower()
        fits = [number for number, each in enumerate(names) if rest.startswith(each.lower())]
        if not fits:
            raise _Wrong
        best = max(fits, key=lambda number: len(names[number]))
        self._at += len(names[best])
        return best

    def _keep_number(self, part: Part, letter: str, following: Sequence[Part]) -> None:
        sign = 1
        least, most = part.count, 19
        if letter in "yY" and part.count == 2:
            most = 2
        elif part.letter in _FIXED and part.count >= _FIXED[part.letter]:
            most = part.count
        after = _reserved(following)
        if self._is_lenient:
            least, most, after = 1, part.count if _is_number(following) else 19, 0
        if letter in "yY" and part.count != 2 and self._text.startswith("-", self._at):
            self._at, sign = self._at + 1, -1
        is_signed = letter in "yY" and part.count >= 4 and self._text.startswith("+", self._at)
        self._at += is_signed
        begun = self._at
        digits = self._digits(least, most, after)
        length = self._at - begun
        if letter in "yY" and part.count >= 4 and not self._is_lenient and sign > 0 and is_signed != (length > least):
            raise _Wrong
        value = sign * int(digits)
        if letter in "yY" and part.count == 2 and length == 2:
            value += 2000
            self.short_year = letter
        self._keep(letter, value)

    def _digits(self, least: int, most: int, after: int = 0) -> str:
        """Return at least and at most so many digits, and leave some to the numbers that follow at once."""
        found = re.match("[0-9]*", self._text[self._at : self._at + most + after])
        assert found is not None
        count = min(len(found[0]), most)
        if after:
            count = min(count, max(least, len(found[0]) - after))
        if count < least:
            raise _Wrong
        self._at += count
        return found[0][:count]

    def _zone(self, part: Part) -> dt.tzinfo:
        rest = self._text[self._at :]
        if part.letter in "Xx" or (part.letter == "Z" and part.count != 4):
            if rest[:1] in ("Z", "z") and (part.letter == "X" or (part.letter == "Z" and part.count == 5)):
                self._at += 1
                return dt.UTC
            return self._offset(rest, part)
        if part.letter in "OZ":
            if rest[:3].upper() != "GMT":
                raise _Wrong
            self._at += 3
            found = re.match(r"[+-]\d\d?(?::\d\d(?::\d\d)?)?", rest[3:], re.ASCII)
            if found is None:
                return dt.UTC
            self._at += found.end()
            return zone_of(found[0])
        found = _NAMED_ZONE.match(rest)
        if found is None:
            raise _Wrong
        self._at += found.end()
        name = found[0].upper() if found[0][:2].upper() in ("UT", "GM") else found[0]
        try:
            return zone_of(name)
        except (KeyError, ValueError, OSError):
            return _abbreviated(found[0].upper())

    def _offset(self, rest: str, part: Part) -> dt.tzinfo:
        has_colons = (part.letter in "Xx" and part.count in (3, 5)) or (part.letter == "Z" and part.count == 5)
        forms = {1: r"[+-]\d\d(?:\d\d)?", 2: r"[+-]\d{4}", 4: r"[+-]\d{4}(?:\d\d)?"}
        form = forms[2] if part.letter == "Z" else forms.get(part.count, forms[2])
        found = re.match(r"[+-]\d\d:\d\d(?::\d\d)?" if has_colons else form, rest, re.ASCII)
        if found is None:
            raise _Wrong
        self._at += found.end()
        return zone_of(found[0])


def _reserved(following: Sequence[Part]) -> int:
    """Return how many digits belong to the numbers of a known length that follow at once."""
    count = 0
    for each in following:
        if each.letter not in _FIXED or each.count < _FIXED[each.letter] or is_text(each) or each.width:
            break
        count += each.count
    return count


def _is_number(following: Sequence[Part]) -> bool:
    """Return True if a number follows at once."""
    return bool(following) and bool(following[0].letter) and not is_text(following[0])


def _abbreviated(name: str) -> dt.tzinfo:
    if name not in _ABBREVIATED:
        raise _Wrong
    return ZoneInfo(_ABBREVIATED[name])


# --- what the fields say ----------------------------------------------------------------------------------------------


def _resolved(kind: str, found: dict[str, int], zone: dt.tzinfo) -> int:
    ms = _time_of_day(found)
    if kind == "TIME":
        if any(each in found for each in DATES) or not any(each in found for each in "HkANa"):
            raise _Wrong
        return ms
    date = _date(found, is_whole=kind == "DAYS")
    if kind == "DAYS":
        return (date - _EPOCH.date()).days
    at = dt.datetime(date.year, date.month, date.day, tzinfo=zone) + dt.timedelta(milliseconds=ms)
    return (at.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)


def _time_of_day(found: dict[str, int]) -> int:
    """Return ms. Raises _Wrong for fields that contradict each other."""
    if "N" in found or "A" in found:
        return found["N"] // 1_000_000 if "N" in found else found["A"]
    hours = [found[each] % limit for each, limit in (("H", 24), ("k", 24)) if each in found]
    halves = [found[each] % 12 for each in "hK" if each in found]
    if halves:
        hours += [each + 12 * found.get("a", 0) for each in halves]
    elif "a" in found and not hours:
        hours = [6 + 12 * found["a"]]  # the middle, as Java has it
    if len(set(hours)) > 1 or ("a" in found and hours and hours[0] // 12 != found["a"]):
        raise _Wrong
    seconds = ((hours or [0])[0] * 60 + found.get("m", 0)) * 60 + found.get("s", 0)
    return seconds * 1_000 + found.get("n", 0) // 1_000_000


def _date(found: dict[str, int], *, is_whole: bool) -> dt.date:
    """Return the date. Raises _Wrong; ValueError for one that does not exist."""
    year = found.get("y")
    if year is not None and found.get("G") == 0:
        year = 1 - year
    weekday = found.get("E")
    if weekday is None and "e" in found:
        weekday = (found["e"] - 2) % 7 + 1  # weeks begin on Sunday
    date = _whole_date(found, year, weekday)
    if date is None:
        if is_whole:
            raise _Wrong
        date = dt.date(1970 if year is None else year, 1, 1)
        if "D" in found:
            date += dt.timedelta(days=found["D"] - 1)
        if weekday is not None:
            date += dt.timedelta(days=weekday - date.isoweekday())
        return date.replace(**{name: found[each] for each, name in (("M", "month"), ("d", "day")) if each in found})
    if weekday is not None and date.isoweekday() != weekday:
        raise _Wrong
    if found.get("Q", (date.month + 2) // 3) != (date.month + 2) // 3:
        raise _Wrong
    return date


def _simple_date(found: dict[str, int], short_year: str, today: dt.date) -> int | None:
    """Return the days of a date without a time of day. Args: the letter of a year of two digits, if there is one."""
    if _time_of_day(found):
        return None
    date = _lenient_date(found)
    if short_year:
        start = dt.date(today.year - _YEARS_BACK, today.month, min(today.day, 28))
        century = start.year // 100 * 100 + found[short_year] % 100
        dates = (_lenient_date({**found, short_year: century + more}) for more in (0, 100))
        date = next(each for each in dates if each >= start)
    return (date - _EPOCH.date()).days


def _lenient_date(found: dict[str, int]) -> dt.date:
    """Return the date as java.util.Calendar has it: the 32nd day of a month is the first of the next."""
    year = found.get("y", 1970)
    year = 1 - year if found.get("G") == 0 else year
    if "Y" in found and "w" in found:
        return _in_week(dt.date(found["Y"], 1, 1), found["w"], found.get("E", words.SUNDAY))
    if "D" in found and "d" not in found:
        return dt.date(year, 1, 1) + dt.timedelta(days=found["D"] - 1)
    months = year * 12 + found.get("M", 1) - 1
    first = dt.date(months // 12, months % 12 + 1, 1)
    if "d" not in found and "E" in found:  # the first such day of the month
        return first + dt.timedelta(days=(found["E"] - first.isoweekday()) % 7)
    return first + dt.timedelta(days=found.get("d", 1) - 1)


def _whole_date(found: dict[str, int], year: int | None, weekday: int | None) -> dt.date | None:
    """Return the date that the fields name; None if they are not enough."""
    if year is not None and "M" in found and "d" in found:  # 31 February is its last day, as Java resolves it
        return dt.date(year, found["M"], min(found["d"], calendar.monthrange(year, found["M"])[1]))
    if year is not None and "D" in found:
        date = dt.date(year, 1, 1) + dt.timedelta(days=found["D"] - 1)
        if date.year != year:
            raise _Wrong
        return date
    if weekday is None:
        return None
    if "Y" in found and "w" in found:
        return _in_week(dt.date(found["Y"], 1, 1), found["w"], weekday)
    if year is not None and "M" in found and "W" in found:
        return _in_week(dt.date(year, found["M"], 1), found["W"], weekday)
    return None


def _in_week(start: dt.date, week: int, weekday: int) -> dt.date:
    """Return a day of a week, whose number is 1 for the one that has `start`; weeks begin on Sunday."""
    first = start - dt.timedelta(days=words.day_of_week(start) - 1)
    return first + dt.timedelta(days=7 * (week - 1) + weekday % 7)
