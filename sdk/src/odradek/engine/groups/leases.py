"""Leases of a group: owner and committed offset of each partition (docs/formats/group_items.md).

    Key                                                  Value
    g#<group>    o#<topic id>#<first partition>          leases of up to 16 partitions that share a head

    v   format version 1   t   topic name, then of each partition, the name followed by its place among them:
    o   owner's member id      e   its epoch when it was granted       both absent where nobody owns the partition
    f   committed offset   le  leader epoch   m   metadata   c   commit stamp, ms    absent before a commit

A partition that has its head to itself has a lease to itself: its names have no place. So a member commits its
partitions that share an item in one update (docs/decisions/0035). Each partition has conditions of its own:
attributes of the item's first level, so an update needs no item to be there before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from odradek.engine.groups.state import LeaseState
from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.shared_head import place_name
from odradek.errors import FormatError
from odradek.format.item_keys import group_pk
from odradek.limits import LEASES_PER_ITEM_MAX
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, partitions_per_head
from odradek.ports.table import Action, AllOf, Condition, Item, Key, Operation, Path, Update, all_of

VERSION = 1
LEASE_PREFIX = "o#"
LEASES_END = "o$"
_NAMES = ("o", "e", "f", "le", "m", "c")


@dataclass(frozen=True, slots=True)
class LeaseSlot:
    """Where a partition's lease is: the item, and what follows the names of its attributes there."""

    key: Key
    suffix: str = ""

    def path(self, name: str) -> Path:
        """The path of an attribute of the lease."""
        return (name + self.suffix,)


def lease_slot(group_id: str, partition: PartitionId) -> LeaseSlot:
    """Where the lease of a partition is in its group."""
    first = partition.partition - partition.place % LEASES_PER_ITEM_MAX
    return LeaseSlot(Key(group_pk(group_id), f"{LEASE_PREFIX}{partition.topic_id}#{first}"), _suffix(partition))


def _suffix(partition: PartitionId) -> str:
    return place_name(partition.place) if partition.shares_head else ""


def lease_partitions(sk: str) -> list[PartitionId]:
    """Return the partitions whose leases are in the item of this `sk`. Raises FormatError for another key."""
    try:
        topic, number = sk.removeprefix(LEASE_PREFIX).split("#")
        topic_id, first = UUID(topic), int(number)
    except ValueError as error:
        raise FormatError(f"{sk!r} is not the key of a lease") from error
    per_head = partitions_per_head(topic_id)
    count = min(LEASES_PER_ITEM_MAX, per_head - first % per_head)
    return [PartitionId(topic_id, first + step) for step in range(count)]


def leases_in(sk: str, item: Item) -> Iterator[tuple[PartitionId, LeaseState]]:
    """Yield the leases of an item, of partitions that have an owner or an offset. Raises FormatError."""
    for partition in lease_partitions(sk):
        suffix = _suffix(partition)
        if has_lease(item, suffix):
            yield partition, decode_lease(item, suffix)


def has_lease(item: Item, suffix: str) -> bool:
    """Return True if the item has a lease of the partition whose names end so."""
    return any(name + suffix in item for name in _NAMES)


def decode_lease(item: Item, suffix: str = "") -> LeaseState:
    """Decode a lease. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, "a lease")
    names = {name: name + suffix for name in _NAMES}
    committed = None
    if names["f"] in item:
        leader_epoch = attribute(item, names["le"], int) if names["le"] in item else -1
        metadata = attribute(item, names["m"], str) if names["m"] in item else ""
        committed = OffsetAndMetadata(attribute(item, names["f"], int), leader_epoch, metadata)
    return LeaseState(
        topic=attribute(item, "t", str),
        owner=attribute(item, names["o"], str) if names["o"] in item else None,
        epoch=attribute(item, names["e"], int) if names["e"] in item else -1,
        committed=committed,
        commit_ms=attribute(item, names["c"], int) if names["c"] in item else 0,
    )


def one_update_an_item(operations: Iterable[Operation]) -> list[Operation]:
    """The operations, updates of one item as one: it applies where each of them would. In the order of the first."""
    updates: dict[Key, list[Update]] = {}
    found: list[Operation] = []
    for operation in operations:
        if isinstance(operation, Update):
            same = updates.setdefault(operation.key, [])
            same.append(operation)
            if len(same) > 1:
                continue
        found.append(operation)
    return [_joined(updates[each.key]) if isinstance(each, Update) else each for each in found]


def joined(updates: Iterable[Update]) -> Update:
    """Updates of one item as one."""
    return _joined(list(updates))


def _joined(updates: list[Update]) -> Update:
    if len(updates) == 1:
        return updates[0]
    actions: dict[Action, None] = {}
    conditions: dict[Condition, None] = {}
    for update in updates:
        actions |= dict.fromkeys(update.actions)
        if update.condition is not None:
            parts = update.condition.conditions if isinstance(update.condition, AllOf) else (update.condition,)
            conditions |= dict.fromkeys(parts)
    return Update(updates[0].key, tuple(actions), all_of(*conditions) if conditions else None)
