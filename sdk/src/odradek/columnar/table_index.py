"""The index of a columnar segment, made again from its Parquet file by pyarrow, where the index object is lost."""

from __future__ import annotations

from odradek.errors import FormatError
from odradek.extras import extra
from odradek.format.batch_header import check_crc, iter_headers
from odradek.format.crc import crc32c
from odradek.format.offset_index import Leaf, OffsetIndex, RowGroup
from odradek.format.parquet.segment import LEAVES, rebuild, values_crc_of
from odradek.model.log import Buffer

with extra("table"):
    import pyarrow as pa
    import pyarrow.parquet as pq

_PHYSICAL = {
    "INT32": "int32",
    "INT64": "int64",
    "BYTE_ARRAY": "bytes",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
}


def index_of_file(file: Buffer, base_offset: int, end_offset: int, *, has_recipes: bool) -> OffsetIndex:
    """Return the index of a whole file.

    Args:
        base_offset, end_offset: of the row.
        has_recipes: values are made again. Only the lost index had their CRC: what they are made of is taken as it is.

    Raises FormatError: the file is damaged.
    """
    view = memoryview(file)
    try:
        metadata = pq.read_metadata(pa.BufferReader(file))
    except (pa.ArrowInvalid, OSError) as damage:
        raise FormatError(f"the Parquet file cannot be read: {damage}") from damage
    leaves = _leaves(metadata) if has_recipes else ()
    groups: list[RowGroup] = []
    offsets: list[int] = []
    positions: list[int] = []
    timestamps: list[int] = []
    epochs: list[tuple[int, int]] = []
    size = records = batches = 0
    for number in range(metadata.num_row_groups):
        row_group = metadata.row_group(number)
        chunks = [row_group.column(leaf) for leaf in range(len(LEAVES) + len(leaves))]
        lengths = tuple(chunk.total_compressed_size for chunk in chunks)
        group = RowGroup(
            chunks[0].dictionary_page_offset or chunks[0].data_page_offset, row_group.num_rows, lengths, leaves
        )
        data = view[group.position : group.position + group.size_bytes]
        if leaves:
            group = RowGroup(group.position, group.row_count, lengths, leaves, values_crc_of(data, group))
        log = rebuild(data, group)
        for position, header in iter_headers(log):
            check_crc(log, position, header)
            if not position:
                offsets.append(header.base_offset)
                positions.append(size)
                timestamps.append(timestamps[-1] if timestamps else header.max_timestamp_ms)
            timestamps[-1] = max(timestamps[-1], header.max_timestamp_ms)
            if not epochs or header.partition_leader_epoch > epochs[-1][0]:
                epochs.append((header.partition_leader_epoch, header.base_offset))
            records, batches = records + header.record_count, batches + 1
        groups.append(group)
        size += len(log)
    return OffsetIndex(
        base_offset=base_offset,
        end_offset=end_offset,
        size_bytes=size,
        record_count=records,
        batch_count=batches,
        max_timestamp_ms=timestamps[-1] if timestamps else -1,
        segment_crc=crc32c(file),
        leader_epochs=tuple(epochs),
        offsets=tuple(offsets),
        positions=tuple(positions),
        max_timestamps_ms=tuple(timestamps),
        file_bytes=len(view),
        groups=tuple(groups),
    )


def _leaves(metadata: pq.FileMetaData) -> tuple[Leaf, ...]:
    """Return the columns behind the first ones. Those of lists and maps are not read for values."""
    columns = [metadata.schema.column(number) for number in range(len(LEAVES), metadata.num_columns)]
    return tuple(
        Leaf(
            column.path,
            ""
            if column.max_repetition_level or not column.max_definition_level
            else _PHYSICAL.get(column.physical_type, ""),
            column.max_definition_level,
        )
        for column in columns
    )
