"""Files of table topics have the typed columns of the registry's schemas, whatever the values and the registry do."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.columnar.typed.typed_values import TypedValues
from odradek.engine.catalog.typed_columns import TypedColumns
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.errors import StoreUnavailable
from odradek.format.object_keys import segment_key
from odradek.format.varint import encode_varlong
from odradek.model.kinds import Column, kind_of
from odradek.model.value_schema import ValueSchema
from odradek.registry.schemas import Schema
from odradek.registry.subjects import Subjects
from odradek.registry.value_schemas import RegistryValueSchemas

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of, rows_of

SMALL = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1}
TABLE = {"odradek.table.enable": "true", "odradek.table.segment.bytes": "1024"}
MOMENT = datetime(2026, 11, 23, 12, 0, 0, 1, UTC)


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


FIRST = avro({"name": "n", "type": "int"}, {"name": "x", "type": "string"})
SECOND = avro(
    {"name": "n", "type": "long"},
    {"name": "x", "type": ["null", "double"], "default": None},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None},
    {
        "name": "price",
        "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}],
        "default": None,
    },
    {"name": "offset", "type": ["null", {"type": "map", "values": "int"}], "default": None},
)


def value(schema: str, schema_id: int, data: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), data)
    return encode_prefix(schema_id) + out.getvalue()


class Registry(RegistryValueSchemas):
    """The store's registry; it answers unless it is told not to."""

    answers = True

    async def versions(self, subject: str) -> Sequence[ValueSchema]:
        if not self.answers:
            raise StoreUnavailable("no answer")
        return await super().versions(subject)


def subjects_of(store: Store) -> Subjects:
    engine = store.engine()
    return Subjects(engine.catalog, engine.clock, engine.rng)


async def filled(values: Sequence[bytes | None], configs: dict[str, str] | None = None) -> Store:
    store = memory_store()
    engine = store.engine(**SMALL)
    await engine.topics.create("t", 1, TABLE | (configs or {}))
    for value in values:
        assert not (await produce(engine, "t", 0, batch([value], keys=[b"k" * 120]))).error
    store.clock.advance(61)
    return store


async def merged(store: Store, registry: Registry | None = None) -> MaintenanceReport:
    engine = store.engine(7, **SMALL).know_schemas(registry or Registry(subjects_of(store)))
    report = await engine.maintenance.run()
    assert report.failures == []
    return report


async def table_of(store: Store) -> pa.Table:
    engine = store.engine(**SMALL)
    partition = await partition_of(engine, "t")
    files = []
    for row in await rows_of(engine, partition):
        if row.is_columnar and row.segment_id is not None:
            key = segment_key(partition, row.base_offset, row.segment_id, is_columnar=True)
            files.append(pq.read_table(pa.BufferReader(await store.objects.get(key))))
    return pa.concat_tables(files)


async def test_columns_are_the_newest_versions_and_older_values_are_resolved() -> None:
    old = [value(FIRST, 1, {"n": i, "x": "text"}) for i in range(10)]
    new = [value(SECOND, 2, {"n": 2**40, "x": 1.5, "at": MOMENT, "price": Decimal("1.25"), "offset": {"a": 1}})] * 10
    values = [*new, *(b"text", None), *old, encode_prefix(99) + b"?"]
    store = await filled(values)
    subjects = subjects_of(store)
    await subjects.register("t-value", Schema("AVRO", FIRST))
    await subjects.set_config("t-value", level=None)
    from odradek.registry.compatibility import Level

    await subjects.set_config("t-value", level=Level.NONE)
    await subjects.register("t-value", Schema("AVRO", SECOND))
    report = await merged(store)
    table = await table_of(store)
    typed = table.select(["n", "x_v2", "at", "price", "value_offset"]).to_pylist()
    assert "x" not in table.column_names, "its type cannot be that of x, which Iceberg tables may have"
    whole = {"n": 2**40, "x_v2": 1.5, "at": MOMENT, "price": Decimal("1.25"), "value_offset": [("a", 1)]}
    nothing = dict.fromkeys(whole)
    assert typed[:12] == [whole] * 10 + [nothing] * 2
    assert typed[12:] == [nothing] * (len(typed) - 12), "a text is no double: Avro cannot resolve it"
    assert report.done["table_values_misfit"] == len(typed) - 11
    assert [record.value for record in await read_all(store.engine(), "t", 0)] == values


async def test_a_registry_that_does_not_answer_costs_no_column() -> None:
    store = await filled([value(FIRST, 1, {"n": i, "x": "a"}) for i in range(12)])
    await subjects_of(store).register("t-value", Schema("AVRO", FIRST))
    registry = Registry(subjects_of(store))
    registry.answers = False
    report = await merged(store, registry)
    assert report.done["table_segments_refused"]
    assert not report.done["table_segments_written"]
    assert report.tables_behind["table_segments_refused"]
    registry.answers = True
    store.clock.advance(3_600)
    await produce(store.engine(**SMALL), "t", 0, batch([b"later"]))
    store.clock.advance(3_600)
    await merged(store, registry)
    assert (await table_of(store)).column("n").to_pylist()[:12] == list(range(12))


async def test_a_schema_that_gives_no_columns_is_told_and_stops_nothing() -> None:
    store = await filled([b'{"n": 1}'] * 12, {"odradek.table.value.schema": '{"type": "record", "fields": 7}'})
    report = await merged(store)
    assert report.done["table_segments_untyped"] == report.done["table_segments_written"] > 0
    assert "n" not in (await table_of(store)).column_names
    engine = store.engine()
    state = await engine.tables.states.read((await partition_of(engine, "t")).topic_id)
    assert "no typed columns" in state.untyped_why


async def test_bytes_that_only_look_like_ids_cost_a_hundred_requests_at_most() -> None:
    ids_asked = []

    class Empty:
        async def by_id(self, schema_id: int) -> None:
            ids_asked.append(schema_id)

    columns, values = TypedColumns(Empty()), TypedValues([Column("n", kind_of("bigint"), "n")])  # type: ignore[arg-type]
    await columns.learn(values, range(1, 300))
    assert len(ids_asked) == 100
    arrays, misfits = values.read(pa.array([b"\0" + i.to_bytes(4, "big") for i in range(1, 300)], pa.binary()))
    assert (arrays[0].null_count, misfits) == (299, 299)


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []}])
async def test_a_short_value_of_very_many_items_without_bytes_is_not_read(items: Any) -> None:
    schema = avro({"name": "n", "type": "long"}, {"name": "none", "type": {"type": "array", "items": items}})
    bomb = encode_prefix(1) + b"\2" + encode_varlong(2**62) + b"\0"
    store = await filled([bomb] * 12)
    await subjects_of(store).register("t-value", Schema("AVRO", schema))
    report = await merged(store)
    assert report.done["table_segments_written"] >= 1
    assert report.done["table_segments_untyped"] >= 1
    assert {record.value for record in await read_all(store.engine(), "t", 0)} == {bomb}


async def test_columns_of_the_configuration_come_before_those_of_the_schema() -> None:
    topic_configs = {"odradek.table.schema": "n string, day date, tags array<string>"}
    store = await filled([b'{"n": 1, "m": true, "day": "2026-11-23", "tags": ["a"]}'] * 12, topic_configs)
    schema = {"properties": {"n": {"type": "integer"}, "m": {"type": "boolean"}}}
    await subjects_of(store).register("t-value", Schema("JSON", json.dumps(schema)))
    await merged(store)
    rows = (await table_of(store)).select(["n", "m", "day", "tags"]).to_pylist()
    assert rows[0] == {"n": "1", "m": True, "day": datetime(2026, 11, 23).date(), "tags": ["a"]}
