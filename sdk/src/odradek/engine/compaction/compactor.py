"""Compaction: a topic with `cleanup.policy=compact` keeps the last record of each key (compaction/decisions.py).

    1. plan      how far the log is clean (state item), how much above is dirty; does it pay?
    2. fill      the keys of the dirty part into the offset map, until it is full
    3. rewrite   from the log start to the end of what the map knows: read a few neighbouring segments, and put what is
                 left of them in their place as one (maintenance/segment_swap.py)
    4. state     the first dirty offset moves up; again from 2 while there is dirty left

Only segments are compacted, never WAL entries: entries that are not merged yet are Kafka's active segment. Memory is
bounded by the map's size and the segment size, whatever the partition holds.

Why every step may fail, be cut short or come late:

* Of upload, swap and deletion: maintenance/segment_swap.py.
* The state says only what stays true (compaction/state.py). It is written after the swap; when it is not, the work is
  done again, on segments that have nothing left to drop.
* An interrupted pass is continued where it stopped: its map is filled again from [first dirty, pass end). The rewrite
  proceeds upwards, so the dirty part changes last, and it still has the last record of each of its keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from odradek.engine.compaction.batch import CompactedBatch, compact_batch, read_keys
from odradek.engine.compaction.decisions import (
    Bounds,
    CompactionPolicy,
    DirtyPart,
    dirty_part,
    is_overdue,
    joins,
    wants_cleaning,
)
from odradek.engine.compaction.offset_map import OffsetMap
from odradek.engine.compaction.segments import NewSegment, read_stretches
from odradek.engine.compaction.state import CompactionState, decode_state, encode_state, state_key
from odradek.engine.maintenance.damaged_rows import mark_damaged
from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.engine.maintenance.segment_swap import SegmentSwap
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import ROWS_REPLACED_MAX, PartitionIndex
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import LeaseLost, MaintenanceLeases
from odradek.engine.tools import Tools
from odradek.errors import FormatError, ObjectMissing, OutcomeUnknown, TransactionCanceled
from odradek.format.batch_header import HEADER
from odradek.format.object_keys import segment_key
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.record import BatchHeader
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Operation, Put

_ROWS_PER_QUERY = 64
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class CompactionPass:
    """The work of one pass: drop from [position, pass end) what [first_dirty, pass end) has a later record of."""

    head: PartitionHead
    first_dirty: int
    limit: int  # exclusive: where it ends unless the map is full before
    cleanable_end: int
    position: int  # where the rewrite begins
    clean_bytes: int  # of the segments below the position


class Compactor:
    """Maintains compacted topics. One partition at a time per process, because of memory and the single core.

    A subclass may implement `run_pass` differently (odradek.spark.compaction): it fills and rewrites elsewhere, and
    swaps in the results with `put_in_place`, from the log's start upwards.

    Args:
        log: the log table, for the state item.
        index, objects: rows and bytes.
        leases: renew the lease during the work.
    """

    acts_on_tail = False

    def __init__(self, tools: Tools, index: PartitionIndex, leases: MaintenanceLeases) -> None:
        self._log = tools.tables.log
        self._index = index
        self._objects = tools.objects
        self.swap = SegmentSwap(tools, index, leases)
        self._clock = tools.clock
        self._damages = tools.damages
        self._settings = tools.settings
        self._turn = asyncio.Semaphore(1)

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        if not look.config.is_compacted:
            return False
        policy = CompactionPolicy.of(look.topic, self._settings)
        state = await self._read_state(look.partition)
        return await self._plan(look.partition, look.head, state, policy) is not None

    async def run(self, held: HeldPartition) -> None:
        """Clean the partition if that is due. Raises LeaseLost, StoreError, FormatError."""
        if not held.config.is_compacted:
            return
        async with self._turn:
            await self.swap.hold_on(held)
            await self._compact(held)

    async def _compact(self, held: HeldPartition) -> None:
        head = await self._index.read_head(held.partition)
        if head is None:
            return
        state = await self._read_state(held.partition)
        policy = CompactionPolicy.of(held.topic, self._settings)
        work = await self._plan(held.partition, head, state, policy)
        while work is not None:
            state = await self.run_pass(held, work, policy)
            held.report.done["compaction_passes"] += 1
            if state.first_dirty >= work.cleanable_end:
                return
            work = replace(
                work,
                first_dirty=state.first_dirty,
                limit=work.cleanable_end,
                position=head.log_start_offset,
                clean_bytes=0,
            )

    async def _read_state(self, partition: PartitionId) -> CompactionState:
        item = await self._log.get(state_key(partition))
        return CompactionState() if item is None else decode_state(item)

    # --- 1. plan --------------------------------------------------------------------------------------------------

    async def _plan(
        self, partition: PartitionId, head: PartitionHead, state: CompactionState, policy: CompactionPolicy
    ) -> CompactionPass | None:
        first_dirty = max(state.first_dirty, head.log_start_offset)
        rows = [row async for row in self.segments_from(partition, head, first_dirty)]
        now_ms = self._clock.now_ms()
        dirty = dirty_part(rows, first_dirty, now_ms, policy)
        if state.is_under_way and first_dirty < state.pass_end <= dirty.end_offset:
            return CompactionPass(
                head, first_dirty, state.pass_end, dirty.end_offset, state.position, state.clean_bytes
            )
        overdue = await self._is_overdue(partition, rows, dirty, now_ms, policy)
        if not wants_cleaning(dirty, state.clean_bytes, policy, is_overdue=overdue):
            return None
        return CompactionPass(head, first_dirty, dirty.end_offset, dirty.end_offset, head.log_start_offset, 0)

    async def _is_overdue(
        self, partition: PartitionId, rows: Sequence[IndexRow], dirty: DirtyPart, now_ms: int, policy: CompactionPolicy
    ) -> bool:
        """Check the first batch of the first dirty segment, as Kafka does; read only if there is a maximum lag."""
        row = next(
            (row for row in rows if row.size_bytes and not row.is_damaged and row.base_offset < dirty.end_offset), None
        )
        if row is None or not policy.has_max_lag:
            return False
        assert row.segment_id is not None
        try:
            first_ms = await self._first_timestamp_ms(partition, row, row.segment_id)
        except (ObjectMissing, FormatError):
            return True  # the pass says what is wrong with it
        return is_overdue(first_ms, now_ms, policy)

    async def _first_timestamp_ms(self, partition: PartitionId, row: IndexRow, segment_id: bytes) -> int:
        if row.is_columnar:
            async for stretch in read_stretches(self._objects, partition, row, self._settings.compaction_read_bytes):
                return stretch[0][1].max_timestamp_ms
        data = await self._objects.get_range(segment_key(partition, row.base_offset, segment_id), 0, BATCH_HEADER_BYTES)
        if len(data) < BATCH_HEADER_BYTES:
            raise FormatError(f"segment {segment_id.hex()} ends within its first batch")
        return BatchHeader(*HEADER.unpack(data)).max_timestamp_ms

    # --- 2. fill --------------------------------------------------------------------------------------------------

    async def _fill(self, held: HeldPartition, work: CompactionPass, offsets: OffsetMap) -> int:
        """Note the keys of the dirty part; the offset up to which the map knows them all."""
        async for row in self.segments_from(held.partition, work.head, work.first_dirty):
            if row.base_offset >= work.limit:
                break
            if row.is_damaged:
                continue
            try:
                async for stretch in self._read(held, row):
                    for batch, header in stretch:
                        if header.last_offset < work.first_dirty or header.base_offset >= work.limit:
                            continue
                        full_at = read_keys(batch, header, work.first_dirty, offsets)
                        if full_at is not None:
                            return min(full_at, work.limit)
            except (ObjectMissing, FormatError) as damage:
                await self._mark_damaged(held, row, damage)
        return work.limit

    async def _mark_damaged(self, held: HeldPartition, row: IndexRow, damage: ObjectMissing | FormatError) -> None:
        """Flag a segment that cannot be read: it stays as it is. Raises LeaseLost, StoreError."""
        self._damages.note(held.topic.name, held.partition, row.base_offset, damage)
        await mark_damaged(self._index, held, row)
        held.report.done["rows_set_apart"] += 1

    # --- 3. rewrite -----------------------------------------------------------------------------------------------

    async def run_pass(self, held: HeldPartition, work: CompactionPass, policy: CompactionPolicy) -> CompactionState:
        """Do a pass; the state after it, written. Raises LeaseLost, StoreError, FormatError."""
        offsets = OffsetMap(self._settings.compaction_map_entries_max)
        pass_end = await self._fill(held, work, offsets)
        log_start = work.head.log_start_offset
        state = CompactionState(work.first_dirty, pass_end, work.position, work.clean_bytes)
        group = NewSegment()
        has_damage = await self._has_damage(held.partition, work.head, state.position)
        async for row in self.segments_from(held.partition, work.head, max(state.position, log_start)):
            if row.base_offset >= pass_end:
                break
            if not joins(group.rows, group.size_bytes, row, policy, ROWS_REPLACED_MAX):
                state = await self._finish(held, group, state)
                group = NewSegment()
            bounds = Bounds(log_start, pass_end, self._clock.now_ms(), keeps_tombstones=has_damage)
            rest = await self._rest(held, row, offsets, bounds, policy, work.cleanable_end)
            if rest is None:
                has_damage = True
                if group.rows:
                    state = await self._finish(held, group, state)
                    group = NewSegment()
                state = replace(state, position=row.end_offset, clean_bytes=state.clean_bytes + row.size_bytes)
                continue
            group.begin(row)
            for left, header in rest:
                group.add(left.batch, header, left.dropped, is_changed=left.is_changed)
        if group.rows:
            state = await self._finish(held, group, state)
        state = CompactionState(pass_end, pass_end, pass_end, state.clean_bytes)
        await self.write_state(held, state)
        return state

    async def _rest(
        self,
        held: HeldPartition,
        row: IndexRow,
        offsets: OffsetMap,
        bounds: Bounds,
        policy: CompactionPolicy,
        cleanable_end: int,
    ) -> list[tuple[CompactedBatch, BatchHeader]] | None:
        """What is left of the batches of a segment; None: it is damaged, and stays as it is."""
        if row.is_damaged:
            return None
        rest: list[tuple[CompactedBatch, BatchHeader]] = []
        try:
            async for stretch in self._read(held, row):
                for batch, header in stretch:
                    is_last = header.next_offset == cleanable_end
                    left = compact_batch(batch, header, offsets, bounds, policy, is_last=is_last)
                    # Copied: a stretch is not held by what stays of it.
                    kept = None if left.batch is None else bytes(left.batch)
                    rest.append((replace(left, batch=kept), header))
        except (ObjectMissing, FormatError) as damage:
            await self._mark_damaged(held, row, damage)
            return None
        return rest

    async def _has_damage(self, partition: PartitionId, head: PartitionHead, end_offset: int) -> bool:
        """Return True if a segment below an offset is damaged: of a pass that was interrupted there."""
        if end_offset <= head.log_start_offset:
            return False
        async for row in self.segments_from(partition, head, head.log_start_offset):
            if row.base_offset >= end_offset:
                return False
            if row.is_damaged:
                return True
        return False

    async def _finish(self, held: HeldPartition, group: NewSegment, state: CompactionState) -> CompactionState:
        """Replace the old segments by the new one if it is an improvement; return the state afterwards."""
        if not group.is_worthwhile:
            return replace(
                state, position=group.rows[-1].end_offset, clean_bytes=state.clean_bytes + group.replaced_bytes
            )
        row = await self.swap.upload(held, group.rows, group.build())
        return await self.put_in_place(held, group.rows, row, group.dropped, state)

    async def put_in_place(
        self, held: HeldPartition, old: Sequence[IndexRow], row: IndexRow, dropped: int, state: CompactionState
    ) -> CompactionState:
        """Have an uploaded segment take the place of others; the state after it, written.

        Args:
            dropped: how many records of the old ones it lacks.

        Raises:
            LeaseLost: nothing has changed.
            StoreUnavailable, OutcomeUnknown: either may be there.
        """
        await self.swap.replace(held, old, [row])
        replaced_bytes = sum(each.size_bytes for each in old)
        held.report.done["records_dropped"] += dropped
        held.report.done["bytes_reclaimed"] += replaced_bytes - row.size_bytes
        held.report.done["segments_compacted"] += len(old)
        state = replace(state, position=row.end_offset, clean_bytes=state.clean_bytes + row.size_bytes)
        await self.write_state(held, state)
        return state

    # --- the ports ------------------------------------------------------------------------------------------------

    async def segments_from(self, partition: PartitionId, head: PartitionHead, offset: int) -> AsyncIterator[IndexRow]:
        """The segments from the one that holds the offset on, up to the first row that is none."""
        first = await self._index.row_at(partition, offset, merged_offset=head.merged_offset)
        rows = [first] if first is not None and first.end_offset > offset else []
        while True:
            for row in rows:
                if not row.is_segment:
                    return
                offset = row.end_offset
                yield row
            rows = await self._index.rows_from(partition, offset, _ROWS_PER_QUERY)
            if not rows:
                return

    async def _read(self, held: HeldPartition, row: IndexRow) -> AsyncIterator[list[tuple[memoryview, BatchHeader]]]:
        """The batches of a segment; the lease is held meanwhile."""
        async for stretch in read_stretches(self._objects, held.partition, row, self._settings.compaction_read_bytes):
            await self.swap.hold_on(held)
            yield stretch

    # --- 4. state -------------------------------------------------------------------------------------------------

    async def write_state(self, held: HeldPartition, state: CompactionState) -> None:
        """Raises LeaseLost, StoreUnavailable, OutcomeUnknown."""
        operations: list[Operation] = [held.lease.held, Put(state_key(held.partition), encode_state(state))]
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._log.transact(operations)
                return
            except TransactionCanceled:
                raise LeaseLost(str(held.partition)) from None
            except OutcomeUnknown:
                if attempt == _ATTEMPTS:
                    raise
