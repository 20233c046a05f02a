"""Maintenance: the work that no request waits for. Run by a schedule; any number may run at once.

This release finishes topic deletions: the heads, rows and segments of every `deleted-topics` row. WAL objects hold
batches of many partitions and are left to the sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from odradek.engine.fields import attribute
from odradek.engine.partition_index import PartitionIndex
from odradek.format.item_keys import DELETED_TOPICS_PK
from odradek.format.object_keys import topic_prefix
from odradek.model.topic_partition import PartitionId
from odradek.ports.object_store import ObjectStore
from odradek.ports.table import Delete, Table

_OBJECTS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What one run did."""

    topics_removed: int = 0
    items_removed: int = 0
    objects_removed: int = 0


class Maintenance:
    """Finishes what requests began."""

    def __init__(self, catalog: Table, index: PartitionIndex, objects: ObjectStore) -> None:
        self._catalog = catalog
        self._index = index
        self._objects = objects

    async def run(self) -> MaintenanceReport:
        """One pass. Raises StoreUnavailable, OutcomeUnknown: run it again, every step may be repeated."""
        topics = items = objects = 0
        for row in await self._catalog.query(DELETED_TOPICS_PK):
            topic_id = UUID(row.key.sk)
            for number in range(attribute(row.item, "n", int)):
                items += await self._index.delete_items(PartitionId(topic_id, number))
            objects += await self._delete_prefix(topic_prefix(PartitionId(topic_id, 0)))
            await self._catalog.delete(Delete(row.key))
            topics += 1
        return MaintenanceReport(topics, items, objects)

    async def _delete_prefix(self, prefix: str) -> int:
        count = 0
        while infos := await self._objects.list(prefix, limit=_OBJECTS_AT_ONCE):
            await self._objects.delete([info.key for info in infos])
            count += len(infos)
        return count
