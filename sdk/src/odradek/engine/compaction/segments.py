"""The bytes of a compaction: segments read a stretch at a time, and the new segment that takes their place.

In memory are at most one stretch (`compaction_read_bytes`, or one batch that is larger), one decompressed batch, and
the new segment, which takes in another old one only if both together stay within the segment size.
Batches that stay are copied out of their stretch, so that a stretch is not held by the few that stay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from odradek.engine.partition.index_row import IndexRow
from odradek.errors import FormatError
from odradek.format.batch_header import LENGTH_PREFIX_BYTES, iter_headers
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import decode_offset_index
from odradek.format.parquet.segment import rebuild
from odradek.format.segment import Segment, SegmentBuilder
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader
from odradek.model.topic_partition import PartitionId
from odradek.ports.object_store import ObjectStore

Stretch = list[tuple[memoryview, BatchHeader]]


async def read_stretches(
    objects: ObjectStore, partition: PartitionId, row: IndexRow, read_bytes: int
) -> AsyncIterator[Stretch]:
    """Yield the batches of a segment in order, in groups of `read_bytes`, at least one batch each.

    Raises FormatError if the object does not match the row, ObjectMissing, StoreUnavailable.
    """
    assert row.segment_id is not None
    if row.is_columnar:
        async for batches in _row_groups(objects, partition, row):
            yield [(batches[at : at + header.size_bytes], header) for at, header in iter_headers(batches)]
        return
    key = segment_key(partition, row.base_offset, row.segment_id)
    position, length = 0, read_bytes
    while position < row.size_bytes:
        length = min(max(length, LENGTH_PREFIX_BYTES), row.size_bytes - position)
        data = memoryview(await objects.get_range(key, position, length))
        if len(data) != length:
            raise FormatError(f"{key} ends {length - len(data)} bytes early")
        stretch = [(data[at : at + header.size_bytes], header) for at, header in iter_headers(data)]
        if not stretch:
            # One batch is longer than a stretch: its second field says by how much.
            needed = LENGTH_PREFIX_BYTES + int.from_bytes(data[8:LENGTH_PREFIX_BYTES], "big")
            if needed <= length or needed > row.size_bytes - position:
                raise FormatError(f"{key} has no whole batch at position {position}")
            length = needed
            continue
        yield stretch
        position += sum(header.size_bytes for _, header in stretch)
        length = read_bytes


async def _row_groups(objects: ObjectStore, partition: PartitionId, row: IndexRow) -> AsyncIterator[memoryview]:
    """Yield the batches of each row group of a columnar segment."""
    assert row.segment_id is not None
    index = decode_offset_index(await objects.get(index_key(partition, row.base_offset, row.segment_id)))
    key = segment_key(partition, row.base_offset, row.segment_id, is_columnar=True)
    for group in index.groups:
        yield memoryview(rebuild(await objects.get_range(key, group.position, group.size_bytes), group))


class NewSegment:
    """The rest of neighbouring segments, as one segment.

    Attributes:
        rows: of the segments that it replaces, in order.
        dropped: number of dropped records.
    """

    def __init__(self) -> None:
        self.rows: list[IndexRow] = []
        self.dropped = 0
        self._is_changed = False
        self._builder: SegmentBuilder | None = None

    @property
    def size_bytes(self) -> int:
        return self._builder.size_bytes if self._builder else 0

    @property
    def replaced_bytes(self) -> int:
        return sum(row.size_bytes for row in self.rows)

    @property
    def is_worthwhile(self) -> bool:
        """True if it is an improvement: records were dropped, or several segments become one."""
        return self._is_changed or len(self.rows) > 1

    def begin(self, row: IndexRow) -> None:
        """Take the next segment; `add` its batches then."""
        self._builder = self._builder or SegmentBuilder(row.base_offset)
        self.rows.append(row)

    def add(self, batch: Buffer | None, header: BatchHeader, dropped: int, *, is_changed: bool) -> None:
        """Add the rest of a batch; `header` is that of the batch before compaction."""
        assert self._builder is not None
        self._is_changed |= is_changed
        self.dropped += dropped
        if batch is not None:
            self._builder.append(bytes(batch), header.base_offset, header.partition_leader_epoch)

    def build(self) -> Segment:
        """The segment, spanning all that its rows span."""
        assert self._builder is not None
        return self._builder.build(self.rows[-1].end_offset)
