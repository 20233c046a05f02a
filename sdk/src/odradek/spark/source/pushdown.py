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

    def has(self, tp: TopicPartition) -> bool:
        """Return True if any part of a partition is read."""
        return (self.topics is None or tp.topic in self.topics) and (
            self.partitions is None or tp.partition in self.partitions
        )

    def bounds(self, first: int, end: int) -> tuple[int, int]:
        """Return the part of [first, end) that is read; it may be empty."""
        first = max(first, self.first_offset)
        return first, max(first, end if self.end_offset is None else min(end, self.end_offset))


def narrow(filters: Iterable[Any]) -> Narrowing:
    """Return the narrowing that all filters together allow."""
    narrowing = Narrowing()
    for condition in filters:
        column, filter_name = getattr(condition, "attribute", None), type(condition).__name__
        if column is None or len(column) != 1 or not hasattr(condition, "value"):
            continue
        narrowing = _narrowed(narrowing, column[0], filter_name, condition.value)
    return narrowing


def _narrowed(narrowing: Narrowing, column: str, filter_name: str, value: Any) -> Narrowing:
    if filter_name in ("EqualTo", "EqualNullSafe") and value is not None:
        filter_name, value = ("Equal", value)
    if column in ("topic", "partition") and filter_name in ("Equal", "In"):
        values = frozenset(value if filter_name == "In" else [value])
        if column == "topic":
            return replace(narrowing, topics=values if narrowing.topics is None else narrowing.topics & values)
        return replace(narrowing, partitions=values if narrowing.partitions is None else narrowing.partitions & values)
    if column == "offset" and isinstance(value, int):
        low = {"Equal": value, "GreaterThan": value + 1, "GreaterThanOrEqual": value}.get(filter_name)
        end = {"Equal": value + 1, "LessThan": value, "LessThanOrEqual": value + 1}.get(filter_name)
        if low is not None:
            narrowing = replace(narrowing, first_offset=max(narrowing.first_offset, low))
        if end is not None:
            narrowing = replace(
                narrowing, end_offset=end if narrowing.end_offset is None else min(narrowing.end_offset, end)
            )
    is_from = column == "timestamp" and filter_name in ("Equal", "GreaterThan", "GreaterThanOrEqual")
    if is_from and isinstance(value, datetime) and value.tzinfo is not None:
        at = (value - _EPOCH) // _MS  # rounded down: it may include more
        narrowing = replace(
            narrowing, timestamp_ms=at if narrowing.timestamp_ms is None else max(narrowing.timestamp_ms, at)
        )
    return narrowing
