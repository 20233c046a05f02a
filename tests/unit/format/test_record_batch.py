"""Batches that a produce server refuses, with the code; those that a reader refuses; edges that must round-trip."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

import pytest
from odradek.errors import ErrorCode, FormatError
from odradek.format.crc import crc32c
from odradek.format.record_batch import (
    RecordBatchBuilder,
    decode_batch,
    decode_batches,
    encode_batch,
    iter_headers,
    parse_header,
    patch_log_append_time,
    patch_offsets,
    validate_batches,
)
from odradek.model.record import CompressionType, Record, TimestampType

from tests.support.examples import some

RECORDS = [Record(i, 1_000 + i, b"key %d" % i, b"value %d" % i, (("h", b"x"),)) for i in range(3)]


def batch(**changes: int) -> bytearray:
    """A whole batch with header fields replaced and its CRC made right."""
    data = bytearray(encode_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0))
    places = {
        "base_offset": (0, ">q"),
        "batch_length": (8, ">i"),
        "magic": (16, ">b"),
        "attributes": (21, ">h"),
        "last_offset_delta": (23, ">i"),
        "base_timestamp": (27, ">q"),
        "max_timestamp": (35, ">q"),
        "producer_id": (43, ">q"),
        "producer_epoch": (51, ">h"),
        "base_sequence": (53, ">i"),
        "record_count": (57, ">i"),
    }
    for name, value in changes.items():
        position, layout = places[name]
        struct.pack_into(layout, data, position, value)
    return with_crc(data)


def with_crc(data: bytearray) -> bytearray:
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return data


def with_payload(payload: bytes, count: int, last_offset_delta: int | None = None) -> bytes:
    """A batch around any payload."""
    data = bytearray(encode_batch(RECORDS)[:61]) + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, count - 1 if last_offset_delta is None else last_offset_delta)
    struct.pack_into(">i", data, 57, count)
    return bytes(with_crc(data))


def code_of(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(FormatError) as caught:
        action()
    return caught.value.code


# --- what a produce server refuses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"\x00" * 10, ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch() + b"\x00", ErrorCode.CORRUPT_MESSAGE),
        (batch() + batch()[:30], ErrorCode.CORRUPT_MESSAGE),
        (batch(batch_length=48), ErrorCode.CORRUPT_MESSAGE),
        (batch(batch_length=-1), ErrorCode.CORRUPT_MESSAGE),
        (batch(batch_length=2**31 - 1), ErrorCode.CORRUPT_MESSAGE),
        (batch(magic=0), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (batch(magic=1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (batch(magic=3), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (batch(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(attributes=0x08), ErrorCode.INVALID_TIMESTAMP),
        (batch(attributes=0x20), ErrorCode.INVALID_RECORD),
        (batch(attributes=0x40), ErrorCode.INVALID_RECORD),
        (batch(record_count=0), ErrorCode.INVALID_RECORD),
        (batch(record_count=-1), ErrorCode.INVALID_RECORD),
        (batch(record_count=2), ErrorCode.INVALID_RECORD),
        (batch(last_offset_delta=3), ErrorCode.INVALID_RECORD),
        (batch(last_offset_delta=-1, record_count=0), ErrorCode.INVALID_RECORD),
        (batch(last_offset_delta=999, record_count=1000), ErrorCode.INVALID_RECORD),
        (batch(attributes=4, last_offset_delta=2**31 - 2, record_count=2**31 - 1), ErrorCode.INVALID_RECORD),
        (batch(producer_id=-2), ErrorCode.INVALID_RECORD),
        (batch(producer_epoch=-1), ErrorCode.INVALID_RECORD),
        (batch(base_sequence=-1), ErrorCode.INVALID_RECORD),
        (batch(producer_id=-1, attributes=0x10), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_bad_batch_is_refused_with_kafkas_code(data: bytes, code: ErrorCode) -> None:
    assert code_of(lambda: validate_batches(bytes(data), max_message_bytes=1 << 20)) is code


def test_a_flipped_bit_anywhere_under_the_crc_is_corrupt() -> None:
    good = batch()
    for position in range(17, len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x10
        assert code_of(lambda bad=bad: validate_batches(bad, max_message_bytes=1 << 20)) is ErrorCode.CORRUPT_MESSAGE


def test_the_size_limit_counts_the_whole_batch_and_is_inclusive() -> None:
    data = batch()
    assert validate_batches(data, max_message_bytes=len(data))
    assert code_of(lambda: validate_batches(data, max_message_bytes=len(data) - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def test_several_batches_are_found_with_their_positions() -> None:
    one = bytes(batch())
    validated = validate_batches(memoryview(one * 3), max_message_bytes=len(one))
    assert [position for position, _ in validated] == [0, len(one), 2 * len(one)]
    assert all(header.record_count == 3 and header.producer_id == 7 for _, header in validated)


def test_epoch_and_sequence_mean_nothing_without_a_producer_id() -> None:
    assert validate_batches(batch(producer_id=-1, producer_epoch=0, base_sequence=0), max_message_bytes=1 << 20)


def test_a_compacted_batch_is_read_but_not_taken_from_a_producer() -> None:
    gaps = [Record(10, 5, b"a", b"1"), Record(14, 6, b"b", None)]
    data = encode_batch(gaps, base_offset=8, last_offset=20)
    assert decode_batch(data) == gaps
    assert parse_header(data).last_offset == 20
    assert code_of(lambda: validate_batches(data, max_message_bytes=1 << 20)) is ErrorCode.INVALID_RECORD


# --- what a reader refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", 1),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2),  # one record, two announced
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 1),  # two records, one announced
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", 1),  # a byte left over
        (b"\x0a\x00\x00\x00\x01\x01\x00", 1),  # a length that is too small
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1),  # a length beyond the batch
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1),  # a length beyond the headers
        (b"\x0b\x00\x00\x00\x01\x01\x00", 1),  # a negative length
        (b"\x0c\x00\x00\x00\x03\x01\x00", 1),  # key length -2
        (b"\x0c\x00\x00\x00\x01\x03\x00", 1),  # value length -2
        (b"\x0c\x00\x00\x00\x20\x01\x00", 1),  # a key beyond its record
        (b"\x0c\x00\x00\x00\x01\x20\x00", 1),  # a value beyond its record
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1),  # header count -1
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),  # a null header key
        (b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01", 1),  # a header key that is no UTF-8
        (b"\x12\x00\x00\x00\x01\x01\x02\x02h\x20", 1),  # a header value beyond its record
        (b"\x0c\x00\x00\x02\x01\x01\x00", 1),  # an offset delta beyond the last
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 2),  # an offset delta that does not rise
        (b"\xff\xff\xff\xff\xff\x01\x00\x00\x00\x01\x01\x00", 1),  # a varint of six bytes
        (b"\x80\x80\x80\x80\x10\x00\x00\x00\x01\x01\x00", 1),  # a varint of 33 bits
    ],
)
def test_a_malformed_record_is_refused(payload: bytes, count: int) -> None:
    assert code_of(lambda: decode_batch(with_payload(payload, count))) is ErrorCode.INVALID_RECORD


def test_an_overlong_varint_is_read_as_kafka_reads_it() -> None:
    assert decode_batch(with_payload(b"\x8e\x00\x00\x80\x00\x00\x01\x01\x00", 1)) == [Record(0, 1000, None, None)]


def test_a_crc_is_checked_unless_told_otherwise() -> None:
    data = bytearray(encode_batch(RECORDS))
    data[-1] ^= 0x01  # the value of the last header
    assert code_of(lambda: decode_batch(data)) is ErrorCode.CORRUPT_MESSAGE
    assert decode_batch(data, verify_crc=False)[-1].headers == (("h", b"y"),)


def test_a_fetch_may_cut_the_last_batch_off() -> None:
    one, two = encode_batch(RECORDS), encode_batch([Record(3, 1, None, b"x")])
    for cut in range(len(two)):
        data = one + two[:cut]
        assert list(decode_batches(data)) == RECORDS
        if cut:
            assert (
                code_of(lambda data=data: list(decode_batches(data, allow_truncated=False)))
                is ErrorCode.CORRUPT_MESSAGE
            )
    assert len(list(decode_batches(one + two, allow_truncated=False))) == 4


def test_control_batches_hold_no_records_of_a_user() -> None:
    assert list(decode_batches(batch(attributes=0x20) + encode_batch(RECORDS))) == RECORDS


def test_an_offset_beyond_the_last_possible_is_refused() -> None:
    assert code_of(lambda: decode_batch(batch(base_offset=2**63 - 3))) is ErrorCode.INVALID_RECORD
    assert [record.offset for record in decode_batch(batch(base_offset=2**63 - 4))][-1] == 2**63 - 2


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    assert code_of(lambda: decode_batch(batch(base_timestamp=2**63 - 1))) is ErrorCode.INVALID_RECORD


# --- patches ------------------------------------------------------------------------------------------------------


def test_offsets_are_patched_without_touching_the_payload_or_the_crc() -> None:
    data = bytes(batch())
    prefix, payload = patch_offsets(data, 2**62, 9)
    assert isinstance(payload, memoryview)
    assert payload.obj is data, "the payload must not be copied"
    patched = bytes(prefix) + bytes(payload)
    header = parse_header(patched)
    assert (header.base_offset, header.partition_leader_epoch) == (2**62, 9)
    assert [record.offset - 2**62 for record in decode_batch(patched)] == [0, 1, 2]


def test_log_append_time_rules_over_the_records_timestamps() -> None:
    patched = patch_log_append_time(bytes(batch()), 5_000)
    assert parse_header(patched).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in decode_batch(patched)] == [5_000] * 3


# --- edges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression_type", CompressionType)
@pytest.mark.parametrize(
    "records",
    [
        [Record(0, 0, None, None)],
        [Record(0, 0, b"", b"")],
        [Record(0, -1, b"k", None), Record(1, -86_400_000 * 365 * 50, None, b"v")],
        [Record(0, 1, b"k", b"v", tuple((f"h{i}", None if i % 3 else b"x" * i) for i in range(1000)))],
        [Record(0, 1, b"k", bytes(range(256)) * 4096)],
        [Record(2**63 - 2, 1, b"k", b"v")],
        [Record(2**62 + i, 2**62 - i, b"k", b"v") for i in range(10)],
        [Record(0, -(2**63), None, b"first"), Record(1, -1, None, b"v")],
    ],
    ids=["nulls", "empty", "before 1970", "headers", "1 MB", "last offset", "large", "smallest timestamp"],
)
def test_edges_round_trip_byte_for_byte(records: list[Record], compression_type: CompressionType) -> None:
    data = encode_batch(records, compression_type=compression_type)
    decoded = decode_batch(data)
    assert decoded == records
    assert encode_batch(decoded, compression_type=compression_type) == data


@pytest.mark.parametrize("compression_type", some(CompressionType))
def test_a_hundred_thousand_records_in_one_batch(compression_type: CompressionType) -> None:
    builder = RecordBatchBuilder(compression_type)
    for number in range(100_000):
        assert builder.append(number * 3, b"%d" % number, b"value") == number
    data = builder.build()
    ((_, header),) = validate_batches(data, max_message_bytes=len(data))
    assert header.record_count == builder.record_count == 100_000
    assert header.max_timestamp_ms == 299_997
    records = decode_batch(data)
    assert records[99_999] == Record(99_999, 299_997, b"99999", b"value")
    assert encode_batch(records, compression_type=compression_type) == data


# --- the builder --------------------------------------------------------------------------------------------------


def test_the_estimated_size_is_exact_without_compression() -> None:
    builder = RecordBatchBuilder()
    for number in range(200):
        builder.append(number, b"k" * number, b"v" * number * 30)
        assert builder.estimated_size == len(builder.build())


def test_a_full_batch_refuses_and_stays_as_it_is() -> None:
    builder = RecordBatchBuilder(batch_bytes_max=200)
    assert builder.append(1, b"k", b"x" * 500) == 0, "a first record may be larger"
    before = builder.build()
    assert builder.append(2, b"k", b"") == -1
    assert builder.build() == before
    small = RecordBatchBuilder(batch_bytes_max=200)
    while small.append(1, b"k", b"v") >= 0:
        pass
    assert 180 < len(small.build()) <= 200


def test_a_refused_record_leaves_the_batch_as_it_is() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, b"k", b"v")
    before = builder.build()
    with pytest.raises(TypeError):
        builder.append(1, "text", b"v")  # type: ignore[arg-type]
    with pytest.raises(FormatError):
        builder.append(2**63, b"k", b"v")
    with pytest.raises(FormatError):
        builder.append(1, b"k", b"v", [("h", b"")] * 10_001)
    assert builder.build() == before
    assert builder.append(1, b"k", b"v") == 1


def test_a_first_record_that_is_refused_leaves_no_base_timestamp() -> None:
    builder = RecordBatchBuilder()
    with pytest.raises(TypeError):
        builder.append(999, "text", b"v")  # type: ignore[arg-type]
    builder.append(5, b"k", b"v")
    assert parse_header(builder.build()).base_timestamp_ms == 5
    assert decode_batch(builder.build()) == [Record(0, 5, b"k", b"v")]


def test_the_same_batch_is_built_again_with_other_producer_fields() -> None:
    builder = RecordBatchBuilder(CompressionType.LZ4)
    builder.append(1, b"k", b"v")
    first = builder.build(producer_id=1, producer_epoch=0, base_sequence=2**31 - 1)
    again = builder.build(producer_id=1, producer_epoch=1, base_sequence=0, is_transactional=True)
    assert (parse_header(first).base_sequence, parse_header(again).base_sequence) == (2**31 - 1, 0)
    assert parse_header(again).is_transactional
    assert decode_batch(first) == decode_batch(again)
    assert builder.build(producer_id=1, producer_epoch=0, base_sequence=2**31 - 1) == first


def test_fields_out_of_range_are_a_clear_error() -> None:
    builder = RecordBatchBuilder()
    assert code_of(builder.build) is ErrorCode.INVALID_RECORD
    builder.append(1, b"k", b"v")
    assert code_of(lambda: builder.build(producer_id=2**63)) is ErrorCode.INVALID_RECORD
    assert code_of(lambda: encode_batch([])) is ErrorCode.INVALID_RECORD
    assert (
        code_of(lambda: encode_batch([Record(5, 1, None, None), Record(5, 1, None, None)])) is ErrorCode.INVALID_RECORD
    )
    assert code_of(lambda: encode_batch([Record(5, 1, None, None)], last_offset=4)) is ErrorCode.INVALID_RECORD


def test_headers_are_walked_without_copies_and_reading_needs_little_memory() -> None:
    data = bytes(batch()) * 4
    assert [position for position, _ in iter_headers(memoryview(data))] == [i * len(data) // 4 for i in range(4)]
    announced = with_payload(b"\x00" * 7, 30_000_000)
    assert code_of(lambda: decode_batch(announced)) is ErrorCode.INVALID_RECORD
    assert sys.getsizeof(decode_batch(data)) < 1000
