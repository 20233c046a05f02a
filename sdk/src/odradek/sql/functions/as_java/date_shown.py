"""Dates and times as text by a pattern of Java's DateTimeFormatter, locale en_US.

A pattern that a value has no field for is an error in Java: None here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from zoneinfo import ZoneInfo

from odradek.sql.functions.as_java import date_words as words
from odradek.sql.functions.as_java.date_patterns import DATES, TIMES, ZONES, Part, WrongPattern, is_text, parts_of

_LETTERS = {"DATE": DATES, "TIME": TIMES, "TIMESTAMP": DATES + TIMES + ZONES}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OFFSETS = {  # minutes and seconds: needed (:MM), if they are not zero (:ss), or never
    "X": ("", "+HHmm", "+HHMM", "+HH:MM", "+HHMMss", "+HH:MM:ss"),
    "Z": ("", "+HHMM", "+HHMM", "+HHMM", "", "+HH:MM:ss"),
}  # fmt: skip


class _Absent(Exception):
    """The value has no such field, or it cannot be shown."""


def show_time(kind: str | None, value: int | None, pattern: str | None, zone: str | None) -> str | None:
    """Return a value as text; None if it cannot be shown.

    Args:
        kind: DATE, TIME or TIMESTAMP.
        value: days, ms of the day, or microseconds since the epoch.
        zone: of a TIMESTAMP: a name or an offset, as Java's ZoneId has it.
    """
    if kind is None or value is None or pattern is None or zone is None:
        return None
    try:
        return _Shown(kind, value, zone).text(parts_of(pattern))
    except (_Absent, WrongPattern, ValueError, OverflowError, KeyError, OSError):
        return None


def zone_of(name: str) -> dt.tzinfo:
    """Return the zone of a name of Java's ZoneId that is one (functions/times.py). Raises KeyError, ValueError."""
    bare = name.removeprefix("UTC").removeprefix("GMT").removeprefix("UT")
    if bare in ("", "Z"):
        return dt.UTC
    if bare[0] in "+-" and len(bare) > 1:
        digits = bare[1:].replace(":", "")
        digits = digits if len(digits) % 2 == 0 else f"0{digits}"
        hours, minutes, seconds = (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
        length = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return dt.timezone(-length if bare[0] == "-" else length)
    return ZoneInfo(name)


class _Shown:
    def __init__(self, kind: str, value: int, zone: str) -> None:
        self._letters = _LETTERS[kind]
        self._zone = zone
        micros = value * {"DATE": 86_400_000_000, "TIME": 1_000}.get(kind, 1)
        at = _EPOCH + dt.timedelta(microseconds=micros)
        self._at = at.astimezone(zone_of(zone)) if kind == "TIMESTAMP" else at

    def text(self, parts: tuple[Part, ...]) -> str:
        return "".join(map(self._part, parts))

    def _part(self, part: Part) -> str:
        if part.optional is not None:
            try:
                return self.text(part.optional)
            except _Absent:
                return ""
        if not part.letter:
            return part.text
        if part.letter not in self._letters:
            raise _Absent
        found = self._word(part) if is_text(part) else _FIELDS[part.letter](self, part.count)
        if part.width and len(found) > part.width:
            raise WrongPattern
        return found.rjust(part.width)

    def _word(self, part: Part) -> str:
        at, count = self._at, part.count
        if part.letter in "ML":
            return words.month(at.month, count)
        if part.letter in "Qq":
            return words.quarter((at.month + 2) // 3, count)
        if part.letter == "G":
            return words.ERAS[max(count, 3)][1]
        return words.day(at.isoweekday(), max(count, 3))

    def year(self, count: int) -> str:
        return _year(self._at.year, count)

    def week_year(self, count: int) -> str:
        return _year(words.week_year(self._at.date())[0], count)

    def week(self, count: int) -> str:
        return _digits(words.week_year(self._at.date())[1], count)

    def week_of_month(self, count: int) -> str:
        date = self._at.date()
        return _digits(words.week_of(date, date.replace(day=1)), count)

    def day_of_week(self, count: int) -> str:
        return _digits(words.day_of_week(self._at.date()), count)

    def quarter(self, count: int) -> str:
        return _digits((self._at.month + 2) // 3, count)

    def offset(self, letter: str, count: int) -> str:
        seconds = int((self._at.utcoffset() or dt.timedelta()).total_seconds())
        if letter == "O" or (letter == "Z" and count == 4):
            return _localized(seconds, is_long=count == 4)
        if seconds == 0:
            if letter == "X" or (count == 5 and letter == "Z"):
                return "Z"
            if letter == "x":
                return "+00" if count == 1 else "+0000" if count % 2 == 0 else "+00:00"
            return "+0000"
        return _offset(seconds, _OFFSETS["Z" if letter == "Z" else "X"][count])

    def zone_name(self, letter: str, count: int) -> str:
        if letter == "V":
            return self._zone
        if self._zone in ("UTC", "GMT"):
            names = {"UTC": "Coordinated Universal Time", "GMT": "Greenwich Mean Time"}
            return names[self._zone] if count == 4 else self._zone
        if isinstance(self._at.tzinfo, dt.timezone):
            return self._zone
        if count == 4 or letter == "v":
            raise WrongPattern  # names of zones in words are not known here
        return self._at.tzname() or self._zone

    @property
    def at(self) -> dt.datetime:
        return self._at

    def nano_of_day(self) -> int:
        at = self._at
        return (((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond) * 1_000


def _digits(value: int, count: int) -> str:
    if len(str(value)) > max(count, 1) and count == 2:
        raise _Absent
    return str(value).rjust(count, "0")


def _year(year: int, count: int) -> str:
    if count == 2:
        return f"{year % 100:02}"
    text = str(year).rjust(count, "0")
    return f"+{text}" if count >= 4 and len(text) > count else text


def _localized(seconds: int, *, is_long: bool) -> str:
    if seconds == 0:
        return "GMT"
    sign, rest = ("-" if seconds < 0 else "+"), abs(seconds)
    hours, minutes, seconds = rest // 3600, rest // 60 % 60, rest % 60
    text = (
        f"GMT{sign}{hours:02}:{minutes:02}"
        if is_long
        else f"GMT{sign}{hours}{f':{minutes:02}' if minutes or seconds else ''}"
    )
    return text + (f":{seconds:02}" if seconds else "")


def _offset(seconds: int, form: str) -> str:
    sign, rest = ("-" if seconds < 0 else "+"), abs(seconds)
    colon = ":" if ":" in form else ""
    text = f"{sign}{rest // 3600:02}"
    minutes, seconds = rest // 60 % 60, rest % 60
    if "MM" in form or minutes or (seconds and "ss" in form):
        text += f"{colon}{minutes:02}"
    return text + (f"{colon}{seconds:02}" if "ss" in form and seconds else "")


_FIELDS: dict[str, Callable[[_Shown, int], str]] = {
    "u": _Shown.year, "y": _Shown.year, "Y": _Shown.week_year, "w": _Shown.week, "W": _Shown.week_of_month,
    "e": _Shown.day_of_week, "c": _Shown.day_of_week, "Q": _Shown.quarter, "q": _Shown.quarter,
    "M": lambda shown, count: _digits(shown.at.month, count), "L": lambda shown, count: _digits(shown.at.month, count),
    "d": lambda shown, count: _digits(shown.at.day, count),
    "D": lambda shown, count: str(shown.at.timetuple().tm_yday).rjust(count, "0"),
    "F": lambda shown, count: _digits((shown.at.day - 1) % 7 + 1, count),
    "a": lambda shown, _: "AM" if shown.at.hour < 12 else "PM",
    "B": lambda shown, count: words.period(shown.at.hour, shown.at.minute, count),
    "h": lambda shown, count: _digits((shown.at.hour + 11) % 12 + 1, count),
    "K": lambda shown, count: _digits(shown.at.hour % 12, count),
    "k": lambda shown, count: _digits((shown.at.hour + 23) % 24 + 1, count),
    "H": lambda shown, count: _digits(shown.at.hour, count),
    "m": lambda shown, count: _digits(shown.at.minute, count),
    "s": lambda shown, count: _digits(shown.at.second, count),
    "S": lambda shown, count: f"{shown.at.microsecond * 1000:09}"[:count],
    "A": lambda shown, count: str(shown.nano_of_day() // 1_000_000).rjust(count, "0"),
    "n": lambda shown, count: str(shown.at.microsecond * 1000).rjust(count, "0"),
    "N": lambda shown, count: str(shown.nano_of_day()).rjust(count, "0"),
    **{each: lambda shown, count, letter=each: shown.zone_name(letter, count) for each in "Vvz"},  # type: ignore[misc]
    **{each: lambda shown, count, letter=each: shown.offset(letter, count) for each in "OXxZ"},  # type: ignore[misc]
}  # fmt: skip
