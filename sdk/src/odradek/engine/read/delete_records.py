"""DeleteRecords (KIP-107): readers no longer see records below an offset; their bytes are removed later.

    -1                     means the current high watermark
    above it               OFFSET_OUT_OF_RANGE
    at or below the start  nothing to do: the answer is the log start offset, as after a deletion

Only the head moves, by an update that can only raise the log start: repeated, late or doubled it is harmless. Rows and
objects wholly below it are removed by maintenance (retention.py), whatever the topic's cleanup policy is by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.backoff import Backoff
from odradek.engine.catalog.partitions import read_partition
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.catalog.topics import Topics
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import (
    ErrorCode,
    FormatError,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
)
from odradek.model.log import DeleteRecordsPartition, DeleteRecordsResult
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.settings import Settings

HIGH_WATERMARK = -1
_ATTEMPTS = 5


class RecordDeleter:
    """Answers DeleteRecords for any partition."""

    def __init__(self, index: PartitionIndex, topics: Topics, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._index = index
        self._topics = topics
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=1.0)
        self._settings = settings

    async def delete_records(self, partitions: Sequence[DeleteRecordsPartition]) -> list[DeleteRecordsResult]:
        """Results in the order of the request. See Engine.delete_records."""
        return list(await asyncio.gather(*(self._answer(request) for request in partitions)))

    async def _answer(self, request: DeleteRecordsPartition) -> DeleteRecordsResult:
        error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the store did not answer: try again")
        offset = request.offset
        for attempt in range(_ATTEMPTS):
            try:
                partition, head = await self._find(request)
                # Fixed by the first head seen, so that a repetition after a lost answer deletes nothing newer.
                offset = head.next_offset if offset == HIGH_WATERMARK else offset
                return await self._delete(request, partition, head, offset)
            except KafkaError as refused:
                return _failed(request, refused)
            except FormatError as damaged:
                return _failed(request, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(damaged)))
            except (ItemTooLarge, StoreRejected):
                return _failed(request, KafkaError(ErrorCode.POLICY_VIOLATION, "the store rejects this deletion"))
            except StoreUnavailable:
                pass
            except OutcomeUnknown:
                error = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, "it is unknown whether the records were deleted: try again"
                )
            await self._backoff.pause(attempt)
        return _failed(request, error)

    async def _find(self, request: DeleteRecordsPartition) -> tuple[PartitionId, PartitionHead]:
        topic, partition, head = await read_partition(
            self._topics, self._index, request.topic, request.partition, whole=False
        )
        if not TopicConfig.of(topic, self._settings).is_deleting:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"topic {topic.name} is only compacted: records are deleted there by tombstones; "
                "or add delete to its cleanup.policy",
            )
        return partition, head

    async def _delete(
        self, request: DeleteRecordsPartition, partition: PartitionId, head: PartitionHead, offset: int
    ) -> DeleteRecordsResult:
        if not 0 <= offset <= head.next_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records can be deleted only up to the high watermark {head.next_offset}, not {offset}",
            )
        after: PartitionHead | None = head
        if offset > head.log_start_offset:
            after = await self._index.advance_log_start(partition, offset, whole=False)
        if after is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {request.topic} has been deleted")
        return DeleteRecordsResult(request.topic, request.partition, low_watermark=after.log_start_offset)


def _failed(request: DeleteRecordsPartition, error: KafkaError) -> DeleteRecordsResult:
    return DeleteRecordsResult(request.topic, request.partition, error=error.code, message=error.message)
