"""The maintenance lease: one maintainer per partition, fenced by an epoch.

Key: `<topic id>#<partition>`, `lease`. Lifetime: made by the first maintainer, removed with the topic.

    v   format version 1
    h   holder, 16 random bytes; empty: nobody
    e   epoch, one higher with every taking
    x   when the holder's silence ends its claim, ms
    c   clean: the last holder left nothing behind that no row refers to
    s   swap: base offsets of the rows that the last swap under this holder touched, 8 bytes each (absent: none yet)

    take      h, e, c set, x = now + duration     on condition that e is as seen and the claim is over; `s` stays
    renew     x = now + duration                  on condition that e and h are ours
    swap      s, in the transaction with its rows on condition that e and h are ours
    release   h empty, c as the holder says       on condition that e and h are ours

Safety rests on the epoch alone: whatever a maintainer changes, it changes in one transaction with `held`, which is
refused once somebody else has taken the lease. Clocks decide only when another may try; one that is wrong costs the
former holder its work, never data.

**A swap that is still being applied.** The items of a transaction become visible one by one. A maintainer can take the
lease, since the lease's item has left the former holder's transaction, and read index rows that have not: of a merge it
might see none of the new segment's row and delete its objects as orphans, or some rows and not others. So whoever takes
a lease that was not left clean first reads the rows that `s` names by TransactGetItems, which is refused until the
transaction is through. A holder that leaves the lease clean has had the answer to its last swap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from odradek.backoff import Backoff
from odradek.engine.partition.applied_reads import transact_get_all
from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.head import head_key
from odradek.errors import (
    ConditionFailed,
    FormatError,
    OutcomeUnknown,
    StoreUnavailable,
    TransactionCanceled,
    TransactionConflict,
)
from odradek.format.item_keys import LEASE_SK, index_sk, partition_pk
from odradek.limits import CLOCK_AHEAD_MS_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import (
    Absent,
    Check,
    Compare,
    Condition,
    Exists,
    Item,
    Key,
    Put,
    Set,
    Table,
    Update,
    all_of,
)
from odradek.settings import Settings

VERSION = 1
_NOBODY = b""
_BASE = struct.Struct(">q")
_SETTLE_ATTEMPTS = 8
_UNCLEAN = Set(("c",), False)


class LeaseLost(Exception):
    """Another maintainer holds the partition now, or the partition is gone: stop at once, undo nothing."""


@dataclass(frozen=True, slots=True)
class MaintenanceLease:
    """A lease that this process holds.

    Attributes:
        was_clean: False if the previous holder may have left objects that no row refers to.
        expires_ms: by the clock of the holder.
        idle_ms: how long the lease was free, by the clocks of both holders; 0 for the first.
    """

    partition: PartitionId
    holder: bytes
    epoch: int
    expires_ms: int
    was_clean: bool
    idle_ms: int = 0

    @property
    def held(self) -> Check:
        """The clause of a transaction that is applied only under this lease."""
        return Check(lease_key(self.partition), self.condition)

    def swap(self, base_offsets: Iterable[int]) -> Update:
        """The same, for a transaction that replaces the index rows at these base offsets."""
        packed = b"".join(_BASE.pack(base) for base in sorted(base_offsets))
        return Update(lease_key(self.partition), (Set(("s",), packed),), self.condition)

    @property
    def condition(self) -> Condition:
        return all_of(Compare(("e",), "=", self.epoch), Compare(("h",), "=", self.holder))


@dataclass(frozen=True, slots=True)
class MaintenanceLeaseState:
    """A lease as others see it; the default is that of a partition that was never maintained.

    Attributes:
        is_held: by a maintainer whose claim has not expired.
        is_clean: False if the last holder died and may have left objects that no row refers to.
        epoch: of the last taking.
        idle_ms: how long the lease has been free, at least.
    """

    is_held: bool = False
    is_clean: bool = True
    epoch: int = 0
    idle_ms: int = 0


def lease_key(partition: PartitionId) -> Key:
    """The key of a partition's maintenance lease."""
    return Key(partition_pk(partition), LEASE_SK)


class MaintenanceLeases:
    """Takes, renews and releases maintenance leases."""

    def __init__(self, log: Table, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._log = log
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=4.0)
        self._settings = settings

    async def take(self, partition: PartitionId) -> MaintenanceLease | None:
        """Take the lease; None if it is held or the partition does not exist. Raises StoreUnavailable."""
        lease = await self._take(partition)
        if lease is not None and not lease.was_clean:
            await self._settle(lease)
        return lease

    async def _take(self, partition: PartitionId) -> MaintenanceLease | None:
        key = lease_key(partition)
        item = await self._log.get(key)
        now_ms = self._clock.now_ms()
        lease = MaintenanceLease(
            partition,
            holder=self._rng.random_bytes(16),
            epoch=1,
            expires_ms=now_ms + self._settings.maintenance_lease_ms,
            was_clean=True,
        )
        try:
            if item is None:
                head = Check(head_key(partition), Exists(("v",)))
                await self._log.transact([head, Put(key, _encode(lease), Absent(("v",)))])
                return lease
            check_version(item, VERSION, "a maintenance lease")
            if self._is_held(item, now_ms):
                return None
            seen = attribute(item, "e", int)
            idle_ms = max(0, now_ms - attribute(item, "x", int))
            lease = replace(lease, epoch=seen + 1, was_clean=_is_clean(item), idle_ms=idle_ms)
            # `c` is false while the lease is held: a holder that dies has not said that it left nothing behind. `s` is
            # not written: the former holder may have swapped since the lease was read, under the same epoch.
            taking = (Set(("h",), lease.holder), Set(("e",), lease.epoch), Set(("x",), lease.expires_ms), _UNCLEAN)
            await self._log.update(Update(key, taking, Compare(("e",), "=", seen)))
        except (ConditionFailed, TransactionCanceled, OutcomeUnknown):
            return lease if await self._is_ours(lease) else None
        return lease

    async def _settle(self, lease: MaintenanceLease) -> None:
        """Wait until the last swap under former holders is visible in all of its rows. Raises StoreUnavailable."""
        item = await self._log.get(lease_key(lease.partition))
        packed = attribute(item, "s", bytes) if item is not None and "s" in item else b""
        pk = partition_pk(lease.partition)
        keys = [Key(pk, index_sk(base)) for (base,) in _BASE.iter_unpack(packed)]
        for attempt in range(_SETTLE_ATTEMPTS if keys else 0):
            try:
                await transact_get_all(self._log, keys)
                return
            except TransactionConflict:
                if attempt == _SETTLE_ATTEMPTS - 1:
                    raise  # the lease stays unclean, and expires: the next holder waits again
                await self._backoff.pause(attempt)

    async def is_clean(self, partition: PartitionId) -> bool:
        """Return True if the lease is free and its last holder left nothing behind. Raises StoreUnavailable."""
        item = await self._log.get(lease_key(partition))
        return item is None or (attribute(item, "h", bytes) == _NOBODY and _is_clean(item))

    async def look(self, partitions: Sequence[PartitionId]) -> list[MaintenanceLeaseState]:
        """The leases in the order asked, in batches of a hundred. Raises StoreUnavailable, FormatError."""
        items = await self._log.get_many([lease_key(partition) for partition in partitions])
        now_ms = self._clock.now_ms()
        return [MaintenanceLeaseState() if item is None else self._state(item, now_ms) for item in items]

    async def renew(self, lease: MaintenanceLease) -> MaintenanceLease:
        """Hold on to it. Raises LeaseLost, StoreUnavailable."""
        renewed = replace(lease, expires_ms=self._clock.now_ms() + self._settings.maintenance_lease_ms)
        try:
            await self._log.update(
                Update(lease_key(lease.partition), (Set(("x",), renewed.expires_ms),), lease.condition)
            )
        except ConditionFailed:
            raise LeaseLost(str(lease.partition)) from None
        except OutcomeUnknown:
            if not await self._is_ours(lease):
                raise LeaseLost(str(lease.partition)) from None
        return renewed

    async def release(self, lease: MaintenanceLease, *, clean: bool) -> None:
        """Give it back.

        Args:
            clean: every object that was uploaded under it is in a row or deleted, and no write's outcome is open.
        """
        actions = (Set(("h",), _NOBODY), Set(("c",), clean))
        try:
            await self._log.update(Update(lease_key(lease.partition), actions, lease.condition))
        except (ConditionFailed, OutcomeUnknown, StoreUnavailable):
            return  # lost already, or it expires by itself

    def _state(self, item: Item, now_ms: int) -> MaintenanceLeaseState:
        check_version(item, VERSION, "a maintenance lease")
        is_held = self._is_held(item, now_ms)
        idle_ms = max(0, now_ms - attribute(item, "x", int))
        return MaintenanceLeaseState(is_held, is_held or _is_clean(item), attribute(item, "e", int), idle_ms)

    def _is_held(self, item: Item, now_ms: int) -> bool:
        """Return True if the lease is held and not expired; a claim from a clock far ahead does not count."""
        left_ms = attribute(item, "x", int) - now_ms
        is_current = 0 < left_ms <= self._settings.maintenance_lease_ms + CLOCK_AHEAD_MS_MAX
        return attribute(item, "h", bytes) != _NOBODY and is_current

    async def _is_ours(self, lease: MaintenanceLease) -> bool:
        item = await self._log.get(lease_key(lease.partition))
        return (
            item is not None
            and attribute(item, "h", bytes) == lease.holder
            and attribute(item, "e", int) == lease.epoch
        )


def _encode(lease: MaintenanceLease) -> Item:
    return {"v": VERSION, "h": lease.holder, "e": lease.epoch, "x": lease.expires_ms, "c": False}


def _is_clean(item: Item) -> bool:
    clean = item.get("c")
    if not isinstance(clean, bool):
        raise FormatError("the maintenance lease has no clean flag")
    return clean
