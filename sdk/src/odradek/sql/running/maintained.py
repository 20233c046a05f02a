"""Results that are computed again when an input changes, and compared with what was written: retractions.

    inputs ──changed──> the tables as they are now ──plan.sql──> records of the result
                                                                     │ compared by key with those written before
                                    sink <── new, changed, and tombstones of those that are gone

A table is a topic, so there is no other state: the inputs are the latest record of each key, and what was written
before is the latest record of each key of the sink's topic. Spark keeps both between micro-batches; a restart reads the
topics. A micro-batch that is repeated after a crash may see newer tables: its result is that of those, and what it
misses the next one writes. Of session windows, the rows of open sessions are kept.

docs/decisions/0043 says why, and what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from odradek.sql.plan import Maintained

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BOUND_BYTES = 8


def changes(before: DataFrame, now: DataFrame, at: Column, closed: Column | None = None) -> DataFrame:
    """Return the records that turn one table into another: key, value, timestamp.

    Args:
        before, now: key and value, and of `now` the timestamp; a key is there once.
        at: the timestamp of tombstones.
        closed: a condition on a key that is gone: it needs no tombstone.
    """
    old = before.select(F.col("key").alias("k"), F.col("value").alias("v"))
    both = now.join(old, now["key"] == old["k"], "full_outer")
    gone = F.col("key").isNull()
    is_changed = gone | F.col("k").isNull() | ~F.col("value").eqNullSafe(F.col("v"))
    found = both.where(is_changed if closed is None else is_changed & ~(gone & closed))
    return found.select(
        F.coalesce("key", "k").alias("key"),
        F.col("value"),
        F.when(gone, at).otherwise(F.col("timestamp")).alias("timestamp"),
    )


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
        """Return all rows kept with those that arrived, and the stream time at each; late ones are dropped.

        Args:
            fresh: columns of the input, with __time, __partition and __offset.
        """
        ms = F.unix_millis("__time")
        order = Window.partitionBy("__partition").orderBy("__offset")
        rows = fresh.withColumn("__stream_ms", F.max(ms).over(order))
        if self._newest is not None:
            rows = rows.join(F.broadcast(self._newest), "__partition", "left")
            rows = rows.withColumn("__stream_ms", F.greatest("__stream_ms", "__known")).drop("__known")
        newest = rows.groupBy("__partition").agg(F.max("__stream_ms").alias("__known"))
        if self._newest is not None:
            newest = newest.unionByName(self._newest).groupBy("__partition").agg(F.max("__known").alias("__known"))
        self._newest = newest.localCheckpoint(eager=True)
        on_time = rows.where(ms + self.late_ms >= F.col("__stream_ms")).select(*fresh.columns, "__stream_ms")
        self._rows = on_time if self._rows is None else self._rows.unionByName(on_time)
        return self._rows

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


def one_frame(streams: Sequence[DataFrame]) -> DataFrame:
    """Return the records of all inputs as one stream."""
    first, *others = [each.select("key", "value", "timestamp", "partition", "offset") for each in streams]
    for each in others:
        first = first.unionByName(each)
    return first
