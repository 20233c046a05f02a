"""A log's state of its producers, at every write: enough to tell a duplicate, and to answer it with its offset.

* a producer's last five batches of its epoch are known by the head or, once the producer was evicted, by its row
* epoch and next sequence are those after its last batch
* nobody leaves the head without a row
* a batch follows the last of its producer and epoch, or begins a later epoch; only aborted transactions leave gaps

A producer whose row expired is begun with again: nothing of before needs to be known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator

from odradek.engine.partition.head import ProducerState, RecentBatch, decode_head, next_sequence
from odradek.engine.partition.producer_places import places_of
from odradek.engine.partition.producer_rows import decode_row
from odradek.format.item_keys import partition_pk, producer_sk
from odradek.format.tail_entry import TailEntry
from odradek.limits import PRODUCER_BATCHES_REMEMBERED, SEQUENCE_MAX
from odradek.ports.table import Item

from tests.simulation.books.items import partition_of


class ProducerBook:
    """Attributes:
    row: the item of an evicted producer, by partition key and sort key; None: there is none.
    """

    def __init__(
        self,
        problem: Callable[[str], None],
        row: Callable[[str, str], Item | None],
        leaves_gaps: Callable[[int], bool],
    ) -> None:
        self._problem = problem
        self._leaves_gaps = leaves_gaps
        self.row = row
        self._batches: dict[str, dict[int, list[RecentBatch]]] = defaultdict(lambda: defaultdict(list))
        self._in_head: dict[str, frozenset[int]] = defaultdict(frozenset)
        self._expired: set[tuple[str, int]] = set()

    def entered(self, pk: str, base_offset: int, entry: TailEntry) -> None:
        """An entry entered the log."""
        if entry.producer_id < 0:
            return
        last = self._batches[pk][entry.producer_id]
        wrong = self.why_not(pk, entry)
        if wrong:
            self._problem(f"{pk}: the batch at {base_offset} {wrong}")
        if last and last[-1].epoch != entry.producer_epoch:
            last.clear()
        last.append(RecentBatch(entry.producer_epoch, entry.base_sequence, entry.offset_count, base_offset))
        del last[:-PRODUCER_BATCHES_REMEMBERED]

    def newest_epoch(self, pk: str, producer_id: int) -> int:
        """The epoch of the producer's last batch; -1 where there is none that must be known."""
        batches = self._batches[pk].get(producer_id)
        return batches[-1].epoch if batches else -1

    def why_not(self, pk: str, entry: TailEntry) -> str:
        """Why a batch must not come after the producer's last; empty: it may. Only aborted transactions leave gaps."""
        batches = self._batches[pk].get(entry.producer_id)
        if not batches:
            return ""
        last = batches[-1]
        batch_text = f"of producer {entry.producer_id} has epoch {entry.producer_epoch}"
        if entry.producer_epoch < last.epoch:
            return f"{batch_text} after {last.epoch}"
        is_next = entry.producer_epoch == last.epoch
        expected = next_sequence(last.base_sequence, last.record_count) if is_next else 0
        is_gap = (entry.base_sequence - expected) % (SEQUENCE_MAX + 1) <= SEQUENCE_MAX // 2
        if entry.base_sequence != expected and not (is_gap and self._leaves_gaps(entry.producer_id)):
            return f"{batch_text} and the sequence {entry.base_sequence}, not {expected}"
        return ""

    def why_not_leave(self, pk: str, producer_ids: Iterable[int]) -> str:
        """Why these must not leave the head with the rows that they have; empty: they may."""
        for producer_id in producer_ids:
            state = self._evicted(pk, producer_id)
            if state is None:
                if (pk, producer_id) not in self._expired:
                    return f"producer {producer_id} has no row"
                continue
            if wrong := next(
                self._wrong(pk, producer_id, state, None if is_shared(pk) else state.recent, "its row"), ""
            ):
                return wrong
        return ""

    def head_stored(self, pk: str, old: Item, new: Item) -> None:
        """A head was written; what entered with it has been told."""
        assert isinstance(new["p"], dict)
        if (old["tb"], old["pv"]) == (new["tb"], new["pv"]) and old["p"].keys() == new["p"].keys():  # type: ignore[union-attr]
            return
        head = decode_head(new)
        self._in_head[pk] = frozenset(head.producers)
        recent_batches = head.all_recent_batches(head.producers)
        for producer_id, state in head.producers.items():
            # A shared head keeps no batches that left its tail: pages and rows tell of them, until a merge.
            batches_told = None if is_shared(pk) else recent_batches[producer_id]
            self._check(pk, producer_id, state, batches_told, "its head")
        for producer_id in sorted(int(producer_id) for producer_id in old["p"].keys() - new["p"].keys()):  # type: ignore[union-attr]
            evicted = self._evicted(pk, producer_id)
            if evicted is not None:
                self._check_row(pk, producer_id, evicted)
            elif (pk, producer_id) in self._expired:
                self._batches[pk].pop(producer_id, None)
            else:
                self._problem(f"{pk}: producer {producer_id} left the head without a row")

    def row_stored(self, pk: str, producer_id: int, *, is_gone: bool) -> None:
        """The row was written that has a partition's producer, or it expired (`is_gone`)."""
        if is_gone:
            self._expired.add((pk, producer_id))
        if producer_id in self._in_head[pk]:
            return  # the row counts once the head has dropped the producer
        if is_gone:
            self._batches[pk].pop(producer_id, None)
        elif (evicted := self._evicted(pk, producer_id)) is not None:
            self._check_row(pk, producer_id, evicted)
        elif self._batches[pk].get(producer_id):
            self._problem(f"{pk}: the row of producer {producer_id} has nothing of this partition")

    def _evicted(self, pk: str, producer_id: int) -> ProducerState | None:
        """Return the state in the row of a producer that is not in the head; None without one."""
        partition = partition_of(pk)
        item = self.row(partition_pk(partition.head_id), producer_sk(producer_id))
        return None if item is None else places_of(partition).evicted(decode_row(partition.head_id, item))

    def _check_row(self, pk: str, producer_id: int, state: ProducerState) -> None:
        self._check(pk, producer_id, state, None if is_shared(pk) else state.recent, "its row")

    def _check(
        self, pk: str, producer_id: int, state: ProducerState, recent_batches: Collection[RecentBatch] | None, by: str
    ) -> None:
        for wrong in self._wrong(pk, producer_id, state, recent_batches, by):
            self._problem(f"{pk}: {wrong}")

    def _wrong(
        self, pk: str, producer_id: int, state: ProducerState, recent_batches: Collection[RecentBatch] | None, by: str
    ) -> Iterator[str]:
        """Yield differences of a producer's state from its last batches."""
        batches = self._batches[pk].get(producer_id)
        if not batches:
            return
        after = batches[-1].epoch, next_sequence(batches[-1].base_sequence, batches[-1].record_count)
        if (state.epoch, state.next_sequence) != after:
            producer_state = state.epoch, state.next_sequence
            yield f"producer {producer_id} is at epoch and sequence {after}, by {by} at {producer_state}"
        for batch in batches if recent_batches is not None else ():
            if batch not in recent_batches:
                yield f"{by} does not know the batch of producer {producer_id} at {batch.base_offset}"


def is_shared(pk: str) -> bool:
    """Return True if the partition of this `pk` shares its head."""
    return partition_of(pk).shares_head
