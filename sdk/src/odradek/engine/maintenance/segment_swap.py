"""Replace rows of a partition by new segments, under its maintenance lease, for merge and compaction.

    1. upload    the segment, then its index, under a new object id
    2. swap      the index rows in one transaction, fenced by the lease
    3. delete    the segments that were replaced, once the topic's Iceberg table has let go of them
                 (iceberg/follower.py); WAL bytes are the sweep's

Why every step may fail, be cut short or come late:

* An upload has an object id of its own, so it replaces nothing; no row refers to it before the swap.
* A maintainer that has lost its lease changes nothing. Readers see the old rows or the new ones.
* Objects are deleted only after a confirmed swap. If the outcome of a swap is unknown, both old and new ones are kept.
* A crash, a lost lease, a failed deletion, or an upload that arrives late leaves objects that no row refers to. The
  partition is then not left clean, and the next holder of the lease collects them (orphans.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odradek.engine.maintenance.maintenance import HeldPartition
from odradek.engine.maintenance.swap_decisions import merged_offset_after, object_keys, row_in_place_of
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.engine.tools import Tools
from odradek.errors import ObjectExists, OutcomeUnknown, StoreUnavailable
from odradek.format.object_id import new_object_id
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import encode_offset_index
from odradek.format.segment import Segment
from odradek.model.log import Buffer
from odradek.ports.object_store import ObjectStore

_ATTEMPTS = 6


class SegmentSwap:
    """Puts segments in the place of index rows."""

    def __init__(self, tools: Tools, index: PartitionIndex, leases: MaintenanceLeases) -> None:
        self._index = index
        self._objects = tools.objects
        self._leases = leases
        self._clock = tools.clock
        self._rng = tools.rng
        self._settings = tools.settings
        self._backoff = tools.backoff(first_s=0.05, max_s=1.6)

    async def upload(self, held: HeldPartition, old: Sequence[IndexRow], segment: Segment) -> IndexRow:
        """Make a segment durable; the row by which `replace` puts it in the place of the old ones.

        Raises LeaseLost, StoreUnavailable, OutcomeUnknown: its objects may be there.
        """
        index = segment.index
        packed = encode_offset_index(index)
        segment_id = new_object_id(self._clock.now_ms(), self._rng.random_bytes)
        key = segment_key(held.partition, index.base_offset, segment_id, is_columnar=index.is_columnar)
        await self._put(held, key, segment.parts)
        await self._put(held, index_key(held.partition, index.base_offset, segment_id), [packed])
        row = row_in_place_of(
            old,
            segment_id,
            base_offset=index.base_offset,
            end_offset=index.end_offset,
            max_timestamp_ms=index.max_timestamp_ms,
            size_bytes=index.size_bytes,
            index_bytes=len(packed),
        )
        return replace(row, file_bytes=index.file_bytes, has_recipes=index.has_recipes)

    async def replace(self, held: HeldPartition, old: Sequence[IndexRow], new: Sequence[IndexRow]) -> None:
        """Replace rows by those of uploaded segments, then delete the segments replaced.

        Raises:
            LeaseLost: nothing has changed.
            StoreUnavailable, OutcomeUnknown: it is unknown which rows are there.
        """
        await self._swap(held, old, new)
        await self._delete(held, old)

    async def hold_on(self, held: HeldPartition) -> None:
        """Renew the lease when half of its time is over. Raises LeaseLost, StoreUnavailable."""
        if held.lease.expires_ms - self._clock.now_ms() < self._settings.maintenance_lease_ms // 2:
            held.lease = await self._leases.renew(held.lease)

    async def _put(self, held: HeldPartition, key: str, parts: Sequence[Buffer]) -> None:
        await self.hold_on(held)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await put_once(self._objects, key, parts)
                return
            except (StoreUnavailable, OutcomeUnknown) as error:
                if isinstance(error, OutcomeUnknown):
                    held.left_clean = False  # it may appear again after it was deleted
                if attempt == _ATTEMPTS:
                    raise
            await self._backoff.pause(attempt - 1)

    async def _swap(self, held: HeldPartition, old: Sequence[IndexRow], new: Sequence[IndexRow]) -> None:
        merged_offset = merged_offset_after(old)
        for attempt in range(1, _ATTEMPTS + 1):
            await self.hold_on(held)
            try:
                await self._index.replace_rows(held.lease, old, new, merged_offset=merged_offset)
                return
            except StoreUnavailable:
                if attempt == _ATTEMPTS:
                    raise
            await self._backoff.pause(attempt - 1)

    async def _delete(self, held: HeldPartition, old: Sequence[IndexRow]) -> None:
        """Delete the objects of removed rows. After a failure they are found as orphans."""
        keys = [key for row in old for key in object_keys(held.partition, row)]
        if not keys or not await held.may_delete(keys, are_replaced=True):
            return
        try:
            await self._objects.delete(keys)
        except (StoreUnavailable, OutcomeUnknown):
            held.left_clean = False


async def put_once(objects: ObjectStore, key: str, parts: Sequence[Buffer]) -> None:
    """Make an object durable whose name no other writer uses: one that is there is from an attempt before.

    Raises StoreUnavailable, OutcomeUnknown.
    """
    try:
        await objects.put(key, parts)
    except ObjectExists:
        return
