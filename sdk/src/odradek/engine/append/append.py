"""Append: validate everything, upload once, then one conditional update a partition (DESIGN "Append").

The data is durable before any offset or sequence moves: a crash between upload and update leaves an unreferenced
object, never a hole and never a lost acknowledged write. Partitions of one request succeed or fail each on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.engine.append.conditional_append import AppendTools, CommitTimes, ConditionalAppend, not_uploaded
from odradek.engine.append.decisions import Reject
from odradek.engine.append.upload import Upload, Uploads
from odradek.engine.append.wal import Wal
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.catalog.topics import Topics
from odradek.engine.leaders.leaders import Leaders
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import ErrorCode, FormatError, StoreError, StoreRejected
from odradek.model.log import ProducePartition, ProduceResult
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.settings import Settings


class Appender:
    """Appends for any partition; holds no state between calls."""

    def __init__(
        self,
        index: PartitionIndex,
        leaders: Leaders,
        wal: Wal,
        topics: Topics,
        clock: Clock,
        rng: Rng,
        settings: Settings,
    ) -> None:
        self._topics = topics
        self._settings = settings
        self._uploads = Uploads(wal, topics, clock, rng, settings)
        self._tools = AppendTools(index, leaders, wal, clock, rng, settings, CommitTimes(clock))

    async def produce(self, partitions: Sequence[ProducePartition]) -> list[ProduceResult]:
        """Append; results in the order of the request. See Engine.produce."""
        uploads, results = await self._uploads.validate_all(partitions)
        if uploads:
            for upload, result in zip(uploads, await self._append_all(uploads), strict=True):
                results[upload.index] = result
        return [results[i] for i in range(len(partitions))]

    # --- upload ---------------------------------------------------------------------------------------------------

    async def _append_all(self, uploads: Sequence[Upload]) -> list[ProduceResult]:
        try:
            stored = await self._uploads.store(uploads)
        except StoreError as error:
            return [_result(upload.request, not_uploaded(error)) for upload in uploads]
        return list(await asyncio.gather(*(self._append(upload) for upload in stored)))

    # --- one conditional update a partition -----------------------------------------------------------------------

    async def _append(self, upload: Upload) -> ProduceResult:
        placed = upload.entries
        # Entries of producers go one by one: each may be a duplicate of its own.
        idempotent = any(entry.producer_id >= 0 for entry in placed)
        base_offset, log_start, stamp = -1, -1, -1
        expected_offset = upload.request.expected_offset
        for group in ([entry] for entry in placed) if idempotent else (placed,):
            start = group[0].position - placed[0].position
            data = upload.bytes_[start : start + sum(entry.length for entry in group)]
            update = ConditionalAppend(self._tools, upload.partition, data, group, expected_offset)
            try:
                outcome = await update.run()
            except (FormatError, StoreRejected) as damaged:
                outcome = update.stopped_by(damaged)
            if isinstance(outcome, Reject):
                if update.partition_is_gone:
                    self._topics.forget(upload.topic)
                return _result(upload.request, outcome, update.head)
            if expected_offset is not None:  # nothing may come between the batches either
                expected_offset = outcome.base_offset + sum(entry.offset_count for entry in group)
            base_offset = outcome.base_offset if base_offset < 0 else base_offset
            stamp = outcome.commit_ms
            log_start = outcome.head.log_start_offset
        config = TopicConfig.of(upload.topic, self._settings)
        return ProduceResult(
            upload.request.topic,
            upload.request.partition,
            base_offset=base_offset,
            log_append_time_ms=stamp if config.is_log_append_time else -1,
            log_start_offset=log_start,
            topic_id=upload.topic.topic_id,
        )


def _result(request: ProducePartition, rejection: Reject, head: PartitionHead | None = None) -> ProduceResult:
    leader = head if head is not None and rejection.code is ErrorCode.NOT_LEADER_OR_FOLLOWER else None
    return ProduceResult(
        request.topic,
        request.partition,
        error=rejection.code,
        message=rejection.message,
        topic_id=request.topic_id,
        log_start_offset=head.log_start_offset if head else -1,
        current_leader_id=leader.leader_id if leader else -1,
        current_leader_epoch=leader.leader_epoch if leader else -1,
        next_offset=rejection.next_offset,
    )
