"""Ranges and their reading, against the engine over memory: no Spark, no files."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest
from odradek.engine.read.log_reader import Piece
from odradek.errors import ErrorCode, FormatError, KafkaError, ObjectMissing
from odradek.format.record_batch import RecordBatchBuilder, patch_offsets
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.record import CompressionType
from odradek.model.topic_partition import PartitionId
from odradek.spark.options import FAIL, MARK, SKIP
from odradek.spark.source import read as reading
from odradek.spark.source.plan import ReadRange, bundle_ranges, group_pieces, split_range
from odradek.spark.source.read import read

from tests.support.engine import batch
from tests.support.kafka.poison import garbage, rebuilt

TOPIC_ID = UUID(int=7)
COLUMNS = ("offset", "value", "topic", "partition")


class Bytes:
    """A PieceSource over a dictionary of objects."""

    def __init__(self, objects: dict[str, bytes], fresh: Sequence[Piece] = ()) -> None:
        self.objects = objects
        self.fresh = fresh  # what planning again gives
        self.reads: list[list[Piece]] = []
        self.forgotten = 0

    def pieces(self, partition: PartitionId, start_offset: int, end_offset: int) -> list[Piece]:
        return [piece for piece in self.fresh if piece.end_offset > start_offset and piece.base_offset < end_offset]

    def read(self, pieces: Sequence[Piece]) -> list[memoryview]:
        self.reads.append(list(pieces))
        for piece in pieces:
            if piece.object_key not in self.objects:
                raise ObjectMissing(piece.object_key)
        return [
            memoryview(self.objects[piece.object_key])[piece.position : piece.position + piece.length]
            for piece in pieces
        ]

    def forget(self, partition: PartitionId) -> None:
        self.forgotten += 1


def wal(counts: Sequence[int], key: str = "wal", first: int = 0) -> tuple[bytes, list[Piece]]:
    """An object of the WAL with a batch a count; values are the absolute offsets as text."""
    data, pieces, offset = b"", [], first
    for count in counts:
        one = batch([str(offset + i).encode() for i in range(count)])
        pieces.append(Piece(offset, offset + count, key, None, len(data), len(one), 0))
        data += one
        offset += count
    return data, pieces


def segment(counts: Sequence[int], key: str = "segment", first: int = 0) -> tuple[bytes, Piece]:
    data, pieces = wal(counts, key, first)
    absolute = b"".join(
        b"".join(map(bytes, patch_offsets(data[p.position : p.position + p.length], p.base_offset, 0))) for p in pieces
    )
    return absolute, Piece(first, pieces[-1].end_offset, key, None, 0, len(absolute), 0, is_segment=True)


def whole(pieces: Sequence[Piece], start: int = 0, end: int | None = None) -> ReadRange:
    stop = pieces[-1].end_offset if end is None else end
    return ReadRange("flights", TOPIC_ID, 3, start, stop, tuple(pieces))


def rows(batches: Sequence[pa.RecordBatch]) -> list[tuple[int, bytes]]:
    return [
        (offset, value)
        for batch in batches
        for offset, value in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ]


def expected(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, str(offset).encode()) for offset in range(start, end)]


def test_neighbours_are_read_together_and_offsets_are_absolute() -> None:
    data, pieces = wal([3, 2, 4], first=100)
    source = Bytes({"wal": data})
    batches = list(read(whole(pieces, 100), COLUMNS, source))
    assert rows(batches) == expected(100, 109)
    assert batches[0].schema.names == list(COLUMNS)
    assert set(batches[0].column("topic").to_pylist()) == {"flights"}
    assert set(batches[0].column("partition").to_pylist()) == {3}
    assert source.reads == [pieces]


def test_a_range_may_start_and_end_inside_a_batch() -> None:
    data, pieces = wal([5, 5])
    assert rows(list(read(whole(pieces, 2, 7), COLUMNS, Bytes({"wal": data})))) == expected(2, 7)


def test_the_next_chunk_is_read_while_one_is_used_and_no_more() -> None:
    data, pieces = wal([5] * 20)
    source = Bytes({"wal": data})
    batches = read(whole(pieces), COLUMNS, source, chunk_bytes=2 * pieces[0].length)
    next(batches)
    next(batches)  # the second chunk has surely been read by now, and the third has been asked for
    assert len(source.reads) in (2, 3)
    batches.close()  # type: ignore[attr-defined]
    assert len(source.reads) == 3


def test_memory_is_bounded_by_chunks() -> None:
    data, pieces = wal([5] * 20)
    source = Bytes({"wal": data})
    assert rows(list(read(whole(pieces), COLUMNS, source, chunk_bytes=3 * pieces[0].length))) == expected(0, 100)
    assert max(map(len, source.reads)) <= 3


@pytest.mark.parametrize("chunk_bytes", [70, 150, 400, 10_000])
def test_a_segment_is_read_stretch_by_stretch(chunk_bytes: int) -> None:
    data, piece = segment([2, 7, 1, 30, 4], first=50)
    source = Bytes({"segment": data})
    assert rows(list(read(whole([piece], 53, 90), COLUMNS, source, chunk_bytes=chunk_bytes))) == expected(53, 90)


def test_a_segment_that_ends_within_a_batch_is_damaged() -> None:
    data, piece = segment([3])
    with pytest.raises(FormatError):
        list(read(whole([replace(piece, length=piece.length - 1)]), COLUMNS, Bytes({"segment": data[:-1]})))


def test_a_range_may_begin_in_segments_and_end_in_the_wal() -> None:
    first, one = segment([2, 3], "one")
    second, other = segment([4], "other", first=5)
    data, pieces = wal([3, 2], first=9)
    source = Bytes({"one": first, "other": second, "wal": data})
    assert rows(list(read(whole([one, other, *pieces], 1, 13), COLUMNS, source))) == expected(1, 13)


def test_a_gap_at_the_end_of_a_segment_is_read_over() -> None:
    first, one = segment([2, 3], "one")
    second, other = segment([4], "other", first=9)
    source = Bytes({"one": first, "other": second})
    spanning = [replace(one, end_offset=9), replace(other, end_offset=20)]
    assert rows(list(read(whole(spanning, 6, 20), COLUMNS, source))) == expected(9, 13)


def test_a_merge_between_plan_and_read_loses_and_repeats_nothing() -> None:
    first, old = wal([4, 4], "old-1")
    second, later = wal([4, 4], "old-2", first=8)
    merged, new = segment([8, 8])
    # The second object goes while the first is read.
    source = Bytes({"old-1": first, "new": merged}, fresh=[replace(new, object_key="new")])
    assert second
    assert rows(list(read(whole([*old, *later]), COLUMNS, source, chunk_bytes=len(first)))) == expected(0, 16)
    assert source.forgotten == 1


def test_an_object_that_stays_gone_is_an_error_that_says_where() -> None:
    _, pieces = wal([4])
    source = Bytes({}, fresh=pieces)
    with pytest.raises(KafkaError, match="flights-3 cannot be read at offset 0") as failed:
        list(read(whole(pieces), COLUMNS, source))
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_ranges_end_at_piece_boundaries_and_cover_everything_once() -> None:
    _, pieces = wal([3, 3, 3, 3, 3], first=100)
    ranges = split_range(whole(pieces, 101, 114), 2 * pieces[0].length)
    assert [(read_range.start_offset, read_range.end_offset) for read_range in ranges] == [
        (101, 106),
        (106, 112),
        (112, 114),
    ]
    assert [piece for read_range in ranges for piece in read_range.pieces] == pieces
    assert pickle.loads(pickle.dumps(ranges)) == ranges


def test_small_ranges_share_a_task_in_their_order() -> None:
    _, pieces = wal([1, 1, 1, 40, 1, 1])
    ranges = [replace(whole([piece]), partition=number) for number, piece in enumerate(pieces)]
    small, large = pieces[-1].length, pieces[3].length
    assert large > 2 * small > 0
    tasks = bundle_ranges(ranges, 2 * small)
    assert [[read_range.partition for read_range in task] for task in tasks] == [[0, 1], [2], [3], [4, 5]]
    assert [len(task) for task in bundle_ranges(ranges, 0)] == [1] * 6
    assert bundle_ranges([], 100) == []
    small_part = whole([pieces[3]], 10, 12)  # of the forty records, two
    assert small_part.wanted_bytes == large * 2 // 40
    assert len(bundle_ranges([small_part] * 3, small)) == 1


def test_a_piece_larger_than_a_range_is_a_range() -> None:
    _, pieces = wal([50, 1, 1])
    assert [len(group) for group in group_pieces(pieces, 200)] == [1, 2]
    assert split_range(whole([], 0, 0), 100) == []


def test_what_no_arrow_batch_can_hold_is_decoded_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    import odradek.spark.source.read as module

    real = module.decode_to_arrow

    def small(data: bytes, **options: object) -> pa.RecordBatch:
        if len(data) > pieces[0].length + 10:
            raise FormatError("too much", ErrorCode.RECORD_LIST_TOO_LARGE)
        return real(data, **options)  # type: ignore[arg-type]

    data, pieces = wal([5, 5, 5])
    monkeypatch.setattr(module, "decode_to_arrow", small)
    assert rows(list(read(whole(pieces), COLUMNS, Bytes({"wal": data})))) == expected(0, 15)


def poisoned(is_segment: bool) -> tuple[Bytes, list[Piece]]:
    """Offsets 0 and 1, three that cannot be decoded, then 5 and 6."""
    middle = garbage(3)
    parts = [batch([b"0", b"1"]), middle, batch([b"5", b"6"])]
    data, pieces, offset = b"", [], 0
    for part, count in zip(parts, (2, 3, 2), strict=True):
        pieces.append(Piece(offset, offset + count, "wal", None, len(data), len(part), 0))
        data += b"".join(map(bytes, patch_offsets(part, offset, 0))) if is_segment else part
        offset += count
    if is_segment:
        pieces = [Piece(0, 7, "wal", None, 0, len(data), 0, is_segment=True)]
    return Bytes({"wal": data}), pieces


@pytest.mark.parametrize("is_segment", [False, True])
def test_a_corrupt_batch_fails_after_the_records_before_it_and_the_error_says_what_to_set(is_segment: bool) -> None:
    source, pieces = poisoned(is_segment)
    batches = read(whole(pieces), COLUMNS, source)
    assert rows([next(batches)]) == expected(0, 2)
    with pytest.raises(
        FormatError, match=r"flights-3 with the offsets 2 to 4 .* set the option corruptBatches to skip"
    ):
        next(batches)


@pytest.mark.parametrize("is_segment", [False, True])
@pytest.mark.parametrize("chunk_bytes", [70, 10_000])
def test_a_corrupt_batch_is_skipped_and_its_offsets_are_logged(
    is_segment: bool, chunk_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    source, pieces = poisoned(is_segment)
    batches = list(read(whole(pieces), COLUMNS, source, chunk_bytes=chunk_bytes, corrupt_batches=SKIP))
    assert rows(batches) == expected(0, 2) + expected(5, 7)
    [line] = caplog.messages
    assert "flights-3 with the offsets 2 to 4" in line


def test_a_marked_batch_is_one_row_in_the_task_that_has_its_first_offset() -> None:
    source, pieces = poisoned(is_segment=True)
    columns = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    first, second = (
        list(read(whole(pieces, *part), columns, source, corrupt_batches=MARK)) for part in ((0, 3), (3, 7))
    )
    marked = [row for batch in first + second for row in batch.to_pylist() if row["timestampType"] == -1]
    assert [(row["offset"], row["key"], row["value"], row["headers"]) for row in marked] == [(2, None, None, [])]
    assert sum(batch.num_rows for batch in first + second) == 5
    assert [batch.schema.names for batch in first] == [list(columns)] * len(first)


@pytest.mark.parametrize("columns", [("offset",), ("value",)])
@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.GZIP])
def test_a_batch_that_claims_millions_of_records_is_corrupt_whatever_is_read_of_it(
    columns: Sequence[str], compression: CompressionType
) -> None:
    absurd = rebuilt(batch([b"x"]), compression=compression, count=30_000_000)
    pieces = [Piece(0, 30_000_000, "wal", None, 0, len(absurd), 0)]
    source = Bytes({"wal": absurd})
    assert list(read(whole(pieces), columns, source, corrupt_batches=SKIP)) == []
    with pytest.raises(FormatError, match="30000000 records"):
        list(read(whole(pieces), columns, source, corrupt_batches=FAIL))


def zeros(count: int, size: int) -> bytes:
    builder = RecordBatchBuilder(CompressionType.ZSTD)
    for _ in range(count):
        builder.append(0, None, bytes(size))
    return builder.build()


@pytest.mark.parametrize(("start", "end"), [(0, 700), (33, 650)])
def test_a_small_batch_of_many_bytes_becomes_several_small_ones(
    monkeypatch: pytest.MonkeyPatch, start: int, end: int
) -> None:
    monkeypatch.setattr(reading, "DECODED_BYTES", 64 * 1024)
    monkeypatch.setattr(reading, "DECOMPRESSED_BATCH_BYTES_MAX", 700 * 1024)
    data = zeros(700, 1024)
    assert len(data) < 4 * 1024
    pieces = [Piece(0, 700, "wal", None, 0, len(data), 0)]
    batches = list(read(whole(pieces, start, end), COLUMNS, Bytes({"wal": data})))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(start, end))
    assert max(batch.nbytes for batch in batches) < 80 * 1024


@pytest.mark.parametrize("corrupt_batches", [SKIP, MARK, FAIL])
def test_a_broken_batch_of_many_bytes_is_passed_or_fails_as_any_other(
    monkeypatch: pytest.MonkeyPatch, corrupt_batches: str
) -> None:
    monkeypatch.setattr(reading, "DECODED_BYTES", 64 * 1024)
    one = batch([bytes(1024)] * 100)
    data = rebuilt(one, one[BATCH_HEADER_BYTES:-1])
    pieces = [Piece(0, 100, "wal", None, 0, len(data), 0)]
    rows_of = read(whole(pieces), COLUMNS, Bytes({"wal": data}), corrupt_batches=corrupt_batches)
    if corrupt_batches == FAIL:
        with pytest.raises(FormatError, match="offsets 0 to 99"):
            list(rows_of)
    else:
        assert sum(batch.num_rows for batch in rows_of) == (corrupt_batches == MARK)


def test_what_lies_before_a_missing_object_is_read_and_the_error_names_the_offset_after_it() -> None:
    first, pieces = wal([4, 4], "whole")
    _, lost = wal([4], "lost", first=8)
    source = Bytes({"whole": first}, fresh=[*pieces, *lost])
    reading_ = read(whole([*pieces, *lost]), COLUMNS, source)
    assert rows([next(reading_), next(reading_)]) == expected(0, 8)
    with pytest.raises(KafkaError, match="flights-3 cannot be read at offset 8: lost no longer exists"):
        next(reading_)
