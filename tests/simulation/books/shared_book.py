"""Heads that partitions share, at every write: each partition's head in it is one that the ledger can check.

* a partition's head is what its readers see: its next offset, and what it has in pages and in the tail
* pages that the head or a row refers to are there, and hold what left the tail
* elements leave the tail for pages and the pages for rows, and never come back
* producers leave and come back whole
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.engine.partition.extents import with_entries
from odradek.engine.partition.head import encode_head
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.shared_head import (
    Page,
    SharedHead,
    decode_page,
    decode_shared_head,
    page_sk,
    place_name,
)
from odradek.format.item_keys import partition_pk, producer_sk
from odradek.limits import SPILL_ENTRIES_MAX
from odradek.model.topic_partition import PartitionId, partitions_per_head
from odradek.ports.table import Item, Key

if TYPE_CHECKING:
    from tests.simulation.books.ledger import Ledger

TAIL_ELEMENTS_BOUND = 2 * SPILL_ENTRIES_MAX + 100


class SharedBook:
    """The shared heads as they are stored.

    Attributes:
        heads: by the partition key of their items.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.heads: dict[str, SharedHead] = {}
        self._gone: set[str] = set()

    def topic_stored(self, topic_id: UUID) -> None:
        """A topic was created or has grown: its new partitions share heads that are there."""
        for pk in [pk for pk in self.heads if pk.startswith(f"{topic_id}#")]:
            self._new_partitions(_partition_of(pk), self.heads[pk])

    def head_stored(self, head_id: PartitionId, new: Item | None) -> None:
        """Look at each partition's head in it, as its readers do: with what it has in pages."""
        pk = partition_pk(head_id)
        old = self.heads.get(pk)
        if new is None or pk in self._gone:
            self._gone.add(pk)
            self.heads.pop(pk, None)
            if new is not None:
                each_pk = map(partition_pk, self._sharing(head_id, decode_shared_head(new)))
                self._ledger.returned.update(each_pk)
                return
            for partition in self._sharing(head_id, old):
                self._ledger.head_stored(partition_pk(partition), self._ledger.heads.get(partition_pk(partition)), None)
            return
        head = decode_shared_head(new)
        for name, before, after in (
            ("elements paged out", old.paged if old else 0, head.paged),
            ("elements indexed", old.indexed if old else 0, head.indexed),
        ):
            if after < before:
                self._ledger.problem(f"{pk}: the {name} fell from {before} to {after}")
        if not head.indexed <= head.paged or not head.indexed <= (head.indexing or head.indexed) <= head.paged:
            self._ledger.problem(
                f"{pk}: rows up to {head.indexed}, under way to {head.indexing}, of {head.paged} elements"
            )
        self._ledger.longest_tail = max(self._ledger.longest_tail, len(head.tail))
        if len(head.tail) > TAIL_ELEMENTS_BOUND:
            self._ledger.problem(f"{pk}: a tail of more than {TAIL_ELEMENTS_BOUND} elements")
        self._returned(pk, old, head)
        self.heads[pk] = head
        pages = self._pages_of(pk, head)
        if pages is None:
            self._ledger.problem(f"{pk}: pages of [{head.indexed}, {head.paged}) are missing")
            return
        for partition in self._sharing(head_id, head):
            view = encode_head(head.view(partition, pages))
            own_pk = partition_pk(partition)
            self._ledger.head_stored(own_pk, self._ledger.heads.get(own_pk), view)

    def _returned(self, pk: str, old: SharedHead | None, new: SharedHead) -> None:
        """Check that a producer that comes back to the head has all that its row has."""
        for name in new.stamps.keys() - (old.stamps.keys() if old else set()):
            row = self._ledger.log_rows(pk).get(producer_sk(int(name, 36)))
            lost = row["p"].keys() - new.stamps[name].keys() if row else None  # type: ignore[union-attr]
            if lost:
                self._ledger.problem(f"{pk}: producer {name} comes back without what it wrote at {sorted(lost)}")

    def views(self, pk: str, item: Item) -> dict[str, Item] | None:
        """Return a shared head's partitions as heads of their own; None: pages are missing."""
        head_id, head = _partition_of(pk), decode_shared_head(item)
        pages = self._pages_of(pk, head)
        if pages is None:
            return None
        return {
            partition_pk(partition): encode_head(head.view(partition, pages))
            for partition in self._sharing(head_id, head)
        }

    def _new_partitions(self, head_id: PartitionId, head: SharedHead) -> None:
        """A topic was created or has grown: its new partitions share heads that are there."""
        for partition in self._sharing(head_id, head):
            pk = partition_pk(partition)
            if pk not in self._ledger.heads:
                self._ledger.head_stored(pk, None, encode_head(head.view(partition, self._pages_of(pk, head) or ())))

    def _sharing(self, head_id: PartitionId, head: SharedHead | None) -> Iterator[PartitionId]:
        """The partitions that share a head: the topic's, and those that have entries."""
        per_head = partitions_per_head(head_id.topic_id)
        count = self._ledger.partition_counts.get(head_id.topic_id, 0)
        for number in range(head_id.partition, head_id.partition + per_head):
            partition = PartitionId(head_id.topic_id, number)
            if number < count or (head is not None and place_name(partition.place) in head.next_offsets):
                yield partition

    def _pages_of(self, pk: str, head: SharedHead) -> list[Page] | None:
        pages = []
        at = head.indexed
        for sk in sorted(sk for sk in self._ledger.log_rows(pk) if page_sk(at) <= sk < page_sk(head.paged)):
            page = decode_page(sk, self._ledger.log_rows(pk)[sk])
            if page.first != at:
                return None
            pages.append(page)
            at = page.end
        return pages if at == head.paged else None

    def with_entries(self, partition: PartitionId, row: IndexRow) -> IndexRow:
        """The row with the entries that it refers to, if all of its pages are there."""
        assert row.elements is not None
        first, end = row.elements
        items = self._ledger.log_rows(partition_pk(partition.head_id))
        pages = [decode_page(sk, items[sk]) for sk in sorted(items) if page_sk(first) <= sk < page_sk(end)]
        [row] = with_entries([(partition, row)], pages)
        return row

    def lacking(self, pk: str, row: IndexRow) -> None:
        """A row refers to pages that are not there: it must be a ghost."""
        if row.base_offset >= self._ledger.heads[pk]["mo"]:  # type: ignore[operator]
            self._ledger.problem(f"{pk}: the pages of the row at {row.base_offset} are not there")

    def _check_rows(self, partitions: Iterable[PartitionId]) -> None:
        for pk in map(partition_pk, partitions):
            for row in self._ledger.live_rows(pk) if pk in self._ledger.heads else ():
                if row.lacks_entries:
                    self.lacking(pk, row)

    def page_stored(self, key: Key, new: Item | None) -> None:
        """A page was written (new None: deleted)."""
        head = self.heads.get(key.pk)
        if head is None:
            return
        if new is None:
            if self._pages_of(key.pk, head) is None:
                self._ledger.problem(f"{key.pk}: the page {key.sk} was deleted, and the head refers to it")
            self._check_rows(self._sharing(_partition_of(key.pk), head))
            return
        page = decode_page(key.sk, new)
        if page.first == head.paged and page.elements != head.tail[: len(page.elements)]:
            self._ledger.problem(f"{key.pk}: the page {key.sk} holds other elements than the tail begins with")


def _partition_of(pk: str) -> PartitionId:
    topic_id, number = pk.split("#")
    return PartitionId(UUID(topic_id), int(number))
