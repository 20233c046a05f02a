"""Decodes fetched batches to one Arrow table: the result of `poll_table`.

    topic       dictionary<int32, string>
    partition   int32
    offset      int64
    timestamp   timestamp(us, UTC)
    key, value  binary
    timestampType (int32), headers (list of (key string, value binary)): only if requested

A piece is a run of batches of one partition. A worker thread decodes it column by column, without first copying the
fetched bytes. A piece with a damaged batch yields the rows before it; the next poll raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from odradek.client.consumer.positions import PartitionState
from odradek.client.consumer.record import CorruptRecordBatchError
from odradek.columnar.decode import decode_to_arrow
from odradek.columnar.engine import EngineName
from odradek.columnar.schema import schema as column_schema
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.format.record_batch import iter_headers

DEFAULT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
TOPIC_TYPE = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches of one partition."""

    state: PartitionState
    version: int  # of the state when they were fetched
    data: memoryview
    start_offset: int  # inclusive
    end_offset: int  # exclusive; the position after the piece


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of a piece, and where they end."""

    piece: Piece
    rows: pa.RecordBatch
    end_offset: int
    error: CorruptRecordBatchError | None  # the error at end_offset


def table_schema(columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of the table. Raises KafkaError(INVALID_REQUEST) that names an unknown column."""
    names = DEFAULT_COLUMNS if columns is None else tuple(columns)
    try:
        fields = column_schema(columns=names)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return pa.schema([pa.field(field.name, TOPIC_TYPE) if field.name == "topic" else field for field in fields])


def decode_pieces(
    pieces: Sequence[Piece], columns: Sequence[str] | None, *, check_crcs: bool, engine: EngineName
) -> list[Decoded]:
    """Decode each piece up to its first damaged batch. Raises as `uses_numba`."""
    wanted = table_schema(columns)
    topics = sorted({piece.state.partition.topic for piece in pieces})
    return [_decode(piece, wanted, topics, check_crcs, engine) for piece in pieces]


def to_table(decoded: Sequence[Decoded], columns: Sequence[str] | None) -> pa.Table:
    """Return one table of all rows, with a chunk for each piece."""
    return pa.Table.from_batches([part.rows for part in decoded], table_schema(columns))


def _decode(piece: Piece, wanted: pa.Schema, topics: list[str], check_crcs: bool, engine: EngineName) -> Decoded:
    try:
        rows = _rows(piece, piece.data, piece.end_offset, wanted, topics, check_crcs, engine)
    except FormatError:
        return _decode_before_error(piece, wanted, topics, check_crcs, engine)
    return Decoded(piece, rows, piece.end_offset, None)


def _decode_before_error(
    piece: Piece, wanted: pa.Schema, topics: list[str], check_crcs: bool, engine: EngineName
) -> Decoded:
    """Decode batch by batch up to the damaged one."""
    batches = [_rows(piece, piece.data[:0], piece.end_offset, wanted, topics, check_crcs, engine)]
    end = piece.start_offset
    failure: CorruptRecordBatchError | None = None
    after = end
    try:
        for at, header in iter_headers(piece.data):
            data = piece.data[at : at + header.size_bytes]
            after = header.next_offset
            batches.append(_rows(piece, data, piece.end_offset, wanted, topics, check_crcs, engine))
            end = min(header.next_offset, piece.end_offset)
    except FormatError as error:
        failure = CorruptRecordBatchError(piece.state.partition, end, after, error)
    return Decoded(piece, pa.concat_batches(batches), end, failure)


def _rows(
    piece: Piece,
    data: memoryview,
    end_offset: int,
    wanted: pa.Schema,
    topics: list[str],
    check_crcs: bool,
    engine: EngineName,
) -> pa.RecordBatch:
    topic, partition = piece.state.partition
    names = [name for name in wanted.names if name != "topic"] or ["offset"]
    rows = decode_to_arrow(
        data,
        topic=topic,
        partition=partition,
        columns=names,
        start_offset=piece.start_offset,
        end_offset=end_offset,
        verify_crc=check_crcs,
        engine=engine,
    )
    columns = []
    for name in wanted.names:
        if name == "topic":
            index = pa.repeat(pa.scalar(topics.index(topic), pa.int32()), rows.num_rows)
            columns.append(pa.DictionaryArray.from_arrays(index, pa.array(topics, pa.string())))
        else:
            columns.append(rows.column(name))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
