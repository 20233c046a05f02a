"""Segments and their index: every lookup against a plain walk over the records."""

from __future__ import annotations

import dataclasses
import random

import pytest
from odradek.errors import FormatError
from odradek.format.offset_index import OffsetIndex, decode_offset_index, encode_offset_index
from odradek.format.record_batch import decode_batches, encode_batch
from odradek.format.segment import (
    Segment,
    SegmentBuilder,
    find_timestamp,
    index_segment,
    select_batches,
    verify_segment,
)
from odradek.model.record import Record

BASE = 1_000


def make_segment(seed: int = 1, batches: int = 60, interval_bytes: int = 400) -> tuple[Segment, bytes, list[Record]]:
    """A segment with jumping timestamps, several epochs, and gaps in and between batches, as compaction leaves them."""
    chance = random.Random(seed)
    builder = SegmentBuilder(BASE, interval_bytes=interval_bytes)
    offset, records = BASE + 3, []
    for number in range(batches):
        offset += chance.choice([0, 0, 0, 5])
        batch_records = []
        base = offset
        for _ in range(chance.randint(1, 6)):
            batch_records.append(
                Record(offset, 10_000 + number * 50 + chance.randint(-300, 300), b"key", b"v" * chance.randint(0, 90))
            )
            offset += chance.choice([1, 1, 1, 3])
        builder.append(encode_batch(batch_records, base_offset=base, last_offset=offset - 1), base, number // 25)
        records += batch_records
    segment = builder.build(offset + 4)
    return segment, b"".join(segment.parts), records


SEGMENT, LOG, RECORDS = make_segment()
INDEX = SEGMENT.index


def test_a_segment_is_its_batches_one_after_the_other() -> None:
    assert list(decode_batches(LOG, allow_truncated=False)) == RECORDS
    assert (INDEX.base_offset, INDEX.end_offset) == (BASE, INDEX.end_offset)
    assert INDEX.end_offset > RECORDS[-1].offset
    assert (INDEX.size_bytes, INDEX.record_count, INDEX.batch_count) == (len(LOG), len(RECORDS), 60)
    assert INDEX.max_timestamp_ms == max(record.timestamp_ms for record in RECORDS)
    assert [epoch for epoch, _ in INDEX.leader_epochs] == [0, 1, 2]
    assert len(INDEX.offsets) > 5, "an index of one stretch shows nothing"
    verify_segment(LOG, INDEX)


def test_an_index_is_made_again_from_the_bytes_alone() -> None:
    again = index_segment(LOG, base_offset=BASE, end_offset=INDEX.end_offset, interval_bytes=400)
    assert again == INDEX
    assert decode_offset_index(encode_offset_index(INDEX)) == INDEX


def test_every_offset_is_found_in_its_stretch_or_at_the_beginning_of_the_next() -> None:
    for offset in range(BASE - 2, INDEX.end_offset + 2):
        expected = next((record for record in RECORDS if record.offset >= offset), None)
        start, end = INDEX.locate_offset(offset)
        batches, _ = select_batches(LOG[start:end], offset, 1)
        if not batches and start < len(LOG):  # a gap: the next stretch begins with it
            batches, _ = select_batches(LOG[end:], offset, 1)
        record_found = next((record for record in decode_batches(batches) if record.offset >= offset), None)
        following = list(decode_batches(batches))
        if expected is None:
            assert record_found is None
        elif record_found is not None:
            assert record_found == expected
        else:  # the batch spans the offset, and all its records lie before it
            assert following
            assert following[-1].offset < offset


def test_find_timestamp_begins_at_an_offset() -> None:
    last = RECORDS[-1]
    assert find_timestamp(LOG, 0, start_offset=last.offset) == (last.offset, last.timestamp_ms)
    assert find_timestamp(LOG, 0, start_offset=last.offset + 1) is None


def test_selected_batches_are_a_fetchs_answer() -> None:
    everything, after = select_batches(LOG, 0, 10**9)
    assert bytes(everything) == LOG
    assert after == RECORDS[-1].offset + 1 or after <= INDEX.end_offset
    cut, _ = select_batches(LOG[:-1], 0, 10**9)
    assert LOG.startswith(bytes(cut))
    assert 0 < len(LOG) - len(cut) < 1_000
    for record in RECORDS[::5]:
        batches, after = select_batches(LOG, record.offset, 500)
        records = list(decode_batches(batches, allow_truncated=False))
        assert record in records
        assert records[0].offset <= record.offset < after
    assert select_batches(LOG, INDEX.end_offset, 10**9) == (b"", INDEX.end_offset)


def test_an_empty_segment_says_what_it_spans() -> None:
    segment = SegmentBuilder(5).build(50)
    assert segment.parts == ()
    index = decode_offset_index(encode_offset_index(segment.index))
    assert (index.base_offset, index.end_offset, index.size_bytes, index.offsets) == (5, 50, 0, ())
    assert index.locate_offset(7) == (0, 0)
    assert index.stretches() == []
    verify_segment(b"", index)


def test_batches_must_follow_each_other() -> None:
    batch = encode_batch([Record(0, 1, b"k", b"v"), Record(1, 1, b"k", b"v")])
    builder = SegmentBuilder(10)
    builder.append(batch, 10, 2)
    for data, offset, epoch in [(batch, 11, 2), (batch, 12, 1), (batch + b"x", 12, 2), (batch[:-1], 12, 2)]:
        with pytest.raises(FormatError):
            builder.append(data, offset, epoch)
    with pytest.raises(FormatError):
        builder.build(11)
    assert builder.build().index.end_offset == builder.next_offset == 12


@pytest.mark.parametrize("position", range(0, len(LOG), 37))
def test_a_damaged_segment_is_found(position: int) -> None:
    bad = bytearray(LOG)
    bad[position] ^= 0x01
    with pytest.raises(FormatError):
        verify_segment(bad, INDEX)


@pytest.mark.parametrize(
    "change",
    [
        {"record_count": 1},
        {"max_timestamp_ms": INDEX.max_timestamp_ms + 1},
        {"leader_epochs": ((0, BASE + 3),)},
        {"offsets": (INDEX.offsets[0], INDEX.offsets[1] + 1, *INDEX.offsets[2:])},
        {"positions": (0, INDEX.positions[1] + 1, *INDEX.positions[2:])},
        {"max_timestamps_ms": (INDEX.max_timestamps_ms[0] - 1, *INDEX.max_timestamps_ms[1:])},
        {"segment_crc": INDEX.segment_crc ^ 1},
        {"size_bytes": INDEX.size_bytes + 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_index_that_describes_another_segment_is_found(change: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        verify_segment(LOG, dataclasses.replace(INDEX, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"end_offset": BASE - 1},
        {"base_offset": -1},
        {"offsets": INDEX.offsets[::-1]},
        {"positions": (1, *INDEX.positions[1:])},
        {"offsets": INDEX.offsets[:-1]},
        {"max_timestamps_ms": INDEX.max_timestamps_ms[::-1]},
        {"leader_epochs": INDEX.leader_epochs[::-1]},
        {"size_bytes": -1},
        {"end_offset": 2**63},
        {"batch_count": 0},
    ],
    ids=str,
)
def test_an_index_that_contradicts_itself_is_not_written(change: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        encode_offset_index(dataclasses.replace(INDEX, **change))


def test_damaged_index_bytes_are_refused() -> None:
    data = encode_offset_index(INDEX)
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 0x04
        with pytest.raises(FormatError):
            decode_offset_index(bad)
    for cut in (0, 3, 60, len(data) - 1):
        with pytest.raises(FormatError):
            decode_offset_index(data[:cut])
    with pytest.raises(FormatError):
        decode_offset_index(data + b"\x00")


def test_an_index_is_small() -> None:
    segment, log, _ = make_segment(batches=2_000, interval_bytes=64 * 1024)
    index: OffsetIndex = segment.index
    assert len(encode_offset_index(index)) < len(log) // 500 + 200
