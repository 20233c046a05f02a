"""The maintenance lease: one maintainer a partition, fenced by an epoch.

Key: `<topic id>#<partition>`, `lease`. Lifetime: made by the first maintainer, removed with the topic.

    v   format version 1
    h   holder, 16 random bytes; empty: nobody
    e   epoch, one higher with every taking
    x   when the holder's silence ends its claim, ms
    c   clean: the last holder left nothing behind that no row refers to

    take      h and e set, x = now + duration     on condition that e is as seen and the claim is over
    renew     x = now + duration                  on condition that e and h are ours
    release   h empty, c as the holder says       on condition that e and h are ours

Safety rests on the epoch alone: whatever a maintainer changes, it changes in one transaction with `held`, which is
refused once somebody else has taken the lease. Clocks decide only when another may try; one that is wrong costs the
former holder its work, never data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import ConditionFailed, FormatError, OutcomeUnknown, StoreUnavailable, TransactionCanceled
from odradek.format.item_keys import HEAD_SK, LEASE_SK, partition_pk
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


class LeaseLost(Exception):
    """Another maintainer holds the partition now, or the partition is gone: stop at once, undo nothing."""


@dataclass(frozen=True, slots=True)
class MaintenanceLease:
    """A lease that was taken.

    Attributes:
        was_clean: False where the holder before may have left objects that no row refers to.
        expires_ms: by the clock of the holder.
        idle_ms: how long nobody had held it, by the clocks of both holders; 0 for the first.
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

    @property
    def condition(self) -> Condition:
        return all_of(Compare(("e",), "=", self.epoch), Compare(("h",), "=", self.holder))


@dataclass(frozen=True, slots=True)
class MaintenanceLeaseState:
    """A lease as others see it; the default is that of a partition that was never maintained.

    Attributes:
        is_held: by somebody whose claim is not over.
        is_clean: False where the last holder is gone and may have left objects that no row refers to.
        epoch: of the last taking.
        idle_ms: how long nobody has held it, at least.
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
        self._settings = settings

    async def take(self, partition: PartitionId) -> MaintenanceLease | None:
        """Take the lease; None where somebody holds it or the partition is gone. Raises StoreUnavailable."""
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
                head = Check(Key(partition_pk(partition), HEAD_SK), Exists(("v",)))
                await self._log.transact([head, Put(key, _encode(lease), Absent(("v",)))])
                return lease
            check_version(item, VERSION, "a maintenance lease")
            if attribute(item, "h", bytes) != _NOBODY and attribute(item, "x", int) > now_ms:
                return None
            seen = attribute(item, "e", int)
            idle_ms = max(0, now_ms - attribute(item, "x", int))
            lease = replace(lease, epoch=seen + 1, was_clean=_is_clean(item), idle_ms=idle_ms)
            # `c` is false while the lease is held: a holder that dies has not said that it left nothing behind.
            await self._log.put(Put(key, _encode(lease), Compare(("e",), "=", seen)))
        except (ConditionFailed, TransactionCanceled, OutcomeUnknown):
            return lease if await self._is_ours(lease) else None
        return lease

    async def is_clean(self, partition: PartitionId) -> bool:
        """Whether nobody holds the lease and its last holder left nothing behind. Raises StoreUnavailable."""
        item = await self._log.get(lease_key(partition))
        return item is None or (attribute(item, "h", bytes) == _NOBODY and _is_clean(item))

    async def look(self, partitions: Sequence[PartitionId]) -> list[MaintenanceLeaseState]:
        """The leases in the order asked, in batches of a hundred. Raises StoreUnavailable, FormatError."""
        items = await self._log.get_many([lease_key(partition) for partition in partitions])
        now_ms = self._clock.now_ms()
        return [MaintenanceLeaseState() if item is None else _state(item, now_ms) for item in items]

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

    async def _is_ours(self, lease: MaintenanceLease) -> bool:
        item = await self._log.get(lease_key(lease.partition))
        return (
            item is not None
            and attribute(item, "h", bytes) == lease.holder
            and attribute(item, "e", int) == lease.epoch
        )


def _encode(lease: MaintenanceLease) -> Item:
    return {"v": VERSION, "h": lease.holder, "e": lease.epoch, "x": lease.expires_ms, "c": False}


def _state(item: Item, now_ms: int) -> MaintenanceLeaseState:
    check_version(item, VERSION, "a maintenance lease")
    over_ms = attribute(item, "x", int)
    is_held = attribute(item, "h", bytes) != _NOBODY and over_ms > now_ms
    return MaintenanceLeaseState(
        is_held, is_held or _is_clean(item), attribute(item, "e", int), max(0, now_ms - over_ms)
    )


def _is_clean(item: Item) -> bool:
    clean = item.get("c")
    if not isinstance(clean, bool):
        raise FormatError("a maintenance lease does not say whether it was left clean")
    return clean
