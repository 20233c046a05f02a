"""`odradek.table.value.bytes=false`: consumers see the same, of smaller files, which keep what cannot be made."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.engine.audit.store import audit_store
from odradek.engine.partition.index_row import IndexRow, decode_index_row, encode_index_row
from odradek.format.object_keys import segment_key
from odradek.format.record_batch import iter_headers
from odradek.model.log import FetchPartition
from odradek.model.record import CompressionType, Record
from odradek.registry.schemas import Schema
from odradek.registry.subjects import Subjects
from odradek.registry.value_schemas import RegistryValueSchemas

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of, rows_of

SMALL = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1, "table_group_bytes": 4_000}
TABLE = {"odradek.table.enable": "true", "odradek.table.segment.bytes": "20000", "odradek.table.value.bytes": "false"}
JSON = {"odradek.table.schema": "id string, price double, note string, count bigint"}
T0 = 1_700_000_000_000


def lines(count: int) -> list[bytes | None]:
    values: list[bytes | None] = [
        json.dumps({"id": f"{i * 7919:08x}", "count": i, "price": i / 8, "note": f"order {i} ü"}).encode()
        for i in range(count)
    ]
    values[3:6] = [None, b"", b"\0 not JSON"]
    values[20] = b"%b" * 100_000
    return values


async def filled(values: Sequence[bytes | None], **configs: str) -> Store:
    store = memory_store()
    engine = store.engine(**SMALL)
    await engine.topics.create("t", 1, TABLE | configs)
    for at in range(0, len(values), 5):
        compression = list(CompressionType)[at // 5 % len(CompressionType)]
        packed = batch(values[at : at + 5], keys=[b"k", None, b""] * 2, timestamp_ms=T0 + at, compression=compression)
        assert not (await produce(engine, "t", 0, packed)).error
    store.clock.advance(61)
    return store


async def merged(store: Store, **settings: int) -> dict[str, int]:
    subjects = Subjects(store.engine().catalog, store.clock, store.engine().rng)
    engine = store.engine(7, **SMALL | settings).know_schemas(RegistryValueSchemas(subjects))
    report = await engine.maintenance.run()
    assert report.failures == []
    return dict(report.done)


async def rows(store: Store) -> list[IndexRow]:
    engine = store.engine(**SMALL)
    return [row for row in await rows_of(engine, await partition_of(engine, "t")) if row.is_columnar]


async def table_of(store: Store) -> pa.Table:
    partition = await partition_of(store.engine(), "t")
    files = []
    for row in await rows(store):
        assert row.segment_id is not None
        key = segment_key(partition, row.base_offset, row.segment_id, is_columnar=True)
        files.append(pq.read_table(pa.BufferReader(await store.objects.get(key))))
    return pa.concat_tables(files, promote_options="default")


async def batches(store: Store) -> list[tuple[Any, ...]]:
    headers_read: list[tuple[Any, ...]] = []
    offset = 0
    while True:
        answers = await store.engine().fetch([FetchPartition("t", 0, offset, 50_000)], max_wait_ms=0, min_bytes=0)
        headers = [header for _, header in iter_headers(b"".join(answers[0].records))]
        if not headers:
            return headers_read
        headers_read += [
            (header.base_offset, header.attributes, header.base_timestamp_ms, header.record_count) for header in headers
        ]
        offset = headers[-1].next_offset


async def test_consumers_see_every_byte_of_values_that_files_do_not_have() -> None:
    values = lines(400)
    store = await filled(values, **JSON)
    before, headers = await read_all(store.engine(), "t", 0), await batches(store)
    assert [record.value for record in before] == values
    done = await merged(store)
    assert done["table_segments_with_recipes"] == done["table_segments_written"] >= 1
    table = await table_of(store)
    kept = [value for value in table.column("value").to_pylist() if value is not None]
    assert kept == [*values[4:6], values[20]], "what is no JSON; tombstones have neither bytes nor a recipe"
    assert await batches(store) == headers
    assert await read_all(store.engine(), "t", 0) == before
    for offset in range(0, 390, 37):
        records: Sequence[Record] = await read_all(store.engine(), "t", 0, offset)
        assert [record for record in records if record.offset >= offset] == before[offset:]
    assert all(row.has_recipes for row in await rows(store))
    assert (await audit_store(store.engine(**SMALL), fast=False)).findings == []


async def test_files_are_smaller_by_the_bytes_of_values() -> None:
    sizes = []
    for keeps in ("true", "false"):
        values = [value for value in lines(400) if value is not None and len(value) < 1_000]
        store = await filled(values, **{**JSON, "odradek.table.value.bytes": keeps})
        await merged(store, table_group_bytes=1_000_000)
        sizes.append(sum(row.file_bytes for row in await rows(store)))
    assert sizes[1] < 0.75 * sizes[0]


async def test_the_configuration_changes_files_that_are_written_from_then_on() -> None:
    store = await filled(lines(200), **{**JSON, "odradek.table.value.bytes": "true"})
    await merged(store)
    first = await rows(store)
    assert first
    assert not any(row.has_recipes for row in first)
    engine = store.engine(**SMALL)
    await engine.topics.alter_configs("t", set={"odradek.table.value.bytes": "false"})
    for at in range(0, 200, 5):
        assert not (await produce(engine, "t", 0, batch(lines(200)[at : at + 5], timestamp_ms=T0 + at))).error
    store.clock.advance(61)
    await merged(store)
    recipes_by_offset = {row.base_offset: row.has_recipes for row in await rows(store)}
    assert set(recipes_by_offset.values()) == {True, False}
    assert [record.value for record in await read_all(store.engine(), "t", 0)] == lines(200) * 2


async def test_a_topic_without_typed_columns_keeps_its_values() -> None:
    store = await filled([b'{"id": "%d", "pad": "%d"}' % (i, i**9) for i in range(600)])
    await merged(store)
    assert "value_recipe" not in (await table_of(store)).column_names
    assert not any(row.has_recipes for row in await rows(store))


async def test_avro_of_the_registry_from_producers_to_files_and_back() -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "count", "type": "long"},
            {"name": "price", "type": ["null", "double"], "default": None},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
    values: list[bytes | None] = []
    for i in range(300):
        out = io.BytesIO()
        data = {"id": f"o{i}", "count": i * 2**33, "price": None if i % 3 else i / 7, "tags": ["a"] * (i % 3)}
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), data)
        values.append(encode_prefix(1) + out.getvalue())
    store = await filled([*values, encode_prefix(9) + b"no schema", b"no prefix"])
    subjects = Subjects(store.engine().catalog, store.clock, store.engine().rng)
    await subjects.register("t-value", Schema("AVRO", json.dumps(schema)))
    before = await read_all(store.engine(), "t", 0)
    done = await merged(store)
    assert done["table_segments_with_recipes"] >= 1
    assert await read_all(store.engine(), "t", 0) == before
    table = await table_of(store)
    assert table.column("value").to_pylist()[:200] == [None] * 200
    assert table.column("count").to_pylist()[:200] == [i * 2**33 for i in range(200)]


@pytest.mark.parametrize("has_recipes", [False, True])
def test_rows_say_whether_a_file_has_all_values(has_recipes: bool) -> None:
    row = IndexRow(5, 9, 7, 100, 3, segment_id=bytes(16), index_bytes=8, file_bytes=50, has_recipes=has_recipes)
    assert decode_index_row(5, encode_index_row(row)) == row
    assert ("r" in encode_index_row(row)) is has_recipes
