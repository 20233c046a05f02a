"""Names of offsets: `earliest`, `latest`, a number, -N (N before the end), @TIME. Pure.

A time is in ms since the epoch, or in ISO 8601, in UTC unless it has a zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from odradek.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class Place:
    """An offset in each partition of a topic, by name."""

    kind: str  # earliest | latest | offset | from_end | time
    number: int = 0  # the offset, the records before the end, or ms since the epoch


def parse_place(text: str, option: str) -> Place:
    """Parse the name of an offset. Raises KafkaError(INVALID_CONFIG) that names the option."""
    if text in ("earliest", "beginning"):
        return Place("earliest")
    if text in ("latest", "end"):
        return Place("latest")
    if re.fullmatch(r"-?\d{1,19}", text):
        number = int(text)
        return Place("from_end", -number) if number < 0 else Place("offset", number)
    if text.startswith("@"):
        return Place("time", parse_time(text[1:], option))
    raise KafkaError(
        ErrorCode.INVALID_CONFIG, f"{option} must be earliest, latest, an offset, -N or @TIME, not {text!r}"
    )


def parse_time(text: str, option: str) -> int:
    """Return milliseconds since the epoch, given as a number or in ISO 8601. Raises KafkaError(INVALID_CONFIG)."""
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{option}: invalid time {text!r}: use ms since the epoch, or 2026-11-21T09:30:00"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def resolve(
    place: Place, begins: Mapping[Any, int], ends: Mapping[Any, int], at_time: Mapping[Any, int | None]
) -> dict[Any, int]:
    """Return the offset of a place in each partition, within the bounds of the log.

    Args:
        at_time: for a place by time: the first offset at or after it, None if there is none.
    """
    found = {}
    for partition, end in ends.items():
        if place.kind == "earliest":
            offset = begins[partition]
        elif place.kind == "latest":
            offset = end
        elif place.kind == "offset":
            offset = place.number
        elif place.kind == "from_end":
            offset = end - place.number
        else:
            by_time = at_time.get(partition)
            offset = end if by_time is None else by_time
        found[partition] = max(begins[partition], min(offset, end))
    return found
