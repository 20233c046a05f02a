"""A table to record batches, by both engines: types, nulls, splitting, producer fields, and what is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from odradek.columnar.decode import decode_to_arrow
from odradek.columnar.encode import encode_from_arrow
from odradek.columnar.engine import EngineName
from odradek.errors import ErrorCode, FormatError
from odradek.format.record_batch import RecordBatchBuilder, decode_batches, parse_header, validate_batches
from odradek.model.record import CompressionType, Record


@pytest.fixture(params=["numba", "python"])
def engine(request: pytest.FixtureRequest) -> EngineName:
    return request.param


def encode(table: Any, engine: EngineName, **options: Any) -> list[bytes]:
    return encode_from_arrow(table, engine=engine, **({"default_timestamp_ms": 77} | options))


def records(batches: list[bytes]) -> list[Record]:
    return [record for batch in batches for record in decode_batches(batch, allow_truncated=False)]


def test_rows_become_records_in_order(engine: EngineName) -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": pa.array([b"a", None, b""]),
            "value": pa.array(["one", None, ""]),
            "timestamp": pa.array([5, None, -1], pa.timestamp("ms")),
            "headers": pa.array([[("h", b"x"), ("h", None)], None, []], headers),
            "ignored": pa.array([1, 2, 3]),
        }
    )
    (batch,) = encode(table, engine)
    assert validate_batches(batch, max_message_bytes=len(batch))
    assert records([batch]) == [
        Record(0, 5, b"a", b"one", (("h", b"x"), ("h", None))),
        Record(1, 77, None, None),
        Record(2, -1, b"", b""),
    ]
    builder = RecordBatchBuilder()
    for record in records([batch]):
        builder.append(record.timestamp_ms, record.key, record.value, record.headers)
    assert builder.build() == batch


@pytest.mark.parametrize(
    "data_type",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary(2),
        pa.binary_view(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
    ],
    ids=str,
)
def test_bytes_and_text_of_any_width(engine: EngineName, data_type: pa.DataType) -> None:
    is_text = "string" in str(data_type)
    values = ["ab", None, "cd", "ef"] if is_text else [b"ab", None, b"cd", b"ef"]
    array = pa.array(values).cast(data_type) if not pa.types.is_dictionary(data_type) else pa.array(values, data_type)
    batch = pa.record_batch({"value": array, "key": array})
    assert [(r.key, r.value) for r in records(encode(batch, engine))] == [
        (b"ab", b"ab"),
        (None, None),
        (b"cd", b"cd"),
        (b"ef", b"ef"),
    ]
    assert [r.value for r in records(encode(batch.slice(1, 2), engine))] == [None, b"cd"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([-3, 2, None], pa.int64()), [-3, 2, 77]),
        (pa.array([-3, 2, None], pa.int32()), [-3, 2, 77]),
        (pa.array([-3, 2, None], pa.timestamp("s")), [-3_000, 2_000, 77]),
        (pa.array([-3, 2, None], pa.timestamp("ms", tz="Europe/Prague")), [-3, 2, 77]),
        (pa.array([-1, 1999, None], pa.timestamp("us")), [-1, 1, 77]),
        (pa.array([-1_000_000, 1_999_999, None], pa.timestamp("ns")), [-1, 1, 77]),
        (pa.nulls(3), [77, 77, 77]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_timestamps_of_any_unit_are_rounded_down_to_ms(
    engine: EngineName, array: pa.Array, expected: list[int]
) -> None:
    table = pa.table({"value": ["a", "b", "c"], "timestamp": array})
    assert [record.timestamp_ms for record in records(encode(table, engine))] == expected


def test_columns_have_other_names_or_are_not_there(engine: EngineName) -> None:
    table = pa.table({"tail": ["N1", "N2"], "json": [b"{}", b"[]"], "key": ["no", "no"]})
    got = records(encode(table, engine, key_column="tail", value_column="json"))
    assert got == [Record(0, 77, b"N1", b"{}"), Record(1, 77, b"N2", b"[]")]
    assert [r.key for r in records(encode(table, engine, key_column=None, value_column="json"))] == [None, None]
    assert [r.value for r in records(encode(table, engine, value_column=None))] == [None, None]
    with pytest.raises(ValueError, match="no column 'value'"):
        encode(table, engine)


def test_headers_as_a_map_and_as_a_slice(engine: EngineName) -> None:
    pairs = [[("a", "1")], None, [], [("b", None), ("c", "")]]
    table = pa.table({"value": list("wxyz"), "headers": pa.array(pairs, pa.map_(pa.string(), pa.string()))})
    expected = [(("a", b"1"),), (), (), (("b", None), ("c", b""))]
    assert [record.headers for record in records(encode(table, engine))] == expected
    assert [record.headers for record in records(encode(table.slice(2), engine))] == expected[2:]


def test_batches_are_as_full_as_allowed_and_follow_on(engine: EngineName) -> None:
    table = pa.table({"value": [b"x" * (n % 90) for n in range(500)]})
    batches = encode(table, engine, max_batch_bytes=1_000, producer_id=9, producer_epoch=1, base_sequence=2**31 - 200)
    assert all(900 - 61 < len(batch) <= 1_000 for batch in batches[:-1])
    assert [record.value for record in records(batches)] == table.column("value").to_pylist()
    sequence = 2**31 - 200
    for batch in batches:
        header = parse_header(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, sequence)
        sequence = (sequence + header.record_count) % 2**31
    assert sequence == 300, "the sequence wraps to 0"


def test_a_record_larger_than_a_batch_gets_one_of_its_own(engine: EngineName) -> None:
    table = pa.table({"value": [b"a", b"x" * 5_000, b"b", b"y" * 9_000]})
    batches = encode(table, engine, max_batch_bytes=300)
    assert [parse_header(batch).record_count for batch in batches] == [1, 1, 1, 1]
    assert [record.value for record in records(batches)] == table.column("value").to_pylist()


@pytest.mark.parametrize("compression_type", CompressionType)
def test_compressed_and_transactional(engine: EngineName, compression_type: CompressionType) -> None:
    table = pa.table({"value": ["value"] * 1_000})
    (batch,) = encode(
        table,
        engine,
        compression_type=compression_type,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    header = parse_header(batch)
    assert header.compression is compression_type
    assert header.is_transactional
    assert len(records([batch])) == 1_000


def test_chunks_do_not_split_batches_and_an_empty_table_gives_none(engine: EngineName) -> None:
    table = pa.concat_tables([pa.table({"value": [b"%d" % n]}) for n in range(50)])
    assert len(encode(table, engine)) == 1
    assert encode(table.slice(0, 0), engine) == []
    assert encode(pa.table({"value": pa.array([], pa.binary())}), engine) == []


def test_what_decode_gives_encode_takes(engine: EngineName) -> None:
    table = pa.table({"key": ["k", None], "value": ["v", "w"], "timestamp": pa.array([1, 2], pa.timestamp("ms"))})
    batches = encode(table, engine)
    columns = ["key", "value", "timestamp", "headers"]
    again = decode_to_arrow(batches[0], topic="t", partition=0, columns=columns, engine=engine)
    assert encode(again, engine) == batches


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"value": [1, 2]}),
        pa.table({"value": ["a"], "key": [1.5]}),
        pa.table({"value": ["a"], "timestamp": ["today"]}),
        pa.table({"value": ["a"], "timestamp": pa.array([dt.date(2013, 1, 1)])}),
        pa.table({"value": ["a"], "timestamp": pa.array([2**62], pa.timestamp("s"))}),
        pa.table({"value": ["a"], "headers": ["h"]}),
        pa.table({"value": ["a"], "headers": [["h"]]}),
        pa.table({"value": ["a"], "headers": [[{"key": None, "value": b"x"}]]}),
        pa.table({"value": ["a"], "headers": [[{"key": "k", "value": 5}]]}),
        pa.table({"value": ["a"], "headers": [[{"key": "k", "value": b""}] * 10_001]}),
        pa.table({"value": ["a", "b"], "timestamp": [2**63 - 1, -5]}),
    ],
    ids=lambda table: str(table.schema).replace("\n", " ")[:60],
)
def test_a_column_that_cannot_be_is_refused(engine: EngineName, table: pa.Table) -> None:
    with pytest.raises(FormatError) as caught:
        encode(table, engine)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_both_engines_write_the_same_bytes() -> None:
    table = pa.table(
        {
            "key": [None if n % 7 == 0 else f"key {n}" for n in range(3_000)],
            "value": [None if n % 11 == 0 else "v" * (n % 400) for n in range(3_000)],
            "timestamp": pa.array([(n * 7919) % 100_003 - 50_000 for n in range(3_000)], pa.timestamp("ms")),
            "headers": [
                [{"key": f"h{i}", "value": None if i == 2 else b"x" * i} for i in range(n % 4)] for n in range(3_000)
            ],
        }
    )
    assert encode(table, "numba", max_batch_bytes=9_999) == encode(table, "python", max_batch_bytes=9_999)
