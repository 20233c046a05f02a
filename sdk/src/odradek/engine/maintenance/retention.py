"""Retention: removes old or excess data from the beginning of a log, whole index rows at a time.

    1. head      the log start offset rises: from now on no reader reads below it
    2. rows      those completely below log start and tail are removed, in transactions under the lease
    3. objects   the segments of these rows are deleted, once the topic's Iceberg table has let go of them; WAL bytes
                 are left to the sweep

A crash between any two steps leaves work that the next pass finds: rows below the log start go whatever the policy says
by then (DeleteRecords leaves such rows too), and a lease that was not left clean has its orphans collected.

What goes is decided as in Apache Kafka, from the oldest row on, where `delete` is in `cleanup.policy`:

    retention.ms      rows up to the first whose largest timestamp is not older than that. A timestamp in the future
                      keeps a row (and all after it) until then; without timestamps (negative) the commit time counts.
                      What was written less than `retention_delay_ms` ago stays, however old it says that it is: a
                      broker looks every five minutes (log.retention.check.interval.ms)
    retention.bytes   a row goes if what is newer than it is at least that much

The tail in the head is the active segment: it is never dropped, so the log start never passes the tail's base offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.engine.maintenance.swap_decisions import object_keys
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import ROWS_REPLACED_MAX, PartitionIndex
from odradek.engine.partition.index_row import IndexRow, is_ghost
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.limits import CLOCK_AHEAD_MS_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.object_store import ObjectStore

_ROWS_PER_QUERY = 64


class Retention:
    """The upkeep that drops the beginning of logs."""

    acts_on_tail = False

    def __init__(
        self, index: PartitionIndex, objects: ObjectStore, leases: MaintenanceLeases, clock: Clock, delay_ms: int
    ) -> None:
        self._index = index
        self._objects = objects
        self._leases = leases
        self._clock = clock
        self._delay_ms = delay_ms

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        below = min(look.head.log_start_offset, look.head.tail_base_offset)
        rows = await self._index.rows_between(look.partition, 0, below, ROWS_REPLACED_MAX) if below else []
        if any(row.end_offset <= below for row in rows):
            return True
        return await self._start(look.partition, look.config, look.head) > look.head.log_start_offset

    async def run(self, held: HeldPartition) -> None:
        """Implement maintenance.Upkeep. Also raises OutcomeUnknown: the next pass continues."""
        head = await self._index.read_head(held.partition)
        if head is None:
            return
        start = await self._start(held.partition, held.config, head)
        if start > head.log_start_offset:
            head = await self._index.advance_log_start(held.partition, start)
            if head is None:
                return
            held.report.done["log_starts_raised"] += 1
        await self._drop_rows(held, head)

    # --- 1. what goes ---------------------------------------------------------------------------------------------

    async def _start(self, partition: PartitionId, config: TopicConfig, head: PartitionHead) -> int:
        """Return the log start offset by the policy; not above the present one if nothing is to be removed."""
        start = head.log_start_offset
        if not config.is_deleting or start >= head.tail_base_offset:
            return start
        if config.retention_ms >= 0:
            start = max(start, await self._start_by_time(partition, head, config.retention_ms))
        if 0 <= config.retention_bytes < head.appended_bytes:
            start = max(start, await self._start_by_size(partition, head, config.retention_bytes))
        return start

    async def _start_by_time(self, partition: PartitionId, head: PartitionHead, retention_ms: int) -> int:
        """Read from the oldest row to the first that stays: usually one query of one page."""
        now_ms = self._clock.now_ms()
        start = head.log_start_offset
        first = await self._index.row_at(partition, start, merged_offset=head.merged_offset)
        at = first.base_offset if first is not None else start
        while at < head.tail_base_offset:
            rows = _below_tail(await self._index.rows_from(partition, at, _ROWS_PER_QUERY), head)
            if not rows:
                break
            for row in rows:
                if not is_expired(row, now_ms - retention_ms) or self._is_new(row, now_ms):
                    return start
                start = max(start, row.end_offset)
            at = rows[-1].end_offset
        return start

    def _is_new(self, row: IndexRow, now_ms: int) -> bool:
        """Whether it was committed of late. A commit time that is far ahead was made by a clock that is."""
        age_ms = now_ms - row.spill_floor_ms
        return self._delay_ms > 0 and -CLOCK_AHEAD_MS_MAX <= age_ms < self._delay_ms

    async def _start_by_size(self, partition: PartitionId, head: PartitionHead, retention_bytes: int) -> int:
        """Add up sizes from the newest row on until they suffice: kept rows are read, not removed ones."""
        kept = sum(entry.length for _, entry in head.entries())
        below = head.tail_base_offset
        while below > head.log_start_offset:
            rows = await self._index.rows_down_from(partition, below - 1, _ROWS_PER_QUERY)
            for row in rows:
                if is_ghost(row, head.merged_offset):
                    continue  # a ghost: its batches are those of the segment around it
                if kept >= retention_bytes:
                    return row.end_offset
                kept += row.size_bytes
            if not rows:
                break
            below = rows[-1].base_offset
        return head.log_start_offset

    # --- 2. and 3. rows, then objects -----------------------------------------------------------------------------

    async def _drop_rows(self, held: HeldPartition, head: PartitionHead) -> None:
        """Remove all rows that end at or below the log start, including ghosts, then their segments.

        DeleteRecords may have moved the log start past the tail's base. A row there belongs to a spill in progress,
        which any process may finish by it: it stays until the head has forgotten its entries.
        """
        below = min(head.log_start_offset, head.tail_base_offset)
        at = 0
        while rows := await self._index.rows_between(held.partition, at, below, ROWS_REPLACED_MAX):
            old = [row for row in rows if row.end_offset <= below]
            if old:
                if at:
                    held.lease = await self._leases.renew(held.lease)
                # Not by ghosts: one may end within a row that is live, which would be one itself then.
                ends = [row.end_offset for row in old if not row.is_segment and not is_ghost(row, head.merged_offset)]
                raised = max(ends, default=None)
                await self._index.replace_rows(held.lease, old, (), merged_offset=raised)
                held.report.done["rows_removed"] += len(old)
                await self._delete_segments(held, old)
            at = rows[-1].base_offset + 1

    async def _delete_segments(self, held: HeldPartition, rows: Sequence[IndexRow]) -> None:
        keys = [key for row in rows for key in object_keys(held.partition, row)]
        if keys and await held.may_delete(keys):
            await self._objects.delete(keys)
            held.report.done["segments_removed"] += len(keys) // 2


def is_expired(row: IndexRow, oldest_kept_ms: int) -> bool:
    """Return True if all records of a row are older than the oldest that retention.ms keeps."""
    newest_ms = row.max_timestamp_ms if row.max_timestamp_ms >= 0 else row.spill_floor_ms
    return newest_ms < oldest_kept_ms


def _below_tail(rows: Sequence[IndexRow], head: PartitionHead) -> list[IndexRow]:
    """Without a row of a spill under way, whose entries the head still has."""
    return [row for row in rows if row.end_offset <= head.tail_base_offset]
