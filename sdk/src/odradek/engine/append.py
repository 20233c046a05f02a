"""Append: validate everything, upload once, then one conditional update a partition (DESIGN "Append").

The data is durable before any offset or sequence moves: a crash between upload and update leaves an unreferenced
object, never a hole and never a lost acknowledged write. Partitions of one request succeed or fail each on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.engine.append_decisions import Reject
from odradek.engine.conditional_append import NOT_APPENDED, AppendTools, ConditionalAppend
from odradek.engine.head import PartitionHead
from odradek.engine.partition_index import PartitionIndex
from odradek.engine.topic_configs import TopicConfig
from odradek.engine.topics import Topics
from odradek.engine.wal import Wal
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreError
from odradek.format.object_id import new_object_id
from odradek.format.record_batch import decode_batch, validate_batches
from odradek.format.tail_entry import FLAG_LOG_APPEND_TIME, TailEntry
from odradek.model.log import Buffer, ProducePartition, ProduceResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.settings import Settings


@dataclass(frozen=True, slots=True)
class _Upload:
    """The batches of one partition that passed validation."""

    index: int  # position in the request
    topic: Topic
    partition: PartitionId
    request: ProducePartition
    entries: tuple[TailEntry, ...]  # positions in the object, no object id or commit time yet
    bytes_: memoryview


class Appender:
    """Appends for any partition; holds no state between calls."""

    def __init__(
        self, index: PartitionIndex, wal: Wal, topics: Topics, clock: Clock, rng: Rng, settings: Settings
    ) -> None:
        self._wal = wal
        self._topics = topics
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._tools = AppendTools(index, wal, clock, rng, settings)

    async def produce(
        self, partitions: Sequence[ProducePartition], *, transactional_id: str | None = None
    ) -> list[ProduceResult]:
        """Append; results in the order of the request. See Engine.produce."""
        if transactional_id is not None:
            refused = KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served by this release"
            )
            return [_failed(request, refused) for request in partitions]
        results: list[ProduceResult | None] = [None] * len(partitions)
        uploads: list[_Upload] = []
        position = 0
        seen: set[PartitionId] = set()
        for i, request in enumerate(partitions):
            try:
                upload = await self._validate(i, request, position)
                if upload.partition in seen:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition stands twice in one produce request")
            except (KafkaError, FormatError) as error:
                results[i] = _failed(request, error)
            except StoreError:
                results[i] = _result(request, NOT_APPENDED.code, NOT_APPENDED.message)
            else:
                seen.add(upload.partition)
                uploads.append(upload)
                position += len(upload.bytes_)
        if uploads:
            for upload, result in zip(uploads, await self._append_all(uploads), strict=True):
                results[upload.index] = result
        return [result for result in results if result is not None]

    # --- 1. validate ----------------------------------------------------------------------------------------------

    async def _validate(self, index: int, request: ProducePartition, position: int) -> _Upload:
        topic = await self._topics.resolve(request.topic, request.topic_id)
        if not 0 <= request.partition < topic.partition_count:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name} has partitions 0 to {topic.partition_count - 1}, not {request.partition}",
            )
        config = TopicConfig.of(topic, self._settings)
        data = memoryview(request.records)
        entries = []
        for start, header in validate_batches(data, max_message_bytes=config.max_message_bytes):
            if header.is_transactional:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, "a transactional batch outside of a transaction")
            if config.is_compacted:
                _check_keys(data[start : start + header.size_bytes])
            entries.append(
                TailEntry(
                    object_id=b"",
                    position=position + start,
                    length=header.size_bytes,
                    offset_count=header.last_offset_delta + 1,
                    max_timestamp_ms=header.max_timestamp_ms,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    flags=FLAG_LOG_APPEND_TIME if config.is_log_append_time else 0,
                )
            )
        partition = PartitionId(topic.topic_id, request.partition)
        return _Upload(index, topic, partition, request, tuple(entries), data)

    # --- 2. upload ------------------------------------------------------------------------------------------------

    async def _append_all(self, uploads: Sequence[_Upload]) -> list[ProduceResult]:
        object_id = new_object_id(self._clock.now_ms(), self._rng.random_bytes)
        parts: list[Buffer] = [upload.bytes_ for upload in uploads]
        try:
            flags = await self._wal.upload(object_id, parts)
        except StoreError:
            return [_result(upload.request, NOT_APPENDED.code, NOT_APPENDED.message) for upload in uploads]
        return list(await asyncio.gather(*(self._append(upload, object_id, flags) for upload in uploads)))

    # --- 3. one conditional update a partition --------------------------------------------------------------------

    async def _append(self, upload: _Upload, object_id: bytes, flags: int) -> ProduceResult:
        placed = [replace(entry, object_id=object_id, flags=entry.flags | flags) for entry in upload.entries]
        # Entries of producers go one by one: each may be a duplicate of its own.
        idempotent = any(entry.producer_id >= 0 for entry in placed)
        base_offset, log_start, stamp = -1, -1, -1
        for group in ([entry] for entry in placed) if idempotent else (placed,):
            update = ConditionalAppend(
                self._tools, upload.partition, upload.bytes_, group, upload.request.expected_offset
            )
            outcome = await update.run()
            if isinstance(outcome, Reject):
                if update.partition_is_gone:
                    self._topics.forget(upload.topic)
                return _result(upload.request, outcome.code, outcome.message, update.head)
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


def _check_keys(batch: memoryview) -> None:
    """Compaction needs keys; only here does the server look into records."""
    if any(record.key is None for record in decode_batch(batch, verify_crc=False)):
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "the topic is compacted: every record needs a key; give one or drop the record"
        )


def _failed(request: ProducePartition, error: KafkaError | FormatError) -> ProduceResult:
    return _result(request, error.code, error.message if isinstance(error, KafkaError) else str(error))


def _result(
    request: ProducePartition, code: ErrorCode, message: str, head: PartitionHead | None = None
) -> ProduceResult:
    leader = head if head is not None and code is ErrorCode.NOT_LEADER_OR_FOLLOWER else None
    return ProduceResult(
        request.topic,
        request.partition,
        error=code,
        message=message,
        topic_id=request.topic_id,
        log_start_offset=head.log_start_offset if head else -1,
        current_leader_id=leader.leader_id if leader else -1,
        current_leader_epoch=leader.leader_epoch if leader else -1,
    )
