"""The two engines of columnar agree on everything, and 30,000 damaged batches harm neither."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columnar.decode import decode_to_arrow
from odradek.columnar.encode import encode_from_arrow
from odradek.columnar.names import COLUMNS
from odradek.errors import FormatError
from odradek.format.crc import crc32c
from odradek.format.record_batch import encode_batch, patch_log_append_time
from odradek.model.record import CompressionType, Record

from tests.support.counted import at_least
from tests.support.examples import examples

BYTES = st.one_of(st.none(), st.binary(max_size=200))
TIMESTAMPS = st.one_of(st.integers(-(2**40), 2**41), st.integers(-(2**62), 2**62 - 1))
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=4).map(tuple)
ROWS = st.lists(st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=20)
COMPRESSIONS = st.sampled_from(CompressionType)
SOME_COLUMNS = st.lists(st.sampled_from(COLUMNS), unique=True, max_size=8)
BOUND = st.one_of(st.none(), st.integers(0, 120))
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@given(
    batches=st.lists(
        st.tuples(ROWS, COMPRESSIONS, st.one_of(st.none(), TIMESTAMPS), st.sets(st.integers(0, 19))), max_size=4
    ),
    columns=SOME_COLUMNS,
    offsets=st.tuples(BOUND, BOUND),
    times=st.tuples(st.one_of(st.none(), TIMESTAMPS), st.one_of(st.none(), TIMESTAMPS)),
)
@settings(max_examples=examples(200))
def test_both_engines_read_the_same(batches: list, columns: list[str], offsets: tuple, times: tuple) -> None:
    data, base = b"", 0
    expected = []
    for rows, compression, log_append_time, dropped in batches:
        records = [Record(base + n, *row) for n, row in enumerate(rows) if n not in dropped or n == 0]
        batch = encode_batch(records, compression_type=compression, base_offset=base, last_offset=base + len(rows) - 1)
        if log_append_time is not None:
            batch = patch_log_append_time(batch, log_append_time)
            records = [Record(r.offset, log_append_time, r.key, r.value, r.headers) for r in records]
        data += batch
        base += len(rows)
        expected += records
    options = {
        "start_offset": offsets[0],
        "end_offset": offsets[1],
        "min_timestamp_ms": times[0],
        "max_timestamp_ms": times[1],
    }
    fast, plain = (
        decode_to_arrow(data, topic="t", partition=1, columns=columns, engine=engine, **options)
        for engine in ("numba", "python")
    )
    fast.validate(full=True)
    assert fast.schema == plain.schema
    assert fast.equals(plain)
    kept = [
        record
        for record in expected
        if (offsets[0] is None or record.offset >= offsets[0])
        and (offsets[1] is None or record.offset < offsets[1])
        and (times[0] is None or record.timestamp_ms >= times[0])
        and (times[1] is None or record.timestamp_ms <= times[1])
    ]
    if "offset" in columns:
        assert fast.column("offset").to_pylist() == [record.offset for record in kept]
    if "value" in columns:
        assert fast.column("value").to_pylist() == [record.value for record in kept]
    if "headers" in columns:
        pairs = [[(pair["key"], pair["value"]) for pair in row] for row in fast.column("headers").to_pylist()]
        assert pairs == [list(record.headers) for record in kept]


@given(rows=ROWS, compression=COMPRESSIONS, max_batch_bytes=st.integers(0, 3_000), first=st.integers(0, 19))
@settings(max_examples=examples(200))
def test_both_engines_write_the_same(
    rows: list, compression: CompressionType, max_batch_bytes: int, first: int
) -> None:
    timestamps, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
    table = pa.table(
        {
            "timestamp": pa.array(timestamps, pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array([list(row) for row in headers], HEADERS_TYPE),
        }
    ).slice(first)
    fast, plain = (
        encode_from_arrow(
            table,
            default_timestamp_ms=0,
            compression_type=compression,
            max_batch_bytes=max_batch_bytes,
            engine=engine,
        )
        for engine in ("numba", "python")
    )
    assert fast == plain
    decoded = [
        row
        for batch in fast
        for row in decode_to_arrow(batch, topic="t", partition=0, columns=["key", "value", "headers"]).to_pylist()
    ]
    assert decoded == table.select(["key", "value", "headers"]).to_pylist()


def _damaged(count: int) -> list[bytes]:
    chance = random.Random(20_26)
    records = [
        Record(
            n, 1_000 - n * 37, b"key" if n % 3 else None, b"v" * (n % 90) if n % 4 else None, (("h", b"x"),) * (n % 3)
        )
        for n in range(40)
    ]
    good = encode_batch(records)
    result = []
    for _ in range(count):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 2, 5])):
            data[chance.randrange(21, len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.2:
            del data[chance.randrange(61, len(data)) :]
            struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
        result.append(bytes(data))
    return result


@pytest.mark.timeout(600)
def test_damaged_batches_are_read_or_refused() -> None:
    outcomes = {"read": 0, "refused": 0}
    for data in _damaged(examples(30_000)):
        try:
            decode_to_arrow(
                data, topic="t", partition=0, columns=["key", "value", "headers", "offset", "timestamp"], engine="numba"
            )
            outcomes["read"] += 1
        except FormatError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 1_000, f"the damage must hit and miss: {outcomes}"


def test_both_engines_refuse_the_same_damaged_batches() -> None:
    for data in at_least(100, _damaged(examples(1_500))):
        results = []
        for engine in ("numba", "python"):
            try:
                results.append(
                    decode_to_arrow(data, topic="t", partition=0, columns=COLUMNS, engine=engine).to_pylist()
                )
            except FormatError as error:
                results.append(error.code)
        assert results[0] == results[1]
