"""ListOffsets: the ends of a log and offsets by timestamp (KIP-79, KIP-734); the search is in timestamp_lookup.py."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.backoff import Backoff
from odradek.engine.catalog.partitions import read_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.partition.claims import check_leader_epoch
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.read.timestamp_lookup import TimestampLookup
from odradek.errors import ErrorCode, FormatError, KafkaError, ObjectMissing, StoreUnavailable
from odradek.model.log import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsResult,
)
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

_ATTEMPTS = 5  # as of the catalog's reads


class OffsetLister:
    """Answers ListOffsets for any partition."""

    def __init__(self, index: PartitionIndex, lookups: TimestampLookup, topics: Topics, clock: Clock, rng: Rng) -> None:
        self._index = index
        self._lookups = lookups
        self._topics = topics
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=1.0)

    async def list_offsets(self, partitions: Sequence[ListOffsetsPartition]) -> list[ListOffsetsResult]:
        """Results in the order of the request. See Engine.list_offsets."""
        return list(await asyncio.gather(*(self._answer(request) for request in partitions)))

    async def _answer(self, request: ListOffsetsPartition) -> ListOffsetsResult:
        code, message = ErrorCode.KAFKA_STORAGE_ERROR, "the store did not answer: try again"
        lookups, missing = self._lookups, ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await self._backoff.pause(attempt - 1)
            try:
                return await self._list_one(request, lookups)
            except KafkaError as error:
                code, message = error.code, error.message
                break
            except FormatError as error:
                message = f"the stored log could not be read: {error}"
                if lookups is not self._lookups:
                    break
                lookups = self._lookups.passing_damage()
            except ObjectMissing as error:
                if str(error) == missing:  # by rows that were read since: no merge was faster
                    lookups = self._lookups.passing_damage()
                missing = str(error)
            except StoreUnavailable:
                continue
        return ListOffsetsResult(request.topic, request.partition, error=code, message=message)

    async def _list_one(self, request: ListOffsetsPartition, lookups: TimestampLookup) -> ListOffsetsResult:
        by_time = request.timestamp_ms >= 0 or request.timestamp_ms == MAX_TIMESTAMP
        _, partition, head = await read_partition(
            self._topics, self._index, request.topic, request.partition, whole=by_time
        )
        check_leader_epoch(request.current_leader_epoch, head)
        offset, timestamp_ms = await self._lookup(lookups, partition, head, request.timestamp_ms)
        epoch = head.leader_epoch if offset >= 0 else -1  # no offset, no epoch
        return ListOffsetsResult(
            request.topic, request.partition, offset=offset, timestamp_ms=timestamp_ms, leader_epoch=epoch
        )

    async def _lookup(
        self, lookups: TimestampLookup, partition: PartitionId, head: PartitionHead, timestamp_ms: int
    ) -> tuple[int, int]:
        if timestamp_ms == LATEST_TIMESTAMP:
            return head.next_offset, -1
        if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return head.log_start_offset, -1
        if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return -1, -1  # no log has tiers
        if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"unknown special timestamp {timestamp_ms}")
        if timestamp_ms == MAX_TIMESTAMP:
            found = await lookups.largest(partition, head)
        else:
            found = await lookups.first_at(partition, head, timestamp_ms)
        return found or (-1, -1)
