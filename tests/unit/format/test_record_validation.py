"""A server's checks inside a batch that is well formed outside."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.errors import ErrorCode, FormatError
from odradek.format.batch_header import parse_header
from odradek.format.record_batch import decode_batch
from odradek.format.record_encoder import RecordBatchBuilder
from odradek.format.validation.batches import TimestampBounds, check_records, validate_batches
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.record import CompressionType

from tests.support.engine import batch
from tests.support.kafka.poison import garbage, rebuilt

GOOD = batch([b"a", None, b"c" * 300], keys=[b"k", b"", None])
BODY = GOOD[BATCH_HEADER_BYTES:]


def check(data: bytes, bounds: TimestampBounds | None = None, *, needs_keys: bool = False) -> int:
    """How many times others could run."""
    [(_, header)] = validate_batches(data, max_message_bytes=len(data))
    return len(list(check_records(data, header, bounds or TimestampBounds(), needs_keys=needs_keys)))


@pytest.mark.parametrize("compression", list(CompressionType))
def test_what_a_producer_writes_passes(compression: CompressionType) -> None:
    builder = RecordBatchBuilder(compression)
    for i in range(20_000):
        builder.append(1_700_000_000_000 + i, b"k" * (i % 200), b"v" * (i % 300), [("h", b"1"), ("g", None)])
    assert check(builder.build()) == 2


@pytest.mark.parametrize(
    "data",
    [
        *(garbage(compression=codec) for codec in CompressionType),
        rebuilt(GOOD, BODY[:-1]),
        rebuilt(GOOD, BODY + b"\x00"),
        rebuilt(GOOD, BODY, count=2),
        rebuilt(GOOD, BODY, count=4),
        rebuilt(GOOD, bytes([BODY[0] + 2]) + BODY[1:]),
        rebuilt(GOOD, BODY[:3] + b"\x02" + BODY[4:]),  # the first offset delta is 1
    ],
)
def test_a_batch_that_no_reader_could_decode_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError) as refused:
        check(data)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_an_lz4_frame_that_javas_clients_cannot_read_is_refused() -> None:
    linked = cramjam.lz4.Compressor(block_linked=True)
    linked.compress(bytes(BODY))
    independent = cramjam.lz4.Compressor(block_linked=False)
    independent.compress(bytes(BODY))

    check(rebuilt(GOOD, bytes(independent.finish()), compression=CompressionType.LZ4))
    with pytest.raises(FormatError, match="linked blocks") as refused:
        check(rebuilt(GOOD, bytes(linked.finish()), compression=CompressionType.LZ4))
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", list(CompressionType))
def test_a_header_that_claims_more_records_than_a_body_can_hold_is_refused_unread(
    compression: CompressionType,
) -> None:
    claims = rebuilt(GOOD, b"\x00" * 1_000, compression=compression, count=38_000_000)
    with pytest.raises(FormatError, match="38000000 records do not fit"):
        validate_batches(claims, max_message_bytes=10_000)


def test_records_that_break_a_rule_are_named() -> None:
    late = batch([b"0", b"1", b"2"], timestamp_ms=10)
    with pytest.raises(FormatError) as refused:
        check(late, TimestampBounds(0, 10))
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.value.record_errors] == [1, 2]
    with pytest.raises(FormatError) as refused:
        check(GOOD, needs_keys=True)
    assert [index for index, _ in refused.value.record_errors] == [2]


@given(position=st.integers(0, len(BODY) - 1), byte=st.integers(0, 255))
def test_what_passes_can_be_read(position: int, byte: int) -> None:
    data = rebuilt(GOOD, BODY[:position] + bytes([byte]) + BODY[position + 1 :])
    try:
        check(data)
    except FormatError:
        return
    assert [record.offset for record in decode_batch(data)] == list(range(parse_header(data).record_count))
