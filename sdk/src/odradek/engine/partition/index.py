"""The partition index: heads and index rows over the log table, and the two conditional writes that move them.

Append (one update, no read before it) and spill (row first, then the head forgets) are here as data: a condition and
actions. What a refusal means is decided in append_decisions.py; loops and back-off are in append.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from odradek.engine.partition.claims import FLEET_CLAIM, Claim
from odradek.engine.partition.fields import check_version, is_version
from odradek.engine.partition.head import (
    NO_FLOOR,
    VERSION,
    PartitionHead,
    ProducerState,
    decode_head,
    decode_producer,
    encode_head,
    encode_producer,
    encode_recent,
)
from odradek.engine.partition.index_row import IndexRow, decode_index_row, encode_index_row
from odradek.engine.partition.maintenance_lease import LeaseLost, MaintenanceLease
from odradek.errors import ConditionFailed, OutcomeUnknown, StoreError, TransactionCanceled
from odradek.format.item_keys import (
    HEAD_SK,
    INDEX_END,
    INDEX_PREFIX,
    index_base_offset,
    index_sk,
    partition_pk,
    producer_sk,
)
from odradek.format.tail_entry import TailEntry, decode_tail_entry, encode_tail_entry
from odradek.limits import SPILL_ENTRIES_MAX, TABLE_TRANSACTION_ITEMS_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import (
    Absent,
    Action,
    Add,
    AnyOf,
    Append,
    Compare,
    Condition,
    Contains,
    Delete,
    Item,
    Key,
    Not,
    Operation,
    Put,
    Remove,
    RemoveFirst,
    Set,
    Table,
    Update,
    all_of,
)
from odradek.settings import Settings

# What a head item takes without tail and producers, and what an entry of either adds (DynamoDB's rules).
_HEAD_BYTES = 164
_TAIL_ENTRY_BYTES = 61
_PRODUCER_BYTES = 30
# A spill is tried by the append that crosses the bound. In case that one died, it is tried again when the tail is too
# long by so many entries, and whenever that has doubled: if each append tried, all but one would do so in vain.
_SPILL_RETRY_ENTRIES = 4
_ROWS_A_SPILL_MAX = 4
_EVICTIONS_TRIED = 2  # of those that the first refusal left; then the spill goes on without
_SWAP_ATTEMPTS = 4
ROWS_REPLACED_MAX = TABLE_TRANSACTION_ITEMS_MAX - 2  # the lease's check and the head's update are among them


def head_key(partition: PartitionId) -> Key:
    """The key of a partition's head."""
    return Key(partition_pk(partition), HEAD_SK)


@dataclass(frozen=True, slots=True)
class SequenceClause:
    """The part of an append that holds a producer's sequence: one more condition and action."""

    condition: Condition
    action: Action


class PartitionIndex:
    """Heads and index rows of all partitions."""

    def __init__(self, log: Table, settings: Settings) -> None:
        self._log = log
        self._settings = settings

    # --- heads ----------------------------------------------------------------------------------------------------

    async def create_head(self, partition: PartitionId, sweep_floor: bytes = NO_FLOOR) -> None:
        """Make an empty head with that sweep floor; one that is there already stays, its floor raised where lower."""
        head = PartitionHead(sweep_floor=sweep_floor)
        try:
            await self._log.put(Put(head_key(partition), encode_head(head), Absent(("v",))))
        except ConditionFailed:
            await self.raise_sweep_floor(partition, sweep_floor)

    async def raise_sweep_floor(self, partition: PartitionId, floor: bytes) -> None:
        """From now on the head refuses object ids below the floor; one that is as high, or gone, stays.

        Raises StoreUnavailable, OutcomeUnknown (say it again: it only rises); UnknownVersion: it could not be raised.
        """
        condition = all_of(is_version(VERSION), Compare(("wf",), "<", floor))
        try:
            await self._log.update(Update(head_key(partition), (Set(("wf",), floor),), condition))
        except ConditionFailed as refused:
            if refused.current is not None:
                check_version(refused.current, VERSION, "a partition head")

    async def delete_head(self, partition: PartitionId) -> None:
        """Remove the head: every later append to the partition is refused."""
        await self._log.delete(Delete(head_key(partition)))

    async def read_head(self, partition: PartitionId) -> PartitionHead | None:
        """The head by a consistent read, or None. Raises StoreUnavailable, FormatError."""
        item = await self._log.get(head_key(partition))
        return None if item is None else decode_head(item)

    async def read_heads(
        self, partitions: Sequence[PartitionId], *, consistent: bool = True
    ) -> list[PartitionHead | None]:
        """The heads in the order asked, in batches of a hundred. Raises StoreUnavailable, FormatError."""
        if len(partitions) == 1 and consistent:
            return [await self.read_head(partitions[0])]
        items = await self._log.get_many([head_key(partition) for partition in partitions], consistent=consistent)
        return [None if item is None else decode_head(item) for item in items]

    async def append(
        self,
        partition: PartitionId,
        entries: Sequence[TailEntry],
        clauses: Sequence[SequenceClause],
        expected_offset: int | None,
        claim: Claim = FLEET_CLAIM,
    ) -> PartitionHead:
        """Append entries that share one object and one commit time; the new head says where they went.

        Raises ConditionFailed, StoreUnavailable, OutcomeUnknown: see append_decisions.after_refusal.
        """
        update = self.append_update(partition, entries, clauses, expected_offset, claim)
        return decode_head(await self._log.update(update))

    def append_update(
        self,
        partition: PartitionId,
        entries: Sequence[TailEntry],
        clauses: Sequence[SequenceClause],
        expected_offset: int | None = None,
        claim: Claim = FLEET_CLAIM,
    ) -> Update:
        """The update that appends entries of one commit time; a transaction may hold it as it is."""
        packed = tuple(encode_tail_entry(entry) for entry in entries)
        conditions: list[Condition] = [
            is_version(VERSION),
            claim.condition,
            Compare(("wf",), "<=", min(entry.object_id for entry in entries)),
            Compare(("sf",), "<", entries[0].commit_ms),
            Not(Contains(("t",), packed[0])),
            *(clause.condition for clause in clauses),
        ]
        if expected_offset is not None:
            conditions.append(Compare(("no",), "=", expected_offset))
        actions: list[Action] = [
            Add(("no",), sum(entry.offset_count for entry in entries)),
            Add(("by",), sum(entry.length for entry in entries)),
            Append(("t",), packed),
            *(clause.action for clause in clauses),
        ]
        return Update(head_key(partition), tuple(actions), all_of(*conditions))

    # --- spill ----------------------------------------------------------------------------------------------------

    def wants_spill(self, head: PartitionHead, added: int) -> bool:
        """Whether the append that made this head by so many entries should spill."""
        excess = self._excess(head)
        return _spills_due(excess) > _spills_due(excess - added)

    def is_long(self, head: PartitionHead, more: int = 0) -> bool:
        """Whether the tail, with so many more entries, is longer than a head should hold."""
        return self._excess(head) + more > 0

    def _excess(self, head: PartitionHead) -> int:
        room = self._settings.head_bytes_max - _HEAD_BYTES
        for state in head.producers.values():
            room -= _PRODUCER_BYTES + 18 * len(state.recent)
        return len(head.tail) + 1 - max(room // _TAIL_ENTRY_BYTES, self._settings.spill_entries)

    async def spill(self, partition: PartitionId, head: PartitionHead) -> None:
        """Move the oldest tail entries to an index row, then let the head forget them; may be repeated or cut short.

        Whoever writes the row first decides how many entries it holds; everyone else goes by the row. The head is
        updated on the condition that its tail still starts where the row starts. Where the row was begun when the tail
        was shorter, there is another for the rest. Raises StoreError.
        """
        for _ in range(_ROWS_A_SPILL_MAX):
            rest = await self._spill_row(partition, head)
            if rest is None:
                return
            head = rest

    async def _spill_row(self, partition: PartitionId, head: PartitionHead) -> PartitionHead | None:
        """One row: the head after it where it holds less than it should by now, else None.

        A producer that should be evicted stays where its row could not be written, or where it wrote meanwhile: it does
        not keep the entries of all in the tail.
        """
        count = self._settings.spill_entries + max(0, self._excess(head) - 1)
        row = wanted = self._oldest_row(head, min(count, SPILL_ENTRIES_MAX))
        try:
            await self._log.put(
                Put(Key(partition_pk(partition), index_sk(row.base_offset)), encode_index_row(row), Absent(("v",)))
            )
        except ConditionFailed as refused:
            if refused.current is None:
                return None
            row = decode_index_row(row.base_offset, refused.current)
        if row.is_segment or len(row.entries) > len(head.tail):
            return None  # the tail that we saw is history
        evicted = await self._write_producer_rows(partition, head, self._evicted(head, row), row.spill_floor_ms)
        for evictions in range(_EVICTIONS_TRIED, -1, -1):
            condition, actions = self._forget(head, row, evicted if evictions else frozenset())
            try:
                after = decode_head(await self._log.update(Update(head_key(partition), actions, condition)))
                return after if row.end_offset < wanted.end_offset else None
            except ConditionFailed as refused:
                now = _still(head, refused.current)
            if now is None:
                break  # another spill was first
            evicted = _still_idle(evicted, head, now)
            head = now
        return None

    def _oldest_row(self, head: PartitionHead, count: int) -> IndexRow:
        entries = tuple(decode_tail_entry(packed) for packed in head.tail[:count])
        return IndexRow(
            base_offset=head.tail_base_offset,
            end_offset=head.tail_base_offset + sum(entry.offset_count for entry in entries),
            max_timestamp_ms=(newest_ms := max(entry.max_timestamp_ms for entry in entries)),
            size_bytes=sum(entry.length for entry in entries),
            spill_floor_ms=max(head.spill_floor_ms, *(entry.commit_ms for entry in entries)),
            entries=entries,
            running_max_timestamp_ms=max(head.running_max_timestamp_ms, newest_ms),
        )

    def _forget(
        self, head: PartitionHead, row: IndexRow, evicted: AbstractSet[int]
    ) -> tuple[Condition, tuple[Action, ...]]:
        """The head's side of a spill: drop the row's entries, remember what duplicates need, evict producers."""
        leaving = {entry.producer_id for entry in row.entries if entry.producer_id in head.producers}
        conditions: list[Condition] = [is_version(VERSION), Compare(("tb",), "=", row.base_offset)]
        actions: list[Action] = [
            RemoveFirst(("t",), len(row.entries)),
            Set(("tb",), row.end_offset),
            Set(("sf",), row.spill_floor_ms),
            Set(("rm",), row.running_max_timestamp_ms),
        ]
        for producer_id in sorted(leaving - evicted):
            batches = [batch for batch in head.recent_batches(producer_id) if batch.base_offset < row.end_offset]
            actions.append(Set(("p", str(producer_id), "r"), encode_recent(batches)))
            committed_ms = max(entry.commit_ms for entry in row.entries if entry.producer_id == producer_id)
            actions.append(Set(("p", str(producer_id), "t"), committed_ms))
        for producer_id in sorted(evicted):
            state, path = head.producers[producer_id], ("p", str(producer_id))
            conditions.append(Compare((*path, "e"), "=", state.epoch))
            conditions.append(Compare((*path, "s"), "=", state.next_sequence))
            actions.append(Remove(path))
        if evicted:
            actions.append(Add(("pv",), len(evicted)))
        return all_of(*conditions), tuple(actions)

    def _evicted(self, head: PartitionHead, row: IndexRow) -> set[int]:
        """The producers that leave the head.

        They wrote nothing that stays in the tail, and either nothing for a while before it (what the head carries of
        them costs units with every append), or too many are there.
        """
        staying = {entry.producer_id for offset, entry in head.entries() if offset >= row.end_offset}
        idle = [producer_id for producer_id in head.producers if producer_id not in staying]
        idle.sort(key=lambda producer_id: max((b.base_offset for b in head.recent_batches(producer_id)), default=-1))
        too_many = max(0, len(head.producers) - self._settings.producers_in_head_max)
        silent_since_ms = row.spill_floor_ms - self._settings.producer_idle_ms
        return set(idle[:too_many]) | {each for each in idle if 0 < head.producers[each].spilled_ms < silent_since_ms}

    async def _write_producer_rows(
        self, partition: PartitionId, head: PartitionHead, producer_ids: Iterable[int], committed_ms: int
    ) -> AbstractSet[int]:
        """Write the rows of producers that are to leave, all at once; those whose row is surely written."""

        async def write(producer_id: int) -> bool:
            state = head.producers[producer_id]
            state = replace(state, recent=head.recent_batches(producer_id), spilled_ms=0)
            try:
                return await self._write_producer_row(partition, producer_id, state, committed_ms)
            except StoreError:
                return False

        ids = list(producer_ids)
        written = await asyncio.gather(*(write(producer_id) for producer_id in ids))
        return {producer_id for producer_id, is_written in zip(ids, written, strict=True) if is_written}

    async def _write_producer_row(
        self, partition: PartitionId, producer_id: int, state: ProducerState, committed_ms: int
    ) -> bool:
        """Write an evicted producer's row unless it holds something newer (then our head is history: False).

        `o`, the offset of the producer's last batch, orders the rows of one producer. The row counts only once the head
        has dropped the producer on the condition that its state is the row's. `t`, from which its expiry counts
        (producer_expiry.py), is the new spill floor: no batch of a producer that leaves was committed after it.
        """
        newest = max(batch.base_offset for batch in state.recent)
        row = {"v": VERSION, "o": newest, "t": committed_ms, **encode_producer(state)}
        condition = AnyOf((Absent(("v",)), all_of(is_version(VERSION), Compare(("o",), "<=", newest))))
        try:
            await self._log.put(Put(Key(partition_pk(partition), producer_sk(producer_id)), row, condition))
        except ConditionFailed:
            return False
        return True

    async def read_producer_row(self, partition: PartitionId, producer_id: int) -> ProducerState | None:
        """An evicted producer's state, or None. Raises StoreUnavailable, FormatError."""
        item = await self._log.get(Key(partition_pk(partition), producer_sk(producer_id)))
        if item is None:
            return None
        check_version(item, VERSION, "a producer's row")
        return decode_producer(item)

    # --- rows -----------------------------------------------------------------------------------------------------

    # A ghost: whoever spills writes a row on the condition that there is none. One that slept since before a merge took
    # the row's place writes it again. What such a row says is true, but its WAL bytes may be swept. It begins below the
    # head's merged offset, which the merge raises with its swap, and within the segment before it, as long as retention
    # leaves that. It may end anywhere: its spiller, which did not see the row of the first one, took as many entries as
    # it thought right. So what overlaps it is not for that reason a ghost: only the merged offset says what is one.

    async def row_at(self, partition: PartitionId, offset: int, *, merged_offset: int = 0) -> IndexRow | None:
        """The index row that holds the offset, or the last one before it; None where there is none.

        Args:
            merged_offset: the head's: spilled rows below it are ghosts and passed over.
        """
        limit = 1
        while True:
            rows = await self.rows_down_from(partition, offset, limit)
            for row in rows:
                if not is_ghost(row, merged_offset):
                    return row
            if len(rows) < limit:
                return None
            limit = max(16, limit * 4)

    async def rows_down_from(self, partition: PartitionId, offset: int, limit: int) -> list[IndexRow]:
        """Index rows that begin at or below the offset, newest first; ghosts among them."""
        rows = await self._log.query(
            partition_pk(partition), sk_from=INDEX_PREFIX, sk_to=index_sk(offset + 1), descending=True, limit=limit
        )
        return [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]

    async def rows_from(self, partition: PartitionId, base_offset: int, limit: int | None = None) -> list[IndexRow]:
        """Index rows whose base offset is at least this, oldest first.

        Ghosts are left out where `base_offset` is that of a row that is none. Fewer rows than `limit` do
        not mean that these are the last: go on from the last one's end until there are none.
        """
        rows = await self._log.query(
            partition_pk(partition), sk_from=index_sk(base_offset), sk_to=INDEX_END, limit=limit
        )
        found = [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]
        return without_ghosts(found)

    async def rows_between(
        self, partition: PartitionId, start_offset: int, end_offset: int, limit: int
    ) -> list[IndexRow]:
        """Index rows that begin in [start_offset, end_offset), oldest first; ghosts among them."""
        rows = await self._log.query(
            partition_pk(partition), sk_from=index_sk(start_offset), sk_to=index_sk(end_offset), limit=limit
        )
        return [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]

    async def newest_rows(self, partition: PartitionId, limit: int) -> list[IndexRow]:
        """The newest index rows, newest first; ghosts among them."""
        rows = await self._log.query(
            partition_pk(partition), sk_from=INDEX_PREFIX, sk_to=INDEX_END, descending=True, limit=limit
        )
        return [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]

    async def replace_rows(
        self,
        lease: MaintenanceLease,
        old: Sequence[IndexRow],
        new: Sequence[IndexRow],
        *,
        merged_offset: int | None = None,
    ) -> None:
        """Replace index rows in one transaction under the lease; a reader sees the old ones or the new ones.

        At most `ROWS_REPLACED_MAX` of both together (rows of one base offset count once). Rows are recognised by kind,
        end and segment, so a repetition changes nothing.

        Args:
            merged_offset: the head's from now on; given by whoever replaces spilled rows, since it makes late
                repetitions of their spills ghosts.

        Raises:
            LeaseLost: refused: another maintainer has the partition, or the old rows are no longer there.
            OutcomeUnknown: it may still be applied, until the lease's epoch has moved on.
            StoreUnavailable: surely not applied.
        """
        operations = _row_swap(lease, old, new, merged_offset)
        unknown: OutcomeUnknown | None = None
        for _ in range(_SWAP_ATTEMPTS):
            try:
                await self._log.transact(operations)
                return
            except TransactionCanceled as canceled:
                if await self._holds(lease.partition, old, new):
                    return
                if unknown is not None and canceled.failures[0] is None:
                    raise unknown from None
                raise LeaseLost(f"{lease.partition}: the rows were changed by another maintainer") from None
            except OutcomeUnknown as error:
                unknown = error
        assert unknown is not None
        raise unknown

    async def _holds(self, partition: PartitionId, old: Sequence[IndexRow], new: Sequence[IndexRow]) -> bool:
        """Whether exactly the new rows are there where the old ones were."""
        bases = sorted({row.base_offset for row in (*old, *new)})
        items = await self._log.get_many([Key(partition_pk(partition), index_sk(base)) for base in bases])
        wanted = {row.base_offset: row for row in new}
        found = {
            base: decode_index_row(base, item) for base, item in zip(bases, items, strict=True) if item is not None
        }
        return found == wanted

    async def advance_log_start(self, partition: PartitionId, offset: int) -> PartitionHead | None:
        """Raise the log start offset to `offset`, never past the high watermark; the head after it, None: it is gone.

        Raises StoreUnavailable, OutcomeUnknown (say it again: it only rises).
        """
        condition = all_of(is_version(VERSION), Compare(("ls",), "<", offset), Compare(("no",), ">=", offset))
        try:
            return decode_head(await self._log.update(Update(head_key(partition), (Set(("ls",), offset),), condition)))
        except ConditionFailed as refused:
            return None if refused.current is None else decode_head(refused.current)

    async def delete_items(self, partition: PartitionId) -> int:
        """Remove everything stored for a partition of a deleted topic; returns how many items."""
        rows = await self._log.query(partition_pk(partition))
        for start in range(0, len(rows), 25):
            await asyncio.gather(*(self._log.delete(Delete(row.key)) for row in rows[start : start + 25]))
        return len(rows)


def _still(head: PartitionHead, item: Item | None) -> PartitionHead | None:
    """The head of the item where its tail starts as this head's does, else None."""
    if item is None or item.get("v") != VERSION:
        return None
    now = decode_head(item)
    return now if now.tail_base_offset == head.tail_base_offset else None


def _still_idle(evicted: AbstractSet[int], seen: PartitionHead, now: PartitionHead) -> AbstractSet[int]:
    """Those whose rows, written by the head that was seen, are still true."""
    return {each for each in evicted if now.producers.get(each) == seen.producers[each]}


def _spills_due(excess: int) -> int:
    """How many spills were tried by the appends that made the tail so much too long."""
    return 0 if excess <= 0 else max(excess, _SPILL_RETRY_ENTRIES - 1).bit_length()


def is_ghost(row: IndexRow, merged_offset: int) -> bool:
    """Whether nobody goes by this row. The offset only rises: one that was read earlier calls no other row a ghost."""
    return not row.is_segment and row.base_offset < merged_offset


def without_ghosts(rows: Sequence[IndexRow]) -> list[IndexRow]:
    """Rows, oldest first, without those that begin within the one before; the first must be none."""
    kept: list[IndexRow] = []
    for row in rows:
        if not kept or row.base_offset >= kept[-1].end_offset:
            kept.append(row)
    return kept


def _row_swap(
    lease: MaintenanceLease, old: Sequence[IndexRow], new: Sequence[IndexRow], merged_offset: int | None
) -> list[Operation]:
    """The operations of one swap: the lease's check first."""
    pk = partition_pk(lease.partition)
    before = {row.base_offset: row for row in old}
    operations: list[Operation] = [lease.held]
    for row in new:
        there = before.pop(row.base_offset, None)
        condition = Absent(("v",)) if there is None else _is_row(there)
        operations.append(Put(Key(pk, index_sk(row.base_offset)), encode_index_row(row), condition))
    operations += [Delete(Key(pk, index_sk(base)), _is_row(row)) for base, row in before.items()]
    if merged_offset is not None:
        raise_it = (Set(("mo",), merged_offset),)
        condition = all_of(is_version(VERSION), Compare(("mo",), "<", merged_offset))
        operations.append(Update(head_key(lease.partition), raise_it, condition))
    return operations


def _is_row(row: IndexRow) -> Condition:
    """True of the item of this row: a row never changes under the same kind, end and segment."""
    same = [Compare(("k",), "=", "s" if row.is_segment else "w"), Compare(("n",), "=", row.end_offset)]
    if row.segment_id is not None:
        same.append(Compare(("o",), "=", row.segment_id))
    return all_of(*same)
