"""Batches to a Parquet file and back: every field of every batch and record, and what damage does."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columnar.table_file import encode_table_segment
from odradek.columnar.typed.typed_values import TypedValues
from odradek.errors import FormatError
from odradek.format.batch_header import iter_headers, patch_log_append_time
from odradek.format.offset_index import decode_offset_index, encode_offset_index
from odradek.format.parquet.segment import rebuild, verify_columnar
from odradek.format.record_decoder import decode_rows
from odradek.format.record_encoder import RecordBatchBuilder
from odradek.format.segment import Segment, SegmentBuilder
from odradek.model.kinds import Column, columns_of
from odradek.model.record import CompressionType

from tests.support.examples import examples

data = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"a", b"b"]))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3)
times = st.one_of(st.integers(1_699_999_999_000, 1_700_000_000_000), st.integers(-(10**15), 10**15))
records = st.lists(st.tuples(times, data, data, headers), min_size=1, max_size=20)
batches = st.lists(
    st.tuples(records, st.sampled_from(list(CompressionType)), st.integers(0, 5), st.booleans(), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


def made(given_batches: list[tuple[list[tuple], CompressionType, int, bool, int]]) -> Segment:
    """A segment of batches, with gaps between them, leader epochs, producers, and LogAppendTime for some."""
    builder = SegmentBuilder(0)
    offset = epoch = 0
    for number, (rows, compression, gap, is_fixed, later) in enumerate(given_batches):
        batch = RecordBatchBuilder(compression)
        for timestamp, key, value, own in rows:
            batch.append(timestamp, key, value, tuple(own))
        packed = batch.build(producer_id=number * 7, producer_epoch=number, base_sequence=number * 100)
        offset, epoch = offset + gap, epoch + later
        builder.append(patch_log_append_time(packed, 1_700_000_000_123) if is_fixed else packed, offset, epoch)
        offset += len(rows)
    return builder.build(offset + 3)


def typed(text: str) -> TypedValues:
    return TypedValues([Column(name, data_type, name) for name, data_type in columns_of(text)], is_prefixed=False)


def facts(log: bytes) -> list[object]:
    rows: list[object] = []
    for position, header in iter_headers(log):
        rows.append(
            (
                *(header.base_offset, header.partition_leader_epoch, header.attributes, header.last_offset_delta),
                *(header.base_timestamp_ms, header.max_timestamp_ms, header.producer_id, header.producer_epoch),
                *(header.base_sequence, header.record_count),
            )
        )
        rows += decode_rows(log, position, header)
    return rows


@settings(deadline=None, max_examples=examples(40))
@given(batches, st.sampled_from([1, 300, 10_000]))
def test_batches_come_back_with_every_field(given_batches: list, group_bytes: int) -> None:
    segment = made(given_batches)
    columnar, misfits = encode_table_segment(segment, TypedValues(()), group_bytes)
    file = bytes(columnar.parts[0])
    index = decode_offset_index(encode_offset_index(columnar.index))
    assert index == columnar.index
    log = b"".join(rebuild(file[g.position : g.position + g.size_bytes], g) for g in index.groups)
    assert facts(log) == facts(b"".join(segment.parts))
    assert (len(log), misfits) == (index.size_bytes, 0)
    verify_columnar(file, index)
    table = pq.read_table(pa.BufferReader(file))
    expected = [row for row in facts(log) if len(row) == 5]  # type: ignore[arg-type]
    assert table.column("offset").to_pylist() == [row[0] for row in expected]  # type: ignore[index]
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [1000 * row[1] for row in expected]  # type: ignore[index]
    assert table.column("key").to_pylist() == [row[2] for row in expected]  # type: ignore[index]
    assert table.column("value").to_pylist() == [row[3] for row in expected]  # type: ignore[index]


def test_large_values_tombstones_and_many_equal_keys() -> None:
    rows = [(1_700_000_000_000 + i, b"k%d" % (i % 3), None if i % 5 == 0 else b"v" * (i % 7), []) for i in range(5_000)]
    rows[77] = (-5, b"", bytes(range(256)) * 4096, [("h", None), ("h", b"")])
    segment = made([(rows[i : i + 500], CompressionType.ZSTD, 0, False, 0) for i in range(0, 5_000, 500)])
    columnar, _ = encode_table_segment(segment, typed("n bigint"), 20_000)
    verify_columnar(bytes(columnar.parts[0]), columnar.index)
    log = b"".join(rebuild(columnar.parts[0][g.position : g.position + g.size_bytes], g) for g in columnar.index.groups)
    assert facts(log) == facts(b"".join(segment.parts))


def test_typed_columns_are_beside_the_bytes_and_misfits_are_counted() -> None:
    values = [b'{"n": 1, "s": "x"}', b"text", None, b'{"n": "no"}', b'{"s": "y", "other": {}}']
    segment = made([([(0, None, value, []) for value in values], CompressionType.NONE, 0, False, 0)])
    columnar, misfits = encode_table_segment(segment, typed("n bigint, s string"), 1)
    table = pq.read_table(pa.BufferReader(columnar.parts[0]))
    assert table.select(["n", "s"]).to_pylist() == [
        {"n": 1, "s": "x"},
        {"n": None, "s": None},
        {"n": None, "s": None},
        {"n": None, "s": None},
        {"n": None, "s": "y"},
    ]
    assert misfits == 2


@settings(deadline=None, max_examples=examples(25))
@given(batches, st.data())
def test_a_changed_byte_is_noticed(given_batches: list, chosen: st.DataObject) -> None:
    columnar, _ = encode_table_segment(made(given_batches), TypedValues(()), 300)
    file = bytearray(columnar.parts[0])
    group = columnar.index.groups[-1]
    at = chosen.draw(st.integers(group.position, group.position + group.size_bytes - 1))
    before = rebuild(file[group.position : group.position + group.size_bytes], group)
    file[at] ^= 1 << chosen.draw(st.integers(0, 7))
    with pytest.raises(FormatError):
        verify_columnar(file, columnar.index)
    try:
        again = rebuild(file[group.position : group.position + group.size_bytes], group)
    except FormatError:
        return
    assert again == before  # a bit of a page header that says nothing here


def test_what_a_file_cannot_say_is_refused() -> None:
    with pytest.raises(FormatError, match="no records"):
        encode_table_segment(SegmentBuilder(0).build(5), TypedValues(()), 1)
    late = made([([(2**62, b"", b"", [])], CompressionType.NONE, 0, False, 0)])
    with pytest.raises(FormatError, match="cannot be made again"):
        encode_table_segment(late, TypedValues(()), 1)
