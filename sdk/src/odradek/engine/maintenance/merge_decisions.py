"""The choice of neighbouring index rows to merge into one segment. Pure.

The rows of a partition, oldest to newest, are segments and then spilled rows. Two kinds of windows are merged:

    spilled     the oldest spilled rows, once there are `rows_min` of them or the oldest has waited for `age_ms`; as
                many as fit a segment, with the segments before them that pay; none that is younger than `delay_ms`
    segments    neighbouring segments alone, where they pay: what compaction or another setting left small

**What pays.** A segment is *closed*, and never rewritten by a merge, when it has half of the bytes that a segment may
have. Below that sizes have rungs, each `FANOUT` times the next. Segments are merged only if what they make stands on a
higher rung than each of them. So every rewriting lifts a byte by a rung at least, and it is rewritten at most once a
rung: log(segment size / batch size) times, however small the batches come. A window always reaches as far back
as it pays, so at most `FANOUT - 1` segments stay on one rung, next to each other.

A columnar segment is closed whatever its size, and so is one that is damaged. A segment of a table topic that is
closed, or that a columnar one follows, is written as one (docs/decisions/0041); those that are there already by
catch-up (catch_up.py). So is one with records that are to be in a file by now (`table_due_ms`): such files may be
small, and catch-up joins them by the same rungs.

**Young rows.** A writer that does not know whether its append was applied, or whose clock is behind, looks for its
entry in the newest rows (decisions/0002). A segment no longer knows entries, so rows stay as they are for as long as a
request and a skew of clocks may take.

**Time.** Retention drops whole segments, so a segment must not grow for ever on a quiet partition: a window ends where
its first and last batch would be committed more than `segment.ms` apart. A single row may span more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.partition.index_row import IndexRow
from odradek.limits import CLOCK_AHEAD_MS_MAX
from odradek.settings import Settings

FANOUT = 4


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """The parameters of merges.

    Attributes:
        segment_bytes: of a segment, at most; a single spilled row may have more and then becomes several.
        segment_ms: between the first and the last commit of a segment, at most.
        rows_min, age_ms, delay_ms: when spilled rows are merged.
        rows_max: in one window.
        spilled_bytes: of spilled rows in one window, at most, where that is less; a single row may have more.
        segment_bytes_held: of a segment that is rewritten alone, at most: what a maintainer holds in memory.
        table_due_ms: what was appended before is to be in a Parquet file; -1: nothing for its time alone.
    """

    segment_bytes: int
    segment_ms: int
    rows_min: int
    age_ms: int
    delay_ms: int
    rows_max: int
    spilled_bytes: int | None = None
    segment_bytes_held: int = 0
    table_due_ms: int = -1

    @classmethod
    def of(cls, config: TopicConfig, settings: Settings, rows_max: int, now_ms: int) -> MergePolicy:
        return cls(
            segment_bytes=min(
                config.segment_bytes,
                config.table_segment_bytes if config.is_table else config.segment_bytes,
                settings.segment_bytes_max,
                settings.merge_bytes_max,
            ),
            segment_ms=config.segment_ms,
            rows_min=min(settings.merge_rows_min, rows_max),
            age_ms=settings.merge_age_ms,
            delay_ms=settings.merge_delay_ms,
            rows_max=rows_max,
            segment_bytes_held=settings.merge_bytes_max,
            table_due_ms=config.table_due_ms(now_ms),
        )

    def rung(self, size_bytes: int) -> int:
        """Return how many times a segment of this size can grow by `FANOUT` before it is closed; 0: it is closed."""
        rung = 0
        while 2 * size_bytes < self.segment_bytes:
            size_bytes = max(1, size_bytes) * FANOUT
            rung += 1
        return rung


def choose_window(rows: Sequence[IndexRow], policy: MergePolicy, now_ms: int) -> tuple[int, int] | None:
    """Return the rows [first, stop) to merge next; None if no merge is worthwhile.

    Args:
        rows: the newest segments and the oldest spilled rows of a partition, neighbours, oldest first.
    """
    rows = [row for row in rows if row.is_segment or _has_aged(row, policy.delay_ms, now_ms)]
    spilled = next((i for i, row in enumerate(rows) if not row.is_segment), len(rows))
    if wants_merge(rows[spilled:], policy, now_ms):
        stop = _spilled_end(rows, spilled, policy)
        return _reach_back(rows, spilled, stop, policy), stop
    for stop in range(spilled, 1, -1):
        first = _reach_back(rows, stop, stop, policy)
        if first < stop:
            return first, stop
    return None


def choose_catch_up(rows: Sequence[IndexRow], policy: MergePolicy, writer: int) -> tuple[int, int] | None:
    """Return the first neighbouring segments [first, stop) of a table topic that are to be one Parquet file.

    They cannot grow: they are closed, or a segment follows that is, or that the writer refused. Or they are due.

    Args:
        rows: neighbours, oldest first.
        writer: the version of the writer.
    """
    first = size = 0
    for i, row in enumerate(rows):
        if not row.is_segment:
            break
        is_fixed = (
            row.is_damaged or row.is_columnar or row.refused_by == writer or row.size_bytes > policy.segment_bytes_held
        )
        if first < i and (
            is_fixed or size + row.size_bytes > policy.segment_bytes or not _is_near(rows[first], row, policy)
        ):
            return first, i
        if is_fixed:
            first, size = i + 1, 0
            continue
        size += row.size_bytes
        if policy.rung(size) == 0:
            return first, i + 1
    stop = next((i for i, row in enumerate(rows) if not row.is_segment), len(rows))
    return (first, stop) if first < stop and is_due(rows[first], policy) else None


def choose_join(rows: Sequence[IndexRow], policy: MergePolicy) -> tuple[int, int] | None:
    """Return the first neighbouring Parquet files [first, stop) that were written before they were full, and pay.

    They pay as segments do: what they make stands on a higher rung than each of them. Only where time closes files.
    """
    if policy.table_due_ms < 0:
        return None
    first = size = 0
    highest: int | None = None
    for i, row in enumerate(rows):
        is_whole_file = row.is_segment and row.is_columnar and not row.is_damaged
        rung = policy.rung(row.size_bytes) if is_whole_file else 0
        if (
            rung
            and first < i
            and (size + row.size_bytes > policy.segment_bytes or not _is_near(rows[first], row, policy))
        ):
            first, size, highest = i, 0, None
        if not rung:
            first, size, highest = i + 1, 0, None
            continue
        size += row.size_bytes
        highest = rung if highest is None else min(highest, rung)
        if first < i and i + 1 - first <= policy.rows_max and policy.rung(size) < highest:
            return first, i + 1
    return None


def is_due(first: IndexRow, policy: MergePolicy) -> bool:
    """Return True if a segment that begins with a row's records is to be a file, whatever its size."""
    return first.started_ms <= policy.table_due_ms


def is_final(rows: Sequence[IndexRow], window: tuple[int, int], size_bytes: int, policy: MergePolicy) -> bool:
    """Return True if a segment in the place of a window's rows is never merged again."""
    first, stop = window
    is_followed = stop < len(rows) and rows[stop].is_segment and rows[stop].is_columnar
    return policy.rung(size_bytes) == 0 or is_followed or is_due(rows[first], policy)


def choose_windows(
    partitions: Sequence[tuple[Sequence[IndexRow], MergePolicy]], bytes_max: int, now_ms: int
) -> list[tuple[int, int] | None]:
    """Return the next window of each of several partitions that share a head, to be merged together.

    Where all of them are more than memory takes, each gets a part in proportion to what it has of spilled rows: so the
    windows are of about the same time, and of the same uploads.
    """
    windows = [choose_window(rows, policy, now_ms) for rows, policy in partitions]
    if sum(_size(rows, window) for (rows, _), window in zip(partitions, windows, strict=True)) <= bytes_max:
        return windows
    spilled = [sum(row.size_bytes for row in rows if not row.is_segment) for rows, _ in partitions]
    total = max(1, sum(spilled))
    return [
        choose_window(rows, replace(policy, spilled_bytes=bytes_max // 2 * size // total), now_ms)
        for (rows, policy), size in zip(partitions, spilled, strict=True)
    ]


def _size(rows: Sequence[IndexRow], window: tuple[int, int] | None) -> int:
    return 0 if window is None else sum(row.size_bytes for row in rows[slice(*window)])


def wants_merge(spilled: Sequence[IndexRow], policy: MergePolicy, now_ms: int) -> bool:
    """Return True if spilled rows, the oldest first and none too young, are many or old enough to be merged."""
    if not spilled:
        return False
    is_many_or_old = len(spilled) >= policy.rows_min or _has_aged(spilled[0], policy.age_ms, now_ms)
    return is_many_or_old or is_due(spilled[0], policy)


def _has_aged(row: IndexRow, age_ms: int, now_ms: int) -> bool:
    """Return True if a spilled row is that old, or if its floor is from a clock hours ahead: the age is unknown.

    A merge that comes too early keeps a writer that does not know the outcome of its append from finding out.
    """
    return row.spill_floor_ms + age_ms <= now_ms or row.spill_floor_ms > now_ms + CLOCK_AHEAD_MS_MAX


def _spilled_end(rows: Sequence[IndexRow], first: int, policy: MergePolicy) -> int:
    """The end of the run of spilled rows from `first` that makes one segment; at least one row."""
    size = 0
    bytes_max = min(
        policy.segment_bytes, policy.segment_bytes if policy.spilled_bytes is None else policy.spilled_bytes
    )
    for stop in range(first, min(len(rows), first + policy.rows_max)):
        size += rows[stop].size_bytes
        if stop > first and (size > bytes_max or not _is_near(rows[first], rows[stop], policy)):
            return stop
    return min(len(rows), first + policy.rows_max)


def _reach_back(rows: Sequence[IndexRow], spilled: int, stop: int, policy: MergePolicy) -> int:
    """The first row of the longest window up to `stop` that pays; `spilled` itself where no segment joins.

    Args:
        spilled: rows from here on are written anyway.
    """
    size = sum(row.size_bytes for row in rows[spilled:stop])
    found, highest = spilled, None
    for first in range(spilled - 1, max(-1, stop - 1 - policy.rows_max), -1):
        row = rows[first]
        rung = policy.rung(row.size_bytes)
        size += row.size_bytes
        if (
            rung == 0
            or row.is_damaged
            or row.is_columnar
            or size > policy.segment_bytes
            or not _is_near(row, rows[stop - 1], policy)
        ):
            break
        highest = rung if highest is None else min(highest, rung)
        if stop - first > 1 and policy.rung(size) < highest:
            found = first
    return found


def _is_near(first: IndexRow, last: IndexRow, policy: MergePolicy) -> bool:
    return last.spill_floor_ms - first.started_ms <= policy.segment_ms
