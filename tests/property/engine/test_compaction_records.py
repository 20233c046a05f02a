"""The walk over a payload against the decoder: the same records, and no other exception on any bytes."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.compaction.records import walk_records
from odradek.errors import FormatError
from odradek.format.record_batch import batch_payload, decode_rows, encode_batch, parse_header
from odradek.model.record import Record

from tests.support.examples import examples

LENGTHS = st.sampled_from([0, 1, 20, 62, 63, 64, 65, 200, 8_190, 8_192, 9_000])
RECORD = st.tuples(
    st.sampled_from([1, 1, 1, 60, 70, 9_000]),  # offsets from the one before
    st.integers(-(2**40), 2**40) | st.sampled_from([0, 1, 63, 64, -64, -65, 8_191, 8_192]),
    st.none() | LENGTHS,
    st.none() | LENGTHS,
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2),
)
QUICK = settings(max_examples=examples(150))


def batch_of(shapes: list[tuple[int, int, int | None, int | None, list[tuple[str, bytes | None]]]]) -> bytes:
    offset, records = 99, []
    for step, timestamp_ms, key, value, headers in shapes:
        offset += step
        lengths = (None if text is None else bytes(text) for text in (key, value))
        records.append(Record(offset, timestamp_ms, *lengths, tuple(headers)))
    return encode_batch(records, base_offset=100)


@QUICK
@given(st.lists(RECORD, min_size=1, max_size=8))
def test_the_walk_sees_what_the_decoder_sees(shapes: list[tuple]) -> None:  # type: ignore[type-arg]
    batch = batch_of(shapes)
    header = parse_header(batch)
    payload = bytes(batch_payload(batch, 0, header, verify_crc=True))
    walked = walk_records(payload, header)
    rows = decode_rows(batch, 0, header)
    walked_rows = [(offset, timestamp, key, has_value) for _, _, _, offset, timestamp, key, has_value in walked]
    assert walked_rows == [(row[0], row[1], row[2], row[3] is not None) for row in rows]
    assert b"".join(payload[start:end] for start, end, *_ in walked) == payload
    assert all(start < key_start < end for start, end, key_start, *_ in walked)


@QUICK
@given(st.lists(RECORD, min_size=1, max_size=3), st.data())
def test_any_bytes_are_records_or_a_format_error(shapes: list[tuple], data: st.DataObject) -> None:  # type: ignore[type-arg]
    batch = batch_of(shapes)
    header = parse_header(batch)
    payload = bytearray(batch_payload(batch, 0, header, verify_crc=True))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, min(len(payload), 40) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(payload[: data.draw(st.integers(0, len(payload)))]) if data.draw(st.booleans()) else bytes(payload)
    with contextlib.suppress(FormatError):
        for start, end, *_ in walk_records(cut, header):
            assert 0 <= start < end <= len(cut)
