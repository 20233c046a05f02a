"""The state of a partition for administrators: its size, and its producers (DescribeLogDirs, -Producers)."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.engine.partition.head import PartitionHead, ProducerState
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import is_ghost
from odradek.engine.partition.producer_places import places_of
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreUnavailable
from odradek.limits import SEQUENCE_MAX
from odradek.model.topic_partition import PartitionId

_ROWS_PER_QUERY = 250
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that the partition's log knows."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int  # of its newest batch; -1 where that has left the tail of the log


class PartitionStates:
    """Reads heads and index rows."""

    def __init__(self, index: PartitionIndex) -> None:
        self._index = index

    async def producers(self, partition: PartitionId) -> list[ActiveProducer]:
        """The producers in the order of their ids, evicted ones too, until they expire.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR (try again).
        """
        head = await self._head(partition, whole=False)  # before the rows, which who leaves it meanwhile has
        places, known = places_of(partition), dict[int, ProducerState]()
        try:
            async for producer_id, row in self._index.producer_rows.all(partition.head_id):
                if (evicted := places.evicted(row)) is not None:
                    known[producer_id] = evicted
        except (StoreUnavailable, FormatError) as error:
            raise _unreadable() from error
        known.update(head.producers)
        newest = {entry.producer_id: entry.max_timestamp_ms for _, entry in head.entries()}
        return [
            ActiveProducer(
                producer_id,
                state.epoch,
                state.next_sequence - 1 if state.next_sequence else SEQUENCE_MAX,
                newest.get(producer_id, NO_TIMESTAMP),
            )
            for producer_id, state in sorted(known.items())
        ]

    async def size_bytes(self, partition: PartitionId) -> int:
        """The bytes of the partition's live batches as they are stored. Raises KafkaError as `producers`."""
        head = await self._head(partition)
        size = sum(entry.length for _, entry in head.entries())
        below = head.tail_base_offset
        try:
            while below > head.log_start_offset:
                rows = await self._index.rows_down_from(partition, below - 1, _ROWS_PER_QUERY)
                size += sum(
                    row.size_bytes
                    for row in rows
                    if row.end_offset > head.log_start_offset and not is_ghost(row, head.merged_offset)
                )
                if not rows:
                    break
                below = rows[-1].base_offset
        except (StoreUnavailable, FormatError) as error:
            raise _unreadable() from error
        return size

    async def _head(self, partition: PartitionId, *, whole: bool = True) -> PartitionHead:
        try:
            [head] = await self._index.read_heads([partition], whole=whole)
        except (StoreUnavailable, FormatError) as error:
            raise _unreadable() from error
        if head is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
        return head


def _unreadable() -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the partition cannot be read now: try again")
