"""Joins two streams on records with the same key and close in time. DataFrame in, DataFrame out, no I/O.

    left ──┐  same fields `on`, and
           ├  left time - before  <=  right time  <=  left time + after
    right ─┘

Every matching pair is a row: {on ..., "left": {...}, "right": {...}}, whose time is the later of the two, as in Kafka
Streams. Outer joins return a record without a partner once no partner can come any more, that is, after the watermark.
A record with a null key has no partner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.jobs.durations import duration_us
from odradek.spark.jobs.values import EVENT_TIME, RECORD_KEY, json_of, key_of
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

KINDS = {"inner": "inner", "left": "leftOuter", "right": "rightOuter", "full": "fullOuter"}


@dataclass(frozen=True, slots=True)
class Within:
    """The largest distance of partners; durations in Spark's notation."""

    before: str  # how long the right one may precede the left one
    after: str  # how long it may follow

    def __post_init__(self) -> None:
        """Check the durations. Raises KafkaError(INVALID_CONFIG)."""
        for name, text in (("--before", self.before), ("--after", self.after)):
            if text.strip() != "0 seconds":
                duration_us(text, name=name)

    def condition(self, left_time: str, right_time: str) -> Column:
        """Return a condition that is true for times that are close enough."""
        return F.expr(
            f"{right_time} >= {left_time} - INTERVAL {self.before} AND "
            f"{right_time} <= {left_time} + INTERVAL {self.after}"
        )


def join_within(
    left: DataFrame, right: DataFrame, on: Sequence[str], within: Within, *, join_type: str = "inner", watermark: str
) -> DataFrame:
    """Return pairs as rows: the fields `on`, `left` and `right` (structs, null without a partner), event_time.

    Args:
        left, right: events, with event_time and the fields `on`, of the same types.
        join_type: inner, left, right or full.
        watermark: the largest lateness of an event relative to the newest of its stream.

    Raises KafkaError(INVALID_CONFIG).
    """
    if join_type not in KINDS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--join must be one of {', '.join(KINDS)}, not {join_type!r}")
    if not on:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "--on must name at least one field")
    sides = [_side(left, "left", on, watermark), _side(right, "right", on, watermark)]
    same = [F.col(f"left_{name}") == F.col(f"right_{name}") for name in on]
    condition = within.condition("left_time", "right_time")
    for equality in same:
        condition = condition & equality
    joined = sides[0].join(sides[1], condition, KINDS[join_type])
    return joined.select(
        *(F.coalesce(f"left_{name}", f"right_{name}").alias(name) for name in on),
        "left",
        "right",
        F.greatest("left_time", "right_time").alias(EVENT_TIME),
    )


def _side(events: DataFrame, side: str, on: Sequence[str], watermark: str) -> DataFrame:
    fields = [name for name in events.columns if name not in (EVENT_TIME, RECORD_KEY)]
    return events.select(
        F.col(EVENT_TIME).alias(f"{side}_time"),
        *(F.col(name).alias(f"{side}_{name}") for name in on),
        F.struct(*fields).alias(side),
    ).withWatermark(f"{side}_time", watermark)


def as_records(pairs: DataFrame, on: Sequence[str]) -> DataFrame:
    """Return pairs as records, keyed by the fields `on`."""
    return pairs.select(
        key_of(on).alias("key"),
        json_of([*on, "left", "right"]).alias("value"),
        F.col(EVENT_TIME).alias("timestamp"),
    )
