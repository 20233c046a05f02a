"""Sweep: deletes uploads of the WAL that nothing refers to, lost ones and merged leftovers alike.

    1. candidates    uploads with an id older than the horizon, as many at a time as memory allows
    2. floor         where one of them is at or above the floor: the floor rises above them (sweep_floor.py)
    3. heads         every head of every topic gets the floor (`wf`); where one cannot, the sweep ends here
    4. references    of every partition: the head first, then its spilled rows
    5. delete        candidates below the floor that nobody refers to

The floor makes it safe, not a clock. Let F be the floor of step 2, and look at an upload with an id below F.

* No append can commit it after step 3: each head that was there has `wf` >= F and refuses it, and the writer uploads
  its bytes again under a new id. The same holds for a transaction's commit, whose heads all check.
* A partition that becomes visible later has the floor too. Its head is given the floor that its creator read, and the
  transaction that makes it visible checks that the floor is still that one. If that transaction comes after F, it has
  read F or more. If it comes before F, the listing of topics, which begins after F, shows it. (Topics are listed again
  after the heads were raised, until a listing shows nothing new: a transaction's items need not appear all at once.)
* So after step 3 references to ids below F only become fewer. They move one way, from a tail to a spilled row (of a
  shared head by way of pages, to which its rows refer), which is written before the head forgets: reading the head
  first and the rows after it meets each of them at least once. Rows
  below the head's merged offset are segments, which refer to no upload, or ghosts, which nobody reads
  (partition/index.py). A merge in the meantime only removes references.
* Hence what step 4 does not see is referenced by nobody, now or later: a sweep may sleep for an hour before step 5, or
  be doubled by another one with another floor. Heads of deleted topics, and of those never made visible, do not count.

A reader with an index row that a merge has just replaced may find an object missing, and plans again (fetch.py).
Batches of a transaction that is still open are swept like others; the horizon exceeds the longest transaction.

Any step may be cut short and repeated; a sweep makes thousands of calls, so each of them is patient (patience.py): one
that fails must not cost all of it, hour after hour. Progress is noted at the end: see sweep_floor.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence

from odradek.engine.catalog.sweep_floor import SweepState, note_sweep, raise_sweep_floor, read_sweep_state
from odradek.engine.catalog.topics import Topics
from odradek.engine.maintenance.patience import patiently
from odradek.engine.maintenance.wal_uploads import HOUR_MS, WalUpload, WalUploads
from odradek.engine.partition.head import NO_FLOOR
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow, is_ghost
from odradek.engine.tools import Tools
from odradek.errors import FormatError
from odradek.format.object_id import object_id_ms
from odradek.model.log import OFFSET_END
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

_HEADS_PER_READ = 100
_ROWS_PER_QUERY = 64
_HOURS_BEFORE_A_WRONG_ONE = 7 * 24


class Sweep:
    """One store's sweep; an object sweeps any number of times."""

    def __init__(self, tools: Tools, index: PartitionIndex, uploads: WalUploads, topics: Topics) -> None:
        self._tools = tools
        self._catalog = tools.tables.catalog
        self._index = index
        self._uploads = uploads
        self._topics = topics
        self._clock = tools.clock
        self._settings = tools.settings

    async def is_due(self) -> bool:
        """Return True if the last sweep ended `sweep_interval_ms` ago or more. Raises StoreUnavailable, FormatError."""
        state = await read_sweep_state(self._catalog)
        return not 0 <= self._clock.now_ms() - state.swept_ms < self._settings.sweep_interval_ms

    async def run_if_due(self, done: Counter[str]) -> None:
        """Sweep, unless the last one is too young. Raises as `run`."""
        if await self.is_due():
            await self.run(done)

    async def run(self, done: Counter[str]) -> None:
        """Sweep once, and count what was done. Raises StoreUnavailable, OutcomeUnknown, FormatError, KafkaError."""
        state = await read_sweep_state(self._catalog)
        started_ms = self._clock.now_ms()
        horizon = _first_id(started_ms - self._settings.sweep_horizon_ms)
        pass_ = _Pass(self._tools, self._index, self._topics, state.floor)
        kept_hours: set[int] = set()
        chunk: list[WalUpload] = []

        async def finish_chunk() -> None:
            unreferenced = await pass_.unreferenced([upload.object_id for upload in chunk])
            kept_hours.update(each.hour for each in chunk if each.is_item and each.object_id not in unreferenced)
            swept = [upload for upload in chunk if upload.object_id in unreferenced]
            await self._uploads.delete(swept)
            done["uploads_swept"] += len(swept)
            chunk.clear()

        async for upload in self._uploads.below(horizon, await self.hours(state, horizon)):
            chunk.append(upload)
            if len(chunk) >= self._settings.sweep_uploads_max:
                await finish_chunk()
        if chunk:
            await finish_chunk()
        done["sweeps"] += 1
        # The horizon's own hour is not over: it is looked at again.
        await note_sweep(self._catalog, state, started_ms, _hour(horizon), sorted(kept_hours))

    async def hours(self, state: SweepState, end: bytes) -> list[int]:
        """The hours whose WAL items a sweep below `end` looks at, oldest first.

        Those never looked at, those where items were left, and the newest of the others again, for late uploads. Where
        nothing was ever swept they begin before the oldest topic.
        """
        next_hour = state.next_hour
        now_hour = self._clock.now_ms() // HOUR_MS
        if next_hour is not None and next_hour > now_hour + 1:
            next_hour = now_hour - _HOURS_BEFORE_A_WRONG_ONE  # noted by a clock that was ahead: when is not known
        if next_hour is None:
            created = [topic.created_ms for topic in await self._topics.list()]
            next_hour = min([object_id_ms(end), *created]) // HOUR_MS
        fresh = range(max(0, next_hour - self._settings.sweep_recheck_hours), _hour(end) + 1)
        return sorted({*state.hours_left, *fresh})


class _Pass:
    """One sweep's floor, the partitions that have it, and their references."""

    def __init__(self, tools: Tools, index: PartitionIndex, topics: Topics, floor: bytes) -> None:
        self._catalog = tools.tables.catalog
        self._index = index
        self._topics = topics
        self._clock = tools.clock
        self._rng = tools.rng
        self._settings = tools.settings
        self._floor = floor
        self._partitions: set[PartitionId] = set()  # whose heads have the floor

    async def unreferenced(self, object_ids: Sequence[bytes]) -> set[bytes]:
        """Those of the ids, all below the horizon, that nothing refers to and nothing ever will."""
        if max(object_ids) >= self._floor:
            # A quiet store's floor stays where it is: no writes to the heads of logs that nobody writes to. It rises to
            # what is swept, not to the horizon: were this clock ahead by days, transactions that upload from now on
            # would be refused until the others had caught up.
            self._floor = _after(max(object_ids))
            await raise_sweep_floor(self._catalog, self._floor)
            self._partitions.clear()
        if not self._partitions:
            await self._raise_heads()
        left = set(object_ids)
        slots = self._settings.maintenance_parallelism
        await drop_referenced(self._index, self._partitions, left, slots, self._clock, self._rng)
        return left

    async def _raise_heads(self) -> None:
        """Give every head the floor. Raises if one cannot get it."""
        while fresh := [each for each in await self._listed() if each not in self._partitions]:
            for start in range(0, len(fresh), _HEADS_PER_READ):
                some = fresh[start : start + _HEADS_PER_READ]
                images = await patiently(
                    self._clock,
                    self._rng,
                    lambda some=some: self._index.read_images([each.head_id for each in some]),  # type: ignore[misc]
                )
                lower = [
                    head_id
                    for head_id, image in images.items()
                    if image is not None and image.sweep_floor < self._floor
                ]
                await asyncio.gather(*(self._raise(head_id) for head_id in lower))
            self._partitions.update(fresh)

    async def _listed(self) -> list[PartitionId]:
        topics = await self._topics.list()
        return [PartitionId(topic.topic_id, number) for topic in topics for number in range(topic.partition_count)]

    async def _raise(self, partition: PartitionId) -> None:
        await patiently(self._clock, self._rng, lambda: self._index.raise_sweep_floor(partition, self._floor))


async def drop_referenced(
    index: PartitionIndex,
    partitions: Collection[PartitionId],
    object_ids: set[bytes],
    parallelism: int,
    clock: Clock,
    rng: Rng,
) -> None:
    """Remove from the set what the partitions' tails and spilled rows refer to. Raises StoreUnavailable, FormatError.

    A partition without a head has been deleted: nothing reads its rows any more.
    """
    slots = asyncio.Semaphore(parallelism)

    async def look(partition: PartitionId) -> None:
        async with slots:
            head = await patiently(clock, rng, lambda: index.read_head(partition))
            if head is None:
                return
            object_ids.difference_update(entry.object_id for _, entry in head.entries())
            at = head.merged_offset
            while rows := await patiently(
                clock,
                rng,
                lambda at=at: index.rows_between(partition, at, OFFSET_END, _ROWS_PER_QUERY),  # type: ignore[misc]
            ):
                for row in await _with_entries(index, partition, rows, clock, rng):
                    object_ids.difference_update(entry.object_id for entry in row.entries)
                at = rows[-1].base_offset + 1

    await asyncio.gather(*(look(partition) for partition in partitions))


async def _with_entries(
    index: PartitionIndex, partition: PartitionId, rows: Sequence[IndexRow], clock: Clock, rng: Rng
) -> Sequence[IndexRow]:
    """The rows with their entries, without those that have been merged meanwhile.

    Raises StoreUnavailable; FormatError: entries are missing, so what is referred to is not known.
    """
    found = await patiently(clock, rng, lambda: index.with_entries([(partition, row) for row in rows]))
    lacking = [row for row in found if row.lacks_entries]
    if lacking:
        head = await patiently(clock, rng, lambda: index.read_head(partition))
        if head is not None and not all(is_ghost(row, head.merged_offset) for row in lacking):
            raise FormatError(f"pages of rows of {partition} are missing: it is damaged")
    return found


def _first_id(at_ms: int) -> bytes:
    """The smallest object id of that millisecond."""
    return max(0, at_ms).to_bytes(6, "big") + NO_FLOOR[6:]


def _after(object_id: bytes) -> bytes:
    """The smallest object id above it."""
    return (int.from_bytes(object_id, "big") + 1).to_bytes(len(object_id), "big")


def _hour(object_id: bytes) -> int:
    return object_id_ms(object_id) // HOUR_MS
