"""Pages of shared heads: reading them all, and deleting those that have become index rows.

A page does not change while the head refers to it, so a process keeps those that it has read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

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
        pages: list[Page] = []
        at = head.indexed
        while at < head.paged and (page := self._kept.get((head_id, at))) is not None and page.end <= head.paged:
            self._kept.move_to_end((head_id, at))
            pages.append(page)
            at = page.end
        if at < head.paged:
            rows = await self._log.query(partition_pk(head_id), sk_from=page_sk(at), sk_to=page_sk(head.paged))
            for row in rows:
                page = decode_page(row.key.sk, row.item)
                if page.first != at:
                    return None
                pages.append(page)
                at = page.end
            if at != head.paged:
                return None
            for page in pages:
                self.keep(head_id, page)
        return pages

    def keep(self, head_id: PartitionId, page: Page) -> None:
        """Remember a page that the head refers to."""
        self._kept[head_id, page.first] = page
        if len(self._kept) > _PAGES_KEPT:
            self._kept.popitem(last=False)

    async def delete_below(self, head_id: PartitionId, end: int) -> None:
        """Delete the pages of elements before this one, late ones too. Raises StoreError."""
        rows = await self._log.query(partition_pk(head_id), sk_from=PAGE_PREFIX, sk_to=page_sk(end))
        for row in rows:
            self._kept.pop((head_id, int(row.key.sk.removeprefix(PAGE_PREFIX))), None)
        for start in range(0, len(rows), _DELETED_AT_ONCE):
            some = rows[start : start + _DELETED_AT_ONCE]
            await asyncio.gather(*(self._log.delete(Delete(row.key)) for row in some))
