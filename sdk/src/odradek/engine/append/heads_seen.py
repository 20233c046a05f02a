"""What shared heads said when this process last saw them: whether an append may go without reading first.

A refused update costs as many write units as one that is applied, and a read of the head and of a producer's row a
fifth of one each. Where more producers write than a head keeps, the next one has probably left it: its append reads
first. Where few do, nobody leaves but who is silent, and appends go blind. Nothing rests on what is remembered here:
the update's condition decides.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import HeadImage, SharedHead, id_name_of
from odradek.format.tail_entry import TailEntry
from odradek.model.topic_partition import PartitionId

_SEEN_MAX = 1024


@dataclass(frozen=True, slots=True)
class _Seen:
    producers: Collection[str]
    has_evicted: bool
    is_crowded: bool


class HeadsSeen:
    """The shared heads that this process has seen last."""

    def __init__(self, index: PartitionIndex) -> None:
        self._index = index
        self._seen: OrderedDict[PartitionId, _Seen] = OrderedDict()

    def saw(self, head_id: PartitionId, image: HeadImage | None) -> None:
        """What a head says, newer than before."""
        if not isinstance(image, SharedHead):
            return
        self._seen[head_id] = _Seen(image.stamps.keys(), image.evictions > 0, self._index.is_crowded(image))
        self._seen.move_to_end(head_id)
        if len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)

    def reads_first(self, head_id: PartitionId, entries: Iterable[TailEntry]) -> bool:
        """Return True if an update without a read before it would probably be refused."""
        seen = self._seen.get(head_id)
        if seen is None or not seen.has_evicted:
            return False
        names = {id_name_of(entry.producer_id) for entry in entries if entry.producer_id >= 0}
        return bool(names) and (seen.is_crowded or not names <= set(seen.producers))

    def present(self, head_id: PartitionId, entries: Iterable[TailEntry]) -> set[int]:
        """The producers of the entries that the head probably has: it was seen with them, or their entries say so."""
        seen = self._seen.get(head_id)
        found = set()
        for entry in entries:
            if entry.producer_id < 0:
                continue
            if seen is not None:
                is_there = id_name_of(entry.producer_id) in seen.producers
            else:
                is_there = entry.producer_epoch > 0
            if is_there or entry.base_sequence > 0:
                found.add(entry.producer_id)
        return found
