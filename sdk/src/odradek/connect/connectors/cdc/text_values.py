"""Dates, times and durations from the text that databases send, for any year; and binary in the configured form."""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema

DAY_US = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
POSITIVE_INFINITY_US = 9_223_372_036_825_200_000  # what Debezium writes for the timestamp `infinity`
NEGATIVE_INFINITY_US = -9_223_372_036_832_400_000
_DATE = re.compile(r"(\d+)-(\d\d)-(\d\d)( BC)?")
_CLOCK = re.compile(r"(-?)(\d+):(\d\d)(?::(\d\d)(?:\.(\d+))?)?")
_ZONE = re.compile(r"([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?$")
_DURATION = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d+))?S)?)?"
)
_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")(?:, |$)', re.DOTALL)
_YEAR_DIGITS = 4
_DAYS_OF_MONTH = 365.25 / 12


@lru_cache(maxsize=4_096)  # rows of a table mostly have few dates
def days_of(text: str) -> int:
    """Return days since 1970-01-01 of a date such as 2024-02-29 or 0044-03-15 BC. Raises ValueError."""
    match = _DATE.match(text)
    if match is None:
        raise ValueError(f"not a date: {text!r}")
    year, month, day = (int(group) for group in match.group(1, 2, 3))
    if text.endswith(" BC"):
        year = 1 - year
    return _days(year, month, day)


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar, whose years begin in March here."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def clock_us(text: str) -> int:
    """Return microseconds of a time of day such as 23:59:59.5, or of a length of time with a sign."""
    match = _CLOCK.match(text)
    if match is None:
        raise ValueError(f"not a time: {text!r}")
    sign, hours, minutes, seconds, fraction = match.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    total = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)) * 1_000_000 + micros
    return -total if sign else total


def timestamp_us(text: str) -> int:
    """Return microseconds since 1970 of a timestamp without a zone."""
    try:
        since = dt.datetime.fromisoformat(text) - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    except (ValueError, TypeError):
        return _any_timestamp_us(text)


def _any_timestamp_us(text: str) -> int:
    """Do the same for what Python's datetime does not have: years BC and after 9999, infinity, and 24:00:00."""
    if text in ("infinity", "-infinity"):
        return POSITIVE_INFINITY_US if text == "infinity" else NEGATIVE_INFINITY_US
    date, _, clock = text.removesuffix(" BC").partition(" ")
    suffix = " BC" if text.endswith(" BC") else ""
    return days_of(date + suffix) * DAY_US + (clock_us(clock) if clock else 0)


def zoned_timestamp(text: str, digits: int) -> str:
    """Return a timestamp in UTC as ISO 8601: 2024-01-02T03:04:05.123456Z.

    Args:
        text: of the zone +00.
        digits: of the seconds' fraction.
    """
    if text in ("infinity", "-infinity"):
        return text
    is_bc = text.endswith(" BC")
    date, _, clock = text.removesuffix(" BC").partition(" ")
    clock, _, fraction = (clock[:-3] if clock.endswith("+00") else _ZONE.sub("", clock)).partition(".")
    if digits:
        clock = f"{clock}.{fraction.ljust(digits, '0')}"
    if is_bc:
        year, _, month_and_day = date.partition("-")
        date = f"-{int(year) - 1:04}-{month_and_day}"
    elif date.index("-") > _YEAR_DIGITS:
        date = f"+{date}"
    return f"{date}T{clock}Z"


def zoned_time(text: str) -> str:
    """Return a time of day in UTC as ISO 8601: 03:04:05.123456Z."""
    match = _ZONE.search(text)
    clock = _ZONE.sub("", text)
    shift_us = 0
    if match is not None:
        hours, minutes, seconds = (int(group or 0) for group in match.group(2, 3, 4))
        shift_us = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 * (1 if match[1] == "+" else -1)
    moment = (clock_us(clock) - shift_us) % DAY_US
    seconds, micros = divmod(moment, 1_000_000)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}Z"


def duration_us(text: str) -> int:
    """Return microseconds of an ISO 8601 duration; a month is a twelfth of 365.25 days, as Debezium counts."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    years, months, weeks, days, hours, minutes = (int(group or 0) for group in match.group(1, 2, 3, 4, 5, 6))
    seconds = int(match[8] or 0) * 1_000_000 + int((match[9] or "0").ljust(6, "0")[:6])
    whole_days = days + weeks * 7
    return (
        int((years * 12 + months) * _DAYS_OF_MONTH * DAY_US)
        + whole_days * DAY_US
        + (hours * 60 + minutes) * 60_000_000
        + (-seconds if match[7] else seconds)
    )


def interval(text: str) -> str:
    """Return an ISO 8601 duration as Debezium writes it, with all its parts: P1Y2M3DT4H5M6.78S."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    years, months, weeks, days, hours, minutes = (int(group or 0) for group in match.group(1, 2, 3, 4, 5, 6))
    sign, seconds, fraction = match[7] or "", match[8] or "0", (match[9] or "").rstrip("0")
    exact = f"{sign}{seconds}.{fraction}" if fraction else f"{sign}{seconds}"
    return f"P{years}Y{months}M{days + weeks * 7}DT{hours}H{minutes}M{exact}S"


def hstore(text: str) -> dict[str, str | None]:
    """Return the pairs of an hstore such as "a"=>"1", "b"=>NULL."""
    pairs = {match[1]: match[2] for match in _HSTORE.finditer(text)}
    return {_unescaped(key): None if value is None else _unescaped(value) for key, value in pairs.items()}


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def binary(mode: str) -> tuple[Schema, Callable[[bytes], Any]]:
    """Return the schema of binary columns, and the form of a value, as binary.handling.mode says."""
    if mode == "bytes":
        return schemas.BYTES, bytes
    forms: Mapping[str, Callable[[bytes], str]] = {
        "base64": lambda data: base64.b64encode(data).decode(),
        "base64-url-safe": lambda data: base64.urlsafe_b64encode(data).decode(),
        "hex": lambda data: data.hex(),
    }
    return schemas.STRING, forms[mode]
