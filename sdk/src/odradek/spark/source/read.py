"""A range to Arrow record batches: the work of an executor. Independent of Spark.

Bytes are read in chunks, so that memory stays bounded however large the range is: neighbouring pieces of the WAL
together, a segment chunk by chunk at batch boundaries. A chunk that holds much more than its bytes, since it is well
compressed, is decoded batch by batch, and such a batch by ranges of its offsets. While one chunk is decoded, the next
is fetched. If an object no longer exists (a merge replaced it), the rest of the range is planned again: the offsets
define the range, the pieces only say where it was.

A batch whose records cannot be decoded (a topic with `record.validation=header` may contain one) fails the query,
unless the option corruptBatches passes it. Damaged framing always fails it: the next batch cannot be found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from typing import Protocol, TypeVar

import pyarrow as pa

from odradek.columnar.decode import ROW_BYTES, decode_to_arrow
from odradek.columnar.names import TIMESTAMP_MS_MAX
from odradek.columnar.schema import schema
from odradek.engine.read.log_reader import Piece, patched
from odradek.errors import ErrorCode, FormatError, KafkaError, ObjectMissing
from odradek.format.batch_header import iter_headers
from odradek.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader
from odradek.model.topic_partition import PartitionId
from odradek.spark.options import CORRUPT_TIMESTAMP_TYPE, FAIL, MARK
from odradek.spark.source.plan import ReadRange, group_pieces
from odradek.spark.source.pushdown import Condition
from odradek.spark.source.row_groups import read_row_groups

T = TypeVar("T")

CHUNK_BYTES = 4 * 1024 * 1024  # stored bytes decoded at once; two such chunks are in memory
DECODED_BYTES = 64 * 1024 * 1024  # of records in one Arrow batch, about
_REPLANS = 3
_NO_COLUMNS = pa.schema([])
_log = logging.getLogger("odradek.spark")  # of the worker that reads: Spark's own standard error


class PieceSource(Protocol):
    """The part of log_view.LogView that reading needs."""

    def pieces(self, partition: PartitionId, start_offset: int, end_offset: int) -> list[Piece]: ...

    def read(self, pieces: Sequence[Piece]) -> list[memoryview]: ...

    def read_range(self, key: str, position: int, length: int) -> bytes: ...

    def forget(self, partition: PartitionId) -> None: ...


def read(
    wanted: ReadRange,
    columns: Sequence[str],
    source: PieceSource,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    corrupt_batches: str = FAIL,
    typed: pa.Schema = _NO_COLUMNS,
    conditions: Sequence[Condition] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in offset order, as batches of the requested columns, without empty batches.

    Args:
        typed: typed columns that the caller wants. A batch has those that its file has, and `value` if any is missing.
        conditions: records that do not fulfil one of them may be left out.
        chunk_bytes: stored bytes that are decoded at once.
        corrupt_batches: FAIL, SKIP or MARK, as the option corruptBatches.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE or KAFKA_STORAGE_ERROR if the range cannot be read (any more).
        FormatError: a corrupt batch, named with its offsets, under FAIL; damaged framing.
    """
    decoded = [*columns, "value"] if typed.names and "value" not in columns else columns
    offset = wanted.start_offset
    pieces: Sequence[Piece] = wanted.pieces
    for replanned in range(_REPLANS + 1):
        try:
            remaining = replace(wanted, start_offset=offset, pieces=tuple(pieces))
            chunks = _chunks(remaining, columns, source, chunk_bytes, typed, conditions)
            # What is one chunk needs no thread that reads the next.
            for data, next_offset in _ahead(chunks) if remaining.size_bytes > chunk_bytes else chunks:
                if isinstance(data, pa.RecordBatch):
                    yield data
                else:
                    end = min(next_offset, wanted.end_offset)
                    yield from _decode(data, wanted, offset, end, decoded, corrupt_batches)
                offset = next_offset
        except ObjectMissing as missing:
            if replanned == _REPLANS:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{wanted.topic}-{wanted.partition} cannot be read at offset {offset}: {missing} no longer exists",
                ) from missing
            source.forget(wanted.partition_id)
            pieces = source.pieces(wanted.partition_id, offset, wanted.end_offset)
        else:
            return


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items, each computed while the one before is used. Errors are raised in order."""
    with ThreadPoolExecutor(1, thread_name_prefix="odradek-read-ahead") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _chunks(
    wanted: ReadRange,
    columns: Sequence[str],
    source: PieceSource,
    chunk_bytes: int,
    typed: pa.Schema,
    conditions: Sequence[Condition],
) -> Iterator[tuple[list[Buffer] | pa.RecordBatch, int]]:
    """Yield whole batches with absolute offsets, or records of a columnar segment, and the offset after them."""
    for is_segment, alike in groupby(wanted.pieces, key=lambda piece: piece.is_segment):
        if is_segment:
            for piece in alike:
                if piece.groups:
                    yield from _row_groups(piece, wanted, columns, source, typed, conditions)
                else:
                    yield from _segment_chunks(piece, wanted.start_offset, wanted.end_offset, source, chunk_bytes)
            continue
        for group in group_pieces(alike, chunk_bytes):
            yield from _wal_batches(group, source)


def _wal_batches(group: Sequence[Piece], source: PieceSource) -> Iterator[tuple[list[Buffer], int]]:
    """Yield the batches of neighbouring pieces at once; if an object is missing, those before it, then raise."""
    try:
        parts = source.read(group)
    except ObjectMissing:
        if len(group) == 1:
            raise
        for piece in group:
            yield from _wal_batches([piece], source)
        return
    batches = [batch for piece, data in zip(group, parts, strict=True) for batch in patched(piece, data, 0)]
    yield batches, group[-1].end_offset


def _row_groups(
    piece: Piece,
    wanted: ReadRange,
    columns: Sequence[str],
    source: PieceSource,
    typed: pa.Schema,
    conditions: Sequence[Condition],
) -> Iterator[tuple[list[Buffer] | pa.RecordBatch, int]]:
    """Yield the records of a columnar piece. What its Parquet footer does not lead to is read by the index."""
    offset = max(piece.base_offset, wanted.start_offset)
    try:
        for rows in read_row_groups(piece, wanted, columns, source, typed=typed, conditions=conditions):
            yield rows
            offset = rows[1]
    except FormatError as damage:
        _log.warning("%s: read by the index of the segment", damage)
        for group in piece.groups:
            [data] = source.read([replace(piece, groups=(group,))])
            headers = list(iter_headers(data))
            if headers and headers[-1][1].next_offset > offset:
                yield [data], headers[-1][1].next_offset


def _segment_chunks(
    segment: Piece, start_offset: int, end_offset: int, source: PieceSource, chunk_bytes: int
) -> Iterator[tuple[list[Buffer], int]]:
    position, length = segment.position, chunk_bytes
    end = segment.position + segment.length
    while position < end:
        stretch = replace(segment, position=position, length=min(length, end - position))
        data = source.read([stretch])[0]
        headers = list(iter_headers(data))
        if not headers:
            if stretch.length == end - position:
                raise FormatError(f"{segment.object_key} ends within a batch")
            length *= 2  # one batch is longer than a stretch
            continue
        length = chunk_bytes
        last_position, last = headers[-1]
        size = last_position + last.size_bytes
        position += size
        if last.next_offset > start_offset:
            yield [data[:size]], last.next_offset if position < end else segment.end_offset
        if last.next_offset >= end_offset:
            return


def _decode(
    batches: Sequence[Buffer],
    wanted: ReadRange,
    start_offset: int,
    end_offset: int,
    columns: Sequence[str],
    corrupt_batches: str,
) -> Iterator[pa.RecordBatch]:
    data = batches[0] if len(batches) == 1 else b"".join(batches)

    def table(begin: int, end: int, bytes_max: int | None) -> pa.RecordBatch:
        return decode_to_arrow(
            data,
            topic=wanted.topic,
            partition=wanted.partition,
            columns=columns,
            start_offset=begin,
            end_offset=end,
            bytes_max=bytes_max,
        )

    try:
        batch = table(start_offset, end_offset, DECODED_BYTES)
        if batch.num_rows:
            yield batch
        return
    except FormatError as error:
        # Well compressed batches may hold more than one Arrow batch takes, and one may be corrupt: one by one.
        headers = list(iter_headers(data))
        if not headers:
            raise
        failure = error
    if len(headers) > 1:
        for position, header in headers:
            one = memoryview(data)[position : position + header.size_bytes]
            yield from _decode([one], wanted, start_offset, end_offset, columns, corrupt_batches)
        return
    [(_, header)] = headers
    if failure.code is ErrorCode.RECORD_LIST_TOO_LARGE:
        try:
            for begin, end in _ranges(header, start_offset, end_offset):
                batch = table(begin, end, None)
                if batch.num_rows:
                    yield batch
            return
        except FormatError as error:  # all records are read for the first range: nothing was yielded
            failure = error
    marked = _passed(header, failure, wanted, start_offset, columns, corrupt_batches)
    if marked is not None:
        yield marked


def _ranges(header: BatchHeader, start_offset: int, end_offset: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of offsets of a batch that is too large to be one Arrow batch; it is decompressed for each."""
    begin, end = max(header.base_offset, start_offset), min(header.next_offset, end_offset)
    size_max = DECOMPRESSED_BATCH_BYTES_MAX + header.record_count * ROW_BYTES
    step = max(1, -(-(header.last_offset_delta + 1) * DECODED_BYTES // size_max))
    for offset in range(begin, end, step):
        yield offset, min(offset + step, end)


def _passed(
    header: BatchHeader,
    error: FormatError,
    wanted: ReadRange,
    start_offset: int,
    columns: Sequence[str],
    corrupt_batches: str,
) -> pa.RecordBatch | None:
    """Return the row that stands for a corrupt batch, None if it is skipped. Raises FormatError under FAIL."""
    message = (
        f"the batch of {wanted.topic}-{wanted.partition} with the offsets {header.base_offset} to {header.last_offset} "
        f"cannot be decoded: {error}"
    )
    if corrupt_batches == FAIL:
        raise FormatError(
            f"{message}. To continue without it, set the option corruptBatches to skip, or to mark", error.code
        ) from error
    _log.warning("%s. It is passed: corruptBatches=%s", message, corrupt_batches)
    # If the range begins within the batch, the range before it has marked it.
    if corrupt_batches != MARK or header.base_offset < start_offset:
        return None
    timestamp_ms = max(-TIMESTAMP_MS_MAX, min(header.max_timestamp_ms, TIMESTAMP_MS_MAX))
    row = {
        "topic": wanted.topic,
        "partition": wanted.partition,
        "offset": header.base_offset,
        "timestamp": timestamp_ms * 1000,
        "timestampType": CORRUPT_TIMESTAMP_TYPE,
        "headers": [],
    }
    kinds = schema(columns=columns)
    return pa.RecordBatch.from_arrays([pa.array([row.get(f.name)], type=f.type) for f in kinds], schema=kinds)
