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


def without_times(arrow_type: pa.DataType) -> pa.DataType:
    """Return a type with texts for times of day, which PySpark 4.1 does not take from a source in Python."""
    if pa.types.is_time(arrow_type):
        return pa.string()
    if pa.types.is_list(arrow_type):
        return pa.list_(arrow_type.value_field.with_type(without_times(arrow_type.value_type)))
    if pa.types.is_map(arrow_type):
        return pa.map_(without_times(arrow_type.key_type), without_times(arrow_type.item_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([field.with_type(without_times(field.type)) for field in arrow_type])
    return arrow_type


def texts_for_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with texts for times of day."""
    schema = pa.schema([field.with_type(without_times(field.type)) for field in batch.schema])
    return batch if schema == batch.schema else batch.cast(schema)


def typed_values(source: ColumnSource, topic: str, columns: Sequence[tuple[str, Kind]]) -> TypedValues:
    """Return a reader of these columns of a topic's values; one that the topic does not have is a field's name.

    Where a schema cannot be read, columns are those of JSON.
    """
    topic_columns = source.columns_of(topic)
    fields = {column.name: column.field for column in topic_columns.columns}
    wanted = [Column(name, data_type, fields.get(name, name)) for name, data_type in columns]
    try:
        return TypedValues(wanted, topic_columns.newest, is_prefixed=topic_columns.is_prefixed)
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
    typed_fields = typed_schema([(name, data_type) for name, data_type in typed if name in columns])
    plain = [name for name in columns if name not in typed_fields.names]
    values: TypedValues | None = None
    for batch in read(wanted, plain, source, corrupt_batches=corrupt_batches, typed=typed_fields):
        if batch.schema.names == list(columns):
            yield batch
            continue
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        missing = [name for name in typed_fields.names if name not in arrays]
        if missing:
            values = values or typed_values(source, wanted.topic, [(n, k) for n, k in typed if n in typed_fields.names])
            typed_arrays, _ = read_values(values, source, arrays["value"], missing)
            arrays |= zip(missing, typed_arrays, strict=True)
        yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))
