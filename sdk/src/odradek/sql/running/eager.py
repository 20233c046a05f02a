"""Records of two streams that are joined when they arrive (planning/eager.py), and those kept for later ones.

    arrived ──> new rows ──┐                                           kept: slabs, oldest first
                           ├──> views of both inputs ──> plan.sql       [··········][·····][··][·]
    slabs in their reach ──┘                                             new rows are the next slab

**Order of arrival.** Of one input and partition by offset. Records of two inputs that arrive in one micro-batch are put
in the order in which Kafka Streams takes them: that of the largest time so far in their partition.

**What is kept.** A record of each input until another one of its partition is newer by the retention: as in Kafka
Streams' window stores, what a late record finds depends on the time of the other stream. Rows are held in Spark's
storage (memory, then disk) in slabs with known times and offsets. A micro-batch reads the slabs in reach of its
records, mostly the last few; neighbours of like size are merged, so each row is copied a few times, not at every
micro-batch.

**Rows without a match**, with GRACE PERIOD. Stream time is that of both inputs, of the partitions of one number. A
micro-batch moves it from one time to another, so the records whose window and grace period end between these are due in
it, and in no other: nothing is noted about a record. Whether it found a match is asked of the records that are kept.
For that they stay until the partition that is furthest behind has passed, a day at most.

**Repetition.** `arrive` changes nothing, `keep` is called after the write. What is kept holds the records of all
micro-batches before one, no others: after a restart they are read from the topics up to the offsets with which Spark
logged the micro-batch before (running/positions.py). So a micro-batch that is repeated has the rows that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from odradek.sql.plan import Eager

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NOTHING = -1  # no micro-batch
_SLABS_MAX = 48
_SLABS_APART = 8  # so many new ones are not merged: each merge is a job of Spark
_ROWS_A_TASK = 100_000
_SLABS_IN_RETENTION = 12  # merged slabs stay shorter than this part of it, so that they fall away one by one
_LONG_AGO = -(2**62)
_BEHIND_MAX_MS = 24 * 3_600_000
_MS = F.unix_millis


@dataclass(frozen=True, slots=True)
class Span:
    """What a frame has of one partition."""

    rows: int
    first_ms: int
    last_ms: int
    first_offset: int


Spans = Mapping[int, Span]  # by partition


@dataclass(frozen=True, slots=True)
class Slab:
    """Rows that arrived one after the other."""

    frame: DataFrame
    spans: Spans

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.spans.values())

    @property
    def first_ms(self) -> int:
        return min(each.first_ms for each in self.spans.values())

    @property
    def last_ms(self) -> int:
        return max(each.last_ms for each in self.spans.values())

    def newest(self) -> dict[int, int]:
        """Return the largest time of each partition."""
        return {partition: each.last_ms for partition, each in self.spans.items()}


class KeptRecords:
    """The records of both inputs of a join.

    Attributes:
        batch_id: the last micro-batch whose records are here.
        has_fewer: records fell away since this was set to False.
    """

    def __init__(self, plan: Eager) -> None:
        self._plan = plan
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.batch_id, self.has_fewer = NOTHING, False
        self._slabs: tuple[list[Slab], ...] = ([], [])
        self._newest: tuple[dict[int, int], ...] = ({}, {})
        self._arrived: tuple[Slab | None, ...] = (None, None)

    def arrive(self, fresh: Sequence[DataFrame]) -> list[DataFrame]:
        """Return the rows of each input that the statement needs: the new ones, and of those kept what they may find.

        Args:
            fresh: rows of a micro-batch, with the columns of scope.py.
        """
        new = [_in_order(each).localCheckpoint(eager=True) for each in fresh]
        self._arrived = tuple(_slab(each) for each in new)
        newest = [
            _later(known, {} if slab is None else slab.newest())
            for known, slab in zip(self._newest, self._arrived, strict=True)
        ]
        # Mostly no record in reach of the new ones is too old by the end of the micro-batch: then there is no bound.
        oldest_ms = max((each for times in newest for each in times.values()), default=0) - self._plan.retention_ms
        reach_ms = min((each.first_ms for each in self._arrived if each is not None), default=0) - self._plan.span_ms
        is_bounded = reach_ms <= oldest_ms
        since = self._since(new) if is_bounded else [each.withColumn("__since", _long(_LONG_AGO)) for each in new]
        before, after = _later(*self._newest), _later(*newest)
        due = self._due_between({p: (before.get(p, _LONG_AGO), time) for p, time in after.items()})
        found = []
        for number, each in enumerate(new):
            views = [_placed(since[number], number, is_fresh=True)]
            for slab in self._in_reach(number, due):
                old = slab.frame
                if is_bounded and self._plan.grace_ms is None:
                    old = old.where(self._is_kept(self._newest[number]))
                views.append(_placed(old.withColumn("__since", _long(_LONG_AGO)), number, is_fresh=False))
            view = reduce(type(each).unionByName, views)
            ahead_ms = self._plan.ahead_ms[number]
            if ahead_ms is not None and self._plan.grace_ms is not None:
                view = _with_due(view, new, before, ahead_ms + self._plan.grace_ms)
            found.append(view)
        return found

    def restore(self, rows: Sequence[DataFrame], batch_id: int) -> None:
        """Keep the rows of all micro-batches up to one, and no others."""
        self.clear()
        self._arrived = tuple(_slab(_in_order(each).localCheckpoint(eager=True)) for each in rows)
        self.keep(batch_id)

    def keep(self, batch_id: int) -> None:
        """Keep the rows that arrived last, as those of a micro-batch, and drop those that are too old."""
        for number, slab in enumerate(self._arrived):
            if slab is None:
                continue
            newest, slabs = self._newest[number], self._slabs[number]
            newest.update(_later(newest, slab.newest()))
            before = len(slabs)
            slabs[:] = [each for each in slabs if not self._is_over(each, newest)]
            self.has_fewer |= len(slabs) < before
            if not self._is_over(slab, newest):
                slabs.append(self._without_old(slab, newest))
            self._merge(slabs, newest)
        self._arrived = (None, None)
        self.batch_id = batch_id

    def starts(self) -> list[dict[int, int]]:
        """Return the smallest offset of each partition that is kept, by input."""
        found: list[dict[int, int]] = []
        for slabs in self._slabs:
            there: dict[int, int] = {}
            for partition, span in (each for slab in slabs for each in slab.spans.items()):
                there[partition] = min(span.first_offset, there.get(partition, span.first_offset))
            found.append(there)
        return found

    # --- time

    def _due_between(self, passed: Mapping[int, tuple[int, int]]) -> list[tuple[int, int] | None]:
        """Return, by input, the times of the first and the last record that may be due; None: none is.

        Args:
            passed: stream time of each partition before and after the micro-batch.
        """
        moved = [each for each in passed.values() if each[0] < each[1]]
        found: list[tuple[int, int] | None] = []
        for ahead_ms in self._plan.ahead_ms:
            if ahead_ms is None or self._plan.grace_ms is None or not moved:
                found.append(None)
                continue
            wait_ms = ahead_ms + self._plan.grace_ms
            found.append((min(a for a, _ in moved) - wait_ms, max(b for _, b in moved) - wait_ms))
        return found

    def _in_reach(self, number: int, due: Sequence[tuple[int, int] | None]) -> list[Slab]:
        """Return the slabs of an input that new records of the other one, or those that are due, may find something in,
        and those that are due themselves."""
        other, span_ms = self._arrived[1 - number], self._plan.span_ms
        times = [] if other is None else [(other.first_ms - span_ms, other.last_ms + span_ms)]
        if (own := due[number]) is not None:
            times.append(own)
        if (others := due[1 - number]) is not None:
            times.append((others[0] - span_ms, others[1] + span_ms))
        return [
            each
            for each in self._slabs[number]
            if any(each.last_ms >= first and each.first_ms <= last for first, last in times)
        ]

    def _since(self, new: Sequence[DataFrame]) -> list[DataFrame]:
        """Return the new rows with the time up to which records of the other input were dropped when each arrived.

        As in one task of Kafka Streams, the partitions of one number go together.
        """
        sides = [
            each.select(
                F.col("__partition").alias("p"), _arrived(number).alias("a"), F.lit(number).alias("n"),
                _MS("__time").alias("t"), *(F.struct("*").alias(f"r{n}") if n == number else F.lit(None).alias(f"r{n}")
                                            for n in (0, 1)),
            )
            for number, each in enumerate(new)
        ]  # fmt: skip
        order = Window.partitionBy("p").orderBy("a")
        both = sides[0].unionByName(sides[1])
        found = []
        for number in (0, 1):
            known = _by_partition(self._newest[1 - number], F.col("p"))
            seen = F.max(F.when(F.col("n") == 1 - number, F.col("t"))).over(order)
            since = F.coalesce(F.greatest(seen, known) - F.lit(self._plan.retention_ms), _long(_LONG_AGO))
            rows = both.withColumn("__since", since).where(F.col("n") == number)
            found.append(rows.select(f"r{number}.*", "__since"))
        return found

    def _kept_ms(self) -> int:
        """Return how long a record is kept behind the newest of its partition."""
        if self._plan.grace_ms is None:
            return self._plan.retention_ms
        times = _later(*self._newest).values()
        return self._plan.retention_ms + min(max(times) - min(times), _BEHIND_MAX_MS)

    def _is_kept(self, newest: Mapping[int, int]) -> Column:
        return _MS("__time") > _by_partition(newest, F.col("__partition")) - F.lit(self._kept_ms())

    def _is_over(self, slab: Slab, newest: Mapping[int, int]) -> bool:
        kept_ms = self._kept_ms()
        return all(span.last_ms <= newest[partition] - kept_ms for partition, span in slab.spans.items())

    def _without_old(self, slab: Slab, newest: Mapping[int, int]) -> Slab:
        """Return a slab without rows that are not kept any more, if it has some."""
        kept_ms = self._kept_ms()
        if all(span.first_ms > newest[partition] - kept_ms for partition, span in slab.spans.items()):
            return slab
        found = _slab(slab.frame.where(self._is_kept(newest)).localCheckpoint(eager=True))
        assert found is not None
        return found

    def _merge(self, slabs: list[Slab], newest: Mapping[int, int]) -> None:
        """Merge the last slabs while they are alike in size, and all of them if there are too many."""
        if len(slabs) <= _SLABS_APART:
            return
        longest = self._plan.retention_ms // _SLABS_IN_RETENTION
        count = 1
        while count < len(slabs):
            last, before = slabs[-count:], slabs[-count - 1]
            together = [before, *last]
            length = max(each.last_ms for each in together) - min(each.first_ms for each in together)
            if before.rows > 2 * sum(each.rows for each in last) or length > longest:
                break
            count += 1
        count = len(slabs) if len(slabs) > _SLABS_MAX else count
        if count > 1:
            last = slabs[-count:]
            frame = reduce(type(slabs[0].frame).unionByName, (each.frame for each in last))
            spans = reduce(_together, (each.spans for each in last))
            merged = Slab(frame.coalesce(1 + sum(each.rows for each in last) // _ROWS_A_TASK), spans)
            trimmed = self._without_old(merged, newest)
            slabs[-count:] = [Slab(merged.frame.localCheckpoint(eager=True), spans) if trimmed is merged else trimmed]


def _in_order(rows: DataFrame) -> DataFrame:
    """Add the largest time so far in the partition."""
    order = Window.partitionBy("__partition").orderBy("__offset")
    return rows.withColumn("__so_far", F.max(_MS("__time")).over(order))


def _arrived(number: int, *, is_fresh: bool = True) -> Column:
    so_far = F.col("__so_far") if is_fresh else _long(_LONG_AGO)
    place = {"t": so_far, "n": F.lit(number), "p": F.col("__partition"), "o": F.col("__offset")}
    return F.struct(*(value.alias(name) for name, value in place.items()))


def _with_due(view: DataFrame, new: Sequence[DataFrame], before: Mapping[int, int], wait_ms: int) -> DataFrame:
    """Add __due to the rows of an input.

    Args:
        new: the new rows of both inputs.
        before: stream time of each partition before the micro-batch.
        wait_ms: how far stream time must pass the time of a record.
    """
    columns, order = view.columns, Window.partitionBy("p").orderBy("a")
    places = [
        each.select(F.col("__partition").alias("p"), _arrived(number).alias("a"), _MS("__time").alias("t"))
        for number, each in enumerate(new)
    ]
    passed = (
        places[0]
        .unionByName(places[1])
        .withColumn("v", F.max("t").over(order))
        .groupBy("p", "v")
        .agg(F.min("a").alias("a"))
    )
    rows = view.select(
        F.col("__partition").alias("p"), (_MS("__time") + F.lit(wait_ms)).alias("v"), F.struct("*").alias("row")
    )
    # The first place whose stream time is larger than what a row waits for. Of equals the rows come first.
    both = rows.unionByName(passed, allowMissingColumns=True)
    later = Window.partitionBy("p").orderBy(F.desc("v"), F.col("a").isNotNull())
    first = F.min("a").over(later.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    found = both.withColumn("first", first).where(F.col("row").isNotNull()).select("row.*", "v", "first", "p")
    is_over = F.coalesce(_by_partition(before, F.col("p")) > F.col("v"), F.lit(False))
    on_arrival = is_over | (F.col("first") < F.col("__arrived"))
    due = F.when(F.col("__fresh"), F.when(on_arrival, F.col("__arrived")).otherwise(F.col("first"))).when(
        ~is_over, F.col("first")
    )
    return found.select(*columns, due.alias("__due"))


def _placed(rows: DataFrame, number: int, *, is_fresh: bool) -> DataFrame:
    placed = rows.withColumn("__arrived", _arrived(number, is_fresh=is_fresh)).withColumn("__fresh", F.lit(is_fresh))
    return placed.drop("__so_far")


def _slab(rows: DataFrame) -> Slab | None:
    """Return rows as a slab; None if there are none."""
    ms = _MS("__time")
    spans = rows.groupBy("__partition").agg(
        F.count("*").alias("n"), F.min(ms).alias("first"), F.max(ms).alias("last"), F.min("__offset").alias("offset")
    )
    found = {
        each["__partition"]: Span(each["n"], each["first"], each["last"], each["offset"]) for each in spans.collect()
    }
    return Slab(rows, found) if found else None


def _later(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {each: max(one.get(each, _LONG_AGO), other.get(each, _LONG_AGO)) for each in {*one, *other}}


def _together(one: Spans, other: Spans) -> Spans:
    found = dict(one)
    for partition, new in other.items():
        old = found.get(partition, new)
        rows = new.rows + (old.rows if partition in one else 0)
        found[partition] = Span(
            rows, min(old.first_ms, new.first_ms), max(old.last_ms, new.last_ms),
            min(old.first_offset, new.first_offset),
        )  # fmt: skip
    return found


def _by_partition(values: Mapping[int, int], partition: Column) -> Column:
    """Return the value of a row's partition, NULL for one without."""
    if not values:
        return F.lit(None).cast("long")
    pairs = [each for key, value in sorted(values.items()) for each in (F.lit(key), _long(value))]
    return F.try_element_at(F.create_map(*pairs), partition)


def _long(value: int) -> Column:
    return F.lit(value).cast("long")
