"""Groups a user's events into sessions. DataFrame in, DataFrame out, no I/O.

A session is a run of a user's events without a pause longer than `gap`, as in Kafka Streams. Its end is the time of its
last event, its duration the time from the first to the last: a single event is a session of 0 seconds.
"""

from __future__ import annotations

from odradek.spark.jobs.values import EVENT_TIME, iso, json_of, key_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PATH_MAX = 100


def user_sessions(events: DataFrame, *, user: str, page: str, gap: str, watermark: str) -> DataFrame:
    """Return one row per session: user, started, ended, duration_s, events, pages, first_page, last_page, path.

    Args:
        user, page: fields of the events; events without a user are dropped.
        gap: such as "30 minutes".
        watermark: the largest lateness of an event relative to the newest.
    """
    visit = F.struct(F.col(EVENT_TIME).alias("at"), F.col(page).cast("string").alias("page"))
    sessions = (
        events.where(F.col(user).isNotNull())
        .withWatermark(EVENT_TIME, watermark)
        .groupBy(F.session_window(EVENT_TIME, gap).alias("session"), F.col(user).cast("string").alias("user"))
        .agg(F.count(F.lit(1)).alias("events"), F.array_sort(F.collect_list(visit)).alias("visits"))
    )
    first, last = F.col("visits").getItem(0), F.element_at("visits", -1)
    return sessions.select(
        "user",
        first.getField("at").alias("started"),
        last.getField("at").alias("ended"),
        ((F.unix_millis(last.getField("at")) - F.unix_millis(first.getField("at"))) / 1000).alias("duration_s"),
        "events",
        F.size(F.array_distinct(F.col("visits.page"))).cast("long").alias("pages"),
        first.getField("page").alias("first_page"),
        last.getField("page").alias("last_page"),
        F.slice(F.col("visits.page"), 1, PATH_MAX).alias("path"),
    )


def as_records(sessions: DataFrame) -> DataFrame:
    """Return sessions as records: key `user|start`, JSON value, the session's end as timestamp."""
    return sessions.select(
        key_of(["user", iso("started")]).alias("key"),
        json_of(sessions.columns).alias("value"),
        F.col("ended").alias("timestamp"),
    )
