"""Converts a table to the producer's batches: partitions are chosen by column, the columnar codec writes the bodies.

    table -> pieces (bounded memory) -> rows by partition -> bodies of at most batch_size -> EncodedBody

It runs on a worker thread while the event loop sends: the kernels and the compressors release the interpreter lock.
The bodies of a piece alternate between its partitions, so that a request can carry one of each. Rows of one partition
keep their order. The lane assigns the sequence when a batch is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from odradek.client.config import ProducerConfig
from odradek.columnar.columns import Body, Columns, read_columns
from odradek.columnar.encode import body_writer
from odradek.columnar.engine import EngineName, uses_numba
from odradek.columnar.row_partitions import by_function, by_key, by_number, grouped, in_turn
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.format.batch_header import TRANSACTIONAL_FLAG
from odradek.format.compression import compress
from odradek.format.record_batch import pack_batch
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.log import Buffer
from odradek.model.record import CompressionType

_PIECE_BATCHES = 4  # batches of each partition that a piece has rows for
_PIECE_BYTES_MIN, _PIECE_BYTES_MAX = 4_000_000, 32_000_000
_RECORD_OVERHEAD_BYTES = 14  # typical: lengths and deltas of a record
_FILL = 0.97  # of batch_size: records vary, and a batch that is split in two is half empty


class EncodedBody:
    """The compressed records of a batch: a batch of a table holds it instead of a builder."""

    __slots__ = (
        "_attributes",
        "_payload",
        "base_timestamp_ms",
        "estimated_size",
        "max_timestamp_ms",
        "record_count",
        "size_bytes",
    )

    def __init__(self, body: Body, payload: Buffer, compression: CompressionType) -> None:
        self._payload = payload
        self._attributes = int(compression)
        self.record_count = body.record_count
        self.base_timestamp_ms = body.base_timestamp_ms
        self.max_timestamp_ms = body.max_timestamp_ms
        self.estimated_size = BATCH_HEADER_BYTES + len(body.payload)  # without compression
        self.size_bytes = BATCH_HEADER_BYTES + len(payload)

    def append(self, *_: Any) -> int:
        """Refuse the record: a finished batch takes no more."""
        return -1

    def build(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> bytes:
        """Build the batch. See RecordBatchBuilder.build."""
        return pack_batch(
            self._payload,
            base_offset=base_offset,
            leader_epoch=-1,
            attributes=self._attributes | (TRANSACTIONAL_FLAG if is_transactional else 0),
            last_offset_delta=self.record_count - 1,
            base_timestamp_ms=self.base_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms,
            producer=(producer_id, producer_epoch, base_sequence),
            record_count=self.record_count,
        )


class TableBatches:
    """Iterates over (partition, EncodedBody) of the rows of a table.

    Args:
        table: an Arrow table, record batch or reader, or any exporter of an Arrow stream (pandas, Polars, DuckDB).
        names: of the columns key, value, timestamp, headers; `value` and those in `required` must be there.
        partition: a partition, the name of an integer column, or None for the producer's partitioner.
        random: a number in [0, 1) that chooses the first partition for rows without a key.

    Raises KafkaError(INVALID_RECORD), here and during iteration, for a table that cannot be sent.
    """

    def __init__(
        self,
        topic: str,
        table: Any,
        *,
        names: dict[str, str],
        required: Iterable[str],
        partition: int | str | None,
        partition_count: int,
        config: ProducerConfig,
        choose: Callable[[bytes | None, bytes | None], int] | None,
        now_ms: int,
        random: float,
        engine: EngineName = "auto",
    ) -> None:
        self._names = names
        self._partition = partition
        self._count = partition_count
        self._config = config
        self._choose = choose
        self._now_ms = now_ms
        self._next = int(random * partition_count)
        self._numba = uses_numba(engine)
        self._writer_type = body_writer(engine)
        self._batch_bytes = min(config.batch_size, config.max_request_size)
        reader = as_reader(table)
        columns = set(reader.schema.names)
        wanted = {*required, *([partition] if isinstance(partition, str) else [])}
        missing = sorted(wanted - columns)
        if missing:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"the table has no column {missing[0]!r}; it has {', '.join(reader.schema.names) or 'none'}",
            )
        self._columns = [name for name in reader.schema.names if name in {*names.values(), *wanted}]
        self._reader = reader

    def __iter__(self) -> Iterator[tuple[int, EncodedBody]]:
        size = self._batch_bytes * _PIECE_BATCHES * (1 if isinstance(self._partition, int) else self._count)
        size = max(_PIECE_BYTES_MIN, min(size, _PIECE_BYTES_MAX, self._config.buffer_memory))
        batches = (batch.select(self._columns) for batch in self._reader)
        try:
            for piece in pieces(batches, size):
                yield from self._encode(piece)
        except FormatError as error:
            raise KafkaError(error.code, f"the table cannot be sent: {error}") from error

    def _encode(self, piece: pa.RecordBatch) -> Iterator[tuple[int, EncodedBody]]:
        names = self._names
        columns = read_columns(piece, names["key"], names["value"], names["timestamp"], names["headers"], self._now_ms)
        row_bytes = piece.nbytes / piece.num_rows + _RECORD_OVERHEAD_BYTES
        rows_max = max(1, int(self._batch_bytes * _FILL / row_bytes))
        writer = self._writer_type(columns)
        runs = [
            [(partition, part) for part in _even_parts(rows, rows_max)]
            for partition, rows in self._groups(piece, columns, rows_max)
        ]
        compression, level = self._config.compression, self._config.compression_level
        for turn in zip_longest(*runs):
            for partition, rows in filter(None, turn):
                for body in writer.write(self._batch_bytes, rows):
                    payload = bytes(body.payload) if not compression else compress(compression, body.payload, level)
                    yield partition, EncodedBody(body, payload, compression)

    def _groups(self, piece: pa.RecordBatch, columns: Columns, rows_max: int) -> list[tuple[int, Any]]:
        numba, count = self._numba, self._count
        if isinstance(self._partition, str):
            chosen = by_number(piece.column(self._partition), self._partition, count, numba=numba)
        elif self._partition is not None or count == 1:
            return [(self._partition or 0, range(columns.row_count))]
        elif self._choose is not None:
            chosen = by_function(columns, self._choose, numba=numba)
        elif self._config.partitioner == "round_robin":
            chosen = in_turn(columns.row_count, count, self._next, numba=numba)
            self._next = (self._next + columns.row_count) % count
        else:
            chosen, without = by_key(columns, count, self._next, rows_max, numba=numba)
            self._next = (self._next + -(-without // rows_max)) % count
        return grouped(chosen, count, numba=numba)


def _even_parts(rows: Any, rows_max: int) -> Iterator[Any]:
    """Return runs of nearly the same length, at most `rows_max`: two halves rather than a full batch and a tiny one."""
    parts = -(-len(rows) // rows_max)
    for number in range(parts):
        part = rows[len(rows) * number // parts : len(rows) * (number + 1) // parts]
        if isinstance(part, range):
            part = _row_numbers(part)
        yield part


def _row_numbers(rows: range) -> Any:
    try:
        import numpy as np
    except ImportError:
        return list(rows)
    return np.arange(rows.start, rows.stop, dtype=np.int64)


def as_reader(table: Any) -> pa.RecordBatchReader:
    """Return a reader over any object with columns. Raises KafkaError(INVALID_RECORD) for anything else."""
    if isinstance(table, pa.RecordBatchReader):
        return table
    if isinstance(table, pa.Table):
        return table.to_reader()
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table]).to_reader()
    try:
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(table)
        return pa.table(table).to_reader()
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{type(table).__name__} is not a table: pass an Arrow table, or a pandas, Polars or DuckDB frame",
        ) from error


def pieces(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Return the same rows in pieces of about that size: large batches are sliced, small ones joined."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        size = batch.nbytes
        if held and held_bytes + size > size_bytes:
            yield from _joined(held)
            held, held_bytes = [], 0
        if size <= size_bytes:
            held.append(batch)
            held_bytes += size
            continue
        rows = max(1, batch.num_rows * size_bytes // size)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
    if held:
        yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()
