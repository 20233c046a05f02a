"""Record bodies with pyarrow alone: rows as Python objects through the record builder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from odradek.columnar.columns import Body, Columns
from odradek.format.record_encoder import RecordBatchBuilder


def write_bodies(columns: Columns, max_batch_bytes: int) -> Iterator[Body]:
    """The bodies of the batches, in order. Raises FormatError as `RecordBatchBuilder.append`."""
    columns_of_rows = (columns.timestamps, columns.key, columns.value, columns.headers)
    rows = zip(
        *(repeat(None, columns.row_count) if column is None else column.to_pylist() for column in columns_of_rows),
        strict=True,
    )
    builder = RecordBatchBuilder(batch_bytes_max=max_batch_bytes)
    for timestamp_ms, key, value, pairs in rows:
        headers = [tuple(pair.values()) for pair in pairs] if pairs else ()
        if builder.append(timestamp_ms, key, value, headers) < 0:
            yield _body(builder)
            builder = RecordBatchBuilder(batch_bytes_max=max_batch_bytes)
            builder.append(timestamp_ms, key, value, headers)
    if builder.record_count:
        yield _body(builder)


def _body(builder: RecordBatchBuilder) -> Body:
    return Body(builder.body, builder.record_count, builder.base_timestamp_ms, builder.max_timestamp_ms)
