"""Durations in Spark's notation ("90 seconds", "1 hour 30 minutes"), as numbers. Pure."""

from __future__ import annotations

import re

from odradek.errors import ErrorCode, KafkaError

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60 * 1_000_000,
    "hour": 3_600 * 1_000_000,
    "day": 86_400 * 1_000_000,
    "week": 7 * 86_400 * 1_000_000,
}
_PART = re.compile(r"(\d+)\s*([a-z]+?)s?(?:\s+|$)", re.IGNORECASE)


def duration_us(text: str, *, name: str) -> int:
    """Return the microseconds of a positive duration.

    Args:
        name: the argument's name, for the error.

    Raises KafkaError(INVALID_CONFIG).
    """
    text_left, total = text.strip(), 0
    while text_left:
        part = _PART.match(text_left)
        if part is None or part[2].lower() not in _MICROS:
            break
        total += int(part[1]) * _MICROS[part[2].lower()]
        text_left = text_left[part.end() :]
    if text_left or total <= 0:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{name} must be a duration such as '10 minutes' or '1 hour 30 minutes', not {text!r}",
        )
    return total
