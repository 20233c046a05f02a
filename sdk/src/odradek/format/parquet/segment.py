"""A columnar segment: one Parquet file of a partition's offsets, from which the batches are made again.

    row group    one stretch of the segment's index: whole batches
    column       offset | timestamp | timestampType | key | value | headers.key | headers.value | batch | others

Timestamps are in microseconds, as Iceberg wants them; the others are `partition` and the typed columns. In a file with
`odradek.table.value.bytes=false` `value_recipe` and `value_rest` stand before these, and `value` is null where a recipe
makes it again.

`batch` has the 61-byte headers of the batches that begin at this row, null elsewhere; those of batches without records
are with the row group's first one. A batch made again has the header and the records of the original: offsets, keys,
values, headers, timestamps, producer, sequence, leader epoch, attributes. It may be compressed differently, so
length and CRC are its own. A reader needs the index and the first columns of one row group (docs/formats/segment.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, repeat
from typing import Any

from odradek.errors import FormatError
from odradek.format.batch_header import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER,
    LENGTH_PREFIX_BYTES,
    check_crc,
    iter_headers,
    parse_header,
)
from odradek.format.compression import compress
from odradek.format.crc import crc32c
from odradek.format.offset_index import OffsetIndex, RowGroup
from odradek.format.parquet.pages import LeafColumn, LeafValues, read_chunk
from odradek.format.parquet.recipes import made_again
from odradek.format.record_decoder import decode_rows
from odradek.format.varint import NULL, SMALL, SMALL_MAX, encode_varlong, encode_varlongs
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, CompressionType, TimestampType

LEAVES = (
    ("offset", LeafColumn("int64")),
    ("timestamp", LeafColumn("int64")),
    ("timestampType", LeafColumn("int32")),
    ("key", LeafColumn("bytes", 1)),
    ("value", LeafColumn("bytes", 1)),
    ("headers.list.element.key", LeafColumn("bytes", 1, 1)),
    ("headers.list.element.value", LeafColumn("bytes", 2, 1)),
    ("batch", LeafColumn("bytes", 1)),
)
_MAGIC = b"PAR1"
_NEEDED = (0, 1, 3, 5, 6, 7)  # the timestamp type is in the batch's header, and `values_of` reads the values
_VALUE = 4


def rebuild(data: Buffer, group: RowGroup) -> bytes:
    """Return the batches of a row group, with absolute offsets.

    Args:
        data: its first columns, `group.size_bytes` bytes.

    Raises FormatError if they are damaged.
    """
    columns = _columns(memoryview(data), group, _NEEDED)
    offsets, timestamps = columns[0].values, [micros // 1000 for micros in columns[1].values]
    keys, values = _spread(columns[3]), values_of(data, group)
    headers = _headers(columns[5], columns[6], group.row_count)
    cells = b"".join(columns[7].values)
    if len(cells) % BATCH_HEADER_BYTES or {len(offsets), len(timestamps), len(keys), len(values)} != {group.row_count}:
        raise FormatError("the columns of a row group do not belong together")
    batch_headers = [
        BatchHeader(*HEADER.unpack_from(cells, position)) for position in range(0, len(cells), BATCH_HEADER_BYTES)
    ]
    batch_headers.sort(key=lambda header: header.base_offset)
    batches: list[bytes] = []
    row = 0
    for header in batch_headers:
        stop = row + header.record_count
        if stop > group.row_count or (row < stop and not header.base_offset <= offsets[row] <= offsets[stop - 1]):
            raise FormatError(f"the batch at offset {header.base_offset} has other records than its header says")
        batches.append(
            _batch(
                header,
                offsets[row:stop],
                timestamps[row:stop],
                keys[row:stop],
                values[row:stop],
                None if headers is None else headers[row:stop],
            )
        )
        row = stop
    if row != group.row_count:
        raise FormatError(f"{group.row_count - row} records of a row group are in no batch")
    return b"".join(batches)


def values_of(data: Buffer, group: RowGroup) -> list[bytes | None]:
    """Return the values of a row group, made again where it has recipes for them (recipes.py).

    Args:
        data: its first columns, `group.size_bytes` bytes.

    Raises FormatError if they are damaged, or not those that were written.
    """
    values = _values(memoryview(data), group)
    if group.leaves and crc_of_values(values) != group.values_crc:
        raise FormatError("the values made of a row group's columns do not match their CRC-32C")
    return values


def values_crc_of(data: Buffer, group: RowGroup) -> int:
    """Return the CRC-32C of the values of a row group with recipes, whatever the group says. Raises FormatError."""
    return crc_of_values(_values(memoryview(data), group))


def _values(view: memoryview, group: RowGroup) -> list[bytes | None]:
    kept = _spread(_columns(view, group, (_VALUE,))[_VALUE])
    if not group.leaves:
        return kept
    first = len(LEAVES)
    recipes, rests = (_spread(column) for column in _columns(view, group, (first, first + 1)).values())
    numbers_by_path = {leaf.path: number for number, leaf in enumerate(group.leaves, first) if leaf.physical}
    read: dict[str, list[Any]] = {}

    def cells_of(path: str) -> list[Any]:
        if path not in read:
            number = numbers_by_path[path]
            read[path] = _spread(_columns(view, group, (number,))[number], group.leaves[number - first].max_definition)
        return read[path]

    if len(recipes) != group.row_count or len(rests) != group.row_count or len(kept) != group.row_count:
        raise FormatError("the columns of a row group do not belong together")
    return made_again(recipes, rests, kept, cells_of)


def crc_of_values(values: Iterable[bytes | None]) -> int:
    """Return the CRC-32C of values, joined."""
    return crc32c(b"".join(filter(None, values)))


def is_same_batch(original: Buffer, again: Buffer) -> bool:
    """Return True if a batch made again says everything that the original says. Both are one whole batch."""
    one, other = parse_header(original), parse_header(again)
    return _facts(one) == _facts(other) and decode_rows(original, 0, one) == decode_rows(again, 0, other)


def read_columnar(data: Buffer, index: OffsetIndex) -> bytes:
    """Return all batches of a whole file. Raises FormatError if it is damaged."""
    view = memoryview(data)
    return b"".join(rebuild(view[group.position : group.position + group.size_bytes], group) for group in index.groups)


def verify_columnar(data: Buffer, index: OffsetIndex) -> None:
    """Check a whole file: size, CRC, every page and every batch. Raises FormatError if it is not that of the index."""
    if len(data) != index.file_bytes or crc32c(data) != index.segment_crc:
        raise FormatError("the Parquet file does not match its size and CRC-32C in the index")
    view = memoryview(data)
    if view[:4] != _MAGIC or view[-4:] != _MAGIC:
        raise FormatError("the object is not a Parquet file")
    records = batches = 0
    for group, first in zip(index.groups, index.offsets, strict=True):
        log = rebuild(view[group.position : group.position + group.size_bytes], group)
        for number, (position, header) in enumerate(iter_headers(log)):
            check_crc(log, position, header)
            records += header.record_count
            batches += 1
            if not number and header.base_offset != first:
                raise FormatError(f"the index entry of offset {first} does not match the Parquet file")
    if (records, batches) != (index.record_count, index.batch_count):
        raise FormatError("the Parquet file does not match the counts in its index")


def _facts(header: BatchHeader) -> tuple[int, ...]:
    """Return the fields of a header that do not follow from the compressed bytes."""
    return header.base_offset, *_after_length(header)[:2], *_after_crc(header)


def _after_length(header: BatchHeader) -> tuple[int, int, int]:
    return header.partition_leader_epoch, header.magic, 0  # in place of the CRC


def _after_crc(header: BatchHeader) -> tuple[int, ...]:
    return (
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


def _columns(view: memoryview, group: RowGroup, wanted: Sequence[int]) -> dict[int, LeafValues]:
    """Read columns of a row group, by their numbers."""
    if len(view) != group.size_bytes:
        raise FormatError(f"a row group has {group.size_bytes} bytes, {len(view)} exist")
    starts = (0, *accumulate(group.column_bytes))
    values_by_leaf: dict[int, LeafValues] = {}
    for number in wanted:
        if number < len(LEAVES):
            leaf_column = LEAVES[number][1]
        else:
            leaf = group.leaves[number - len(LEAVES)]
            leaf_column = LeafColumn(leaf.physical, leaf.max_definition)
        values_by_leaf[number] = read_chunk(view[starts[number] : starts[number + 1]], leaf_column)
    return values_by_leaf


def _spread(column: LeafValues, greatest: int = 1) -> list[Any]:
    """Return the values of an optional column with nulls."""
    if column.definitions is None or len(column.values) == len(column.definitions):
        return column.values
    values = iter(column.values)
    return [next(values) if level == greatest else None for level in column.definitions]


def _headers(keys: LeafValues, values: LeafValues, rows: int) -> list[list[tuple[bytes, bytes | None]]] | None:
    """Return the headers of each row; None if no row has any."""
    assert keys.definitions is not None
    assert keys.repetitions is not None
    assert values.definitions is not None
    if not keys.values:
        if len(keys.definitions) != rows:
            raise FormatError("the headers of a row group do not belong to its rows")
        return None
    names, contents = iter(keys.values), iter(values.values)
    headers: list[list[tuple[bytes, bytes | None]]] = []
    for repetition, is_there, level in zip(keys.repetitions, keys.definitions, values.definitions, strict=True):
        if not repetition:
            headers.append([])
        if is_there:
            headers[-1].append((next(names), next(contents) if level == 2 else None))
    if len(headers) != rows:
        raise FormatError("the headers of a row group do not belong to its rows")
    return headers


def _batch(
    header: BatchHeader,
    offsets: Sequence[int],
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[list[tuple[bytes, bytes | None]]] | None,
) -> bytes:
    is_fixed = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    base_offset, base_timestamp = header.base_offset, header.base_timestamp_ms
    # Lists and no loop: each step is one of C for all records, which takes a third of the time.
    attributes = repeat(b"\x00")
    times = attributes if is_fixed else encode_varlongs([timestamp - base_timestamp for timestamp in timestamps])
    deltas = encode_varlongs([offset - base_offset for offset in offsets])
    own = repeat(b"\x00") if headers is None else [_packed(record_headers) for record_headers in headers]
    columns = (attributes, times, deltas, *_texts(keys), *_texts(values), own)
    records = list(map(b"".join, zip(*columns, strict=False)))  # some repeat without an end
    body = chain.from_iterable(zip(encode_varlongs(list(map(len, records))), records, strict=True))
    codec = CompressionType(header.attributes & COMPRESSION_MASK)
    level = 1 if codec is CompressionType.ZSTD else None  # it is sent once: the fastest
    payload = compress(codec, b"".join(body), level) if offsets else b""
    size = BATCH_HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload)
    packed = bytearray(HEADER.pack(base_offset, size, *_after_length(header), *_after_crc(header)))
    packed[17:21] = crc32c(memoryview(packed)[CRC_START:], payload).to_bytes(4, "big")
    return bytes(packed) + payload


def _texts(values: Sequence[bytes | None]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return lengths and bytes of keys or values."""
    if None not in values:
        texts: Sequence[bytes] = values  # type: ignore[assignment]
        return encode_varlongs(list(map(len, texts))), texts
    lengths = encode_varlongs([-1 if value is None else len(value) for value in values])
    return lengths, [value or b"" for value in values]


def _packed(headers: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    """Return the headers of a record with their count."""
    parts = [_length(len(headers))]
    for name, content in headers:
        parts += (_length(len(name)), name, NULL if content is None else _length(len(content)) + content)
    return b"".join(parts)


def _length(number: int) -> bytes:
    return SMALL[number] if number < SMALL_MAX else encode_varlong(number)
