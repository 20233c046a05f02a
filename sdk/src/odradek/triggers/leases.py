"""The right to call with a partition's records: a lease in the trigger's group, taken as the coordinator grants one.

The item is that of consumer groups (docs/formats/group_items.md): owner `o` and epoch `e`, committed offset `f`. A
dispatcher adds

    x    the lease ends, ms: no call of its owner is under way after that
    q    progress: JSON (triggers/progress.py)

    take      o = me, e + 1       on condition that o and e are as read, and nobody owned it or the lease had ended
    commit    f, q                on condition that o and e are mine: offsets.decisions, as for every member
    release   with the last commit: o is removed, e stays

A lease lasts for one call and for what two clocks may be apart; each commit prolongs it for the next call. An owner
that was suspended between its last look at the clock and the call may call beyond it (nobody can fence a function), but
its commit is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.adapters.store_clock import TRUSTED_APART_MS
from odradek.engine.engine import Engine
from odradek.engine.groups.leases import LeaseSlot, decode_lease, has_lease, lease_slot
from odradek.engine.offsets.decisions import Committer, commit_operation
from odradek.engine.partition.fields import attribute, is_version_or_absent
from odradek.errors import ConditionFailed, FormatError, OutcomeUnknown, StoreUnavailable
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId
from odradek.model.trigger import Trigger
from odradek.ports.table import Absent, Action, AnyOf, Compare, Condition, Item, Remove, Set, Update, all_of
from odradek.triggers.progress import Progress, decode_progress, encode_progress

VERSION = 1
CLOCKS_APART_MS = 2 * TRUSTED_APART_MS  # of two processes, at most (adapters/store_clock.py)
SPARE_MS = 5_000  # between a commit and the next call, without another write
_ATTEMPTS = 6
OWNER_PREFIX = "trigger-"


class LeaseLost(Exception):
    """Another dispatcher has the partition, or somebody set its offset: stop, and commit nothing."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A partition of a trigger as read, or as held.

    Attributes:
        committed: the next offset to call with.
        is_new: there is no item yet: a partition that was added later, or whose topic was created again.
        owner, epoch, end_ms: who has it, how often it was taken, until when; no owner: nobody.
        stamp_ms: of the last commit.
    """

    partition: PartitionId
    topic: str
    committed: int
    progress: Progress
    is_new: bool = False
    owner: str | None = None
    epoch: int = -1
    end_ms: int = 0
    stamp_ms: int = 0

    def is_live(self, now_ms: int, dead_unless: str | None = None) -> bool:
        """Return True if somebody may be calling.

        Args:
            dead_unless: only owners with this prefix can be alive: the process is the only one of its store.
        """
        if self.owner is None or (dead_unless is not None and not self.owner.startswith(dead_unless)):
            return False
        return not self.owner.startswith(OWNER_PREFIX) or self.end_ms > now_ms


def decode(partition: PartitionId, topic: str, slot: LeaseSlot, item: Item | None) -> Lease:
    """The lease of an item. Raises FormatError."""
    if item is None or not has_lease(item, slot.suffix):
        return Lease(partition, topic, 0, Progress(), is_new=True)
    state = decode_lease(item, slot.suffix)
    end, progress_name = "x" + slot.suffix, "q" + slot.suffix
    committed = 0 if state.committed is None else max(0, state.committed.offset)
    try:
        progress = (
            decode_progress(attribute(item, progress_name, str), committed) if progress_name in item else Progress()
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise FormatError(f"the progress of a trigger is damaged: {error}") from None
    return Lease(
        partition,
        topic,
        committed,
        progress,
        owner=state.owner,
        epoch=state.epoch,
        end_ms=attribute(item, end, int) if end in item else 0,
        stamp_ms=state.commit_ms,
    )


class Leases:
    """The leases of triggers, over the groups table.

    Args:
        engine: of the store.
        process: a name that no other process has, part of every owner.
        is_sole: no other process serves the store, so a lease of another one is that of a dead one.
    """

    def __init__(self, engine: Engine, process: str, *, is_sole: bool = False) -> None:
        self._table = engine.tools.tables.groups
        self._clock = engine.clock
        self._backoff = engine.tools.backoff(first_s=0.02, max_s=0.5)
        self._prefix = f"{OWNER_PREFIX}{process}-"
        self._is_sole = is_sole
        self._taken = 0

    async def read(self, trigger: Trigger, partitions: Sequence[PartitionId]) -> list[Lease]:
        """The leases of partitions, in their order. Raises StoreUnavailable, FormatError."""
        slots = {partition: lease_slot(trigger.group, partition) for partition in partitions}
        keys = list(dict.fromkeys(slot.key for slot in slots.values()))
        items = dict(zip(keys, await self._table.get_many(keys), strict=True))
        return [
            decode(partition, trigger.topic, slots[partition], items[slots[partition].key]) for partition in partitions
        ]

    def is_live(self, lease: Lease) -> bool:
        """Return True if somebody may be calling with the partition's records."""
        return lease.is_live(self._clock.now_ms(), self._prefix if self._is_sole else None)

    async def take(self, trigger: Trigger, lease: Lease) -> Lease | None:
        """Take a lease that is free or has ended; None if another dispatcher has taken it since it was read.

        Raises StoreUnavailable: not taken.
        """
        self._taken += 1
        owner = f"{self._prefix}{self._taken}"
        slot = lease_slot(trigger.group, lease.partition)
        end_ms = self._end_ms(trigger)
        actions: list[Action] = [
            Set(("v",), VERSION),
            Set(("t",), lease.topic),
            Set(slot.path("o"), owner),
            Set(slot.path("e"), lease.epoch + 1),
            Set(slot.path("x"), end_ms),
        ]
        update = Update(slot.key, tuple(actions), _is_as_read(slot, lease))
        for attempt in range(_ATTEMPTS):
            try:
                await self._table.update(update)
            except ConditionFailed as refused:
                if refused.current is None or _owner(slot, refused.current) != owner:
                    return None
            except OutcomeUnknown:
                await self._backoff.pause(attempt)
                continue
            return replace(lease, owner=owner, epoch=lease.epoch + 1, end_ms=end_ms, is_new=False)
        raise StoreUnavailable("the groups table does not answer")

    def allows_call(self, trigger: Trigger, lease: Lease) -> bool:
        """Return True if a call that begins now ends before the lease does."""
        return lease.end_ms - self._clock.now_ms() >= 1000 * trigger.timeout_s + CLOCKS_APART_MS

    async def commit(self, trigger: Trigger, lease: Lease, *, release: bool) -> Lease:
        """Store offset and progress; prolong the lease, or give it back.

        Raises LeaseLost; StoreUnavailable: it may be stored.
        """
        assert lease.owner is not None
        stamp_ms, end_ms = max(self._clock.now_ms(), lease.stamp_ms + 1), self._end_ms(trigger)
        slot = lease_slot(trigger.group, lease.partition)
        unknown = False
        for attempt in range(_ATTEMPTS):
            try:
                await self._table.update(_commit(slot, lease, stamp_ms, None if release else end_ms))
            except ConditionFailed as refused:
                if unknown and refused.current is not None and _is_ours(slot, refused.current, lease, stamp_ms):
                    break  # an attempt whose answer was lost
                raise LeaseLost(f"partition {lease.partition} of {trigger.name}") from None
            except OutcomeUnknown:
                unknown = True
                await self._backoff.pause(attempt)
                continue
            except StoreUnavailable:
                await self._backoff.pause(attempt)
                continue
            break
        else:
            raise StoreUnavailable("the groups table does not answer")
        return replace(lease, owner=None if release else lease.owner, end_ms=end_ms, stamp_ms=stamp_ms)

    async def reset(self, trigger: Trigger, partition: PartitionId, offset: int) -> bool:
        """Set the offset of a partition with which nobody calls; return False if somebody does.

        What was counted is forgotten. Raises StoreUnavailable, OutcomeUnknown (repeat it).
        """
        [lease] = await self.read(trigger, [partition])
        if self.is_live(lease):
            return False
        slot, stamp_ms = lease_slot(trigger.group, partition), max(self._clock.now_ms(), lease.stamp_ms + 1)
        set_it = commit_operation(slot, trigger.topic, OffsetAndMetadata(offset), Committer(), stamp_ms)
        actions = (*set_it.actions, *(Remove(slot.path(name)) for name in ("o", "q", "x")))
        try:
            await self._table.update(Update(slot.key, actions, _is_as_read(slot, lease)))
        except ConditionFailed:
            return False
        return True

    def _end_ms(self, trigger: Trigger) -> int:
        return self._clock.now_ms() + 1000 * trigger.timeout_s + CLOCKS_APART_MS + SPARE_MS


def _commit(slot: LeaseSlot, lease: Lease, stamp_ms: int, end_ms: int | None) -> Update:
    assert lease.owner is not None
    offset = OffsetAndMetadata(lease.committed, metadata=_signature(lease))
    operation = commit_operation(slot, lease.topic, offset, Committer(lease.owner, lease.epoch), stamp_ms)
    more: list[Action] = [Set(slot.path("q"), encode_progress(lease.progress, lease.committed))]
    end = slot.path("x")
    more += [Remove(slot.path("o")), Remove(end)] if end_ms is None else [Set(end, end_ms)]
    condition = all_of(
        is_version_or_absent(VERSION),
        Compare(slot.path("o"), "=", lease.owner),
        Compare(slot.path("e"), "=", lease.epoch),
        AnyOf((Absent(slot.path("c")), Compare(slot.path("c"), "<", stamp_ms))),
    )
    return Update(operation.key, (*operation.actions, *more), condition)


def _is_ours(slot: LeaseSlot, item: Item, lease: Lease, stamp_ms: int) -> bool:
    return item.get("c" + slot.suffix) == stamp_ms and item.get("m" + slot.suffix) == _signature(lease)


def _owner(slot: LeaseSlot, item: Item) -> object:
    return item.get("o" + slot.suffix)


def _signature(lease: Lease) -> str:
    """Return the name of the committer, for people, and to recognize a commit whose response was lost."""
    return f"{lease.owner}@{lease.epoch}"


def _is_as_read(slot: LeaseSlot, lease: Lease) -> Condition:
    owner, epoch = slot.path("o"), slot.path("e")
    conditions: list[Condition] = [is_version_or_absent(VERSION)]
    conditions.append(Absent(owner) if lease.owner is None else Compare(owner, "=", lease.owner))
    conditions.append(Absent(epoch) if lease.epoch < 0 else Compare(epoch, "=", lease.epoch))
    return all_of(*conditions)
