"""The buffer of a consumer's fetch: of a batch that is large when it is decompressed, one part is decoded at a time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from odradek.client.consumer.fetch_buffer import Chunk
from odradek.client.consumer.positions import PartitionState
from odradek.client.consumer.record import CorruptRecordBatchError
from odradek.columnar import rows
from odradek.format import record_decoder
from odradek.format.batch_header import iter_headers
from odradek.format.crc import crc32c
from odradek.format.record_batch import RecordBatchBuilder, decode_batches
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.record import CompressionType
from odradek.model.topic_partition import TopicPartition

from tests.support.kafka.poison import rebuilt

KIB = 1024


def zeros(
    count: int, size: int | None, base_offset: int = 0, compression: CompressionType = CompressionType.ZSTD
) -> bytes:
    """A batch that is a small part of its records."""
    builder = RecordBatchBuilder(compression)
    for _ in range(count):
        builder.append(0, None, None if size is None else bytes(size))
    return builder.build(base_offset=base_offset)


def chunk(data: bytes, offset: int = 0) -> Chunk:
    state = PartitionState(TopicPartition("t", 0))
    state.seek(offset)
    return Chunk(state, offset, data, list(iter_headers(data)), check_crcs=True)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (record_decoder, rows):
        monkeypatch.setattr(module, "PART_BYTES", 16 * KIB)
        monkeypatch.setattr(module, "PART_ROWS", 10)


def taken(buffered: Chunk, limit: int) -> Iterator[tuple[list[int], int]]:
    while (part := buffered.take(limit)) is not None:
        fields, after = part
        yield list(fields.offsets), after


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("offset", [0, 1, 9, 10, 25, 39, 40, 63])
@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_every_record_is_handed_out_once_in_parts(offset: int, limit: int) -> None:
    data = zeros(40, 4 * KIB) + zeros(3, 4, 40) + zeros(21, None, 43)
    parts = list(taken(chunk(data, offset), limit))
    offsets = [offset for part_offsets, _ in parts for offset in part_offsets]
    assert offsets == [record.offset for record in decode_batches(data) if record.offset >= offset]
    assert all(after == part_offsets[-1] + 1 for part_offsets, after in parts)
    assert max(len(part_offsets) for part_offsets, _ in parts) <= min(limit, 10)


@pytest.mark.parametrize("limit", [1, 2, 3, 1_000])
def test_who_has_all_records_of_a_batch_is_behind_the_hole_at_its_end(limit: int) -> None:
    """Compaction has removed its last records: a consumer that has read everything has no lag."""
    compacted = bytearray(zeros(3, None, compression=CompressionType.NONE))
    compacted[23:27] = (5).to_bytes(4, "big")  # the delta of its last offset
    compacted[17:21] = crc32c(bytes(compacted[21:])).to_bytes(4, "big")
    found = chunk(bytes(compacted) + zeros(2, None, 6))
    parts = list(taken(found, limit))
    assert [after for offsets, after in parts if offsets[-1] == 2] == [6]
    assert parts[-1] == ([7] if limit == 1 else [6, 7], 8)


@pytest.mark.usefixtures("small_parts")
def test_whole_batches_begin_where_the_records_of_a_part_end() -> None:
    data = zeros(40, 4 * KIB) + zeros(3, 4, 40)
    buffered = chunk(data)
    after = [after for _, after in (buffered.take(3), buffered.take(3), buffered.take(3)) if after]  # type: ignore[misc]
    whole = buffered.take_bytes(1_000)
    assert whole is not None
    assert (bytes(whole[0]), *whole[1:]) == (data, after[-1], 43)
    assert buffered.take(10) is None


@pytest.mark.usefixtures("small_parts")
def test_records_before_a_broken_one_are_handed_out() -> None:
    plain = zeros(40, None, compression=CompressionType.NONE)
    data = rebuilt(plain, plain[BATCH_HEADER_BYTES:-1]) + zeros(3, 4, 40)
    buffered = chunk(data)
    offsets = []
    with pytest.raises(CorruptRecordBatchError) as caught:
        while (part := buffered.take(1_000)) is not None:
            offsets += part[0].offsets
    assert offsets == list(range(caught.value.offset))
    assert caught.value.next_offset == 40
    assert [offset for part, _ in taken(buffered, 1_000) for offset in part] == [40, 41, 42]


def test_of_a_small_batch_with_very_many_records_few_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (record_decoder, rows):
        monkeypatch.setattr(module, "PART_ROWS", 2_000)
    buffered = chunk(zeros(40_000, None))
    tracemalloc.start()
    try:
        first = buffered.take(500)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert first is not None
    assert len(first[0].offsets) == 500
    assert peak < 3_000_000  # of 9 million for all records; their bytes alone are 300,000
