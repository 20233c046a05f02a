"""Meanings of keys and items: partitions, the objects of segments, uploads of the WAL, and the leases of an item.

Several partitions of a group may have their leases in one item: the books know each lease as an item of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from odradek.engine.groups.leases import LEASE_PREFIX, lease_partitions, lease_slot
from odradek.engine.partition.index_row import IndexRow, decode_index_row
from odradek.engine.read.log_reader import Piece, entry_piece
from odradek.format.item_keys import group_pk, index_base_offset, partition_pk
from odradek.format.object_keys import index_key, segment_key
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key

_NAMES = ("o", "e", "f", "le", "m", "c", "q", "x")


def segment_objects(key: Key, item: Item) -> tuple[str, ...]:
    """The objects of the segment that an index row names, the log first; none for a row of entries."""
    row = decode_index_row(index_base_offset(key.sk), item)
    if row.segment_id is None:
        return ()
    partition = partition_of(key.pk)
    return (
        segment_key(partition, row.base_offset, row.segment_id, is_columnar=row.is_columnar),
        index_key(partition, row.base_offset, row.segment_id),
    )


def live_pieces(partition: PartitionId, row: IndexRow) -> Iterator[Piece]:
    """The bytes that a row refers to: the whole of its segment, or its entries'."""
    if row.segment_id is not None:
        key = segment_key(partition, row.base_offset, row.segment_id, is_columnar=row.is_columnar)
        yield Piece(row.base_offset, row.end_offset, key, None, 0, row.size_bytes, row.max_timestamp_ms)
    offset = row.base_offset
    for entry in row.entries:
        yield entry_piece(offset, entry)
        offset += entry.offset_count


def upload_id(key: str) -> bytes:
    """The id of an upload of the WAL, by its key."""
    return bytes.fromhex(key.rsplit("/", 1)[1])


def partition_of_object(key: str) -> str:
    """The partition key of a segment's object."""
    _, topic_id, number, _ = key.split("/", 3)
    return partition_pk(PartitionId(UUID(topic_id), int(number)))


def partition_of(pk: str) -> PartitionId:
    """The partition whose items have this `pk`."""
    topic_id, number = pk.split("#")
    return PartitionId(UUID(topic_id), int(number))


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
    leases = []
    for partition in lease_partitions(key.sk):
        suffix = lease_slot(group_id, partition).suffix
        leases.append((own_key(group_id, partition), _own(old, suffix), _own(new, suffix)))
    if old == new:
        yield from [lease for lease in leases if lease[1] is not None][:1]
        return
    yield from (lease for lease in leases if lease[1] != lease[2])


def _own(item: Mapping[str, Any] | None, suffix: str) -> Item | None:
    if item is None or not any(name + suffix in item for name in _NAMES):
        return None
    own = {name: item[name + suffix] for name in _NAMES if name + suffix in item}
    if "f" in own:
        own = {"m": "", "le": -1, **own}
    return {"v": item["v"], "t": item["t"], **own}
