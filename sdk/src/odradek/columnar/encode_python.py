"""Record bodies with pyarrow alone: rows as Python objects through the record builder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from odradek.columnar.columns import Body, Columns
from odradek.format.record_encoder import RecordBatchBuilder


def write_bodies(columns: Columns, max_batch_bytes: int) -> Iterator[Body]:
    """The bodies of the batches, in order. Raises FormatError as `RecordBatchBuilder.append`."""
    nothing = repeat(None, columns.row_count)
    rows = zip(
        columns.timestamps.to_pylist(),
        nothing if columns.key is None else columns.key.to_pylist(),
        nothing if columns.value is None else columns.value.to_pylist(),
        nothing if columns.headers is None else columns.headers.to_pylist(),
        strict=False,
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
