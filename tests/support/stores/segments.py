"""Segments made by hand: the spilled rows of a partition as one segment, without the merge's rules of when."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.engine.engine import Engine
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import MaintenanceLease
from odradek.engine.read.log_reader import entry_piece, patched
from odradek.format.object_id import new_object_id
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import encode_offset_index
from odradek.format.segment import SegmentBuilder
from odradek.model.log import OFFSET_END
from odradek.model.topic_partition import PartitionId
from odradek.testing.seeded_rng import SeededRng

_RNG = SeededRng(4711)


async def partition_of(engine: Engine, topic: str, number: int = 0) -> PartitionId:
    return PartitionId((await engine.topics.resolve(topic)).topic_id, number)


async def rows_of(engine: Engine, partition: PartitionId) -> list[IndexRow]:
    return await engine.index.rows_between(partition, 0, OFFSET_END, 10_000)


async def upload_segment(engine: Engine, partition: PartitionId, rows: Sequence[IndexRow]) -> IndexRow:
    """Upload spilled rows as one segment; the row that would refer to it."""
    base_offset = offset = rows[0].base_offset
    builder = SegmentBuilder(base_offset)
    for row in rows:
        for entry in row.entries:
            piece = entry_piece(offset, entry)
            [data] = await engine.pieces.read([piece])
            builder.append(b"".join(bytes(part) for part in patched(piece, data, 0)), offset, 0)
            offset += entry.offset_count
    segment = builder.build()
    index = encode_offset_index(segment.index)
    object_id = new_object_id(engine.clock.now_ms(), _RNG.random_bytes)
    await engine.objects.put(segment_key(partition, base_offset, object_id), segment.parts)
    await engine.objects.put(index_key(partition, base_offset, object_id), [index])
    return IndexRow(
        base_offset,
        offset,
        max(row.max_timestamp_ms for row in rows),
        segment.index.size_bytes,
        rows[-1].spill_floor_ms,
        segment_id=object_id,
        index_bytes=len(index),
        running_max_timestamp_ms=rows[-1].running_max_timestamp_ms,
        segment_started_ms=rows[0].started_ms,
    )


async def merge_by_hand(engine: Engine, partition: PartitionId, rows_per_segment: int = 1_000) -> list[IndexRow]:
    """Make segments of all spilled rows; returns their rows."""
    lease = await engine.leases.take(partition)
    assert lease is not None
    made = await merge_under(engine, lease, rows_per_segment)
    await engine.leases.release(lease, clean=True)
    return made


async def merge_under(engine: Engine, lease: MaintenanceLease, rows_per_segment: int = 1_000) -> list[IndexRow]:
    spilled = [row for row in await rows_of(engine, lease.partition) if not row.is_segment]
    made = []
    for start in range(0, len(spilled), rows_per_segment):
        some = spilled[start : start + rows_per_segment]
        made.append(await upload_segment(engine, lease.partition, some))
        await engine.index.replace_rows(lease, some, [made[-1]], merged_offset=made[-1].end_offset)
    return made
