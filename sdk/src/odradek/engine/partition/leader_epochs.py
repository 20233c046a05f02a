"""The start of each leader epoch of a partition, and the answers derived from it (KIP-101, KIP-320).

Key: `e#<epoch, 10 digits>`. Lifetime: written before the epoch ends, removed with the topic.

    v   format version 1
    o   offset of the first record that could be written under the epoch; for a shared head, whose partitions have one
        row beside it, a map of place -> offset, where 0 is left out

The present epoch's start is in the head (`es`), set by the update that began it. So before a taking raises the epoch it
writes the row of the one that ends: a fact that never changes again, written by anybody, any number of times, and
harmless where the taking then fails. A head of epoch n thus always has the rows of 0 to n - 1 beside it.

Epochs under which nothing was written are left out of the answers, and epochs below the log start are forgotten, as
Apache Kafka does it (LeaderEpochFileCache).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.shared_head import place_name
from odradek.errors import ConditionFailed, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import EPOCH_END, epoch_of, epoch_sk, partition_pk
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, Item, Key, Put, Table

VERSION = 1
UNDEFINED = (-1, -1)

_ATTEMPTS = 3
_PARTITIONS_CACHED = 4096


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A leader epoch and its first offset."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """All epochs of a partition, oldest first, and where its log ends."""

    starts: tuple[EpochStart, ...]
    next_offset: int

    def at(self, offset: int) -> int:
        """The epoch under which the record at this offset was written."""
        found = bisect_right(self.starts, offset, key=lambda start: start.offset) - 1
        return self.starts[max(found, 0)].epoch

    def end_offset(self, epoch: int, log_start_offset: int) -> tuple[int, int]:
        """The largest epoch up to this one that wrote anything, and the offset after its last record.

        (-1, -1) for an epoch that has not begun.
        """
        if epoch < 0 or epoch > self.starts[-1].epoch:
            return UNDEFINED
        if epoch == self.starts[-1].epoch:
            return epoch, self.next_offset
        starts = _written(self.starts, log_start_offset)
        after = next(i for i, start in enumerate(starts) if start.epoch > epoch)
        # Before everything that is kept: Kafka answers the asked epoch with the first offset that is left.
        return (starts[after - 1].epoch if after else epoch), starts[after].offset


def _written(starts: Sequence[EpochStart], log_start_offset: int) -> list[EpochStart]:
    """Remove epochs without records, and what is below the log start; the present epoch stays."""
    kept: list[EpochStart] = []
    for start in starts:
        offset = max(start.offset, log_start_offset)
        if kept and kept[-1].offset == offset:
            kept.pop()
        kept.append(EpochStart(start.epoch, offset))
    return kept


def _start_in(partition: PartitionId, item: Item) -> int:
    """The partition's start in the row of an epoch."""
    if not partition.shares_head:
        return attribute(item, "o", int)
    starts = attribute(item, "o", dict)
    name = place_name(partition.place)
    return attribute(starts, name, int) if name in starts else 0


class LeaderEpochs:
    """Reads and writes the rows; keeps what it read, since a row never changes."""

    def __init__(self, log: Table) -> None:
        self._log = log
        self._known: OrderedDict[PartitionId, tuple[EpochStart, ...]] = OrderedDict()

    async def keep(self, head_id: PartitionId, epoch: int, start: int | Mapping[str, int]) -> None:
        """Write an epoch's row, to be called before the epoch ends.

        Args:
            start: the first offset, or those of the partitions that share the head by place.

        Raises StoreUnavailable.
        """
        row: Item = {"v": VERSION, "o": start if isinstance(start, int) else dict(start)}
        put = Put(Key(partition_pk(head_id), epoch_sk(epoch)), row, Absent(("v",)))
        for _ in range(_ATTEMPTS):
            try:
                await self._log.put(put)
            except ConditionFailed:
                return  # it is there: there is but one start
            except OutcomeUnknown:
                continue
            else:
                return
        raise StoreUnavailable(f"the row of epoch {epoch} of {head_id} could not be written")

    async def history(self, partition: PartitionId, head: PartitionHead) -> EpochHistory:
        """All epochs up to the head's. One query for epochs not seen yet, else none. Raises StoreUnavailable."""
        known = self._known.get(partition, ())
        if len(known) < head.leader_epoch:
            rows = await self._log.query(partition_pk(partition.head_id), sk_from=epoch_sk(len(known)), sk_to=EPOCH_END)
            for row in rows:
                check_version(row.item, VERSION, "a leader epoch")
            known += tuple(EpochStart(epoch_of(row.key.sk), _start_in(partition, row.item)) for row in rows)
            # A taking that failed may have left the row of the present epoch too.
            known = tuple(start for start in known if start.epoch < head.leader_epoch)
            self._known[partition] = known
            if len(self._known) > _PARTITIONS_CACHED:
                self._known.popitem(last=False)
        past = tuple(start for start in known if start.epoch < head.leader_epoch)
        return EpochHistory((*past, EpochStart(head.leader_epoch, head.epoch_start)), head.next_offset)

    async def at(self, partition: PartitionId, head: PartitionHead, offset: int) -> int:
        """The epoch of the record at this offset; reads nothing for those of the present epoch.

        Raises StoreUnavailable.
        """
        if offset >= head.epoch_start:
            return head.leader_epoch
        return (await self.history(partition, head)).at(offset)
