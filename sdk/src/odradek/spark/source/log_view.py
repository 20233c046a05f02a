"""A synchronous view of the log for Spark's driver and executors.

It only reads: heads and index rows (log table), topics (catalog table) and objects. It calls no function. An embedded
store is opened read-only, also while its service writes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from odradek.engine.append.wal import Wal
from odradek.engine.catalog.topics import Topics
from odradek.engine.catalog.typed_columns import ColumnsOfTopic, TypedColumns
from odradek.engine.damage import Damages
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.read.list_offsets import OffsetLister
from odradek.engine.read.log_reader import LogReader, Piece, PieceReader
from odradek.engine.read.segment_reader import UNBOUNDED, SegmentIndexes
from odradek.engine.read.timestamp_lookup import TimestampLookup
from odradek.errors import ErrorCode, KafkaError, ObjectMissing
from odradek.format.object_keys import segment_key
from odradek.model.log import ListOffsetsPartition
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.registry.subjects import Subjects
from odradek.registry.value_schemas import RegistryValueSchemas
from odradek.settings import Settings
from odradek.spark.offsets import Bounds, Offsets
from odradek.spark.opened_store import OpenedStore
from odradek.spark.options import StoreOptions, Subscription
from odradek.system import SystemRng

if TYPE_CHECKING:
    from odradek.columnar.typed.typed_values import TypedValues

_PLANS = 5  # attempts for one range, while maintenance replaces its objects
_ROWS_PER_QUERY = 1_000
_PARALLEL = 16  # requests of a plan
_AHEAD_BYTES = 1024 * 1024  # less than read.CHUNK_BYTES
_FOOTER_BYTES = 64 * 1024  # read at first


class TableFile(NamedTuple):
    """A columnar segment: all records of the offsets [base_offset, end_offset) of a partition."""

    partition: PartitionId
    base_offset: int
    end_offset: int
    object_key: str
    size_bytes: int
    max_timestamp_ms: int
    has_recipes: bool  # values are made of its columns: `value` does not have all of them


class LogView(OpenedStore):
    """The store as the source uses it."""

    def __init__(self, options: StoreOptions, settings: Settings | None = None) -> None:
        super().__init__(options, thread_name="odradek-log-view")
        self._settings = settings or Settings()
        store, clock = self._store, self._store.clock
        index = PartitionIndex(store.log, self._settings)
        self._index = index
        self._topics = Topics(store.catalog, index, clock, SystemRng(), self._settings)
        self._columns = TypedColumns(RegistryValueSchemas(Subjects(store.catalog, clock, SystemRng())))
        segments = SegmentIndexes(store.objects, Damages())
        self._reader = LogReader(index, segments)
        self._pieces = PieceReader(Wal(store.log, store.objects, clock, SystemRng(), self._settings), self._settings)
        self._ahead: dict[Piece, memoryview] = {}
        lookups = TimestampLookup(index, segments, self._pieces)
        self._lister = OffsetLister(index, lookups, self._topics, clock, SystemRng())

    # --- what is there --------------------------------------------------------------------------------------------

    def partitions(self, subscription: Subscription) -> dict[TopicPartition, PartitionId]:
        """Return the partitions of a subscription now.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION for a named topic or partition that does not exist; a pattern may
        match nothing (yet).
        """
        return self._run(lambda: self._partitions(subscription))

    def bounds(self, partitions: dict[TopicPartition, PartitionId]) -> dict[TopicPartition, Bounds]:
        """Return first and next offset of each partition, without deleted ones."""
        return self._run(lambda: self._bounds(partitions))

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Offsets:
        """Return the first offset of each partition with at least this timestamp; omit partitions without one."""
        return self._run(lambda: self._offsets_at(partitions, timestamp_ms))

    def pieces(
        self, partition: PartitionId, start_offset: int, end_offset: int, piece_bytes: int = UNBOUNDED
    ) -> list[Piece]:
        """Return the locations of the bytes of [start, end); segments are cut into pieces of about `piece_bytes`.

        Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION, or KAFKA_STORAGE_ERROR if segments disappear repeatedly),
        FormatError.
        """
        return self._run(lambda: self._plan(partition, start_offset, end_offset, piece_bytes))

    def table_files(self, ranges: Mapping[PartitionId, tuple[int, int]]) -> list[TableFile]:
        """Return the columnar segments that lie wholly within these offsets, by their index rows alone."""
        return self._run(lambda: self._table_files(ranges))

    def footers(self, files: Sequence[TableFile]) -> list[bytes | None]:
        """Return the ends of these files with their footers; None for one that no longer exists."""
        return self._run(lambda: self._footers(files))

    def columns_of(self, topic: str) -> ColumnsOfTopic:
        """Return the typed columns of a topic, by its configuration and the registry.

        Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION), StoreUnavailable.
        """
        return self._run(lambda: self._columns_of(topic))

    def learn(self, values: TypedValues, ids: Sequence[int]) -> None:
        """Tell a reader of typed columns the schemas of these ids. Raises StoreUnavailable."""
        self._run(lambda: self._columns.learn(values, ids))

    def read_ahead(self, pieces: Sequence[Piece]) -> None:
        """Read pieces of several partitions at once, for a `read` of each that follows."""
        # Of columnar files only some columns are read, and large pieces in parts.
        wanted = [piece for piece in pieces if not piece.groups and piece.length <= _AHEAD_BYTES]
        if wanted:
            with suppress(ObjectMissing):  # whoever reads that piece plans again
                self._ahead |= zip(wanted, self._run(lambda: self._pieces.read(wanted)), strict=True)

    def read(self, pieces: Sequence[Piece]) -> list[memoryview]:
        """Return the bytes of pieces, neighbours in one request. Raises ObjectMissing: `forget`, then plan again."""
        if self._ahead and all(piece in self._ahead for piece in pieces):
            return [self._ahead.pop(piece) for piece in pieces]
        return self._run(lambda: self._pieces.read(pieces))

    def read_range(self, key: str, position: int, length: int) -> bytes:
        """Return bytes of an object. Raises ObjectMissing: `forget`, then plan again."""
        return bytes(self._run(lambda: self._store.objects.get_range(key, position, length)))

    def forget(self, partition: PartitionId) -> None:
        """Drop the cached locations of a partition."""
        self._reader.forget(partition)

    # --- on the loop ----------------------------------------------------------------------------------------------

    async def _columns_of(self, topic: str) -> ColumnsOfTopic:
        return await self._columns.of(topic, (await self._topics.resolve(topic)).configs)

    async def _partitions(self, subscription: Subscription) -> dict[TopicPartition, PartitionId]:
        ids: dict[TopicPartition, PartitionId] = {}
        if subscription.pattern:
            pattern = re.compile(subscription.pattern)
            topics = [topic for topic in await self._topics.list() if pattern.fullmatch(topic.name)]
        else:
            names = subscription.topics or tuple(dict.fromkeys(tp.topic for tp in subscription.partitions))
            topics = [await self._topics.resolve(name) for name in names]
        for topic in topics:
            for partition in range(topic.partition_count):
                ids[TopicPartition(topic.name, partition)] = PartitionId(topic.topic_id, partition)
        if not subscription.partitions:
            return ids
        missing = [tp for tp in subscription.partitions if tp not in ids]
        if missing:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"option assign names {missing[0]}, which does not exist"
            )
        return {tp: ids[tp] for tp in subscription.partitions}

    async def _bounds(self, partitions: dict[TopicPartition, PartitionId]) -> dict[TopicPartition, Bounds]:
        heads = await self._index.read_heads(list(partitions.values())) if partitions else []
        return {
            tp: Bounds(head.log_start_offset, head.next_offset)
            for tp, head in zip(partitions, heads, strict=True)
            if head is not None
        }

    async def _offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Offsets:
        questions = [ListOffsetsPartition(tp.topic, tp.partition, timestamp_ms) for tp in partitions]
        offsets: Offsets = {}
        for tp, response in zip(partitions, await self._lister.list_offsets(questions), strict=True):
            if response.error is not ErrorCode.NONE:
                raise KafkaError(response.error, response.message or f"cannot look up {tp} by time")
            if response.offset >= 0:
                offsets[tp] = response.offset
        return offsets

    async def _table_files(self, ranges: Mapping[PartitionId, tuple[int, int]]) -> list[TableFile]:
        slots = asyncio.Semaphore(_PARALLEL)

        async def of_one(partition: PartitionId, first: int, end: int) -> list[TableFile]:
            async with slots:
                return await self._files_of(partition, first, end)

        files_by_partition = await asyncio.gather(*(of_one(partition, *ends) for partition, ends in ranges.items()))
        return [file for files in files_by_partition for file in files]

    async def _files_of(self, partition: PartitionId, first: int, end: int) -> list[TableFile]:
        """Return the files of one partition; a row that is replaced meanwhile is only not among them."""
        files = []
        offset = first
        while offset < end:
            rows = await self._index.rows_from(partition, offset, _ROWS_PER_QUERY)
            if not rows:
                break
            for row in rows:
                if (
                    row.is_columnar
                    and row.segment_id is not None
                    and offset <= row.base_offset
                    and row.end_offset <= end
                ):
                    key = segment_key(partition, row.base_offset, row.segment_id, is_columnar=True)
                    ends = row.base_offset, row.end_offset
                    files.append(
                        TableFile(partition, *ends, key, row.file_bytes, row.max_timestamp_ms, row.has_recipes)
                    )
                offset = max(offset, row.end_offset)
        return files

    async def _footers(self, files: Sequence[TableFile]) -> list[bytes | None]:
        slots = asyncio.Semaphore(_PARALLEL)

        async def of_one(file: TableFile) -> bytes | None:
            length = min(_FOOTER_BYTES, file.size_bytes)
            try:
                async with slots:
                    data = await self._store.objects.get_range(file.object_key, file.size_bytes - length, length)
                    needed = int.from_bytes(data[-8:-4], "little") + 8
                    if length < needed <= file.size_bytes:
                        data = await self._store.objects.get_range(file.object_key, file.size_bytes - needed, needed)
            except ObjectMissing:
                return None
            return bytes(data)

        return list(await asyncio.gather(*(of_one(file) for file in files)))

    async def _plan(self, partition: PartitionId, start_offset: int, end_offset: int, piece_bytes: int) -> list[Piece]:
        for _ in range(_PLANS):
            head = await self._index.read_head(partition)
            if head is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} has been deleted")
            try:
                return await self._reader.pieces(
                    partition, head, start_offset, end_offset=end_offset, piece_bytes=piece_bytes
                )
            except ObjectMissing:  # the index of a segment that was replaced, or a row that retention removed
                self._reader.forget(partition)
            if start_offset < head.log_start_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"retention has removed the offsets {start_offset} to {head.log_start_offset - 1} of {partition} "
                    "while they were read. To continue without them, set failOnDataLoss to false and restart",
                )
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"segments of {partition} are missing: run `odradek audit`")
