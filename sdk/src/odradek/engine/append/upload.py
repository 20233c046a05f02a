"""Upload, for appends and transactions: validate the batches of a request, then store them as one object.

Tail entries describe the batches that pass; nothing refers to the bytes until those entries are committed. A refused
request, and one whose process dies after the upload, leave an object that the sweep removes.

The largest timestamp of a batch is that of its records, not what its header says: lookups by time and retention go by
it, and some producers write -1 (sarama up to 1.45.0). As in Apache Kafka the header is stored repaired, CRC and all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

from odradek.engine.append.refusals import not_uploaded
from odradek.engine.append.wal import Wal
from odradek.engine.catalog.partitions import partition_of, resolve_partition
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.catalog.topics import Topics
from odradek.errors import ErrorCode, FormatError, KafkaError, ObjectMissing, StoreError
from odradek.format.batch_header import patch_max_timestamp
from odradek.format.object_id import new_object_id
from odradek.format.object_keys import wal_key
from odradek.format.record_batch import validate_batches
from odradek.format.tail_entry import FLAG_LOG_APPEND_TIME, TailEntry
from odradek.format.validation.batches import TimestampBounds, check_records, check_timestamps
from odradek.limits import BATCH_HEADER_BYTES, REQUEST_BATCHES_PER_PARTITION_MAX
from odradek.model.log import Buffer, ProducePartition, ProduceResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.settings import Settings

_too_old = partial(
    KafkaError,
    ErrorCode.REQUEST_TIMED_OUT,
    "the request waited in the server for longer than its timeout; nothing was appended: send it again",
)


@dataclass(slots=True)
class Upload:
    """The batches of one partition that passed validation."""

    index: int  # position in the request
    topic: Topic
    partition: PartitionId
    request: ProducePartition
    entries: tuple[TailEntry, ...]  # positions in the object; before `Uploads.store` no object id, no commit time yet
    bytes_: memoryview


class _Taker(NamedTuple):
    """A topic, and what it takes now: looked up once for all of its partitions in a request."""

    topic: Topic
    config: TopicConfig
    bounds: TimestampBounds


_Takers = dict[tuple[str, UUID | None], _Taker]


class Uploads:
    """Validates and stores batches; holds no state between calls."""

    def __init__(self, wal: Wal, topics: Topics, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._wal = wal
        self._topics = topics
        self._clock = clock
        self._rng = rng
        self._settings = settings

    async def validate_all(
        self, partitions: Sequence[ProducePartition], *, transactional: bool = False
    ) -> tuple[list[Upload], dict[int, ProduceResult]]:
        """Check the batches of a request; nothing is written.

        A partition may come several times, with batches that follow each other, but not in a transaction. In the object
        partitions stand by their numbers, whatever the client's order: what a member of a group reads of consecutive
        ones is one range.

        Args:
            transactional: whether the batches must be, or must not be, marked as part of a transaction.

        Returns:
            What may be stored together, as it stands in the object, and the results of the partitions that were
            refused by their positions.
        """
        uploads: list[Upload] = []
        refused: dict[int, ProduceResult] = {}
        position = 0
        seen: set[PartitionId] = set()
        takers: _Takers = {}
        for i in sorted(range(len(partitions)), key=lambda at: _place(partitions[at])):
            request = partitions[i]
            try:
                upload = await self._validate(i, request, position, takers, transactional=transactional)
                if transactional and upload.partition in seen:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the produce request names the same partition twice")
            except KafkaError as error:
                # Where the catalog does not answer. No broker says that to Produce: sarama would give the batch up.
                is_away = error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
                refused[i] = refusal(request, ErrorCode.NOT_ENOUGH_REPLICAS if is_away else error.code, error.message)
            except FormatError as error:
                refused[i] = replace(refusal(request, error.code, str(error)), record_errors=error.record_errors)
            except StoreError as error:
                answer = not_uploaded(error)
                refused[i] = refusal(request, answer.code, answer.message)
            else:
                seen.add(upload.partition)
                uploads.append(upload)
                position += len(upload.bytes_)
        return uploads, refused

    async def _validate(
        self, index: int, request: ProducePartition, position: int, takers: _Takers, *, transactional: bool = False
    ) -> Upload:
        """Check the batches of one partition.

        Args:
            index: position in the request.
            position: of the partition's bytes in the object.
            takers: the topics of the request so far.

        Raises KafkaError, FormatError, StoreError.
        """
        named = request.topic, request.topic_id
        taker = takers.get(named)
        if taker is None or request.partition >= taker.topic.partition_count:
            topic, partition = await resolve_partition(self._topics, request.topic, request.partition, request.topic_id)
            # From here on the topic is known by its id. A process that was frozen before may have met a later topic.
            if request.valid_until_s is not None and self._clock.monotonic() > request.valid_until_s:
                raise _too_old()
            config = TopicConfig.of(topic, self._settings)
            bounds = config.timestamp_bounds(self._clock.now_ms())
            takers[named] = _Taker(topic, config, bounds)
        else:
            topic, config, bounds = taker
            partition = partition_of(topic, request.partition)
        data = memoryview(request.records)
        entries = []
        repaired: bytearray | None = None  # the bytes, if a header of them is not as its records are
        batches = validate_batches(data, max_message_bytes=config.max_message_bytes)
        if len(batches) > REQUEST_BATCHES_PER_PARTITION_MAX:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"{len(batches)} batches for one partition, more than the {REQUEST_BATCHES_PER_PARTITION_MAX} that a "
                "request may hold: make them larger",
            )
        for start, header in batches:
            size = header.size_bytes
            if header.is_transactional != transactional:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, _MISPLACED[transactional])
            max_timestamp_ms = header.max_timestamp_ms
            contradicts_itself = header.max_timestamp_ms < header.base_timestamp_ms
            walks = config.validates_records or config.is_compacted or contradicts_itself
            if walks:
                batch = data[start : start + size]
                max_timestamp_ms = await _largest_timestamp_ms(
                    check_records(batch, header, bounds, needs_keys=config.is_compacted)
                )
            check_timestamps(header, bounds, trusts_max=not walks)
            if max_timestamp_ms != header.max_timestamp_ms and not config.is_log_append_time:
                repaired = bytearray(data) if repaired is None else repaired
                patch_max_timestamp(repaired, start, header, max_timestamp_ms)
            entries.append(
                TailEntry(
                    object_id=b"",
                    position=position + start,
                    length=size,
                    offset_count=header.last_offset_delta + 1,
                    max_timestamp_ms=max_timestamp_ms,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    flags=FLAG_LOG_APPEND_TIME if config.is_log_append_time else 0,
                )
            )
        return Upload(index, topic, partition, request, tuple(entries), memoryview(repaired or data))

    async def store(self, uploads: Sequence[Upload]) -> list[Upload]:
        """Make the bytes durable as one object, and put its id into the entries. Raises StoreError."""
        object_id = new_object_id(self._clock.now_ms(), self._rng.random_bytes)
        parts: list[Buffer] = [upload.bytes_ for upload in uploads]
        flags = await self._wal.upload(object_id, parts)
        for upload in uploads:
            upload.entries = tuple([entry.in_object(object_id, flags) for entry in upload.entries])
        return list(uploads)

    async def check_stored(self, entry: TailEntry) -> None:
        """See that a batch which another process stored as an object is there, by its header.

        Raises KafkaError(INVALID_REQUEST), StoreUnavailable.
        """
        refused = KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"this store does not have the batch at {entry.position} of {entry.object_id.hex()}",
        )
        if entry.is_item or entry.producer_id >= 0 or entry.length < BATCH_HEADER_BYTES:
            raise refused
        try:
            data = await self._wal.read_range(wal_key(entry.object_id), entry.position, entry.length)
            [(_, header)] = validate_batches(memoryview(data), max_message_bytes=entry.length)
        except (ObjectMissing, FormatError, ValueError):
            raise refused from None
        if (header.size_bytes, header.last_offset_delta + 1) != (entry.length, entry.offset_count):
            raise refused


async def _largest_timestamp_ms(check: Generator[None, None, int]) -> int:
    """Check records, and let others run in between; return their largest timestamp. Raises what the check raises."""
    try:
        while True:
            next(check)
            await asyncio.sleep(0)
    except StopIteration as checked:
        return int(checked.value)


def _place(request: ProducePartition) -> tuple[str, int, int]:
    return request.topic, 0 if request.topic_id is None else request.topic_id.int, request.partition


def refusal(request: ProducePartition, code: ErrorCode, message: str) -> ProduceResult:
    """The result of a partition whose batches were not taken."""
    return ProduceResult(request.topic, request.partition, error=code, message=message, topic_id=request.topic_id)


_MISPLACED = {
    False: "a transactional batch outside of a transaction",
    True: "a batch of a transaction must be marked as transactional",
}
