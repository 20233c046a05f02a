"""Rows of producers that left a head: `p#<producer id>`, beside the head.

    of a head of one partition     v, o, t, and the producer's entry in the head (head.py)
    of a shared head               v, o, t, p = what the head had of it: place -> stamp (shared_head.py)

`o` orders the rows of one producer: the partition's next offset, or the number of elements appended to the shared head,
when the producer was seen. `t` is a time not before its last commit, ms (engine/maintenance/producer_expiry.py).
A row is written before the head forgets the producer, and says all there is to know once it has. While the head has
the producer, nobody asks its row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from odradek.engine.partition.fields import check_version, is_version
from odradek.engine.partition.head import VERSION, ProducerState, decode_producer
from odradek.engine.partition.shared_head import Stamps, decode_stamps, state_of
from odradek.errors import ConditionFailed
from odradek.format.item_keys import PRODUCER_END, PRODUCER_PREFIX, partition_pk, producer_sk
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, AnyOf, Compare, Item, Key, Put, Table, all_of

_ROWS_PER_QUERY = 256


@dataclass(frozen=True, slots=True)
class EvictedProducer:
    """What is known of a producer that its head does not have; without a row, nothing.

    Attributes:
        alone: of a head of one partition.
        stamps: of a shared head, of all its partitions.
    """

    alone: ProducerState | None = None
    stamps: Stamps = field(default_factory=dict)

    def state(self, place: str) -> ProducerState | None:
        """The state in the partition at a place of a shared head, or in the only one."""
        return self.alone or state_of(self.stamps, place)


UNKNOWN = EvictedProducer()


def decode_row(head_id: PartitionId, item: Item) -> EvictedProducer:
    """The producer from its row. Raises FormatError for an unknown version or a damaged item."""
    check_version(item, VERSION, "a producer's row")
    if head_id.shares_head:
        return EvictedProducer(stamps=decode_stamps(item, "p"))
    return EvictedProducer(decode_producer(item))


class ProducerRows:
    """The rows of all heads."""

    def __init__(self, log: Table) -> None:
        self._log = log

    async def read(self, head_id: PartitionId, producer_id: int) -> EvictedProducer:
        """A producer that the head does not have. Raises StoreUnavailable, FormatError."""
        item = await self._log.get(Key(partition_pk(head_id), producer_sk(producer_id)))
        return UNKNOWN if item is None else decode_row(head_id, item)

    async def write_stamps(
        self, head_id: PartitionId, producer_id: int, stamps: Mapping[str, int], *, seen_at: int, committed_ms: int
    ) -> bool:
        """Write the row of a producer of a shared head, unless it holds something newer: False. Raises StoreError.

        Args:
            seen_at: elements appended to the head when the producer was seen.
            committed_ms: not before its last commit.
        """
        row: Item = {"v": VERSION, "o": seen_at, "t": committed_ms, "p": dict(stamps)}
        condition = AnyOf((Absent(("v",)), all_of(is_version(VERSION), Compare(("o",), "<=", seen_at))))
        try:
            await self._log.put(Put(Key(partition_pk(head_id), producer_sk(producer_id)), row, condition))
        except ConditionFailed:
            return False
        return True

    async def all(self, head_id: PartitionId) -> AsyncIterator[tuple[int, EvictedProducer]]:
        """All rows of a head, with the producers' ids. Raises StoreUnavailable, FormatError."""
        sk_from = PRODUCER_PREFIX
        while True:
            rows = await self._log.query(
                partition_pk(head_id), sk_from=sk_from, sk_to=PRODUCER_END, limit=_ROWS_PER_QUERY
            )
            for row in rows:
                yield int(row.key.sk.removeprefix(PRODUCER_PREFIX)), decode_row(head_id, row.item)
            if len(rows) < _ROWS_PER_QUERY:
                return
            sk_from = rows[-1].key.sk + "\0"
