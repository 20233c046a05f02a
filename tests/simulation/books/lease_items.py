"""The leases of an item, each as an item of its own: what the books know of a partition in a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from odradek.engine.groups.leases import LEASE_PREFIX, lease_partitions, lease_slot
from odradek.format.item_keys import group_pk
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key

_NAMES = ("o", "e", "f", "le", "m", "c", "q", "x")


def own_key(group_id: str, partition: PartitionId) -> Key:
    """The key under which the books have a partition's lease."""
    return Key(group_pk(group_id), f"{LEASE_PREFIX}{partition.topic_id}#{partition.partition}")


def own_partition(key: Key) -> PartitionId:
    """The partition of such a key."""
    topic_id, number = key.sk.removeprefix(LEASE_PREFIX).split("#")
    return PartitionId(UUID(topic_id), int(number))


def own_leases(key: Key, old: Item | None, new: Item | None) -> Iterator[tuple[Key, Item | None, Item | None]]:
    """The leases of an item that a write has changed, before and after; of one that changes nothing the first."""
    group_id = key.pk.removeprefix(group_pk(""))
    found = []
    for partition in lease_partitions(key.sk):
        suffix = lease_slot(group_id, partition).suffix
        found.append((own_key(group_id, partition), _own(old, suffix), _own(new, suffix)))
    if old == new:
        yield from [each for each in found if each[1] is not None][:1]
        return
    yield from (each for each in found if each[1] != each[2])


def _own(item: Mapping[str, Any] | None, suffix: str) -> Item | None:
    if item is None or not any(name + suffix in item for name in _NAMES):
        return None
    own = {name: item[name + suffix] for name in _NAMES if name + suffix in item}
    if "f" in own:
        own = {"m": "", "le": -1, **own}
    return {"v": item["v"], "t": item["t"], **own}
