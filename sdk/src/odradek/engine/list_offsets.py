"""ListOffsets: offsets by timestamp, exact to the record (KIP-79, KIP-734).

The first batch in offset order whose largest timestamp reaches the asked one holds the answer; it alone is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from odradek.engine.head import PartitionHead
from odradek.engine.leader_decisions import check_leader_epoch
from odradek.engine.log_reader import LogReader, Piece, PieceReader, entry_piece, patched, row_pieces
from odradek.engine.partition_index import PartitionIndex
from odradek.engine.topics import Topics
from odradek.errors import ErrorCode, FormatError, KafkaError, ObjectMissing, StoreUnavailable
from odradek.format.record_batch import decode_batches
from odradek.model.log import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsResult,
)
from odradek.model.record import Record
from odradek.model.topic_partition import PartitionId

_ROWS_PER_QUERY = 256
_ATTEMPTS = 3


class OffsetLister:
    """Answers ListOffsets for any partition."""

    def __init__(self, index: PartitionIndex, reader: LogReader, pieces: PieceReader, topics: Topics) -> None:
        self._index = index
        self._reader = reader
        self._pieces = pieces
        self._topics = topics

    async def list_offsets(self, partitions: Sequence[ListOffsetsPartition]) -> list[ListOffsetsResult]:
        """Results in the order of the request. See Engine.list_offsets."""
        return list(await asyncio.gather(*(self._answer(request) for request in partitions)))

    async def _answer(self, request: ListOffsetsPartition) -> ListOffsetsResult:
        code, message = ErrorCode.KAFKA_STORAGE_ERROR, "the store did not answer: ask again"
        for _ in range(_ATTEMPTS):
            try:
                return await self._list_one(request)
            except KafkaError as error:
                code, message = error.code, error.message
                break
            except FormatError as error:
                message = f"the stored log could not be read: {error}"
                break
            except (ObjectMissing, StoreUnavailable):
                continue
        return ListOffsetsResult(request.topic, request.partition, error=code, message=message)

    async def _list_one(self, request: ListOffsetsPartition) -> ListOffsetsResult:
        topic = await self._topics.resolve(request.topic)
        partition = PartitionId(topic.topic_id, request.partition)
        in_range = 0 <= request.partition < topic.partition_count
        head = await self._index.read_head(partition) if in_range else None
        if head is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {request.partition}"
            )
        check_leader_epoch(request.current_leader_epoch, head)
        offset, timestamp_ms = await self._lookup(partition, head, request.timestamp_ms)
        return ListOffsetsResult(
            request.topic, request.partition, offset=offset, timestamp_ms=timestamp_ms, leader_epoch=head.leader_epoch
        )

    async def _lookup(self, partition: PartitionId, head: PartitionHead, timestamp_ms: int) -> tuple[int, int]:
        if timestamp_ms == LATEST_TIMESTAMP:
            return head.next_offset, -1
        if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return head.log_start_offset, -1
        if timestamp_ms == LATEST_TIERED_TIMESTAMP:
            return -1, -1
        if timestamp_ms == MAX_TIMESTAMP:
            best: Piece | None = None
            async for piece in self._all_pieces(partition, head):
                if best is None or piece.max_timestamp_ms > best.max_timestamp_ms:
                    best = piece
            if best is None:
                return -1, -1
            largest = best.max_timestamp_ms
            return await self._first_in(best, lambda record: record.timestamp_ms == largest)
        if timestamp_ms < 0:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{timestamp_ms} is not a special timestamp known here")
        start = head.log_start_offset
        async for piece in self._all_pieces(partition, head):
            if piece.max_timestamp_ms >= timestamp_ms:
                found = await self._first_in(
                    piece, lambda record: record.timestamp_ms >= timestamp_ms and record.offset >= start
                )
                if found[0] >= 0:
                    return found
        return -1, -1

    async def _all_pieces(self, partition: PartitionId, head: PartitionHead) -> AsyncIterator[Piece]:
        """Every live piece, oldest first."""
        offset = head.log_start_offset
        first = await self._index.row_at(partition, offset) if offset < head.tail_base_offset else None
        offset = first.base_offset if first is not None else 0
        while offset < head.tail_base_offset:
            rows = await self._index.rows_from(partition, offset, _ROWS_PER_QUERY)
            if not rows:
                break
            for row in rows:
                for piece in row_pieces(partition, row):
                    if piece.end_offset > head.log_start_offset and piece.base_offset < head.tail_base_offset:
                        yield piece
            offset = rows[-1].end_offset
        for base_offset, entry in head.entries():
            if base_offset + entry.offset_count > head.log_start_offset:
                yield entry_piece(base_offset, entry)

    async def _first_in(self, piece: Piece, matches: Callable[[Record], bool]) -> tuple[int, int]:
        data = await self._pieces.read([piece])
        batch = b"".join(bytes(part) for part in patched(piece, data[0], 0))
        for record in decode_batches(batch, verify_crc=False):
            if matches(record):
                return record.offset, record.timestamp_ms
        return -1, -1
