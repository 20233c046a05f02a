"""The filters of a batch that narrow the offsets to read. Pure; knows PySpark's filters only by their names.

    topic = | IN, partition = | IN     other partitions are not read
    offset = | > | >= | < | <=         other offsets are not read
    timestamp = | > | >=               nothing before the first offset with at least this timestamp is read

Timestamps may decrease with offsets, so an upper bound narrows nothing. Spark applies all filters again, so it suffices
here never to leave out rows that they keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from odradek.model.topic_partition import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class Condition(NamedTuple):
    """A comparison of a column with a value that every wanted record fulfils."""

    column: str
    sign: str  # == | >= | <= | > | <
    value: Any

    def may_hold(self, least: Any, greatest: Any) -> bool:
        """Return True unless no value from `least` to `greatest`, both inclusive, fulfils it."""
        try:
            return bool(
                {
                    "==": least <= self.value <= greatest,
                    ">=": greatest >= self.value,
                    "<=": least <= self.value,
                    ">": greatest > self.value,
                    "<": least < self.value,
                }[self.sign]
            )
        except TypeError:  # of another type than the column's
            return True


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The part of the topics to read."""

    topics: frozenset[str] | None = None  # None: all
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int | None = None  # exclusive; None: no bound
    timestamp_ms: int | None = None  # from the first offset with at least this timestamp

    def has(self, place: TopicPartition) -> bool:
        """Return True if any part of a partition is read."""
        return (self.topics is None or place.topic in self.topics) and (
            self.partitions is None or place.partition in self.partitions
        )

    def bounds(self, first: int, end: int) -> tuple[int, int]:
        """Return the part of [first, end) that is read; it may be empty."""
        first = max(first, self.first_offset)
        return first, max(first, end if self.end_offset is None else min(end, self.end_offset))


def narrow(filters: Iterable[Any]) -> Narrowing:
    """Return the narrowing that all filters together allow."""
    found = Narrowing()
    for each in filters:
        column, kind = getattr(each, "attribute", None), type(each).__name__
        if column is None or len(column) != 1 or not hasattr(each, "value"):
            continue
        found = _narrowed(found, column[0], kind, each.value)
    return found


def _narrowed(found: Narrowing, column: str, kind: str, value: Any) -> Narrowing:
    if kind in ("EqualTo", "EqualNullSafe") and value is not None:
        kind, value = ("Equal", value)
    if column in ("topic", "partition") and kind in ("Equal", "In"):
        values = frozenset(value if kind == "In" else [value])
        if column == "topic":
            return replace(found, topics=values if found.topics is None else found.topics & values)
        return replace(found, partitions=values if found.partitions is None else found.partitions & values)
    if column == "offset" and isinstance(value, int):
        low = {"Equal": value, "GreaterThan": value + 1, "GreaterThanOrEqual": value}.get(kind)
        end = {"Equal": value + 1, "LessThan": value, "LessThanOrEqual": value + 1}.get(kind)
        if low is not None:
            found = replace(found, first_offset=max(found.first_offset, low))
        if end is not None:
            found = replace(found, end_offset=end if found.end_offset is None else min(found.end_offset, end))
    is_from = column == "timestamp" and kind in ("Equal", "GreaterThan", "GreaterThanOrEqual")
    if is_from and isinstance(value, datetime) and value.tzinfo is not None:
        at = (value - _EPOCH) // _MS  # rounded down: it may include more
        found = replace(found, timestamp_ms=at if found.timestamp_ms is None else max(found.timestamp_ms, at))
    return found
