"""A table to record batches.

Columns in a few common types (columns.py) -> an engine that writes bodies -> compression, header, CRC. Rows keep their
order. A batch ends before the record that would make it larger than `max_batch_bytes` without compression. A larger
single record gets a separate batch (the log's max.message.bytes decides about it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from odradek.columnar.columns import read_columns
from odradek.columnar.engine import EngineName, uses_numba
from odradek.format.batch_header import TRANSACTIONAL_FLAG
from odradek.format.compression import compress
from odradek.format.record_batch import pack_batch
from odradek.limits import SEQUENCE_MAX
from odradek.model.record import CompressionType

BATCH_BYTES_MAX = 1_000_000  # a little below Kafka's default max.message.bytes


def encode_from_arrow(
    table: pa.Table | pa.RecordBatch,
    *,
    default_timestamp_ms: int,
    key_column: str | None = "key",
    value_column: str | None = "value",
    timestamp_column: str | None = "timestamp",
    headers_column: str | None = "headers",
    compression_type: CompressionType = CompressionType.NONE,
    compression_level: int | None = None,
    max_batch_bytes: int = BATCH_BYTES_MAX,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    engine: EngineName = "auto",
) -> list[bytes]:
    """Encode the rows of a table, in order, as whole RecordBatch v2s with base offset 0.

    Args:
        table: binary or text columns of any width; a null key or value stays null. A column that is not in the table,
            or whose name is None, is all null; a named value column must exist.
        default_timestamp_ms: for rows without a timestamp.
        timestamp_column: a timestamp of any unit (rounded down to ms), or integers in ms.
        headers_column: a list of structs (key, value), or a map from text to binary.
        max_batch_bytes: maximum size of a batch with its header before compression; a larger single record is allowed.
        base_sequence: of the first batch; the others continue from it.

    Returns the batches; `parse_header` returns each one's record count. An empty table has none.
    Raises:
        FormatError(INVALID_RECORD): a column of another type, a null header key, too many headers, timestamps too far
            apart for one batch.
        ValueError: an unknown engine, a table without the named value column.
        ImportError: engine "numba" without the extra `fast`.
    """
    if value_column is not None and value_column not in table.schema.names:
        raise ValueError(f"the table has no column {value_column!r}; it has {', '.join(table.schema.names)}")
    writer_type = body_writer(engine)
    batches: list[bytes] = []
    for piece in _pieces(table):
        columns = read_columns(piece, key_column, value_column, timestamp_column, headers_column, default_timestamp_ms)
        for body in writer_type(columns).write(max_batch_bytes):
            batches.append(
                pack_batch(
                    compress(compression_type, body.payload, compression_level) if compression_type else body.payload,
                    base_offset=0,
                    leader_epoch=-1,
                    attributes=int(compression_type) | (TRANSACTIONAL_FLAG if is_transactional else 0),
                    last_offset_delta=body.record_count - 1,
                    base_timestamp_ms=body.base_timestamp_ms,
                    max_timestamp_ms=body.max_timestamp_ms,
                    producer=(producer_id, producer_epoch, base_sequence),
                    record_count=body.record_count,
                )
            )
            if base_sequence >= 0:  # Kafka's sequences wrap to 0
                base_sequence = (base_sequence + body.record_count) % (SEQUENCE_MAX + 1)
    return batches


def body_writer(engine: EngineName) -> Any:
    """Return the engine's BodyWriter. Raises as `uses_numba`."""
    if uses_numba(engine):
        from odradek.columnar.encode_numba import BodyWriter

        return BodyWriter
    from odradek.columnar.encode_python import BodyWriter as PythonBodyWriter

    return PythonBodyWriter


def _pieces(table: pa.Table | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if isinstance(table, pa.RecordBatch):
        yield table
    else:
        # One piece unless a column is too large for its type, so that small chunks do not become small batches.
        yield from table.combine_chunks().to_batches()
