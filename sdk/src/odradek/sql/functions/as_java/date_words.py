"""Words and weeks of dates in Java's locale en_US, where weeks begin on Sunday, for patterns of dates."""

from __future__ import annotations

import datetime as dt

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
ERAS = {3: ("BC", "AD"), 4: ("Before Christ", "Anno Domini"), 5: ("B", "A")}
_PERIODS = (  # with the first hour of each
    (0, "at night"), (6, "in the morning"), (12, "in the afternoon"), (18, "in the evening"), (21, "at night"),
)  # fmt: skip
SUNDAY = 7


def month(number: int, count: int) -> str:
    """Return the name of a month from 1. Args: the number of letters, from 3."""
    return _short(MONTHS[number - 1], count)


def day(number: int, count: int) -> str:
    """Return the name of a day of the week, Monday is 1. Args: the number of letters."""
    return _short(DAYS[number - 1], count)


def quarter(number: int, count: int) -> str:
    return {3: f"Q{number}", 4: QUARTERS[number - 1]}.get(count, str(number))


def period(hour: int, minute: int, count: int) -> str:
    """Return the part of the day: `in the morning`."""
    if minute == 0 and hour in (0, 12):
        narrow = ("mi", "n") if count == 5 else ("midnight", "noon")
        return narrow[hour // 12]
    return next(name for first, name in reversed(_PERIODS) if hour >= first)


def _short(name: str, count: int) -> str:
    return name if count == 4 else name[:1] if count == 5 else name[:3]


def day_of_week(date: dt.date) -> int:
    """Return the number of the day in its week: Sunday is 1."""
    return date.isoweekday() % 7 + 1


def week_of(date: dt.date, start: dt.date) -> int:
    """Return the number of a date's week since a date, whose own week is 1."""
    return ((date - start).days + day_of_week(start) - 1) // 7 + 1


def week_year(date: dt.date) -> tuple[int, int]:
    """Return the year and the number of a date's week; the first week of a year has its 1 January."""
    days_left = 7 - day_of_week(date)  # in its week
    if (date.month, date.day + days_left) >= (12, 32):
        return date.year + 1, 1
    return date.year, week_of(date, dt.date(date.year, 1, 1))
