"""OffsetForLeaderEpoch: the end offset of an epoch, by which a consumer detects records that were truncated.

A log here is never truncated (an epoch ends where the next one starts), so the answer always confirms what was read.
Clients that check anyway (KIP-320) are answered as Apache Kafka would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.engine.catalog.partitions import read_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.partition.claims import check_leader_epoch
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.leader_epochs import LeaderEpochs
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreUnavailable
from odradek.model.log import EpochEndPartition, EpochEndResult


class EpochEndLister:
    """Answers OffsetForLeaderEpoch for any partition."""

    def __init__(self, index: PartitionIndex, epochs: LeaderEpochs, topics: Topics) -> None:
        self._index = index
        self._epochs = epochs
        self._topics = topics

    async def list_ends(self, partitions: Sequence[EpochEndPartition]) -> list[EpochEndResult]:
        """Results in the order of the request. See Engine.epoch_end_offsets."""
        return list(await asyncio.gather(*(self._answer(request) for request in partitions)))

    async def _answer(self, request: EpochEndPartition) -> EpochEndResult:
        try:
            epoch, end_offset = await self._find(request)
        except KafkaError as error:
            return EpochEndResult(request.topic, request.partition, error=error.code, message=error.message)
        except (StoreUnavailable, FormatError) as error:
            return EpochEndResult(
                request.topic, request.partition, error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(error)
            )
        return EpochEndResult(request.topic, request.partition, leader_epoch=epoch, end_offset=end_offset)

    async def _find(self, request: EpochEndPartition) -> tuple[int, int]:
        _, partition, head = await read_partition(
            self._topics, self._index, request.topic, request.partition, whole=False
        )
        check_leader_epoch(request.current_leader_epoch, head)
        history = await self._epochs.history(partition, head)
        return history.end_offset(request.leader_epoch, head.log_start_offset)
