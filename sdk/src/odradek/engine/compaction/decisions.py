"""The decisions of compaction: pure, for the compactor and for the Spark job.

    log start          first dirty        pass end        first uncleanable         high watermark
        |---- clean -------|---- dirty, in the map --|---- dirty --------|---- too young, not merged ----|
        '------------ rewritten by a pass -----------'

A pass takes the dirty records from the first dirty offset on into the offset map, until the map is full or the
cleanable part ends, then drops every record below the pass's end that is not the last of its key. Records above the
pass's end do not change; the next pass begins there. So after a pass, each key is at most once below its end. Whatever
the map contains, a record is dropped only if a later one of its key is known to be in the log.

A tombstone stays until `delete.retention.ms` after the first pass that saw it as the last of its key and dropped what
it deletes (KIP-534): that pass writes this delete horizon into the batch. A pass rewrites the log upwards, so the
values below are removed before the horizon is set, and readers have that long to read the tombstone. The horizon is
an attribute of a whole batch, so it is set only if the whole batch is below the pass's end.

A segment that is damaged stays as it is, whatever it holds: its keys count where they can be read, and what is after it
keeps its tombstones, since the values that they delete may be in it.

Rules and names are those of Apache Kafka's log cleaner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from odradek.engine.catalog.topic_configs import TopicConfig, default_of
from odradek.engine.partition.index_row import IndexRow
from odradek.model.topic import Topic
from odradek.settings import Settings

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The topic's configurations that compaction goes by."""

    min_lag_ms: int  # min.compaction.lag.ms; 0: none
    max_lag_ms: int  # max.compaction.lag.ms; 2^63-1: none
    min_dirty_ratio: float  # min.cleanable.dirty.ratio
    delete_retention_ms: int  # delete.retention.ms
    segment_bytes_max: int  # of a segment that is made of several
    segment_ms: int  # between its first and last commit: retention drops it whole; 2^63-1 where there is none

    @classmethod
    def of(cls, topic: Topic, settings: Settings) -> CompactionPolicy:
        """The effective configuration of a topic."""

        def value(name: str) -> str:
            return topic.configs.get(name, default_of(name, settings))

        is_deleting = TopicConfig.of(topic, settings).is_deleting
        return cls(
            min_lag_ms=int(value("min.compaction.lag.ms")),
            max_lag_ms=int(value("max.compaction.lag.ms")),
            min_dirty_ratio=float(value("min.cleanable.dirty.ratio")),
            delete_retention_ms=int(value("delete.retention.ms")),
            segment_bytes_max=min(int(value("segment.bytes")), settings.segment_bytes_max),
            segment_ms=int(value("segment.ms")) if is_deleting else _INT64_MAX,
        )

    @property
    def has_max_lag(self) -> bool:
        return self.max_lag_ms < _INT64_MAX

    def horizon_ms(self, now_ms: int) -> int:
        """The delete horizon of tombstones that are seen now."""
        return min(now_ms + self.delete_retention_ms, _INT64_MAX)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a pass."""

    log_start_offset: int  # records below it are gone already
    pass_end: int  # exclusive: from here on nothing is dropped
    now_ms: int
    keeps_tombstones: bool = False  # a damaged segment before may have records that they delete


def record_survives(
    offset: int, latest_offset: int, has_value: bool, delete_horizon_ms: int | None, bounds: Bounds
) -> bool:
    """Return True if a record with a key stays in the log.

    Args:
        latest_offset: of its key in the offset map; -1 if the map does not contain the key.
        delete_horizon_ms: of its batch.
    """
    if offset < bounds.log_start_offset:
        return False
    if offset >= bounds.pass_end:
        return True
    if offset < latest_offset:
        return False
    return has_value or delete_horizon_ms is None or bounds.keeps_tombstones or bounds.now_ms < delete_horizon_ms


def sets_horizon(last_offset: int, keeps_tombstone: bool, delete_horizon_ms: int | None, bounds: Bounds) -> bool:
    """Return True if a batch gets its delete horizon now."""
    is_below = last_offset < bounds.pass_end and not bounds.keeps_tombstones
    return keeps_tombstone and delete_horizon_ms is None and is_below


@dataclass(frozen=True, slots=True)
class DirtyPart:
    """The part of a log that could be cleaned now."""

    first_dirty: int
    end_offset: int  # exclusive: the first uncleanable offset
    size_bytes: int


def dirty_part(rows: Iterable[IndexRow], first_dirty: int, now_ms: int, policy: CompactionPolicy) -> DirtyPart:
    """Return the cleanable part from `first_dirty` on: segments, up to the first other row or too young records.

    Args:
        rows: the index rows from the one with `first_dirty` on, in order.
    """
    end_offset, size_bytes = first_dirty, 0
    for row in rows:
        if not row.is_segment:
            break
        if policy.min_lag_ms and row.max_timestamp_ms > now_ms - policy.min_lag_ms:
            break
        if row.end_offset <= first_dirty:
            continue
        # Of a segment that is dirty in part: the share of its offsets.
        share = row.end_offset - max(row.base_offset, first_dirty), row.end_offset - row.base_offset
        size_bytes += -(-row.size_bytes * share[0] // share[1])
        end_offset = row.end_offset
    return DirtyPart(first_dirty, end_offset, size_bytes)


def wants_cleaning(dirty: DirtyPart, clean_bytes: int, policy: CompactionPolicy, *, is_overdue: bool) -> bool:
    """Return True if compaction is due: the dirty share exceeds the ratio, or records waited for the maximum lag."""
    if not dirty.size_bytes:
        return False
    return is_overdue or dirty.size_bytes > policy.min_dirty_ratio * (dirty.size_bytes + clean_bytes)


def is_overdue(first_timestamp_ms: int, now_ms: int, policy: CompactionPolicy) -> bool:
    """Return True if the oldest dirty record, of that timestamp, has waited for max.compaction.lag.ms."""
    return policy.has_max_lag and 0 < first_timestamp_ms < now_ms - policy.max_lag_ms


def joins(group: Sequence[IndexRow], group_bytes: int, row: IndexRow, policy: CompactionPolicy, rows_max: int) -> bool:
    """Return True if the next segment joins those of the group in the same new segment.

    Args:
        group_bytes: of the rest of the group. An empty rest joins any segment, so that empty segments disappear.
    """
    if not group:
        return True
    if len(group) >= rows_max:
        return False
    is_near = row.spill_floor_ms - group[0].started_ms <= policy.segment_ms
    return not group_bytes or (is_near and group_bytes + row.size_bytes <= policy.segment_bytes_max)
