"""Both ways to the fields of records say the same, on good bytes and on damaged ones; the compiled one is
loaded when it pays."""

from __future__ import annotations

import random
import struct
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columnar.rows import Fields, RowDecoder, decode_plainly
from odradek.columnar.rows_numba import decode_compiled
from odradek.errors import FormatError
from odradek.format.record_batch import encode_batch, parse_header, patch_log_append_time
from odradek.format.record_decoder import batch_payload
from odradek.model.record import CompressionType, Record

from tests.support.examples import examples

BYTES = st.one_of(st.none(), st.binary(max_size=200))
TIMESTAMPS = st.one_of(st.integers(-(2**40), 2**41), st.integers(-(2**62), 2**62 - 1))
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=4).map(tuple)
ROWS = st.lists(st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=40)


@given(
    rows=ROWS,
    compression=st.sampled_from(CompressionType),
    log_append_time=st.one_of(st.none(), TIMESTAMPS),
    dropped=st.sets(st.integers(1, 39)),
    base=st.integers(0, 2**40),
)
@settings(max_examples=examples(200))
def test_both_ways_read_the_same(rows: list, compression, log_append_time, dropped: set[int], base: int) -> None:  # type: ignore[no-untyped-def]
    records = [Record(base + n, *row) for n, row in enumerate(rows) if n not in dropped]
    batch = encode_batch(records, compression_type=compression, base_offset=base, last_offset=base + len(rows) - 1)
    if log_append_time is not None:
        batch = patch_log_append_time(batch, log_append_time)
    header = parse_header(batch)
    payload = bytes(batch_payload(batch, 0, header, verify_crc=True))
    fast = decode_compiled(payload, header)
    assert list(map(list, fast)) == list(map(list, decode_plainly(payload, header)))
    times = [record.timestamp_ms if log_append_time is None else log_append_time for record in records]
    assert list(zip(*fast, strict=True)) == [
        (r.offset, at, r.key, r.value, r.headers) for r, at in zip(records, times, strict=True)
    ]


def _outcome(decode, payload: bytes, header) -> list[list] | str:  # type: ignore[no-untyped-def]
    try:
        return list(map(list, decode(payload, header)))
    except FormatError as error:
        return error.code.name


def test_damaged_payloads_are_read_alike_or_refused_alike() -> None:
    chance = random.Random(20_26)
    records = [
        Record(
            n, 1_000 - n * 37, b"key" if n % 3 else None, b"v" * (n % 90) if n % 4 else None, (("h", b"x"),) * (n % 3)
        )
        for n in range(40)
    ]
    good = encode_batch(records)
    refused = 0
    count = examples(10_000)
    for _ in range(count):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 2, 5])):
            data[chance.randrange(61, len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.2:
            del data[chance.randrange(61, len(data)) :]
            struct.pack_into(">i", data, 8, len(data) - 12)
        header = parse_header(bytes(data))
        payload = bytes(data[61:])
        outcome = _outcome(decode_compiled, payload, header)
        assert outcome == _outcome(decode_plainly, payload, header)
        refused += isinstance(outcome, str)
    assert count / 10 < refused < count


def test_the_loops_are_loaded_when_enough_has_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = encode_batch([Record(n, n, None, b"%d" % n) for n in range(100)])
    header = parse_header(batch)
    decoder = RowDecoder(load_after_rows=250)
    loads = []
    monkeypatch.setattr(decoder, "load", lambda: loads.append(1))
    for _ in range(2):
        list(decoder.parts(batch, 0, header))
    assert not loads
    for _ in range(3):
        [plain] = decoder.parts(batch, 0, header)
    for thread in threading.enumerate():
        if thread.name == "odradek-row-decoder":
            thread.join(10)
    assert loads == [1]
    decoder.load = RowDecoder.load.__get__(decoder)  # type: ignore[method-assign]
    decoder.load()
    assert list(decoder.parts(batch, 0, header)) == [Fields(*map(list, plain))]
