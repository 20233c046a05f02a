"""Typed columns beside those of the record: from columnar history where a file has them, else from values in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from odradek.columnar.json_values import TABLE_KINDS, read_values
from odradek.spark.options import FAIL
from odradek.spark.source.plan import ReadRange
from odradek.spark.source.read import PieceSource, read


def typed_schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Return the Arrow types of typed columns, given as in `odradek.table.schema`."""
    return pa.schema([pa.field(name, TABLE_KINDS[kind]) for name, kind in columns])


def read_columns(
    wanted: ReadRange,
    columns: Sequence[str],
    source: PieceSource,
    typed: pa.Schema,
    *,
    corrupt_batches: str = FAIL,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range with these columns, in this order.

    Args:
        columns: of the record, and of `typed`; a typed column that is not among them is not read.
        typed: types of the typed columns. A value that does not fit has nulls in all of them.

    Raises KafkaError, FormatError as read.read.
    """
    asked = pa.schema([field for field in typed if field.name in columns])
    plain = [name for name in columns if name not in asked.names]
    for batch in read(wanted, plain, source, corrupt_batches=corrupt_batches, typed=asked):
        if batch.schema.names == list(columns):
            yield batch
            continue
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        missing = pa.schema([field for field in asked if field.name not in arrays])
        if missing.names:
            found, _ = read_values(arrays["value"], missing)
            arrays |= zip(missing.names, found, strict=True)
        yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))
