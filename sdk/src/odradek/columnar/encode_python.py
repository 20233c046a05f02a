"""Record bodies with pyarrow only: rows as Python objects through the record builder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from odradek.columnar.columns import Body, Columns
from odradek.format.record_encoder import RecordBatchBuilder


class BodyWriter:
    """Writes the bodies of batches from the rows of some columns."""

    def __init__(self, columns: Columns) -> None:
        self.row_count = columns.row_count
        self.key = columns.key
        self._columns = (columns.timestamps, columns.key, columns.value, columns.headers)

    def write(self, max_batch_bytes: int, rows: Sequence[int] | None = None) -> Iterator[Body]:
        """Yield the bodies of the batches of these rows (None: all) in order. Raises FormatError as `append`."""
        count = self.row_count if rows is None else len(rows)
        records = zip(*(_values(column, rows, count) for column in self._columns), strict=True)
        builder = RecordBatchBuilder(batch_bytes_max=max_batch_bytes)
        for timestamp_ms, key, value, pairs in records:
            headers = [tuple(pair.values()) for pair in pairs] if pairs else ()
            if builder.append(timestamp_ms, key, value, headers) < 0:
                yield _body(builder)
                builder = RecordBatchBuilder(batch_bytes_max=max_batch_bytes)
                builder.append(timestamp_ms, key, value, headers)
        if builder.record_count:
            yield _body(builder)


def _values(column: pa.Array | None, rows: Sequence[int] | None, count: int) -> Iterable[Any]:
    if column is None:
        return repeat(None, count)
    if rows is not None:
        column = column.take(pa.array(rows, pa.int64()))
    values: list[Any] = column.to_pylist()
    return values


def _body(builder: RecordBatchBuilder) -> Body:
    return Body(builder.body, builder.record_count, builder.base_timestamp_ms, builder.max_timestamp_ms)
