"""Segments to Parquet files, by pyarrow: what maintenance writes for table topics (format/parquet/segment.py).

Each row group has the records of whole batches, and `batch` their headers. Encodings are those that the light reader
knows: DELTA_BINARY_PACKED for offsets and timestamps, dictionaries for keys, plain values, Zstandard, a CRC a page.
`partition` and the typed columns stand behind these; a reader of batches does not read them. The file has no field ids:
Iceberg tables map names (adapters/iceberg). A typed column with a NaN has no bounds (bounds.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from odradek.errors import FormatError
from odradek.extras import MissingExtra, extra
from odradek.format.batch_header import HEADER, iter_headers
from odradek.format.crc import crc32c
from odradek.format.offset_index import Leaf, RowGroup
from odradek.format.parquet.segment import LEAVES, crc_of_values, is_same_batch, rebuild
from odradek.format.segment import Segment
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.kinds import VALUE_RECIPE, VALUE_REST
from odradek.model.record import BatchHeader

with extra("table"):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from odradek.columnar.bounds import leaves_with_nan
    from odradek.columnar.decode import decode_to_arrow
    from odradek.columnar.recipes.writer import RecipeWriter, further_leaves
    from odradek.columnar.typed.arrow_kinds import leaf_paths
    from odradek.columnar.typed.typed_values import SchemasNeeded, TypedValues

_log = logging.getLogger("odradek.maintenance")
_HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_HEADERS_TYPE = pa.list_(pa.field("element", _HEADER_TYPE, nullable=False))
_FIELDS = (
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),  # Iceberg's unit
    pa.field("timestampType", pa.int32(), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", _HEADERS_TYPE, nullable=False),
    pa.field("batch", pa.binary()),
)
_RECIPE_FIELDS = (pa.field(VALUE_RECIPE, pa.binary()), pa.field(VALUE_REST, pa.binary()))
_PARTITION = pa.field("partition", pa.int32(), nullable=False)
_DECODED = ("offset", "timestamp", "timestampType", "key", "value", "headers")
_PLAIN = {
    "offset": "DELTA_BINARY_PACKED",
    "timestamp": "DELTA_BINARY_PACKED",
    "timestampType": "PLAIN",
    "value": "PLAIN",
    "headers.list.element.key": "PLAIN",
    "headers.list.element.value": "PLAIN",
    "batch": "PLAIN",
    VALUE_REST: "PLAIN",
}
_PAGE_BYTES = 1024 * 1024
_LEVEL = 3  # of Zstandard

Batches = list[tuple[int, BatchHeader]]


def encode_table_segment(
    segment: Segment, values: TypedValues, group_bytes: int, partition: int = 0, *, keeps_values: bool = True
) -> tuple[Segment, int]:
    """Return what the last of `encode_steps` has; arguments and errors as there."""
    for made in encode_steps(segment, values, group_bytes, partition, keeps_values=keeps_values):
        if made is not None:
            return made
    raise AssertionError("the last step has the segment")


def encode_steps(
    segment: Segment, values: TypedValues, group_bytes: int, partition: int = 0, *, keeps_values: bool = True
) -> Iterator[tuple[Segment, int] | None]:
    """Make a segment a columnar one, a row group at a step: all of it takes a minute.

    Yields None after each step; at last the columnar segment, and how many values did not fit the typed columns.

    Args:
        values: reads the typed columns.
        group_bytes: stored bytes of batches in a row group, about; each has a record at least.
        partition: the number that the column of this name has in each row.
        keeps_values: False: values that typed columns make again, byte for byte, are not in the column `value`. If
            anything else comes of it when the file is read back, the file has them after all.

    Raises FormatError if the file would not say all that the segment says; SchemasNeeded.
    """
    log = memoryview(b"".join(segment.parts))
    groups = list(_groups(log, group_bytes))
    if not keeps_values and values.columns:
        try:
            yield from _encoded(segment, log, groups, values, partition, RecipeWriter(values))
            return
        except FormatError as error:
            _log.warning("offsets from %d: the file keeps the bytes of values: %s", segment.index.base_offset, error)
    yield from _encoded(segment, log, groups, values, partition, None)


def _encoded(
    segment: Segment,
    log: memoryview,
    groups: Sequence[Batches],
    values: TypedValues,
    partition: int,
    recipes: RecipeWriter | None,
) -> Iterator[tuple[Segment, int] | None]:
    try:
        yield from _written(segment, log, groups, values, partition, recipes)
    except (FormatError, SchemasNeeded, MissingExtra, MemoryError):
        raise
    except Exception as error:  # whatever values make a library raise: the segment stays one of batches
        raise FormatError(f"the records do not fit a Parquet file: {type(error).__name__}: {error}") from error


def _written(
    segment: Segment,
    log: memoryview,
    groups: Sequence[Batches],
    values: TypedValues,
    partition: int,
    recipes: RecipeWriter | None,
) -> Iterator[tuple[Segment, int] | None]:
    sink = pa.BufferOutputStream()
    writer: pq.ParquetWriter | None = None
    misfits = 0
    crcs: list[int] = []
    left_out: set[str] = set()  # columns without bounds
    with_nan: set[str] = set()
    for batches in groups:
        table, unfit = _table(log, batches, values, partition)
        if recipes is not None:
            crcs.append(crc_of_values(table.column("value").to_pylist()))
            table = _with_recipes(table, recipes, values)
        for field in values.schema:
            with_nan |= leaves_with_nan(field, table.column(field.name).combine_chunks())
        if writer is None:
            left_out = set(with_nan)
            writer = _writer(sink, values.schema, has_recipes=recipes is not None, left_out=left_out)
        writer.write_table(table, row_group_size=max(table.num_rows, 1))
        misfits += unfit
        yield None
    assert writer is not None, "a segment has a row group at least"
    writer.close()
    file = memoryview(sink.getvalue()).cast("B")
    if with_nan != left_out:  # statistics are chosen for a whole file, before its first row group
        for again in _with_fewer_bounds(file, values.schema, has_recipes=recipes is not None, left_out=with_nan):
            file = again or file
            yield None
    leaves = _further_leaves(values) if recipes is not None else ()
    for made in _indexed(segment, log, groups, file, leaves, crcs):
        yield None if made is None else (made, misfits)


def _with_fewer_bounds(
    file: memoryview, typed: pa.Schema, *, has_recipes: bool, left_out: set[str]
) -> Iterator[memoryview | None]:
    """Write a file again without the bounds of some columns, a row group at a step; at last yield it."""
    source = pq.ParquetFile(pa.BufferReader(file))
    sink = pa.BufferOutputStream()
    with _writer(sink, typed, has_recipes=has_recipes, left_out=left_out) as writer:
        for number in range(source.num_row_groups):
            table = source.read_row_group(number, use_threads=False)
            writer.write_table(table.cast(writer.schema), row_group_size=max(table.num_rows, 1))
            yield None
    yield memoryview(sink.getvalue()).cast("B")


def _writer(
    sink: pa.BufferOutputStream, typed: pa.Schema, *, has_recipes: bool, left_out: set[str]
) -> pq.ParquetWriter:
    """Open a writer of a file. Args: left_out: the columns that get no bounds."""
    paths = [path for field in typed for path in leaf_paths(field)]
    names = [name for name, _ in LEAVES if name not in _PLAIN] + [VALUE_RECIPE, _PARTITION.name, *paths]
    return pq.ParquetWriter(
        sink,
        pa.schema([*_FIELDS, *(_RECIPE_FIELDS if has_recipes else ()), _PARTITION, *typed]),
        version="2.6",
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=names,
        column_encoding=_PLAIN if has_recipes else {leaf: _PLAIN[leaf] for leaf in _PLAIN if leaf != VALUE_REST},
        data_page_size=_PAGE_BYTES,
        write_page_checksum=True,
        write_statistics=["offset", "timestamp", _PARTITION.name, *(path for path in paths if path not in left_out)],
        store_schema=False,
    )


def _groups(log: memoryview, group_bytes: int) -> Iterator[Batches]:
    """Yield the batches of each row group. Raises FormatError if there are no records, or batches without data."""
    group: Batches = []
    waiting: Batches | None = None
    size = records = 0
    for position, header in iter_headers(log):
        if header.is_control:
            raise FormatError(f"the batch at offset {header.base_offset} is a control batch")
        group.append((position, header))
        size += header.size_bytes
        records += header.record_count
        if size >= group_bytes and records:
            if waiting is not None:
                yield waiting
            waiting, group, size, records = group, [], 0, 0
    if records:
        if waiting is not None:
            yield waiting
        yield group
    elif waiting is not None:
        yield [*waiting, *group]
    else:
        raise FormatError("the segment has no records")


def _table(log: memoryview, batches: Batches, values: TypedValues, partition: int) -> tuple[pa.Table, int]:
    first, (last, header) = batches[0][0], batches[-1]
    records = decode_to_arrow(log[first : last + header.size_bytes], topic="", partition=0, columns=_DECODED)
    rows = records.num_rows
    cells: list[bytes | None] = [None] * rows
    row = 0
    for position, batch_header in batches:
        at = row if batch_header.record_count else 0
        cells[at] = (cells[at] or b"") + bytes(log[position : position + BATCH_HEADER_BYTES])
        row += batch_header.record_count
    if row != rows:
        raise FormatError(f"the batches have {row} records, {rows} could be read")
    arrays = [
        column.cast(field.type)
        for column, field in zip((*records.columns, pa.array(cells, pa.binary())), _FIELDS, strict=True)
    ]
    arrays.append(pa.repeat(pa.scalar(partition, _PARTITION.type), rows))
    misfits = 0
    if values.columns:
        typed_arrays, misfits = values.read(records.column("value"))
        arrays += typed_arrays
    return pa.Table.from_arrays(arrays, schema=pa.schema([*_FIELDS, _PARTITION, *values.schema])), misfits


def _with_recipes(table: pa.Table, recipes: RecipeWriter, values: TypedValues) -> pa.Table:
    """Return the rows with recipes in the place of the values that typed columns make."""
    typed = [table.column(name).combine_chunks() for name in values.schema.names]
    made = recipes.columns_of(table.column("value").combine_chunks(), typed)
    arrays = {name: table.column(name) for name in table.column_names}
    arrays |= {"value": made.kept, VALUE_RECIPE: made.recipes, VALUE_REST: made.rests}
    schema = pa.schema([*_FIELDS, *_RECIPE_FIELDS, _PARTITION, *values.schema])
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _further_leaves(values: TypedValues) -> tuple[Leaf, ...]:
    """Return the leaves behind the first ones of a file with recipes."""
    own = [Leaf(VALUE_RECIPE, "bytes", 1), Leaf(VALUE_REST, "bytes", 1), Leaf(_PARTITION.name, "", 0)]
    return (*own, *further_leaves(values.columns))


def _indexed(
    segment: Segment,
    log: memoryview,
    groups: Sequence[Batches],
    file: memoryview,
    leaves: tuple[Leaf, ...],
    crcs: Sequence[int],
) -> Iterator[Segment | None]:
    """Yield the columnar segment, once every batch has been made again from the file and compared; before, None."""
    metadata = pq.read_metadata(pa.BufferReader(file))
    row_groups: list[RowGroup] = []
    offsets: list[int] = []
    positions: list[int] = []
    timestamps: list[int] = []
    size = 0
    for number, batches in enumerate(groups):
        row_group = metadata.row_group(number)
        names = [*(name for name, _ in LEAVES), *(leaf.path for leaf in leaves)]
        chunks = [row_group.column(leaf) for leaf in range(len(names))]
        if [chunk.path_in_schema for chunk in chunks] != names:
            raise FormatError("the Parquet writer has put the columns in another order")
        starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        lengths = tuple(chunk.total_compressed_size for chunk in chunks)
        if any(start + length != after for start, length, after in zip(starts, lengths, starts[1:], strict=False)):
            raise FormatError("the Parquet writer has left gaps between columns")
        group = RowGroup(starts[0], row_group.num_rows, lengths, leaves, crcs[number] if leaves else 0)
        again = memoryview(rebuild(file[starts[0] : starts[0] + group.size_bytes], group))
        _compare(log, batches, again)
        row_groups.append(group)
        offsets.append(batches[0][1].base_offset)
        positions.append(size)
        latest = max(header.max_timestamp_ms for _, header in batches)
        timestamps.append(max(latest, timestamps[-1]) if timestamps else latest)
        size += len(again)
        yield None
    index = replace(
        segment.index,
        size_bytes=size,
        segment_crc=crc32c(file),
        offsets=tuple(offsets),
        positions=tuple(positions),
        max_timestamps_ms=tuple(timestamps),
        file_bytes=len(file),
        groups=tuple(row_groups),
    )
    yield Segment((file,), index)


def _compare(log: memoryview, batches: Batches, again: memoryview) -> None:
    """Raise FormatError unless the batches made again say what the originals say."""
    made = list(iter_headers(again))
    if len(made) != len(batches):
        raise FormatError(f"{len(batches)} batches became {len(made)}")
    for (position, header), (at, other) in zip(batches, made, strict=True):
        original = log[position : position + header.size_bytes]
        if not is_same_batch(original, again[at : at + other.size_bytes]):
            raise FormatError(f"the batch at offset {header.base_offset} cannot be made again from columns")


assert HEADER.size == BATCH_HEADER_BYTES, "a cell of the column `batch` is a sequence of headers"
