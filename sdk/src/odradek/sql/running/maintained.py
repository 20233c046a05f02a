"""Results that are computed again when an input changes, and compared with what was written: retractions.

    inputs ──changed──> the tables as they are now ──plan.sql──> records of the result
                                                                     │ compared by key with those written before
                                    sink <── new, changed, and tombstones of those that are gone

A table is a topic, so there is no other state: the inputs are the latest record of each key, and what was written
before is the latest record of each key of the sink's topic. Spark keeps both between micro-batches; a restart reads the
topics. A micro-batch that is repeated after a crash may see newer tables: its result is that of those. The sink drops
it if the first run was committed, so what it had in addition is written by the next one: both compare with the topic.
Of session windows, the rows of open sessions are kept.

docs/decisions/0043 says why, and what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from odradek.sql.plan import Maintained
from odradek.sql.running.sessions import placed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from odradek.spark.jobs.latest import LatestTable

CHANGED = "is_changed"
_PLACED = "__placed"
_BOUND_BYTES = 8


def compared(before: DataFrame, now: DataFrame, at: Column, closed: Column | None = None) -> DataFrame:
    """Compare a table as it was written with the one that it is now.

    Args:
        before, now: key, value, timestamp; a key is there once. `now` may have headers.
        at: the time of what changed: of tombstones, and of rows that changed though they have nothing newer than what
            was written, such as the count of a group that lost a row.
        closed: of session windows, a condition on a key that is gone: it needs no tombstone.

    Returns:
        Each key of both with what it has now: key, value (NULL: gone), timestamp, the headers that `now` may have, and
        whether that must be written.
    """
    old = before.select(F.col("key").alias("k"), F.col("value").alias("v"), F.col("timestamp").alias("t"))
    both = now.join(old, now["key"] == old["k"], "full_outer")
    gone, new = F.col("key").isNull(), F.col("k").isNull()
    is_changed = gone | new | ~F.col("value").eqNullSafe(F.col("v"))
    # As in Kafka Streams, the tombstone of a session that became part of another one has the time of its end.
    time = (
        F.when(gone, at if closed is None else F.timestamp_millis(session_end(F.col("k"))))
        .when(new, F.col("timestamp"))
        .when(~is_changed, F.col("t"))
    )
    if closed is None:
        time = time.when(F.col("timestamp") <= F.col("t"), F.greatest("t", at))
    return both.select(
        F.coalesce("key", "k").alias("key"),
        F.col("value"),
        time.otherwise(F.col("timestamp")).alias("timestamp"),
        *(F.col(each) for each in now.columns if each == "headers"),
        (is_changed if closed is None else is_changed & ~(gone & closed)).alias(CHANGED),
    )


def without(before: DataFrame, now: DataFrame) -> DataFrame:
    """Return the records of a table whose keys another one has not."""
    return before.join(now.select("key"), "key", "left_anti")


class Written:
    """What the topic of a result has, between micro-batches.

    The first one of a run may be a repetition, whose records the sink drops: the topic is asked again after it.
    """

    def __init__(self, topic: LatestTable) -> None:
        self._topic: LatestTable | None = topic
        self._rows: DataFrame | None = None

    def rows(self) -> DataFrame:
        """Return key, value, timestamp."""
        if self._topic is not None:
            return self._topic.now().select("key", "value", "timestamp")
        assert self._rows is not None
        return self._rows

    def wrote(self, rows: DataFrame) -> None:
        """Take rows as those that are there."""
        if self._rows is not None:
            self._topic = None
        self._rows = rows


def session_end(key: Column) -> Column:
    """Return the end, ms, of the session in a key: the last 16 bytes are end and start."""
    digits = F.hex(F.substring(key, F.length(key) - F.lit(2 * _BOUND_BYTES - 1), F.lit(_BOUND_BYTES)))
    return F.conv(digits, 16, -10).cast("long")


class OpenSessions:
    """The rows of one stream that may still belong to an open session."""

    def __init__(self, plan: Maintained) -> None:
        self._plan = plan
        self._rows: DataFrame | None = None
        self._newest: DataFrame | None = None  # stream time by partition

    @property
    def late_ms(self) -> int:
        """How long after its last record a session can still change."""
        return self._plan.session_ms + self._plan.grace_ms

    def add(self, fresh: DataFrame) -> DataFrame:
        """Return all rows kept with those that arrived, the stream time at each, and __placed; late ones are dropped.

        Args:
            fresh: columns of the input, with __time, __partition and __offset.
        """
        ms = F.unix_millis("__time")
        order = Window.partitionBy("__partition").orderBy("__offset")
        rows = fresh.withColumn("__stream_ms", F.max(ms).over(order))
        if self._newest is not None:
            rows = rows.join(F.broadcast(self._newest), "__partition", "left")
            rows = rows.withColumn("__stream_ms", F.greatest("__stream_ms", "__known")).drop("__known")
        rows = rows.select(*fresh.columns, "__stream_ms")
        newest = rows.groupBy("__partition").agg(F.max("__stream_ms").alias("__known"))
        if self._newest is not None:
            newest = newest.unionByName(self._newest).groupBy("__partition").agg(F.max("__known").alias("__known"))
        self._newest = newest.localCheckpoint(eager=True)
        self._rows = self._placed(rows if self._rows is None else self._rows.drop(_PLACED).unionByName(rows))
        return self._rows

    def _placed(self, rows: DataFrame) -> DataFrame:
        """Return rows without late ones; those of a group that did not come in the order of their times know their
        session."""
        ms = F.unix_millis("__time")
        order = Window.partitionBy("__group").orderBy("__offset", "__partition")
        before = F.max(ms).over(order.rowsBetween(Window.unboundedPreceding, -1))
        rows.createOrReplaceTempView("arrived")
        found = rows.sparkSession.sql(self._plan.grouped).withColumn("__is_back", F.coalesce(before > ms, F.lit(False)))
        found = found.withColumn("__is_back", F.max("__is_back").over(Window.partitionBy("__group")))
        found = found.localCheckpoint(eager=True)
        on_time = found.where(~F.col("__is_back") & (ms + self.late_ms >= F.col("__stream_ms")))
        on_time = on_time.withColumn(_PLACED, F.lit(None).cast("long"))
        back = found.where("__is_back")
        if not back.isEmpty():
            gap_ms, grace_ms = self._plan.session_ms, self._plan.grace_ms
            bare = back.select("__group", "__partition", "__offset", ms.alias("ms"), "__stream_ms")
            # A lambda: of a partial, PySpark 4.1 cannot read the type hints, and fails.
            places = bare.groupBy("__group").applyInArrow(
                lambda group: _place(gap_ms, grace_ms, group), f"__partition int, __offset long, {_PLACED} long"
            )
            on_time = on_time.unionByName(back.join(places, ["__partition", "__offset"]))
        return on_time.drop("__group", "__is_back")

    def stream_time(self) -> int:
        """Return the smallest stream time of the partitions; 0 without rows."""
        assert self._newest is not None
        [row] = self._newest.agg(F.min("__known").alias("t")).collect()
        return row["t"] or 0

    def prune(self, open_keys: Callable[[DataFrame, int], DataFrame]) -> None:
        """Keep the rows that `open_keys`, given all and the time before which sessions are closed, returns."""
        assert self._rows is not None
        kept = open_keys(self._rows, self.stream_time() - self.late_ms).select(*self._rows.columns)
        self._rows = kept.localCheckpoint(eager=True)


def _place(gap_ms: int, grace_ms: int, rows: pa.Table) -> pa.Table:
    """Return partition, offset and session of the rows of a group, without late ones."""
    rows = rows.sort_by([("__offset", "ascending"), ("__partition", "ascending")])
    times = zip(rows["ms"].to_pylist(), rows["__stream_ms"].to_pylist(), strict=True)
    places = pa.array(placed(times, gap_ms, grace_ms), pa.int64())
    found = rows.select(["__partition", "__offset"]).append_column(_PLACED, places)
    return found.filter(places.is_valid())


def one_frame(streams: Sequence[DataFrame]) -> DataFrame:
    """Return the records of all inputs as one stream."""
    first, *others = [each.select("key", "value", "timestamp", "partition", "offset") for each in streams]
    for each in others:
        first = first.unionByName(each)
    return first
