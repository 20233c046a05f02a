"""The writes of a segment swap: the new row, the merged offset, the names of the objects (segment_swap.py)."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.engine.partition.index_row import IndexRow
from odradek.format.object_keys import index_key, segment_key
from odradek.model.topic_partition import PartitionId


def row_in_place_of(
    old: Sequence[IndexRow],
    segment_id: bytes,
    *,
    base_offset: int,
    end_offset: int,
    max_timestamp_ms: int,
    size_bytes: int,
    index_bytes: int,
) -> IndexRow:
    """The row of a segment that takes the place of neighbouring rows, or of a part of them.

    Args:
        old: the rows replaced, oldest first.
        segment_id: of the new objects.
        base_offset, end_offset: the offsets that the segment answers for, within those of the old rows.
        max_timestamp_ms: of its records.
        size_bytes: of its batches.
        index_bytes: of its index object.
    """
    return IndexRow(
        base_offset=base_offset,
        end_offset=end_offset,
        max_timestamp_ms=max_timestamp_ms,
        size_bytes=size_bytes,
        spill_floor_ms=max(row.spill_floor_ms for row in old),
        segment_id=segment_id,
        index_bytes=index_bytes,
        running_max_timestamp_ms=old[-1].running_max_timestamp_ms,
        segment_started_ms=old[0].started_ms,
    )


def merged_offset_after(old: Sequence[IndexRow]) -> int | None:
    """Return the head's merged offset after these rows are replaced; None if all are segments, so that it stays.

    Spilled rows follow the segments, so the last row says whether there are any.
    """
    return None if old[-1].is_segment else old[-1].end_offset


def object_keys(partition: PartitionId, row: IndexRow) -> list[str]:
    """The objects of a row: log and index of a segment; none of a spilled row, whose WAL bytes are the sweep's."""
    if row.segment_id is None:
        return []
    return [
        segment_key(partition, row.base_offset, row.segment_id, is_columnar=row.is_columnar),
        index_key(partition, row.base_offset, row.segment_id),
    ]
