"""The partition index: heads and index rows over the log table, and the two conditional writes that move them.

Append is one update with no read before it, spill is row first, then the head forgets (spill.py); both are data: a
condition and actions. What a refusal means is decided in append/decisions.py; loops and back-off are in append.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from odradek.engine.partition.applied_reads import transact_get_all
from odradek.engine.partition.claims import FLEET_CLAIM, Claim
from odradek.engine.partition.fields import check_version, is_version
from odradek.engine.partition.head import (
    NO_FLOOR,
    VERSION,
    PartitionHead,
    RecentBatch,
    encode_head,
    head_key,
)
from odradek.engine.partition.head_append import HeadAppend, PartitionAppend, raise_fence
from odradek.engine.partition.index_row import IndexRow, decode_index_row, is_ghost, without_ghosts
from odradek.engine.partition.maintenance_lease import LeaseLost, MaintenanceLease
from odradek.engine.partition.pages import Pages
from odradek.engine.partition.producer_places import SequenceClause
from odradek.engine.partition.producer_rows import ProducerRows
from odradek.engine.partition.row_swap import covers, row_swap
from odradek.engine.partition.shared_head import (
    HeadImage,
    Page,
    SharedHead,
    decode_image,
    encode_shared_head,
    is_below,
    log_start_path,
    next_offset_path,
    view_of,
)
from odradek.engine.partition.shared_spill import SharedSpills
from odradek.engine.partition.spill import Spills
from odradek.errors import ConditionFailed, FormatError, OutcomeUnknown, TransactionCanceled
from odradek.format.item_keys import (
    HEAD_SK,
    INDEX_END,
    INDEX_PREFIX,
    index_base_offset,
    index_sk,
    partition_pk,
)
from odradek.format.tail_entry import TailEntry
from odradek.limits import PRODUCER_BATCHES_REMEMBERED, TABLE_TRANSACTION_ITEMS_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import (
    Absent,
    Compare,
    Delete,
    Item,
    KeptItem,
    Key,
    Put,
    Set,
    Table,
    Update,
    all_of,
)
from odradek.settings import Settings

_SWAP_ATTEMPTS = 4
_WHOLE_ATTEMPTS = 16
_RECENT_ROWS = 32
ROWS_REPLACED_MAX = TABLE_TRANSACTION_ITEMS_MAX - 2  # the lease's check and the head's update are among them


class PartitionIndex:
    """Heads and index rows of all partitions.

    Attributes:
        producer_rows: of producers that left the heads.
        reads_kept_items: whether the store keeps what it reads: an unchanged head is the same image then.
    """

    def __init__(self, log: Table, settings: Settings) -> None:
        self._log = log
        self.reads_kept_items = False
        self._spills = Spills(log, settings)
        self._pages = Pages(log)
        self.producer_rows = ProducerRows(log)
        self._shared_spills = SharedSpills(log, self._pages, self.producer_rows, settings)

    # --- heads ----------------------------------------------------------------------------------------------------

    async def create_head(self, partition: PartitionId, sweep_floor: bytes = NO_FLOOR) -> None:
        """Make an empty head with that sweep floor; one that is there already stays, its floor raised where lower.

        A shared head needs nothing of the partitions that come to share it later: what it does not name is 0.
        """
        item = (
            encode_shared_head(SharedHead(sweep_floor=sweep_floor))
            if partition.shares_head
            else encode_head(PartitionHead(sweep_floor=sweep_floor))
        )
        try:
            await self._log.put(Put(head_key(partition), item, Absent(("v",))))
        except ConditionFailed:
            await self.raise_sweep_floor(partition, sweep_floor)

    async def raise_sweep_floor(self, partition: PartitionId, floor: bytes) -> None:
        """Make the head refuse object ids below the floor; a floor that is as high already stays.

        Raises StoreUnavailable, OutcomeUnknown (repeat it: it only rises); UnknownVersion: it could not be raised.
        """
        condition = all_of(is_version(VERSION), Compare(("wf",), "<", floor))
        try:
            await self._log.update(Update(head_key(partition), (Set(("wf",), floor),), condition))
        except ConditionFailed as refused:
            if refused.current is not None:
                check_version(refused.current, VERSION, "a partition head")

    async def fence(self, head_id: PartitionId, partition_count: int) -> HeadImage | None:
        """See `head_append.raise_fence`."""
        return await raise_fence(self._log, head_id, partition_count)

    async def delete_head(self, partition: PartitionId) -> None:
        """Remove the head: every later append to the partition is refused."""
        await self._log.delete(Delete(head_key(partition)))

    async def read_image(self, head_id: PartitionId) -> HeadImage | None:
        """What a head's item says, by a consistent read, or None. Raises StoreUnavailable, FormatError."""
        item = await self._log.get(head_key(head_id))
        self.reads_kept_items = type(item) is KeptItem
        return None if item is None else decode_image(head_id, item)

    async def read_images(
        self, head_ids: Sequence[PartitionId], *, consistent: bool = True, applied: bool = False
    ) -> dict[PartitionId, HeadImage | None]:
        """What heads say, each read once, in batches of a hundred. Raises StoreUnavailable, FormatError.

        Args:
            applied: after every transaction that was applied before; TransactionConflict while one is not through.
        """
        distinct = list(dict.fromkeys(head_ids))
        keys = [head_key(head_id) for head_id in distinct]
        if applied:
            items = await transact_get_all(self._log, keys)
        elif len(distinct) == 1 and consistent:
            return {distinct[0]: await self.read_image(distinct[0])}
        else:
            items = await self._log.get_many(keys, consistent=consistent)
            self.reads_kept_items = all(type(item) is KeptItem for item in items)
        return {
            head_id: None if item is None else decode_image(head_id, item)
            for head_id, item in zip(distinct, items, strict=True)
        }

    async def kept_items(self, head_ids: Iterable[PartitionId]) -> dict[Key, KeptItem] | None:
        """Return the items of heads that the store keeps; None: one is gone or not kept. Raises StoreUnavailable."""
        items: dict[Key, KeptItem] = {}
        for key in map(head_key, head_ids):
            item = await self._log.get(key)
            if not isinstance(item, KeptItem):
                return None
            items[key] = item
        return items

    async def are_unchanged(self, items: Mapping[Key, KeptItem]) -> bool:
        """Return True if nobody has written these items since the store gave them. Raises StoreUnavailable."""
        for key, item in items.items():
            if await self._log.get(key) is not item:
                return False
        return True

    async def read_head(self, partition: PartitionId) -> PartitionHead | None:
        """The partition's head by consistent reads, whole, or None. Raises StoreUnavailable, FormatError."""
        return await self.whole(partition, await self.read_image(partition.head_id))

    async def read_heads(
        self, partitions: Sequence[PartitionId], *, consistent: bool = True, whole: bool = True
    ) -> list[PartitionHead | None]:
        """The heads in the order asked, in batches of a hundred. Raises StoreUnavailable, FormatError.

        Args:
            whole: False spares the pages of shared heads: their tails are what the item itself has.
        """
        images = await self.read_images([each.head_id for each in partitions], consistent=consistent)
        heads: list[PartitionHead | None] = []
        for partition in partitions:
            image = images[partition.head_id]
            if whole:
                heads.append(await self.whole(partition, image))
            else:
                heads.append(None if image is None else view_of(image, partition))
        return heads

    async def whole(self, partition: PartitionId, image: HeadImage | None) -> PartitionHead | None:
        """The head of one partition, with what a shared head keeps of it in pages: its tail begins where the rows end.

        Raises StoreUnavailable; FormatError: damaged.
        """
        return (await self.with_pages(partition, image))[0]

    async def with_pages(
        self, partition: PartitionId, image: HeadImage | None
    ) -> tuple[PartitionHead | None, Sequence[Page]]:
        """Like `whole`; also return the pages of the shared head. Raises as `whole`."""
        for _ in range(_WHOLE_ATTEMPTS):
            if image is None or isinstance(image, PartitionHead):
                return image, ()
            pages = await self._pages.read(partition.head_id, image)
            if pages is not None:
                return image.view(partition, pages), pages
            image = await self.read_image(partition.head_id)  # a spill has moved pages to rows meanwhile
        raise FormatError(f"pages of the head of {partition} are missing: it is damaged")

    async def read_recent(self, partition: PartitionId, image: HeadImage, producer_id: int) -> tuple[RecentBatch, ...]:
        """The producer's last batches as far as entries tell, oldest first: a segment has lost them.

        Raises StoreUnavailable, FormatError.
        """
        head = await self.whole(partition, image)
        if head is None:
            return ()
        recent = head.recent_batches(producer_id)
        for row in await self.newest_rows(partition, _RECENT_ROWS):
            if len(recent) >= PRODUCER_BATCHES_REMEMBERED or row.is_segment:
                break
            [row] = await self.with_entries([(partition, row)])
            if row.lacks_entries:
                break  # it has been merged meanwhile
            if is_ghost(row, head.merged_offset) or row.base_offset >= head.tail_base_offset:
                continue
            recent = (*_batches_of(row, producer_id), *recent)
        return recent[-PRODUCER_BATCHES_REMEMBERED:]

    async def append(
        self,
        partition: PartitionId,
        entries: Sequence[TailEntry],
        clauses: Sequence[SequenceClause],
        expected_offset: int | None,
        claim: Claim = FLEET_CLAIM,
    ) -> PartitionHead:
        """Append entries that share one object and one commit time; return the new head, which has their offsets.

        Raises ConditionFailed, StoreUnavailable, OutcomeUnknown: see append_decisions.after_refusal.
        """
        part = PartitionAppend(partition, entries, clauses, expected_offset)
        return view_of(await self.append_all(partition.head_id, (part,), claim), partition)

    async def append_all(
        self, head_id: PartitionId, parts: Sequence[PartitionAppend], claim: Claim = FLEET_CLAIM
    ) -> HeadImage:
        """Append to partitions of one head by one update; return what the head says after it. Raises as `append`."""
        return decode_image(head_id, await self._log.update(self.append_update(head_id, parts, claim)))

    def append_update(
        self,
        head_id: PartitionId,
        parts: Sequence[PartitionAppend],
        claim: Claim = FLEET_CLAIM,
        *,
        is_unmarked: bool = False,
    ) -> Update:
        """See `HeadAppend`; a transaction may contain it."""
        return HeadAppend(head_id, parts, claim, is_unmarked=is_unmarked)

    # --- spill ----------------------------------------------------------------------------------------------------

    def wants_spill(self, head: HeadImage, added: int) -> bool:
        """Return True if the append that added so many entries to this head should spill."""
        return self._shared_spills.are_due(head) if isinstance(head, SharedHead) else self._spills.are_due(head, added)

    def is_long(self, head: HeadImage, more: int = 0) -> bool:
        """Return True if the head, with an append of so many more entries, is longer than it should be."""
        if isinstance(head, SharedHead):
            return self._shared_spills.is_long(head, more)
        return self._spills.is_long(head, more)

    def is_far_too_long(self, head: HeadImage) -> bool:
        """Return True if the head costs its writers several times the usual: a spill is worth some patience."""
        return self._spills_of(head).is_far_too_long(head)  # type: ignore[arg-type]

    def is_crowded(self, head: HeadImage) -> bool:
        """Return True if more producers write to a shared head than it keeps: who comes back has probably left."""
        return isinstance(head, SharedHead) and self._shared_spills.is_crowded(head)

    def is_overfull(self, head: HeadImage) -> bool:
        """Return True if the head's excess is more than a row's entries: its writers should wait."""
        return self._spills_of(head).is_overfull(head)  # type: ignore[arg-type]

    def _spills_of(self, head: HeadImage) -> Spills | SharedSpills:
        return self._shared_spills if isinstance(head, SharedHead) else self._spills

    async def spill(self, head_id: PartitionId, head: HeadImage) -> None:
        """Move the excess of the head to rows (spill.py), or to pages (shared_spill.py). Raises StoreError."""
        if isinstance(head, SharedHead):
            await self._shared_spills.run(head_id, head)
        else:
            await self._spills.run(head_id, head)

    async def spill_to_rows(self, partition: PartitionId, head: PartitionHead) -> None:
        """Move the oldest entries of the partition's tail to rows, of a shared head all of them. Raises StoreError."""
        if not partition.shares_head:
            await self._spills.run(partition, head)
            return
        image = await self.read_image(partition.head_id)
        if isinstance(image, SharedHead):
            await self._shared_spills.run_to_rows(partition.head_id, image)

    async def delete_old_pages(self, partition: PartitionId) -> None:
        """Delete the pages of the partition's head that nothing needs. Raises StoreError, FormatError."""
        if not partition.shares_head:
            return
        image = await self.read_image(partition.head_id)
        if isinstance(image, SharedHead) and image.indexed:
            await self._pages.delete_old(partition.head_id, image)

    # --- rows -----------------------------------------------------------------------------------------------------

    # A row of a shared head comes without its entries, which whoever needs them gets by `with_entries`.

    async def with_entries(self, rows: Sequence[tuple[PartitionId, IndexRow]]) -> list[IndexRow]:
        """See `Pages.with_entries`."""
        return await self._pages.with_entries(rows)

    # A ghost: a spill writes a row on the condition that there is none. One that slept since before a merge took
    # the row's place writes it again. What such a row says is true, but its WAL bytes may be swept. It begins below the
    # head's merged offset, which the merge raises with its swap, and within the segment before it, as long as retention
    # leaves that. It may end anywhere: its spiller, which did not see the row of the first one, took as many entries as
    # it thought right. So what overlaps it is not for that reason a ghost: only the merged offset says what is one.

    async def row_at(self, partition: PartitionId, offset: int, *, merged_offset: int = 0) -> IndexRow | None:
        """Return the index row with the offset, or the last one before it; None without any.

        Args:
            merged_offset: the head's: spilled rows below it are ghosts and are skipped.
        """
        limit = 1
        while True:
            rows = await self.rows_down_from(partition, offset, limit)
            for row in rows:
                if not is_ghost(row, merged_offset):
                    return row
            if len(rows) < limit:
                return None
            limit = max(16, limit * 4)

    async def rows_down_from(self, partition: PartitionId, offset: int, limit: int) -> list[IndexRow]:
        """Index rows that begin at or below the offset, newest first; ghosts among them."""
        rows = await self._log.query(
            partition_pk(partition), sk_from=INDEX_PREFIX, sk_to=index_sk(offset + 1), descending=True, limit=limit
        )
        return [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]

    async def rows_from(self, partition: PartitionId, base_offset: int, limit: int | None = None) -> list[IndexRow]:
        """Return index rows with at least this base offset, oldest first.

        Ghosts are left out if `base_offset` is that of a row that is not one. Fewer rows than `limit` do not mean that
        these are the last: continue from the last one's end until there are none. Raises FormatError if the first row
        is damaged; those before a damaged one are returned.
        """
        rows = await self._log.query(
            partition_pk(partition), sk_from=index_sk(base_offset), sk_to=INDEX_END, limit=limit
        )
        found: list[IndexRow] = []
        for row in rows:
            try:
                found.append(decode_index_row(index_base_offset(row.key.sk), row.item))
            except FormatError:
                if not found:
                    raise
                break
        return without_ghosts(found)

    async def rows_between(
        self, partition: PartitionId, start_offset: int, end_offset: int, limit: int
    ) -> list[IndexRow]:
        """Index rows that begin in [start_offset, end_offset), oldest first; ghosts among them."""
        rows = await self._log.query(
            partition_pk(partition), sk_from=index_sk(start_offset), sk_to=index_sk(end_offset), limit=limit
        )
        return [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]

    async def newest_rows(self, partition: PartitionId, limit: int) -> list[IndexRow]:
        """The newest index rows, newest first; ghosts among them."""
        rows = await self._log.query(
            partition_pk(partition), sk_from=INDEX_PREFIX, sk_to=INDEX_END, descending=True, limit=limit
        )
        return [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]

    async def replace_rows(
        self,
        lease: MaintenanceLease,
        old: Sequence[IndexRow],
        new: Sequence[IndexRow],
        *,
        merged_offset: int | None = None,
    ) -> None:
        """Replace index rows in one transaction under the lease; a reader sees the old ones or the new ones.

        At most `ROWS_REPLACED_MAX` of both together (rows of one base offset count once). Rows are recognised by kind,
        end and segment, so a repetition changes nothing.

        Args:
            merged_offset: the head's new one; required when spilled rows are replaced, since it makes late
                repetitions of their spills ghosts.

        Raises:
            LeaseLost: refused: another maintainer has the partition, or the old rows no longer exist, or they are
                not neighbours or not what the new ones cover.
            OutcomeUnknown: it may still be applied, until the lease's epoch has changed.
            StoreUnavailable: certainly not applied.
        """
        if old and new and not covers(old, new):
            raise LeaseLost(f"{lease.partition}: the rows to be replaced have a gap, or the new ones cover others")
        operations = row_swap(lease, old, new, merged_offset)
        unknown: OutcomeUnknown | None = None
        for _ in range(_SWAP_ATTEMPTS):
            try:
                await self._log.transact(operations)
                return
            except TransactionCanceled as canceled:
                if await self._holds(lease.partition, old, new):
                    return
                if unknown is not None and canceled.failures[0] is None:
                    raise unknown from None
                raise LeaseLost(f"{lease.partition}: the rows were changed by another maintainer") from None
            except OutcomeUnknown as error:
                unknown = error
        assert unknown is not None
        raise unknown

    async def _holds(self, partition: PartitionId, old: Sequence[IndexRow], new: Sequence[IndexRow]) -> bool:
        """Return True if exactly the new rows are stored in place of the old ones."""
        bases = sorted({row.base_offset for row in (*old, *new)})
        items = await transact_get_all(self._log, [Key(partition_pk(partition), index_sk(base)) for base in bases])
        wanted = {row.base_offset: row for row in new}
        found = {
            base: decode_index_row(base, item) for base, item in zip(bases, items, strict=True) if item is not None
        }
        return found == wanted

    async def advance_log_start(
        self, partition: PartitionId, offset: int, *, whole: bool = True
    ) -> PartitionHead | None:
        """Raise the log start offset to `offset`, at most the high watermark; return the new head or None (deleted).

        Args:
            whole: as for `read_heads`.

        Raises StoreUnavailable, OutcomeUnknown (repeat it: it only rises).
        """
        path = log_start_path(partition)
        condition = all_of(
            is_version(VERSION), is_below(path, offset), Compare(next_offset_path(partition), ">=", offset)
        )
        item: Item | None
        try:
            item = await self._log.update(Update(head_key(partition), (Set(path, offset),), condition))
        except ConditionFailed as refused:
            item = refused.current
        image = None if item is None else decode_image(partition.head_id, item)
        if whole or image is None:
            return await self.whole(partition, image)
        return view_of(image, partition)

    async def delete_items(self, partition: PartitionId) -> int:
        """Remove everything stored for a partition of a deleted topic; returns how many items.

        The head goes first: whoever still believes in the topic finds none, not one whose pages and rows are gone.
        """
        keys = [row.key for row in await self._log.query(partition_pk(partition))]
        heads = [key for key in keys if key.sk == HEAD_SK]
        others = [key for key in keys if key.sk != HEAD_SK]
        for some in (heads, *(others[start : start + 25] for start in range(0, len(others), 25))):
            await asyncio.gather(*(self._log.delete(Delete(key)) for key in some))
        return len(keys)


def _batches_of(row: IndexRow, producer_id: int) -> list[RecentBatch]:
    """The batches of a producer in a row of entries, oldest first."""
    batches = []
    offset = row.base_offset
    for entry in row.entries:
        if entry.producer_id == producer_id:
            batches.append(RecentBatch(entry.producer_epoch, entry.base_sequence, entry.offset_count, offset))
        offset += entry.offset_count
    return batches
