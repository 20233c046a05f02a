"""Spill: the oldest tail entries go to an index row, idle producers to rows of their own; then the head forgets them.

    1  index row      create-only: the first writer decides how many entries it has
    2  head           one bounded update after the other (spill_decisions.py); the last removes the row's entries
    3  producer rows  of evicted producers, then the head without them; before 2, and together with it if they are few

Nothing is removed from the head before it is in a row, so a spill may be interrupted between any two writes, and any
process may repeat it. A row or a head that has grown far too large only takes more updates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import (
    VERSION,
    PartitionHead,
    ProducerState,
    decode_head,
    encode_producer,
    head_key,
)
from odradek.engine.partition.index_row import IndexRow, decode_index_row, encode_index_row
from odradek.engine.partition.spill_decisions import (
    eviction,
    is_crowded,
    leave_together,
    next_forget,
    oldest_row,
    who_leaves,
)
from odradek.errors import ConditionFailed, ItemTooLarge, StoreError
from odradek.format.item_keys import index_sk, partition_pk, producer_sk
from odradek.format.tail_entry import decode_tail_entry
from odradek.limits import SPILL_ENTRIES_MAX, SPILL_SETTLED_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, AnyOf, Compare, Item, Key, Put, Table, Update, all_of
from odradek.settings import Settings

# What a head item takes without tail and producers, and what an entry of either adds (DynamoDB's rules).
_HEAD_BYTES = 164
_TAIL_ENTRY_BYTES = 61
_PRODUCER_BYTES = 30
# A spill is tried by the append that crosses the bound. In case that one died, it is tried again when the tail is too
# long by so many entries, whenever that has doubled, and in the end at every so many more: if each append tried, all
# but one would do so in vain.
_RETRY_ENTRIES_MIN = 4
_RETRY_ENTRIES_MAX = 64
_ROWS_A_SPILL_MAX = 4
_REFUSALS_MAX = 8  # one after the other
_EVICTIONS_TRIED = 2  # of those that the first refusal left; then the spill continues without


class Spills:
    """Spills of all partitions."""

    def __init__(self, log: Table, settings: Settings) -> None:
        self._log = log
        self._settings = settings

    def are_due(self, head: PartitionHead, added: int) -> bool:
        """Return True if the append that added so many entries to this head should spill."""
        excess = self._excess(head)
        return spills_tried(excess) > spills_tried(excess - added)

    def is_long(self, head: PartitionHead, more: int = 0) -> bool:
        """Return True if the tail, with so many more entries, is too long, or producers crowd the head."""
        return is_crowded(head, self._settings) or self._excess(head) + more > 0

    def is_far_too_long(self, head: PartitionHead) -> bool:
        """Return True if the head costs its writers several times the usual."""
        return self._excess(head) > _RETRY_ENTRIES_MAX

    def is_overfull(self, head: PartitionHead) -> bool:
        """Return True if the excess is more than a row's entries."""
        return self._excess(head) > SPILL_ENTRIES_MAX

    def _excess(self, head: PartitionHead) -> int:
        room = self._settings.head_bytes_max - _HEAD_BYTES
        for state in head.producers.values():
            room -= _PRODUCER_BYTES + 18 * len(state.recent)
        return len(head.tail) + 1 - max(room // _TAIL_ENTRY_BYTES, self._settings.spill_entries)

    async def run(self, partition: PartitionId, head: PartitionHead) -> None:
        """Spill the excess of the head.

        If a row was begun when the tail was shorter, or if a row is full, another one takes the rest.
        Raises StoreError.
        """
        for _ in range(_ROWS_A_SPILL_MAX):
            rest = await self._spill_row(partition, head)
            if rest is None:
                return
            head = rest

    async def _spill_row(self, partition: PartitionId, head: PartitionHead) -> PartitionHead | None:
        """Spill one row; return the head afterwards if it is still too long, else None."""
        count = min(self._settings.spill_entries + max(0, self._excess(head) - 1), SPILL_ENTRIES_MAX)
        wanted = oldest_row(head, count) if head.tail else None
        row = None
        if wanted is not None:
            row = await self._write_row(partition, wanted)
            if row is None or row.is_segment or len(row.entries) > len(head.tail):
                return None  # the tail that we saw is history
        after = await self._forget(partition, head, row)
        if after is None or wanted is None or row is None:
            return None
        return after if row.end_offset < wanted.end_offset or self.is_far_too_long(after) else None

    async def _write_row(self, partition: PartitionId, row: IndexRow) -> IndexRow | None:
        """Write the row, or return the existing one; None: the partition does not exist."""
        key = Key(partition_pk(partition), index_sk(row.base_offset))
        if len(row.entries) == SPILL_ENTRIES_MAX:
            # So much is too much that others are likely to be at it; a refused write costs as much as the row's.
            there = await self._log.get(key)
            if there is not None:
                return decode_index_row(row.base_offset, there)
        try:
            await self._log.put(Put(key, encode_index_row(row), Absent(("v",))))
        except ConditionFailed as refused:
            return None if refused.current is None else decode_index_row(row.base_offset, refused.current)
        return row

    async def _forget(self, partition: PartitionId, head: PartitionHead, row: IndexRow | None) -> PartitionHead | None:
        """Let the head forget the row's entries, then its idle producers; the head after it, None: it was refused."""
        idle = who_leaves(head, row, self._settings)
        if row is not None:
            together = leave_together(row, idle)
            after = await self._forget_entries(partition, head, row, idle if together else ())
            if after is None or together:
                return after
            head, idle = after, who_leaves(after, None, self._settings)
        return await self._evict(partition, head, idle)

    async def _forget_entries(
        self, partition: PartitionId, head: PartitionHead, row: IndexRow, idle: Sequence[int]
    ) -> PartitionHead | None:
        """Make as many updates as necessary; return the last head, None: another spill was first, or many compete.

        An idle producer stays if its row could not be written, or if it has written meanwhile: it does not keep the
        other entries in the tail.
        """
        evictable = await self._write_producer_rows(partition, head, idle, row.spill_floor_ms)
        refusals, made_room = 0, False
        while refusals <= _REFUSALS_MAX:
            step = next_forget(head, row, evictable)
            try:
                head = decode_head(await self._log.update(Update(head_key(partition), step.actions, step.condition)))
            except ConditionFailed as refused:
                refusals += 1
                now = _still(head, refused.current)
                if now is None:
                    return None
                evictable = _still_idle(evictable, head, now) if refusals <= _EVICTIONS_TRIED else frozenset()
                head = now
            except ItemTooLarge:
                if made_room:
                    raise
                # Nothing can be noted in a head that is full to the last byte: producers go, what is to be noted first.
                made_room, evictable = True, frozenset()
                leaving = {entry.producer_id for entry in row.entries} & head.producers.keys()
                head = await self._evict(partition, head, sorted(leaving))
            else:
                refusals = 0
                if step.is_last:
                    return head
        return None

    async def _evict(self, partition: PartitionId, head: PartitionHead, idle: Sequence[int]) -> PartitionHead:
        """Move idle producers that have not written meanwhile to separate rows; return the head afterwards."""
        for start in range(0, len(idle), SPILL_SETTLED_MAX):
            chunk = idle[start : start + SPILL_SETTLED_MAX]
            evictable = await self._write_producer_rows(partition, head, chunk, head.spill_floor_ms)
            for _ in range(_EVICTIONS_TRIED + 1):
                if not evictable:
                    break
                condition, actions = eviction(head, evictable)
                try:
                    head = decode_head(await self._log.update(Update(head_key(partition), actions, condition)))
                    break
                except ConditionFailed as refused:
                    if refused.current is None or refused.current.get("v") != VERSION:
                        return head
                    now = decode_head(refused.current)
                    evictable, head = _still_idle(evictable, head, now), now
        return head

    async def _write_producer_rows(
        self, partition: PartitionId, head: PartitionHead, producer_ids: Iterable[int], floor_ms: int
    ) -> AbstractSet[int]:
        """Write the rows of producers that are to leave, all at once; return those whose row is certainly written.

        `t`, from which a row's expiry counts (producer_expiry.py), is not earlier than any batch of the tail.
        """
        ids = [producer_id for producer_id in producer_ids if producer_id in head.producers]
        if not ids:
            return frozenset()
        recent = head.all_recent_batches(ids)
        committed_ms = max([floor_ms, *(decode_tail_entry(packed).commit_ms for packed in head.tail)])

        async def write(producer_id: int) -> bool:
            state = head.producers[producer_id]
            state = replace(state, recent=recent[producer_id], spilled_ms=0)
            try:
                return await self._write_producer_row(partition, producer_id, state, committed_ms)
            except StoreError:
                return False

        written = await asyncio.gather(*(write(producer_id) for producer_id in ids))
        return {producer_id for producer_id, is_written in zip(ids, written, strict=True) if is_written}

    async def _write_producer_row(
        self, partition: PartitionId, producer_id: int, state: ProducerState, committed_ms: int
    ) -> bool:
        """Write an evicted producer's row unless it holds something newer (then our head is history: False).

        `o`, the offset of the producer's last batch, orders the rows of one producer. The row counts only once the head
        has dropped the producer on the condition that its state is the row's.
        """
        newest = max((batch.base_offset for batch in state.recent), default=-1)
        row = {"v": VERSION, "o": newest, "t": committed_ms, **encode_producer(state)}
        condition = AnyOf((Absent(("v",)), all_of(is_version(VERSION), Compare(("o",), "<=", newest))))
        try:
            await self._log.put(Put(Key(partition_pk(partition), producer_sk(producer_id)), row, condition))
        except ConditionFailed:
            return False
        return True


def _still(head: PartitionHead, item: Item | None) -> PartitionHead | None:
    """The head of the item where its tail starts as this head's does, else None."""
    if item is None or item.get("v") != VERSION:
        return None
    now = decode_head(item)
    return now if now.tail_base_offset == head.tail_base_offset else None


def _still_idle(evictable: AbstractSet[int], seen: PartitionHead, now: PartitionHead) -> AbstractSet[int]:
    """Those whose rows, written by the head that was seen, are still true."""
    return {each for each in evictable if now.producers.get(each) == seen.producers.get(each) is not None}


def spills_tried(excess: int) -> int:
    """Return the number of spills that the appends that caused this excess have tried."""
    if excess <= 0:
        return 0
    doubled = max(min(excess, _RETRY_ENTRIES_MAX), _RETRY_ENTRIES_MIN - 1).bit_length()
    return doubled + max(0, excess - _RETRY_ENTRIES_MAX) // _RETRY_ENTRIES_MAX
