"""Typed columns beside those of the record: from columnar history where a file has them, else from the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from odradek.columnar.typed.arrow_kinds import arrow_schema
from odradek.columnar.typed.typed_values import SchemasNeeded, TypedValues
from odradek.engine.catalog.typed_columns import ColumnsOfTopic
from odradek.errors import FormatError
from odradek.model.kinds import Column, Kind
from odradek.spark.options import FAIL
from odradek.spark.source.plan import ReadRange
from odradek.spark.source.read import PieceSource, read


class ColumnSource(PieceSource, Protocol):
    """The part of log_view.LogView that reading typed columns needs."""

    def columns_of(self, topic: str) -> ColumnsOfTopic: ...

    def learn(self, values: TypedValues, ids: Sequence[int]) -> None: ...


def typed_schema(columns: Sequence[tuple[str, Kind]]) -> pa.Schema:
    """Return the Arrow types of typed columns, given as in `odradek.table.schema`."""
    return arrow_schema(columns)


def without_times(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts for times of day, which PySpark 4.1 does not take from a source in Python."""
    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(without_times(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(without_times(kind.key_type), without_times(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(without_times(each.type)) for each in kind])
    return kind


def texts_for_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with texts for times of day."""
    schema = pa.schema([each.with_type(without_times(each.type)) for each in batch.schema])
    return batch if schema == batch.schema else batch.cast(schema)


def typed_values(source: ColumnSource, topic: str, columns: Sequence[tuple[str, Kind]]) -> TypedValues:
    """Return a reader of these columns of a topic's values; one that the topic does not have is a field's name.

    Where a schema cannot be read, columns are those of JSON.
    """
    there = source.columns_of(topic)
    fields = {each.name: each.field for each in there.columns}
    wanted = [Column(name, kind, fields.get(name, name)) for name, kind in columns]
    try:
        return TypedValues(wanted, there.newest, is_prefixed=there.is_prefixed)
    except FormatError:
        return TypedValues(wanted)


def read_values(
    values: TypedValues, source: ColumnSource, column: pa.BinaryArray, names: Sequence[str]
) -> tuple[list[pa.Array], int]:
    """Return typed columns of a chunk of values, and how many values do not fit. Raises StoreUnavailable."""
    while True:
        try:
            return values.read(column, names)
        except SchemasNeeded as needed:
            source.learn(values, needed.ids)


def read_columns(
    wanted: ReadRange,
    columns: Sequence[str],
    source: ColumnSource,
    typed: Sequence[tuple[str, Kind]],
    *,
    corrupt_batches: str = FAIL,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range with these columns, in this order.

    Args:
        columns: of the record, and of `typed`; a typed column that is not among them is not read.
        typed: names and types of the typed columns. A value that does not fit has nulls in all of them.

    Raises KafkaError, FormatError as read.read; StoreUnavailable.
    """
    asked = typed_schema([(name, kind) for name, kind in typed if name in columns])
    plain = [name for name in columns if name not in asked.names]
    values: TypedValues | None = None
    for batch in read(wanted, plain, source, corrupt_batches=corrupt_batches, typed=asked):
        if batch.schema.names == list(columns):
            yield batch
            continue
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        missing = [name for name in asked.names if name not in arrays]
        if missing:
            values = values or typed_values(source, wanted.topic, [(n, k) for n, k in typed if n in asked.names])
            found, _ = read_values(values, source, arrays["value"], missing)
            arrays |= zip(missing, found, strict=True)
        yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))
