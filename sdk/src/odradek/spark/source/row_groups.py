"""Row groups of columnar segments to Arrow record batches, by Arrow's own Parquet reader.

Only the columns that are asked for are read, unless `value` is one of them and the file does not keep all values: these
are made of its columns (format/parquet/recipes.py). A row group is left out if it lies outside the offsets, or if its
statistics say that none of its records fulfils the conditions. Independent of Spark.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from odradek.columnar.schema import schema as records_schema
from odradek.columnar.typed.arrow_kinds import kind_of_arrow
from odradek.engine.read.log_reader import Piece
from odradek.errors import FormatError
from odradek.format.offset_index import RowGroup
from odradek.format.parquet.segment import values_of
from odradek.model.kinds import can_become
from odradek.spark.source.plan import ReadRange
from odradek.spark.source.pushdown import Condition

_CONSTANT = ("topic", "partition")


class FileSource(Protocol):
    """The part of log_view.LogView that reading files needs."""

    def read_range(self, key: str, position: int, length: int) -> bytes: ...


def read_row_groups(
    piece: Piece,
    wanted: ReadRange,
    columns: Sequence[str],
    source: FileSource,
    *,
    typed: pa.Schema,
    conditions: Sequence[Condition] = (),
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the records of a piece in offset order, and the offset after each batch.

    Args:
        columns: of the record.
        typed: typed columns; those that the file has, in this type, are in the result. If it lacks one, `value` is.
        conditions: of the record's and the typed columns; records that do not fulfil one may be left out.

    Raises ObjectMissing: plan again; FormatError.
    """
    file = pa.PythonFile(_RangedFile(source, piece.object_key, piece.file_bytes), mode="r")
    try:
        fragment = pads.ParquetFileFormat().make_fragment(file)
        file_schema = fragment.physical_schema
        stored = [field.name for field in typed if _has(file_schema, field)]
        plain = list(columns)
        if len(stored) < len(typed) and "value" not in plain:
            plain.append("value")
        kinds = pa.schema([*records_schema(columns=plain), *(typed.field(name) for name in stored)])
        makes_values = "value" in kinds.names and any(group.leaves for group in piece.groups)
        made = (*_CONSTANT, "value") if makes_values else _CONSTANT
        read = dict.fromkeys(["offset", *(name for name in kinds.names if name not in made)])
        reader = pq.ParquetFile(file, metadata=fragment.metadata)
        for number, group in _groups(reader.metadata, piece):
            if _may_hold(reader.metadata.row_group(number), conditions):
                table = reader.read_row_group(number, columns=list(read), use_threads=False)
                if makes_values:
                    data = source.read_range(piece.object_key, group.position, group.size_bytes)
                    table = table.append_column("value", pa.array(values_of(data, group), pa.binary()))
                for batch in _within(table, wanted.start_offset, wanted.end_offset).to_batches():
                    if batch.num_rows:
                        yield _cast(batch, kinds, wanted), batch.column("offset")[-1].as_py() + 1
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FormatError(f"{piece.object_key} cannot be read: {error}") from error


def _has(file_schema: pa.Schema, wanted: pa.Field) -> bool:
    """Return True if a file's column is read as a typed one: its type may have been narrower when it was written."""
    if wanted.name not in file_schema.names:
        return False
    try:
        return can_become(kind_of_arrow(file_schema.field(wanted.name).type), kind_of_arrow(wanted.type))
    except ValueError:
        return False


def _groups(metadata: pq.FileMetaData, piece: Piece) -> list[tuple[int, RowGroup]]:
    """Return the piece's row groups with their numbers in the file."""
    wanted = {group.position: group for group in piece.groups}
    groups = []
    for number in range(metadata.num_row_groups):
        first = metadata.row_group(number).column(0)
        group = wanted.get(first.dictionary_page_offset or first.data_page_offset)
        if group is not None:
            groups.append((number, group))
    return groups


def _may_hold(group: pq.RowGroupMetaData, conditions: Sequence[Condition]) -> bool:
    """Return True if, by the statistics of a row group, a record of it may fulfil all conditions."""
    chunks = (
        {chunk.path_in_schema: chunk for chunk in map(group.column, range(group.num_columns))} if conditions else {}
    )
    for condition in conditions:
        chunk = chunks.get(condition.column)
        if chunk is None or not chunk.is_stats_set or not chunk.statistics.has_min_max:
            continue
        try:
            least, greatest = chunk.statistics.min, chunk.statistics.max
        except (OverflowError, ValueError):  # moments that Python does not have
            continue
        if not condition.may_hold(least, greatest):
            return False
    return True


def _within(table: pa.Table, first: int, end: int) -> pa.Table:
    """Return the rows of these offsets."""
    offsets = table.column("offset")
    if not table.num_rows or (offsets[0].as_py() >= first and offsets[-1].as_py() < end):
        return table
    return table.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end)))


def _cast(batch: pa.RecordBatch, kinds: pa.Schema, wanted: ReadRange) -> pa.RecordBatch:
    """Return the columns in the types of the source; topic and partition are the same in all rows."""
    constants = {"topic": wanted.topic, "partition": wanted.partition}
    arrays = [
        pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
        if field.name in constants
        else batch.column(field.name).cast(field.type)
        for field in kinds
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=kinds)


class _RangedFile(io.RawIOBase):
    """An object as a file that is read by ranges; its end, with the footer, is read once."""

    _TAIL_BYTES = 64 * 1024

    def __init__(self, source: FileSource, key: str, size: int) -> None:
        self._source = source
        self._key = key
        self._size = size
        self._at = 0
        self._tail_at = max(0, size - self._TAIL_BYTES)
        self._tail: bytes | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        start, self._at = self._at, max(self._at, end)
        if start >= end:
            return b""
        if start >= self._tail_at:
            if self._tail is None:
                self._tail = self._source.read_range(self._key, self._tail_at, self._size - self._tail_at)
            return self._tail[start - self._tail_at : end - self._tail_at]
        return self._source.read_range(self._key, start, end - start)
