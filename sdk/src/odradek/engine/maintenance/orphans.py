"""Orphans: objects of a partition that no index row refers to, left by a maintainer that died or lost its lease.

    1. list     a page of the partition's prefix
    2. renew    the lease, and know that it was ours
    3. rows     of the same offsets, by consistent reads
    4. delete   what was listed and is in no row

Nothing that is or will be referenced is deleted. A row refers to a segment only through a transaction under the lease
that its uploader held. Whatever was listed had been uploaded before step 2, while we still held the lease, so by a
holder of our epoch or of an earlier one. Transactions of earlier epochs are refused since we took the lease; in our
epoch this runs before anything is uploaded; later epochs upload under names of their own. So what no row refers to in
step 3 no row ever will, however long we sleep before step 4. An Iceberg table, which follows the rows, lets go of a
file first.

It runs only where the last holder did not leave the partition clean, and now and then all the same (after many
takings of the lease, or a day of rest): the upload of a maintainer that slept while others came and went arrives in a
partition that was left clean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.format.object_keys import partition_prefix
from odradek.model.topic_partition import PartitionId
from odradek.ports.object_store import ObjectInfo, ObjectStore

_OBJECTS_PER_PAGE = 1000
_ROWS_PER_QUERY = 256
_SCAN_EVERY_EPOCHS = 256
_SCAN_AFTER_IDLE_MS = 86_400_000
_SEGMENT_NAME = re.compile(r"(\d{20})-([0-9a-f]{32})\.(log|parquet|index)")


@dataclass(frozen=True, slots=True)
class SegmentObject:
    """An object of a segment: log, Parquet file or index, by its name."""

    info: ObjectInfo
    base_offset: int
    segment_id: bytes


class Orphans:
    """The upkeep that runs before all others."""

    acts_on_tail = False

    def __init__(self, index: PartitionIndex, objects: ObjectStore, leases: MaintenanceLeases) -> None:
        self._index = index
        self._objects = objects
        self._leases = leases

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        lease = look.lease
        return _wants_scan(is_clean=lease.is_clean, epoch=lease.epoch + 1, idle_ms=lease.idle_ms)

    async def run(self, held: HeldPartition) -> None:
        """See maintenance.Upkeep."""
        lease = held.lease
        if _wants_scan(is_clean=lease.was_clean, epoch=lease.epoch, idle_ms=lease.idle_ms):
            await self.collect(held)

    async def collect(self, held: HeldPartition) -> None:
        """Delete the orphans of the partition. Raises LeaseLost, StoreUnavailable, OutcomeUnknown, FormatError."""
        start_after = ""
        while page := await self._objects.list(
            partition_prefix(held.partition), start_after=start_after, limit=_OBJECTS_PER_PAGE
        ):
            start_after = page[-1].key
            held.lease = await self._leases.renew(held.lease)
            orphans = await find_orphans(self._index, held.partition, page)
            if orphans and await held.may_delete([each.info.key for each in orphans]):
                await self._objects.delete([each.info.key for each in orphans])
                held.report.done["orphans_removed"] += len(orphans)


def _wants_scan(*, is_clean: bool, epoch: int, idle_ms: int) -> bool:
    return not is_clean or epoch % _SCAN_EVERY_EPOCHS == 0 or idle_ms > _SCAN_AFTER_IDLE_MS


async def find_orphans(index: PartitionIndex, partition: PartitionId, page: list[ObjectInfo]) -> list[SegmentObject]:
    """Those of the listed objects, in the order of their keys, whose segment is in no row now.

    An object whose name is not a segment's is none of ours: it is passed over.
    """
    segments = [found for info in page if (found := parse_segment_name(partition, info)) is not None]
    if not segments:
        return []
    referenced: set[tuple[int, bytes]] = set()
    at, end = segments[0].base_offset, segments[-1].base_offset + 1
    while rows := await index.rows_between(partition, at, end, _ROWS_PER_QUERY):
        referenced |= {(row.base_offset, row.segment_id) for row in rows if row.segment_id is not None}
        at = rows[-1].base_offset + 1
    return [each for each in segments if (each.base_offset, each.segment_id) not in referenced]


def parse_segment_name(partition: PartitionId, info: ObjectInfo) -> SegmentObject | None:
    """Parse the key of an object under the partition's prefix; None if it is not a segment's."""
    match = _SEGMENT_NAME.fullmatch(info.key.removeprefix(partition_prefix(partition)))
    return None if match is None else SegmentObject(info, int(match[1]), bytes.fromhex(match[2]))
