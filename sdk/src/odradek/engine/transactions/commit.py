"""The atomic commit: one transaction adds entries to the logs of many partitions, commits offsets, updates a row.

    read the heads ─> decide each partition (transaction_decisions.follow) ─> one TransactWriteItems ─> spill

Partitions that share a head are one item of it.

The *deciding row* is that of a transactional id, or of a writer of numbered batches. The same transaction changes it,
on condition that it is as the caller read it. So the commit is applied at most once, whatever is repeated, lost or
late: a second application finds the row changed. A process that does not know the outcome reads the row.

Each attempt decides on what it has just read. If it is refused because an item changed in between, there is another
attempt. A permanent cause (the topic was deleted, the sweep has passed an object, a producer wrote under a newer epoch,
another writer took offsets that the producer was told, the group's members changed) gives `Failed`, and nothing of the
transaction ever becomes visible. What a transaction wrote becomes visible item by item: the row may say that the
producer's last one is committed while a head does not have it yet. So no cause is believed before a second look, by
TransactGetItems, which is refused until that transaction is through.

A commit does not need the leader: its condition has leader and epoch as they were read. A gateway that leads the
partition accepts an entry of another process, since the offset of its own append comes from the head's new image.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from odradek.engine.append.commit_times import stamped
from odradek.engine.classic.groups import MEMBER_ID
from odradek.engine.groups.items import group_key
from odradek.engine.groups.leases import LeaseSlot, joined, lease_slot
from odradek.engine.marks import Marks
from odradek.engine.offsets.classic import explain_fence, fence
from odradek.engine.offsets.decisions import Committer, commit_operation, decide_refusal
from odradek.engine.partition.applied_reads import transact_get_all
from odradek.engine.partition.claims import Claim
from odradek.engine.partition.head_append import PartitionAppend
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.producer_places import places_of
from odradek.engine.partition.producer_rows import EvictedProducer
from odradek.engine.partition.shared_head import HeadImage, view_of
from odradek.engine.tools import Tools
from odradek.engine.transactions.decisions import Follows, ReadProducerRow, Unfit, follow, keeps_told_offsets
from odradek.engine.transactions.items import PendingOffset
from odradek.errors import (
    ErrorCode,
    FormatError,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.format.tail_entry import TailEntry
from odradek.limits import TABLE_TRANSACTION_ITEMS_MAX, TRANSACTION_BATCHES_MAX, TRANSACTION_BATCHES_PER_HEAD_MAX
from odradek.model.classic_group import ClassicIdentity
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key, Table, Update
from odradek.ports.tables import TableOperation

_SPILLS_MAX = 8  # rounds after one commit; a later append continues


@dataclass(frozen=True, slots=True)
class CommitWork:
    """The entries and offsets to commit.

    Attributes:
        batches: by partition, in order.
        aborted_sequences: the next sequence of each partition after aborted transactions of the producer's epoch.
        told_offsets: what the producer was told; the entries get these offsets, or the commit fails.
        chosen_by: by how many partitions keys chose these; the commit fails where the topic has grown since.
        checks: additional conditions, without which the commit fails.
    """

    batches: Mapping[PartitionId, Sequence[TailEntry]]
    offsets: Sequence[PendingOffset] = ()
    aborted_sequences: Mapping[PartitionId, int] | None = None
    told_offsets: Mapping[PartitionId, Mapping[int, int]] | None = None
    chosen_by: Mapping[PartitionId, int] | None = None
    checks: Sequence[TableOperation] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """It can never be committed."""

    message: str


Attempted = Literal["applied", "again", "unknown"] | Failed


class AtomicCommit:
    """One attempt to commit.

    Attributes:
        stamp_ms: of the offsets; pass it to the next attempt: it rises above the one in a refusal.
    """

    def __init__(self, tools: Tools, index: PartitionIndex, work: CommitWork, stamp_ms: int = 0) -> None:
        self._tables = tools.tables
        self._index = index
        self._marks = Marks(tools.tables.log, tools.wakes)
        self._marked: dict[PartitionId, int] = {}  # heads at which somebody waits, as they were read
        self._clock = tools.clock
        self._work = work
        self.stamp_ms = stamp_ms
        self._long: list[PartitionId] = []
        self._classic: set[str] = set()  # ids of groups of the classic protocol

    async def attempt(self, deciding: TableOperation) -> Attempted:
        """Try once.

        Args:
            deciding: the write of the deciding row, on the condition that it is as the caller read it.

        Returns:
            "applied"; "again": something moved, surely not applied by this attempt, read the row and come back;
            "unknown": likewise, but it may have been applied; Failed.
        """
        self.stamp_ms = max(self.stamp_ms, self._clock.now_ms())
        try:
            operations = await self._operations()
            if isinstance(operations, Failed):
                operations = await self._operations(applied=True)
        except StoreUnavailable:
            return "again"
        if isinstance(operations, Failed):
            return operations
        if len(operations) >= TABLE_TRANSACTION_ITEMS_MAX:
            return Failed(
                f"{len(operations)} partitions and offsets are more than the {TABLE_TRANSACTION_ITEMS_MAX - 1} that "
                f"one transaction can write"
            )
        try:
            await self._tables.transact([deciding, *operations])
        except TransactionCanceled as canceled:
            return self._refused(canceled)
        except StoreUnavailable:
            return "again"
        except OutcomeUnknown:
            return "unknown"
        except ItemTooLarge:
            # Room that a spill makes is room for the next attempt; without any, it will never fit.
            if self._long and await self.spill():
                return "again"
            return Failed("a partition's head or a lease has no room for the transaction: make it smaller")
        except StoreRejected:
            return Failed("the store rejects this transaction permanently: the service's log has the reason")
        await asyncio.gather(*(self._marks.wake_marked(head_id, mark) for head_id, mark in self._marked.items()))
        return "applied"

    async def _operations(self, *, applied: bool = False) -> list[TableOperation] | Failed:
        """Heads, fences of classic groups, then leases in the order of the offsets, then checks.

        Args:
            applied: decide on what is there after every transaction that was applied before.
        """
        batches = self._work.batches
        if sum(map(len, batches.values())) > TRANSACTION_BATCHES_MAX:
            return Failed(f"a transaction holds at most {TRANSACTION_BATCHES_MAX} batches: commit more often")
        partitions = list(batches)
        head_ids = [each.head_id for each in partitions]
        images = await self._index.read_images(head_ids, applied=applied) if head_ids else {}
        decided = await self._decide(images)
        parts: dict[PartitionId, list[PartitionAppend]] = {}
        for each in decided:
            if isinstance(each, Failed):
                return each
            if each is not None:
                parts.setdefault(each.partition.head_id, []).append(each)
        marks = {head_id: image.mark for head_id, image in images.items() if image is not None}
        self._marked = {head_id: mark for head_id in parts if (mark := marks[head_id]) is not None}
        operations: list[TableOperation] = []
        for head_id, of_head in parts.items():
            appended = self._append(head_id, of_head, images[head_id])
            if isinstance(appended, Failed):
                return appended
            operations.append(appended)
        more = {head_id: sum(len(part.entries) for part in of_head) for head_id, of_head in parts.items()}
        self._long = [
            head_id
            for head_id, image in images.items()
            if image is not None and self._index.is_long(image, more=more.get(head_id, 0))
        ]
        fences = await self._fences(applied=applied)
        if isinstance(fences, Failed):
            return fences
        leases = [TableOperation("groups", joined(map(self._lease, some))) for some in self._by_lease_item()]
        return [*operations, *fences, *leases, *self._work.checks]

    def _by_lease_item(self) -> list[list[PendingOffset]]:
        """The offsets by the item that their leases are in."""
        items: dict[Key, list[PendingOffset]] = {}
        for pending in self._work.offsets:
            items.setdefault(_slot(pending).key, []).append(pending)
        return list(items.values())

    async def _fences(self, *, applied: bool) -> list[TableOperation] | Failed:
        """Return the checks of member and generation for classic groups, which have no leases (offsets/classic.py)."""
        members = {
            (each.group_id, each.member_id, each.member_epoch)
            for each in self._work.offsets
            if each.member_epoch >= 0 and MEMBER_ID.search(each.member_id)
        }
        fences = []
        for group_id, member_id, generation in sorted(members):
            identity = ClassicIdentity(group_id, member_id, generation)
            keys = [group_key(group_id)]
            [item] = await (transact_get_all if applied else _get_all)(self._tables.groups, keys)
            code = explain_fence(item, identity)
            if code is None:
                continue
            if code is not ErrorCode.NONE:
                return Failed(f"the offsets of group {group_id!r} cannot be committed, {code.name}: join again")
            self._classic.add(group_id)
            fences.append(TableOperation("groups", fence(group_id, member_id, generation)))
        return fences

    def _committer(self, pending: PendingOffset) -> Committer:
        if pending.group_id in self._classic:
            return Committer()  # fenced by the group's item
        return Committer(pending.member_id, pending.member_epoch)

    def _append(
        self, head_id: PartitionId, parts: Sequence[PartitionAppend], image: HeadImage | None
    ) -> TableOperation | Failed:
        """The update of one head."""
        assert image is not None
        if head_id.shares_head and sum(len(part.entries) for part in parts) > TRANSACTION_BATCHES_PER_HEAD_MAX:
            return Failed(
                f"a transaction holds at most {TRANSACTION_BATCHES_PER_HEAD_MAX} batches of partitions that share a "
                "head (odradek.partitions.per.head): commit more often or make batches larger"
            )
        now_ms = self._clock.now_ms()
        commit_ms = max(now_ms, image.spill_floor_ms + 1)
        update = self._index.append_update(
            head_id,
            [replace(part, entries=stamped(part.entries, commit_ms, now_ms)) for part in parts],
            Claim(image.leader_id, image.leader_epoch),
            is_unmarked=image.mark is None,
        )
        return TableOperation("log", update)

    async def _decide(self, images: Mapping[PartitionId, HeadImage | None]) -> list[PartitionAppend | Failed | None]:
        """What becomes of each partition's batches. Rows of producers are read once a head. Raises StoreUnavailable."""
        evicted: dict[PartitionId, dict[int, EvictedProducer]] = {}
        while True:
            decided: list[PartitionAppend | Failed | None] = []
            asked: dict[PartitionId, int] = {}
            for partition in self._work.batches:
                head_id = partition.head_id
                verdict = self._partition(partition, images[head_id], evicted.get(head_id, {}))
                if isinstance(verdict, ReadProducerRow):
                    asked[head_id] = verdict.producer_id
                else:
                    decided.append(verdict)
            if not asked:
                return decided
            rows = await asyncio.gather(*(self._index.producer_rows.read(*each) for each in asked.items()))
            for (head_id, producer_id), row in zip(asked.items(), rows, strict=True):
                evicted.setdefault(head_id, {})[producer_id] = row

    def _partition(
        self, partition: PartitionId, image: HeadImage | None, evicted: Mapping[int, EvictedProducer]
    ) -> PartitionAppend | Failed | ReadProducerRow | None:
        entries = self._work.batches[partition]
        if image is None:
            return Failed(f"partition {partition} no longer exists: its topic has been deleted")
        head, places = view_of(image, partition), places_of(partition)
        chosen_by = (self._work.chosen_by or {}).get(partition)
        if chosen_by is not None and head.fence > chosen_by:
            return Failed(
                f"partition {partition}: the topic has grown from {chosen_by} to {head.fence} partitions, to which the "
                "keys may belong now: repeat the transaction"
            )
        oldest = min(entry.object_id for entry in entries)
        if head.sweep_floor > oldest:
            return Failed(f"partition {partition}: the batches were uploaded too long ago and may have been swept")
        aborted = (self._work.aborted_sequences or {}).get(partition)
        verdict = follow(entries, head, evicted, aborted, places)
        if isinstance(verdict, ReadProducerRow):
            return verdict
        if isinstance(verdict, Unfit):
            return Failed(f"partition {partition}: {verdict.message}")
        assert isinstance(verdict, Follows)
        told = (self._work.told_offsets or {}).get(partition, {})
        if not keeps_told_offsets(told, verdict.entries, head.next_offset):
            return Failed(
                f"partition {partition}: another writer has appended since offsets were predicted "
                "(transaction.offsets=predicted): repeat the transaction; such a partition should have one writer"
            )
        if not verdict.entries:
            return None
        expected_offset = head.next_offset if told else None
        return PartitionAppend(partition, verdict.entries, verdict.clauses, expected_offset, chosen_by)

    def _lease(self, pending: PendingOffset) -> Update:
        return commit_operation(_slot(pending), pending.topic, pending.offset, self._committer(pending), self.stamp_ms)

    def _refused(self, canceled: TransactionCanceled) -> Attempted:
        """Interpret a refusal: the next attempt reads a changed head or row again; a lease's refusal has its reason."""
        first_check = len(canceled.failures) - len(self._work.checks)
        if any(failure is not None for failure in canceled.failures[first_check:]):
            return Failed("the topic or group of this dead letter no longer exists")
        items = self._by_lease_item()
        first_offset = first_check - len(items)
        for some, failure in zip(items, canceled.failures[first_offset:first_check], strict=True):
            if failure is None:
                continue
            for pending in some:
                refusal = decide_refusal(failure.current, _slot(pending), self._committer(pending))
                if isinstance(refusal, ErrorCode):
                    return Failed(
                        f"the offsets of group {pending.group_id!r} cannot be committed, {refusal.name}: partition "
                        f"{pending.topic}-{pending.partition.partition} belongs to another member, or the group "
                        "rebalanced"
                    )
                self.stamp_ms = max(self.stamp_ms, refusal + 1)
        return "again"

    async def wake(self) -> None:
        """After an "unknown" that turned out to be applied: wake who waits for it. Raises nothing of the store's."""
        head_ids = {each.head_id for each in self._work.batches}
        await asyncio.gather(*(self._wake(head_id) for head_id in sorted(head_ids)))

    async def _wake(self, head_id: PartitionId) -> None:
        try:
            image = await self._index.read_image(head_id)
        except (StoreError, FormatError):
            return  # the mark stays for the next append
        if image is not None:
            await self._marks.wake(head_id, image)

    async def spill(self) -> bool:
        """After "applied": move what made tails long to index rows; whether any was moved.

        Failures are left to later appends.
        """
        return any(await asyncio.gather(*(self._spill(head_id) for head_id in self._long)))

    async def _spill(self, head_id: PartitionId) -> bool:
        spilled = False
        try:
            for _ in range(_SPILLS_MAX):
                image = await self._index.read_image(head_id)
                if image is None or not self._index.is_long(image):
                    break
                await self._index.spill(head_id, image)
                spilled = True
        except (StoreError, KafkaError):
            return spilled
        return spilled


async def _get_all(table: Table, keys: Sequence[Key]) -> list[Item | None]:
    return [await table.get(key) for key in keys]


def _slot(pending: PendingOffset) -> LeaseSlot:
    return lease_slot(pending.group_id, pending.partition)
