"""A partition made of segments, without a merge, and compactors over it; what a reader finds there, record by record.

Faults are those of `odradek.testing.faults`. A `Log` is read behind the compactor's back, from rows and objects alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.catalog.topics import Topics
from odradek.engine.compaction.compactor import Compactor
from odradek.engine.compaction.state import CompactionState, decode_state, state_key
from odradek.engine.maintenance.maintenance import Maintenance, MaintenanceReport
from odradek.engine.partition.head import PartitionHead, encode_head, head_key
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow, decode_index_row, encode_index_row
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.engine.tools import Tools
from odradek.format.item_keys import INDEX_END, INDEX_PREFIX, index_base_offset, index_sk, partition_pk
from odradek.format.object_keys import index_key, partition_prefix, segment_key
from odradek.format.offset_index import decode_offset_index, encode_offset_index
from odradek.format.record_batch import decode_batches, encode_batch, iter_headers
from odradek.format.segment import SegmentBuilder, verify_segment
from odradek.model.record import BatchHeader, CompressionType, Header, Record, TimestampType
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Key, Put
from odradek.settings import Settings
from odradek.testing.faults import Faulty
from odradek.testing.manual_clock import START_MS, ManualClock
from odradek.testing.seeded_rng import SeededRng

PARTITION = PartitionId(UUID(int=7), 0)
PK = partition_pk(PARTITION)
Entry = tuple[bytes | None, bytes | None]
ALWAYS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


@dataclass
class Log:
    """One partition of one topic.

    Attributes:
        table, objects: what compactors get; their calls are counted and fail by script.
        stored, kept: the same without faults.
    """

    configs: dict[str, str] = field(default_factory=lambda: dict(ALWAYS))
    clock: ManualClock = field(default_factory=lambda: ManualClock(auto_advance=True))
    next_offset: int = 0
    runs: int = 0

    def __post_init__(self) -> None:
        self.stored: Any = MemoryStore().log
        self.kept: Any = MemoryObjectStore(self.clock)
        self.table: Any = Faulty(self.stored)
        self.objects: Any = Faulty(self.kept)

    @property
    def topic(self) -> Topic:
        return Topic("t", PARTITION.topic_id, 1, self.configs)

    # --- writing ----------------------------------------------------------------------------------------------

    async def add_segment(self, *batches: bytes, end_offset: int | None = None) -> None:
        """Put whole batches, whose offsets are absolute, into a segment at the end of the log."""
        builder = SegmentBuilder(self.next_offset, interval_bytes=200)
        for batch in batches:
            [(_, header)] = iter_headers(batch)
            builder.append(batch, header.base_offset, max(header.partition_leader_epoch, 0))
        segment = builder.build(end_offset)
        index = encode_offset_index(segment.index)
        segment_id = self.next_offset.to_bytes(16, "big")
        await self.kept.put(segment_key(PARTITION, self.next_offset, segment_id), segment.parts)
        await self.kept.put(index_key(PARTITION, self.next_offset, segment_id), [index])
        row = IndexRow(
            base_offset=self.next_offset,
            end_offset=segment.index.end_offset,
            max_timestamp_ms=segment.index.max_timestamp_ms,
            size_bytes=segment.index.size_bytes,
            spill_floor_ms=START_MS + self.next_offset,
            segment_id=segment_id,
            index_bytes=len(index),
            segment_started_ms=START_MS + self.next_offset,
        )
        await self.add_row(row)

    async def add_row(self, row: IndexRow, log_start_offset: int = 0) -> None:
        """Put an index row at the end, and the head above it."""
        self.next_offset = row.end_offset
        await self.stored.put(Put(Key(PK, index_sk(row.base_offset)), encode_index_row(row)))
        await self.set_log_start(log_start_offset)

    async def set_log_start(self, offset: int) -> None:
        head = PartitionHead(
            next_offset=self.next_offset,
            log_start_offset=offset,
            tail_base_offset=self.next_offset,
            merged_offset=self.next_offset,
        )
        await self.stored.put(Put(head_key(PARTITION), encode_head(head)))

    def batch(
        self,
        entries: Sequence[Entry],
        *,
        at: int | None = None,
        timestamp_ms: int = START_MS,
        compression: CompressionType = CompressionType.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        headers: tuple[Header, ...] = (),
        producer: tuple[int, int, int] = (-1, -1, -1),
        leader_epoch: int = 0,
    ) -> bytes:
        """A batch of (key, value)s, 1 ms apart, at the log's end or at an offset."""
        base = self.next_offset if at is None else at
        return encode_batch(
            [Record(base + i, timestamp_ms + i, key, value, headers) for i, (key, value) in enumerate(entries)],
            compression_type=compression,
            timestamp_type=timestamp_type,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            leader_epoch=leader_epoch,
        )

    async def add(self, *entries: Entry, **options: Any) -> None:
        """A segment of one batch."""
        await self.add_segment(self.batch(entries, **options))

    # --- compacting -------------------------------------------------------------------------------------------

    def maintenance(self, seed: int = 1, *, table: Any = None, objects: Any = None, **settings: Any) -> Maintenance:
        """Maintenance that compacts and nothing else."""
        chosen = Settings(**settings)
        table, objects, rng = table or self.table, objects or self.objects, SeededRng(seed)
        index = PartitionIndex(table, chosen)
        leases = MaintenanceLeases(table, self.clock, rng, chosen)
        tables: Any = SimpleNamespace(log=table, groups=table, catalog=table)
        tools = Tools(tables, objects, self.clock, rng, chosen)
        compactor = Compactor(tools, index, leases)
        topics = Topics(table, index, self.clock, rng, chosen)
        return Maintenance(tools, index, topics, leases, [compactor])

    async def compact(self, **settings: Any) -> MaintenanceReport:
        report = MaintenanceReport()
        self.runs += 1
        await self.maintenance(self.runs, **settings).run_partition(self.topic, 0, report)
        return report

    # --- reading ----------------------------------------------------------------------------------------------

    async def rows(self) -> list[IndexRow]:
        rows = await self.stored.query(PK, sk_from=INDEX_PREFIX, sk_to=INDEX_END)
        return [decode_index_row(index_base_offset(row.key.sk), row.item) for row in rows]

    async def bytes_of(self, row: IndexRow) -> bytes:
        assert row.segment_id is not None
        return bytes(await self.kept.get(segment_key(PARTITION, row.base_offset, row.segment_id)))

    async def records(self) -> list[Record]:
        parts = [await self.bytes_of(row) for row in await self.rows() if row.is_segment]
        return list(decode_batches(b"".join(parts), allow_truncated=False))

    async def headers(self) -> list[BatchHeader]:
        parts = [await self.bytes_of(row) for row in await self.rows() if row.is_segment]
        return [header for _, header in iter_headers(b"".join(parts))]

    async def values(self) -> dict[int, tuple[bytes | None, bytes | None]]:
        return {record.offset: (record.key, record.value) for record in await self.records()}

    async def state(self) -> CompactionState | None:
        item = await self.stored.get(state_key(PARTITION))
        return None if item is None else decode_state(item)

    async def object_names(self) -> set[str]:
        return {info.key for info in await self.kept.list(partition_prefix(PARTITION))}

    async def audit(self) -> list[str]:
        """Check rows, segments and indexes against each other; the objects that no row refers to."""
        end = 0
        referred: set[str] = set()
        rows = await self.rows()
        for row in rows:
            assert row.base_offset == end, "rows leave no gap and do not overlap"
            end = row.end_offset
            if row.segment_id is None:
                continue
            names = [key(PARTITION, row.base_offset, row.segment_id) for key in (segment_key, index_key)]
            referred.update(names)
            index = decode_offset_index(await self.kept.get(names[1]))
            verify_segment(await self.kept.get(names[0]), index)
            assert (index.base_offset, index.end_offset) == (row.base_offset, row.end_offset)
            assert (index.size_bytes, index.max_timestamp_ms) == (row.size_bytes, row.max_timestamp_ms)
            assert len(await self.kept.get(names[1])) == row.index_bytes
        assert end == self.next_offset
        floors = [row.spill_floor_ms for row in rows]
        assert floors == sorted(floors), "the spill floor never falls from row to row"
        return sorted(await self.object_names() - referred)


def last_of_each_key(records: Iterable[Record]) -> dict[bytes | None, Record]:
    """The model of a compaction: a dict."""
    return {record.key: record for record in records}
