"""Values that files do not keep: each is made again byte for byte, or kept, whatever its bytes are."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columnar.recipes.avro_forms import AvroForms
from odradek.columnar.recipes.json_forms import JsonForms
from odradek.columnar.table_file import encode_table_segment
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.columnar.typed.typed_values import TypedValues
from odradek.errors import FormatError
from odradek.format.batch_header import iter_headers
from odradek.format.offset_index import decode_offset_index, encode_offset_index
from odradek.format.parquet.recipes import (
    CellStep,
    decode_recipe,
    encode_recipe,
    encoded_cells,
    made_again,
)
from odradek.format.parquet.segment import read_columnar, values_of, verify_columnar
from odradek.format.record_batch import decode_batches
from odradek.format.record_encoder import RecordBatchBuilder
from odradek.format.segment import Segment, SegmentBuilder
from odradek.format.varint import encode_varlong
from odradek.model.kinds import Column, columns_of
from odradek.model.record import CompressionType
from odradek.model.value_schema import ValueSchema

from tests.support.examples import examples

JSON_COLUMNS = (
    "i int, n bigint, f float, d double, ok boolean, s string, inner struct<n: bigint, t: string>, a array<int>"
)


def segment_of(values: Sequence[bytes | None]) -> Segment:
    builder = SegmentBuilder(0)
    for first in range(0, len(values), 7):
        batch = RecordBatchBuilder(CompressionType.ZSTD)
        for number, value in enumerate(values[first : first + 7]):
            batch.append(1_700_000_000_000 + number, b"k", value, ())
        builder.append(batch.build(), first, 0)
    return builder.build(len(values))


def typed(text: str) -> TypedValues:
    return TypedValues([Column(name, data_type, name) for name, data_type in columns_of(text)])


def through_a_file(
    values: Sequence[bytes | None], reader: TypedValues, group_bytes: int = 100_000
) -> tuple[list[bytes | None], pa.Table]:
    """The values that a fetch gets of a file without their bytes, and the file as other engines see it."""
    columnar, _ = encode_table_segment(segment_of(values), reader, group_bytes, keeps_values=False)
    file = bytes(columnar.parts[0])
    index = decode_offset_index(encode_offset_index(columnar.index))
    assert index == columnar.index
    verify_columnar(file, index)
    log = read_columnar(file, index)
    assert len(log) == index.size_bytes
    return [record.value for record in decode_batches(log)], pq.read_table(pa.BufferReader(file))


def made(table: pa.Table) -> int:
    """How many values a file does not keep."""
    return table.num_rows - int(table.column("value_recipe").null_count)


numbers = st.one_of(st.integers(), st.integers(-(2**31), 2**31), st.floats(), st.just(-0.0), st.just(1e16))
scalars = st.one_of(
    st.none(), st.booleans(), numbers, st.text(max_size=8), st.sampled_from(["a", 'q"\\', "ü€", "\x7f"])
)
names = st.sampled_from(["i", "n", "f", "d", "ok", "s", "inner", "a", "other", "ü", "%b"])
inner = st.dictionaries(st.sampled_from(["n", "t", "u"]), scalars, max_size=3)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=5,
)
objects = st.dictionaries(names, st.one_of(scalars, inner, anything), max_size=6)
fitting = st.fixed_dictionaries(
    {"n": st.integers(-(2**63), 2**63 - 1), "d": st.floats(), "s": st.text(max_size=6), "ok": st.booleans()},
    optional={"inner": st.none() | st.fixed_dictionaries({"n": st.integers(-9, 9), "t": st.text(max_size=4)})},
)
styles = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
        "indent": st.sampled_from([None, 1]),
    }
)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.one_of(objects, fitting), min_size=1, max_size=20), styles, st.sampled_from([1, 100_000]))
def test_any_json_comes_back_byte_for_byte(given_objects: list, style: dict[str, Any], group_bytes: int) -> None:
    values = [json.dumps(given_object, **style).encode("utf-8", "surrogatepass") for given_object in given_objects]
    read_values, _ = through_a_file(values, typed(JSON_COLUMNS), group_bytes)
    assert read_values == values


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(objects, st.integers(0, 40), st.binary(max_size=3)), min_size=1, max_size=12))
def test_json_that_is_damaged_comes_back_as_well(given_objects: list) -> None:
    values: list[bytes | None] = [None, b""]
    for data, at, bytes_there in given_objects:
        whole = json.dumps(data).encode()
        values.append(whole[:at] + bytes_there + whole[at + 1 :])
    assert through_a_file(values, typed(JSON_COLUMNS))[0] == values


@settings(deadline=None, max_examples=examples(60))
@given(st.binary(max_size=60) | st.builds(lambda data: json.dumps(data).encode(), objects))
def test_bytes_and_texts_of_a_form_are_the_value(value: bytes) -> None:
    forms = JsonForms(dict(columns_of(JSON_COLUMNS)), 0)
    for _ in range(2):  # member by member, then by the form's expression
        split = forms.split(value)
        if split is not None:
            form, texts = split
            parts = [part for pair in zip(form.parts, texts, strict=False) for part in pair]
            assert b"".join([*parts, form.parts[-1]]) == value


def test_what_typed_columns_make_is_not_kept() -> None:
    lines = [
        {"n": i, "d": i / 4, "s": f"text {i}", "ok": i % 2 == 0, "inner": {"n": i, "t": "ü"}, "note": f"x{i}", "a": [i]}
        for i in range(50)
    ]
    values: list[bytes | None] = [json.dumps(line).encode() for line in lines]
    values += [None, b"text", b'{"n": "misfit"}', b'{"n": 1, "s": null, "ok": true}', b'{"n": 2.50, "d": 7, "s": "x"}']
    read_values, table = through_a_file(values, typed(JSON_COLUMNS))
    assert read_values == values
    kept = table.column("value").to_pylist()
    assert kept[:50] == [None] * 50
    assert kept[50:53] == [None, b"text", b'{"n": "misfit"}']
    assert made(table) == 52 - (kept[54] is not None)
    assert table.column("n").to_pylist()[:50] == list(range(50))
    recipes = set(table.column("value_recipe").to_pylist()[:50])
    assert len(recipes) == 1
    assert b"x17" in table.column("value_rest").to_pylist()[17], "what has no column is in the rest"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (['{"d": 1.5}', '{"d": 2.0}'], "d"),
        (['{"d": 1.5}', '{"d": 2}'], "n"),
        (['{"d": 1.50}', '{"d": 2.00}'], "2"),
        (['{"s": "\\u00fc"}'], "a"),
        (['{"s": "ü"}'], "s"),
    ],
)
def test_the_writers_style_is_recognized(text: list[str], encoding: str) -> None:
    values = [line.encode() for line in text]
    read_values, table = through_a_file(values, typed("d double, s string"))
    assert read_values == values
    recipes = [decode_recipe(recipe) for recipe in table.column("value_recipe").to_pylist()]
    assert {step.encoding for recipe in recipes for step in recipe if isinstance(step, CellStep)} == {encoding}
    assert table.column("value_rest").null_count == len(values)


def test_forms_beyond_the_limits_are_kept() -> None:
    values: list[bytes | None] = [b'{"n": %d, "field %d": 1}' % (i, i) for i in range(700)]
    values += [b'{"n": 1, "%b": 2}' % (b"x" * 20_000)]
    read_values, table = through_a_file(values, typed("n bigint"))
    assert read_values == values
    assert made(table) == 500


# --- schemas of a registry --------------------------------------------------------------------------------------------

AVRO = {
    "type": "record",
    "name": "R",
    "namespace": "a.b",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "i", "type": ["null", "int"], "default": None},
        {"name": "s", "type": ["string", "null"]},
        {"name": "b", "type": "bytes"},
        {"name": "d", "type": "double"},
        {"name": "f", "type": "float"},
        {"name": "ok", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "several", "type": ["null", "long", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
        {
            "name": "inner",
            "type": ["null", {"type": "record", "name": "I", "fields": [{"name": "n", "type": "long"}]}],
            "default": None,
        },
    ],
}
moments = st.integers(-(10**12), 10**12).map(
    lambda ms: datetime.fromtimestamp(ms / 1000, UTC).replace(microsecond=ms % 1000 * 1000)
)
small, longs = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
avro_data = st.fixed_dictionaries(
    {
        "n": longs,
        "i": st.none() | small,
        "s": st.none() | st.text(max_size=5),
        "b": st.binary(max_size=5),
        "d": st.floats(),
        "f": st.floats(width=32),
        "ok": st.booleans(),
        "at": moments,
        "day": st.none() | st.dates(),
        "e": st.sampled_from("AB"),
        "fixed": st.binary(min_size=2, max_size=2),
        "several": st.none() | longs | st.text(max_size=3),
        "tags": st.lists(st.text(max_size=3), max_size=2),
        "counts": st.dictionaries(st.text(max_size=3), st.none() | small, max_size=2),
        "inner": st.none() | st.fixed_dictionaries({"n": longs}),
    }
)


def registered(schema: ValueSchema, columns: str) -> TypedValues:
    reader = TypedValues([Column(name, data_type, name) for name, data_type in columns_of(columns)], schema)
    reader.know(7, schema)
    return reader


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(avro_data, st.integers(5, 60), st.binary(max_size=1)), min_size=1, max_size=10))
def test_avro_comes_back_byte_for_byte(rows: list) -> None:
    schema = ValueSchema("AVRO", json.dumps(AVRO), (), 1)
    columns = (
        "n bigint, i int, s string, b binary, d double, f float, ok boolean, at timestamp, day date, e string, "
        "inner struct<n: bigint>, tags array<string>"
    )
    parsed = fastavro.parse_schema(AVRO)
    values: list[bytes | None] = [None, b"\0\0\0\0\7", b"\0\0\0\0\7\1"]
    for data, at, damage in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, data)
        values.append(encode_prefix(7) + out.getvalue())
        values.append(values[-1][:at] + damage + values[-1][at + len(damage) :])  # type: ignore[index]
    reader = registered(schema, columns)
    read_values, table = through_a_file(values, reader)
    assert read_values == values
    fit = [row for row, (data, _, _) in enumerate(rows) if data["at"].microsecond % 1000 == 0]
    kept = table.column("value").to_pylist()
    assert all(kept[3 + 2 * row] is None for row in fit)


def test_a_recursive_schema_of_avro_keeps_its_values() -> None:
    tree = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "l", "type": ["null", "T"]},
            {"name": "r", "type": ["null", "T"]},
        ],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(tree), {"n": 1, "l": {"n": 2, "l": None, "r": None}, "r": None}
    )
    values = [encode_prefix(7) + out.getvalue()]
    read_values, table = through_a_file(values, registered(ValueSchema("AVRO", json.dumps(tree), (), 1), "n bigint"))
    assert read_values == values == table.column("value").to_pylist()


def test_any_number_of_items_without_bytes_takes_no_time() -> None:
    fields = [{"name": "none", "type": {"type": "array", "items": "null"}}, {"name": "n", "type": "long"}]
    schema = ValueSchema("AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}), (), 1)
    forms = AvroForms(schema, 0)
    assert forms.split(encode_varlong(2**62) + b"\0\2") is None
    split = forms.split(b"\0\2")
    assert split is not None
    assert split[1] == [b"\0", b"\2"]


def test_protobuf_comes_back_byte_for_byte() -> None:
    from odradek.registry.schemas import Schema
    from odradek.registry.value_schemas import _as_value_schema

    text = """syntax = "proto3";
    message M { int64 n = 1; sint32 z = 2; double d = 3; float f = 4; string s = 5; bytes b = 6; bool ok = 7;
      I inner = 8; repeated int32 list = 9; optional uint32 u = 10; sfixed64 x = 11; }
    message I { int64 n = 1; }"""
    schema = _as_value_schema(Schema("PROTOBUF", text), [], 1)
    reader = registered(
        schema,
        "n bigint, z int, d double, f float, s string, b binary, ok boolean, u bigint, x bigint, "
        "inner struct<n: bigint>",
    )
    from google.protobuf.message_factory import GetMessageClass
    from odradek.columnar.typed.protobuf_values import descriptor_of, message_type

    message = GetMessageClass(message_type(descriptor_of(schema.text, schema.references), [0]))
    values: list[bytes | None] = []
    for i in range(40):
        sample = message(n=i * 2**40 - 7, z=-i, d=i / 3, f=i / 4, s="ü" * (i % 4), b=bytes(i), ok=i % 2 == 0, x=-i)
        sample.inner.n = i
        sample.list.extend(range(i % 3))
        if i % 5 == 0:
            sample.u = i
        payload = sample.SerializeToString()
        values += [encode_prefix(7, [0]) + payload, encode_prefix(7, [0]) + payload[: i // 2]]
    read_values, table = through_a_file(values, reader)
    assert read_values == values
    assert table.column("value").to_pylist()[::2] == [None] * 40


# --- damage -----------------------------------------------------------------------------------------------------------


def test_wrong_values_are_noticed_by_their_crc(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[bytes | None] = [b'{"d": %d.5}' % i for i in range(10)]
    columnar, _ = encode_table_segment(segment_of(values), typed("d double"), 100_000, keeps_values=False)
    [group] = columnar.index.groups
    data = columnar.parts[0][group.position : group.position + group.size_bytes]
    assert values_of(data, group) == values
    with pytest.raises(FormatError, match="CRC"):
        values_of(data, replace(group, values_crc=group.values_crc ^ 1))
    from odradek.format.parquet import recipes

    monkeypatch.setitem(recipes._ENCODINGS, "d", lambda cells: [b"%.2f" % cell for cell in cells])
    with pytest.raises(FormatError, match="CRC"):
        values_of(data, group)


def test_a_file_that_cannot_be_proven_keeps_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.columnar.recipes import writer

    values: list[bytes | None] = [b'{"n": %d}' % i for i in range(10)]
    monkeypatch.setattr(writer, "encode_rest", lambda texts: b"")
    monkeypatch.setattr(writer, "_best", lambda *_: ("", [False] * 10))
    monkeypatch.setattr(writer, "_recipes", lambda form, rows, *_: [(row, encode_recipe([None]), b"") for row in rows])
    columnar, _ = encode_table_segment(segment_of(values), typed("n bigint"), 100_000, keeps_values=False)
    table = pq.read_table(pa.BufferReader(columnar.parts[0]))
    assert "value_recipe" not in table.column_names
    assert table.column("value").to_pylist() == values
    assert not columnar.index.has_recipes


@settings(deadline=None, max_examples=examples(200))
@given(st.binary(max_size=30))
def test_recipes_of_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        steps = decode_recipe(data)
        made_again([data], [b"\2a"], [None], lambda path: [1])
    except FormatError:
        return
    assert steps == decode_recipe(encode_recipe(steps))


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=5))
def test_doubles_are_read_again_as_they_were(cells: list[float | None]) -> None:
    for encoding in "dn":
        for cell, text in zip(cells, encoded_cells(encoding, cells, b"null"), strict=True):
            assert text == b"null" if cell is None else math.isclose(float(text), cell, rel_tol=0)


def test_every_batch_is_compared_when_a_file_is_written() -> None:
    values: list[bytes | None] = [b'{"n": 1}', None, b"x"]
    columnar, _ = encode_table_segment(segment_of(values), typed("n bigint"), 1, keeps_values=False)
    assert len(list(iter_headers(read_columnar(columnar.parts[0], columnar.index)))) == 1
