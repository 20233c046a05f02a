"""Record batches to Arrow, by both engines: the columns, what is left out, and what is not even read."""

from __future__ import annotations

import datetime as dt
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from odradek.columnar.decode import decode_to_arrow
from odradek.columnar.engine import EngineName
from odradek.columnar.names import COLUMNS
from odradek.columnar.schema import SCHEMA, schema
from odradek.errors import ErrorCode, FormatError
from odradek.format.crc import crc32c
from odradek.format.record_batch import encode_batch, patch_log_append_time
from odradek.model.record import CompressionType, Record

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDS = [
    Record(10, 1_000, b"a", b"one", (("h", b"x"), ("n", None))),
    Record(11, -5_000, None, b"two"),
    Record(12, 3_000, b"", None, (("ž", b""),)),
    Record(13, 2_000, b"b", b""),
]
LATER = [Record(14 + n, 9_000 + n, b"k%d" % n, b"v" * n) for n in range(20)]
BATCHES = encode_batch(RECORDS) + encode_batch(LATER, compression_type=CompressionType.ZSTD)


@pytest.fixture(params=["numba", "python"])
def engine(request: pytest.FixtureRequest) -> EngineName:
    return request.param


def decode(data: Any, engine: EngineName, **options: Any) -> pa.RecordBatch:
    batch = decode_to_arrow(data, topic="flights", partition=3, engine=engine, **options)
    batch.validate(full=True)
    return batch


def test_the_columns_are_those_of_sparks_kafka_source(engine: EngineName) -> None:
    batch = decode(BATCHES, engine)
    assert batch.schema == SCHEMA == schema()
    assert SCHEMA.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = batch.to_pylist()
    assert len(rows) == 24
    assert rows[1] == {
        "key": None,
        "value": b"two",
        "topic": "flights",
        "partition": 3,
        "offset": 11,
        "timestamp": dt.datetime(1969, 12, 31, 23, 59, 55, tzinfo=dt.UTC),
        "timestampType": 0,
    }
    assert [(row["key"], row["value"]) for row in rows[2:4]] == [(b"", None), (b"b", b"")]
    assert [row["offset"] for row in rows] == list(range(10, 34))


def test_headers_are_there_where_asked_for(engine: EngineName) -> None:
    batch = decode(BATCHES, engine, columns=COLUMNS)
    assert batch.schema == schema(include_headers=True)
    assert batch.column("headers").to_pylist()[:4] == [
        [{"key": "h", "value": b"x"}, {"key": "n", "value": None}],
        [],
        [{"key": "ž", "value": b""}],
        [],
    ]


@pytest.mark.parametrize("columns", [[name] for name in COLUMNS] + [["offset", "key"], ["timestamp", "headers"]])
def test_asked_columns_in_the_asked_order(engine: EngineName, columns: list[str]) -> None:
    picked = decode(BATCHES, engine, columns=columns)
    assert picked.schema == schema(columns=columns)
    assert picked.equals(decode(BATCHES, engine, columns=COLUMNS).select(columns))


@pytest.mark.parametrize("columns", [None, ["offset"], ["topic"], ["timestamp"], ["timestampType", "offset"], COLUMNS])
@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        ({"start_offset": 12}, lambda r: r.offset >= 12),
        ({"end_offset": 12}, lambda r: r.offset < 12),
        ({"start_offset": 11, "end_offset": 16}, lambda r: 11 <= r.offset < 16),
        ({"start_offset": 100}, lambda r: False),
        ({"end_offset": 3}, lambda r: False),
        ({"start_offset": 15, "end_offset": 11}, lambda r: False),
        ({"start_offset": -(2**70), "end_offset": 2**70}, lambda r: True),
        ({"min_timestamp_ms": 2_000}, lambda r: r.timestamp_ms >= 2_000),
        ({"max_timestamp_ms": 2_000}, lambda r: r.timestamp_ms <= 2_000),
        ({"min_timestamp_ms": 1_000, "max_timestamp_ms": 9_005}, lambda r: 1_000 <= r.timestamp_ms <= 9_005),
    ],
    ids=[
        "from",
        "below",
        "between",
        "past the end",
        "before the start",
        "empty",
        "beyond 64 bits",
        "since",
        "until",
        "times",
    ],
)
def test_ranges(engine: EngineName, columns: Any, options: dict[str, int], keeps: Any) -> None:
    expected = [record.offset for record in RECORDS + LATER if keeps(record)]
    batch = decode(BATCHES, engine, columns=columns, **options)
    assert batch.num_rows == len(expected)
    if columns is None or "offset" in columns:
        assert batch.column("offset").to_pylist() == expected


def test_log_append_time(engine: EngineName) -> None:
    data = patch_log_append_time(encode_batch(RECORDS), 7_000) + encode_batch(LATER)
    for columns in (["timestamp", "timestampType"], ["timestamp", "timestampType", "value"]):
        rows = decode(data, engine, columns=columns, end_offset=15).to_pylist()
        assert [(row["timestamp"].timestamp(), row["timestampType"]) for row in rows] == [(7.0, 1)] * 4 + [(9.0, 0)]
    assert decode(data, engine, columns=["timestamp"], max_timestamp_ms=6_999).num_rows == 0
    assert decode(data, engine, columns=["value"], max_timestamp_ms=7_000).num_rows == 4


def test_compacted_batches_keep_their_offsets(engine: EngineName) -> None:
    data = encode_batch([RECORDS[1], RECORDS[3]], base_offset=10, last_offset=40)
    for columns in (["offset"], ["offset", "value"]):
        assert decode(data, engine, columns=columns).column("offset").to_pylist() == [11, 13]


def test_a_batch_that_compaction_emptied(engine: EngineName) -> None:
    data = bytearray(encode_batch(RECORDS)[:61])
    struct.pack_into(">i", data, 8, 49)
    struct.pack_into(">i", data, 57, 0)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    for columns in (None, ["offset"], COLUMNS):
        assert decode(data, engine, columns=columns).num_rows == 0


def test_nothing_gives_no_rows(engine: EngineName) -> None:
    for columns in (None, COLUMNS, []):
        batch = decode(b"", engine, columns=columns)
        assert (batch.num_rows, batch.schema) == (0, schema(columns=columns))


def test_control_batches_and_a_cut_off_end_are_left_out(engine: EngineName) -> None:
    control = bytearray(encode_batch([Record(34, 1, b"c", b"c")]))
    control[22] |= 0x20
    struct.pack_into(">I", control, 17, crc32c(control[21:]))
    assert decode(BATCHES + control + BATCHES[:100], engine).num_rows == 24


def test_any_buffer_is_taken(engine: EngineName) -> None:
    for data in (bytearray(BATCHES), memoryview(BATCHES), memoryview(bytearray(b"x" + BATCHES))[1:]):
        assert decode(data, engine).num_rows == 24


def test_timestamps_that_do_not_fit_microseconds_become_the_nearest_that_do(engine: EngineName) -> None:
    data = encode_batch([Record(0, 2**62, None, b"in nanoseconds"), Record(1, -(2**62), None, b"")])
    microseconds = decode(data, engine, columns=["timestamp"]).column(0).cast(pa.int64()).to_pylist()
    assert microseconds == [(2**63 - 1) // 1000 * 1000, -((2**63 - 1) // 1000) * 1000]


def test_a_body_that_is_not_needed_is_not_read(engine: EngineName) -> None:
    damaged = bytearray(BATCHES)
    damaged[61:65] = b"\xff" * 4
    for columns in (["offset"], ["topic", "partition", "timestampType"]):
        assert decode(damaged, engine, columns=columns, verify_crc=False).num_rows == 24
        with pytest.raises(FormatError):
            decode(damaged, engine, columns=columns)
    with pytest.raises(FormatError):
        decode(damaged, engine, columns=["timestamp"], verify_crc=False)
    assert decode(damaged, engine, start_offset=14).num_rows == 20, "the damaged batch is out of range"


def test_bad_records_are_refused_with_kafkas_code(engine: EngineName) -> None:
    data = bytearray(encode_batch(RECORDS))
    data[61] ^= 0x02
    for verify_crc, code in ((True, ErrorCode.CORRUPT_MESSAGE), (False, ErrorCode.INVALID_RECORD)):
        with pytest.raises(FormatError) as caught:
            decode(data, engine, verify_crc=verify_crc)
        assert caught.value.code is code


def test_a_header_key_must_be_utf8(engine: EngineName) -> None:
    data = encode_batch([Record(0, 0, None, b"v", (("KEY", b"x"),))]).replace(b"KEY", b"\xff\xfe\xfd")
    with pytest.raises(FormatError) as caught:
        decode(data, engine, columns=["headers"], verify_crc=False)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="unknown column vaule"):
        decode_to_arrow(b"", topic="t", partition=0, columns=["vaule"])
    with pytest.raises(ValueError, match="auto, numba or python"):
        decode_to_arrow(b"", topic="t", partition=0, engine="fast")  # type: ignore[arg-type]


def test_batches_of_other_clients_are_read_alike_by_both_engines() -> None:
    files = [entry["file"] for entry in json.loads((GOLDEN / "golden.json").read_text())["batches"]]
    assert len(files) > 30
    for file in files:
        data = (GOLDEN / "batches" / file).read_bytes()
        assert decode(data, "numba", columns=COLUMNS).equals(decode(data, "python", columns=COLUMNS)), file
