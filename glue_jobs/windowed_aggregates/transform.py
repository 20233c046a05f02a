"""Aggregates over windows of event time, per group. DataFrame in, DataFrame out: batch and streaming alike, no I/O.

    events ── window ── group ── aggregate ──> one row per (group, window)

Windows contain an event by its time: tumbling [0 h, 1 h), [1 h, 2 h) ...; sliding ones of the same size every
`advance`, so that an event is in several; a session lasts from a group's first event to `gap` after its last. All are
counted from 1970-01-01T00:00:00Z.

Aggregates are written `name = function(field, ...)`:

    count()                   events                     count(f)                     events with a value of f
    sum(f) mean(f) min(f) max(f)                         approximate_distinct(f)      within 5 % (HyperLogLog++)
    percentile(f, 0.95)       nearest rank; exact up to 10,000 values a window, within 1/10,000 of the rank beyond
    top(f, n, g, ...)         the n largest f with their g: [{"f": .., "g": ..}]; ties by g, so that a replay agrees.
                              The state of a window contains all its values of f
    most_frequent(f, n)       the n most frequent f with their counts, approximate beyond 10,000 different ones
    earliest(f) latest(f)     by event time
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.jobs.arguments import split_list
from odradek.spark.jobs.durations import duration_us
from odradek.spark.jobs.late import WATERMARK
from odradek.spark.jobs.values import EVENT_TIME, iso, json_of, key_of
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

WINDOW = "window"
_PERCENTILE_ACCURACY = 10_000
_FORM = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The windows; durations in Spark's notation."""

    kind: str = "tumbling"  # tumbling, sliding or session
    size: str = "1 hour"
    advance: str = ""  # sliding only
    gap: str = ""  # session only

    def __post_init__(self) -> None:
        """Check the values. Raises KafkaError(INVALID_CONFIG)."""
        if self.kind not in {"tumbling", "sliding", "session"}:
            raise _refused(f"--window must be tumbling, sliding or session, not {self.kind!r}")
        if self.kind == "session":
            duration_us(self.gap, name="--gap")
            return
        size = duration_us(self.size, name="--size")
        if self.kind == "sliding" and duration_us(self.advance, name="--advance") > size:
            raise _refused("--advance must not be longer than --size: events between two windows would be lost")

    def column(self) -> Column:
        """Return the window of an event."""
        if self.kind == "session":
            return F.session_window(EVENT_TIME, self.gap)
        return F.window(EVENT_TIME, self.size, self.advance if self.kind == "sliding" else None)

    def missed(self, watermark: str | Column = WATERMARK) -> Column:
        """Return the starts of an event's windows that a watermark has closed; empty if the event is in time."""
        closed_us = F.unix_micros(F.col(watermark) if isinstance(watermark, str) else watermark)
        time_us = F.unix_micros(EVENT_TIME)
        if self.kind == "session":
            gap_us = duration_us(self.gap, name="--gap")
            missed = F.when(time_us + F.lit(gap_us) <= closed_us, F.array(F.col(EVENT_TIME)))
            return F.coalesce(missed, F.array().cast("array<timestamp>"))
        size_us = duration_us(self.size, name="--size")
        advance_us = duration_us(self.advance, name="--advance") if self.kind == "sliding" else size_us
        newest_us = time_us - F.pmod(time_us, F.lit(advance_us))
        count = F.floor((time_us - F.lit(1) - (newest_us - F.lit(size_us))) / F.lit(advance_us)) + 1
        steps = F.sequence(F.lit(0).cast("long"), count.cast("long") - 1)
        starts = F.transform(steps, lambda i: newest_us - i * F.lit(advance_us))
        starts = F.filter(starts, lambda start: (start + F.lit(size_us) > time_us) & (start + size_us <= closed_us))
        return F.coalesce(F.transform(starts, F.timestamp_micros), F.array().cast("array<timestamp>"))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of the result."""

    name: str
    function: str
    arguments: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it reads."""
        if self.function == "top":
            return (self.arguments[0], *self.arguments[2:])
        return self.arguments[:1]

    def column(self) -> Column:
        """Return the aggregate as a named column."""
        return _FUNCTIONS[self.function][1](self.arguments).alias(self.name)


def parse_aggregate(text: str) -> Aggregate:
    """Parse `p95 = percentile(dep_delay, 0.95)`. Raises KafkaError(INVALID_CONFIG)."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise _refused(f"an aggregate must have the form name = function(field), not {text!r}")
    name, function, arguments = form[1], form[2].lower(), tuple(split_list(form[3]))
    if function not in _FUNCTIONS:
        raise _refused(f"unknown aggregate {function}: use {', '.join(_FUNCTIONS)}")
    wanted = _FUNCTIONS[function][0]
    if not wanted.fullmatch(",".join(arguments)):
        raise _refused(f"{text.strip()!r}: {_USAGE.get(function, f'write {function}(field)')}")
    return Aggregate(name, function, arguments)


def windowed(
    events: DataFrame, window: WindowSpec, group_by: Sequence[str], aggregates: Sequence[Aggregate], *, watermark: str
) -> DataFrame:
    """Return one row per (group, window): the group's columns, window_start, window_end, the aggregates.

    Args:
        events: a column event_time, and the columns to group by and aggregate.
        watermark: the largest lateness of an event relative to the newest, such as "10 minutes".
    """
    grouped = events.withWatermark(EVENT_TIME, watermark).groupBy(window.column().alias(WINDOW), *group_by)
    return grouped.agg(*(aggregate.column() for aggregate in aggregates)).select(
        *group_by,
        F.col(f"{WINDOW}.start").alias("window_start"),
        F.col(f"{WINDOW}.end").alias("window_end"),
        *(aggregate.name for aggregate in aggregates),
    )


def as_records(windows: DataFrame, group_by: Sequence[str]) -> DataFrame:
    """Return windows as records of a compacted topic: key `group|...|window start`, JSON value, the window's end."""
    return windows.select(
        key_of([*group_by, iso("window_start")]).alias("key"),
        json_of(windows.columns).alias("value"),
        F.col("window_end").alias("timestamp"),
    )


def _percentile(arguments: Sequence[str]) -> Column:
    return F.percentile_approx(arguments[0], float(arguments[1]), _PERCENTILE_ACCURACY)


def _top(arguments: Sequence[str]) -> Column:
    field, count, *others = arguments
    row = F.struct(field, *others)
    rows = F.collect_list(F.when(F.col(field).isNotNull(), row))
    return F.slice(F.sort_array(rows, asc=False), 1, int(count))


def _most_frequent(arguments: Sequence[str]) -> Column:
    return F.expr(f"approx_top_k(`{arguments[0]}`, {int(arguments[1])})")


_FIELD, _FIELD_AND_COUNT = re.compile(r"\w+"), re.compile(r"\w+,[1-9]\d{0,3}")
_FUNCTIONS: dict[str, tuple[re.Pattern[str], Callable[[Sequence[str]], Column]]] = {
    "count": (re.compile(r"\w*"), lambda fields: F.count(fields[0]) if fields else F.count(F.lit(1))),
    "sum": (_FIELD, lambda fields: F.sum(fields[0])),
    "mean": (_FIELD, lambda fields: F.mean(fields[0])),
    "min": (_FIELD, lambda fields: F.min(fields[0])),
    "max": (_FIELD, lambda fields: F.max(fields[0])),
    "approximate_distinct": (_FIELD, lambda fields: F.approx_count_distinct(fields[0])),
    "percentile": (re.compile(r"\w+,(0?\.\d+|0|1|1\.0+)"), _percentile),
    "top": (re.compile(r"\w+,[1-9]\d{0,3}(,\w+)*"), _top),
    "most_frequent": (_FIELD_AND_COUNT, _most_frequent),
    "earliest": (_FIELD, lambda fields: F.min_by(fields[0], EVENT_TIME)),
    "latest": (_FIELD, lambda fields: F.max_by(fields[0], EVENT_TIME)),
}
_USAGE = {
    "percentile": "write percentile(field, 0.95), from 0 to 1",
    "top": "write top(field, n, another_field, ...)",
    "most_frequent": "write most_frequent(field, n)",
    "count": "write count() or count(field)",
}


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
