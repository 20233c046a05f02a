"""decode(encode(x)) = x for all records, and no bytes make a decoder raise anything but FormatError."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.errors import FormatError
from odradek.format.compression import compress, decompress
from odradek.format.crc import crc32c
from odradek.format.offset_index import decode_offset_index, encode_offset_index
from odradek.format.record_batch import (
    RecordBatchBuilder,
    decode_batch,
    decode_batches,
    encode_batch,
    iter_headers,
    parse_header,
    patch_offsets,
    validate_batches,
)
from odradek.format.segment import SegmentBuilder, find_timestamp, index_segment, select_batches, verify_segment
from odradek.format.tail_entry import decode_tail_entries, decode_tail_entry
from odradek.format.varint import decode_varint, decode_varlong, encode_varlong, encode_varlongs
from odradek.model.record import CompressionType, Record

from tests.support.examples import examples

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.one_of(st.integers(-(2**40), 2**41), st.integers(-(2**62), 2**62 - 1))
BYTES = st.one_of(st.none(), st.binary(max_size=300))
HEADERS = st.lists(st.tuples(st.text(max_size=8), BYTES), max_size=5).map(tuple)
ROWS = st.lists(st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=30)
COMPRESSIONS = st.sampled_from(CompressionType)


def batch_of(rows: list[tuple[int, bytes | None, bytes | None, tuple]], compression: CompressionType) -> bytes:
    builder = RecordBatchBuilder(compression)
    for row in rows:
        builder.append(*row)
    return builder.build()


@given(rows=ROWS, compression=COMPRESSIONS, base_offset=st.integers(0, 2**63 - 40), epoch=st.integers(-1, 2**31 - 1))
def test_batches_round_trip_wherever_they_are_patched(
    rows: list, compression: CompressionType, base_offset: int, epoch: int
) -> None:
    data = batch_of(rows, compression)
    ((_, header),) = validate_batches(data, max_message_bytes=len(data))
    assert header.max_timestamp_ms == max(row[0] for row in rows)
    patched = b"".join(patch_offsets(data, base_offset, epoch))
    records = decode_batch(patched)
    assert records == [Record(base_offset + number, *row) for number, row in enumerate(rows)]
    assert encode_batch(records, compression_type=compression, leader_epoch=epoch) == patched


@given(rows=ROWS, kept=st.sets(st.integers(0, 29)), compression=COMPRESSIONS)
def test_compaction_keeps_offsets(rows: list, kept: set[int], compression: CompressionType) -> None:
    records = [Record(100 + n, *row) for n, row in enumerate(rows) if n in kept]
    if records:
        data = encode_batch(records, compression_type=compression, base_offset=100, last_offset=200)
        assert decode_batch(data) == records
        assert parse_header(data).next_offset == 201


@given(values=st.lists(st.integers(-10, 10_000) | st.integers(-(2**28), 2**28) | INT64))
@example([-(2**27), 2**27 - 1])
@example([0, 4095])
def test_many_varints_are_those_of_one_by_one(values: list[int]) -> None:
    assert encode_varlongs(values) == [encode_varlong(value) for value in values]


@given(value=INT64)
@example(2**63 - 1)
@example(-(2**63))
def test_varints_round_trip(value: int) -> None:
    data = encode_varlong(value)
    assert decode_varlong(data, 0) == (value, len(data))
    assert len(data) <= 10
    if -(2**31) <= value < 2**31:
        assert decode_varint(data, 0) == (value, len(data))
        assert len(data) <= 5
    else:
        with pytest.raises(FormatError):
            decode_varint(data, 0)


@given(data=st.binary(max_size=12))
def test_varints_of_any_bytes(data: bytes) -> None:
    for decode, bits in ((decode_varint, 32), (decode_varlong, 64)):
        try:
            value, position = decode(data, 0)
        except (FormatError, IndexError):
            continue
        assert -(1 << bits - 1) <= value < 1 << bits - 1
        assert 0 < position <= len(data)


READERS: list[Callable[[bytes], object]] = [
    lambda data: validate_batches(data, max_message_bytes=1 << 20),
    lambda data: decode_batch(data),
    lambda data: decode_batch(data, verify_crc=False),
    lambda data: list(decode_batches(data, verify_crc=False)),
    lambda data: list(iter_headers(data)),
    lambda data: index_segment(data, base_offset=0),
    lambda data: select_batches(data, 5, 1000),
    lambda data: find_timestamp(data, 5),
    decode_offset_index,
    decode_tail_entry,
    decode_tail_entries,
]


def must_only_refuse(data: bytes) -> None:
    for read in READERS:
        try:
            read(data)
        except FormatError:
            pass


@given(data=st.binary(max_size=200))
@settings(max_examples=examples(300))
def test_no_bytes_raise_anything_but_format_error(data: bytes) -> None:
    must_only_refuse(data)
    must_only_refuse(data[:16] + b"\x02" + data[16:])


CHANGES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)


@given(rows=ROWS, compression=COMPRESSIONS, changes=CHANGES, cut=st.integers(0, 300), fix_crc=st.booleans())
@settings(max_examples=examples(500))
def test_no_change_of_a_batch_raises_anything_but_format_error(
    rows: list, compression: CompressionType, changes: list[tuple[int, int]], cut: int, fix_crc: bool
) -> None:
    data = bytearray(batch_of(rows, compression))
    for position, value in changes:
        data[position % len(data)] = value
    if cut < len(data) and cut % 3 == 0:
        del data[len(data) - cut :]
    if fix_crc and len(data) > 61:
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
    must_only_refuse(bytes(data))


@given(payload=st.binary(max_size=80), count=st.integers(0, 12), last=st.integers(0, 20))
@settings(max_examples=examples(500))
def test_any_payload_under_a_right_crc_is_decoded_or_refused(payload: bytes, count: int, last: int) -> None:
    data = bytearray(encode_batch([Record(0, 0, None, None)])[:61]) + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, last)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    try:
        records = decode_batch(data)
    except FormatError:
        return
    assert len(records) == count
    assert all(0 <= record.offset <= last for record in records)


@given(data=st.binary(max_size=500), compression=COMPRESSIONS)
def test_compression_round_trips(data: bytes, compression: CompressionType) -> None:
    assert decompress(compression, compress(compression, data), limit=len(data)) == data


@given(data=st.binary(max_size=300), compression=COMPRESSIONS, whole=st.binary(max_size=300))
def test_any_bytes_decompress_within_the_limit_or_are_refused(
    data: bytes, compression: CompressionType, whole: bytes
) -> None:
    packed = compress(compression, whole)
    for candidate in (data, packed + data, packed[: len(data)]):
        try:
            assert len(decompress(compression, candidate, limit=1000)) <= 1000
        except FormatError:
            pass


@given(
    batches=st.lists(st.tuples(ROWS, st.integers(0, 3), st.integers(0, 1)), max_size=8),
    base=st.integers(0, 2**62),
    interval=st.integers(1, 3000),
    trailing=st.integers(0, 5),
)
@settings(max_examples=examples(60))
def test_an_index_is_what_its_segment_says(batches: list, base: int, interval: int, trailing: int) -> None:
    builder = SegmentBuilder(base, interval_bytes=interval)
    epoch = 0
    for rows, gap, raised in batches:
        epoch += raised
        builder.append(batch_of(rows, CompressionType.NONE), builder.next_offset + gap, epoch)
    segment = builder.build(builder.next_offset + trailing)
    log = b"".join(segment.parts)
    verify_segment(log, segment.index)
    assert decode_offset_index(encode_offset_index(segment.index)) == segment.index
    records = list(decode_batches(log, allow_truncated=False))
    for record in records:
        start, end = segment.index.locate_offset(record.offset)
        assert record in list(decode_batches(log[start:end], allow_truncated=False))
