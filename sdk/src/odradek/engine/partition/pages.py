"""Pages of shared heads: reading them, and deleting those whose index rows have all been merged.

A page does not change while the head or a row refers to it, so a process keeps those that it has read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from odradek.engine.partition.extents import EXTENT_PREFIX, decode_extent, extent_sk, with_entries
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.shared_head import PAGE_PREFIX, Page, SharedHead, decode_page, page_sk
from odradek.format.item_keys import partition_pk
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Delete, Table

_PAGES_KEPT = 1024
_DELETED_AT_ONCE = 25


class Pages:
    """The pages of all shared heads."""

    def __init__(self, log: Table) -> None:
        self._log = log
        self._kept: OrderedDict[tuple[PartitionId, int], Page] = OrderedDict()

    async def read(self, head_id: PartitionId, head: SharedHead) -> list[Page] | None:
        """All pages that the head refers to, oldest first; None: the head is no longer so, read it again.

        Raises StoreUnavailable, FormatError.
        """
        return await self._range(head_id, head.indexed, head.paged)

    async def with_entries(self, rows: Sequence[tuple[PartitionId, IndexRow]]) -> list[IndexRow]:
        """Rows of partitions that share one head, with the entries that they refer to.

        One whose pages have gone has been merged meanwhile: it still lacks its entries.
        Raises StoreUnavailable, FormatError.
        """
        spans = sorted({row.elements for _, row in rows if row.elements is not None and row.lacks_entries})
        pages: list[Page] = []
        for start, end in _joined(spans):
            found = await self._range(rows[0][0].head_id, start, end)
            if found is None:  # pages of some are gone: each by itself
                for span in spans:
                    if start <= span[0] < end:
                        pages += await self._range(rows[0][0].head_id, *span) or ()
            else:
                pages += found
        return with_entries(rows, pages)

    async def _range(self, head_id: PartitionId, start: int, end: int) -> list[Page] | None:
        """The pages of these elements; None: not all of them are there."""
        pages: list[Page] = []
        at = start
        while at < end and (page := self._kept.get((head_id, at))) is not None and page.end <= end:
            self._kept.move_to_end((head_id, at))
            pages.append(page)
            at = page.end
        if at < end:
            rows = await self._log.query(partition_pk(head_id), sk_from=page_sk(at), sk_to=page_sk(end))
            for row in rows:
                page = decode_page(row.key.sk, row.item)
                if page.first != at:
                    return None
                pages.append(page)
                at = page.end
            if at != end:
                return None
            for page in pages:
                self.keep(head_id, page)
        return pages

    def keep(self, head_id: PartitionId, page: Page) -> None:
        """Remember a page that the head refers to."""
        self._kept[head_id, page.first] = page
        if len(self._kept) > _PAGES_KEPT:
            self._kept.popitem(last=False)

    async def delete_old(self, head_id: PartitionId, head: SharedHead) -> None:
        """Delete the pages that neither the head nor a row needs, late ones too. Raises StoreError, FormatError.

        Args:
            head: read just now: extents that are written later begin at or after its `indexed`.
        """
        pk = partition_pk(head_id)
        needed_from = head.indexed
        done = []
        for row in await self._log.query(pk, sk_from=EXTENT_PREFIX, sk_to=extent_sk(head.indexed)):
            extent = decode_extent(row.key.sk, row.item)
            if extent.is_needed(head.merged_offsets):
                needed_from = extent.first
                break
            done.append(row.key)
        rows = await self._log.query(pk, sk_from=PAGE_PREFIX, sk_to=page_sk(needed_from))
        for row in rows:
            self._kept.pop((head_id, int(row.key.sk.removeprefix(PAGE_PREFIX))), None)
        keys = [row.key for row in rows] + done
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            await asyncio.gather(*(self._log.delete(Delete(key)) for key in keys[start : start + _DELETED_AT_ONCE]))


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring ranges, in order, as one each."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined
