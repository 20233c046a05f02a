"""A process that maintains an embedded store and kills itself at a call of its ports; test_iceberg_kills.py forks it.

Nothing of the module has threads or an open file at import, so a server may fork it.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from typing import Any

import fastavro
import odradek.adapters.iceberg.tables
import odradek.columnar.table_file
import odradek.columnar.typed.protobuf_values
import pyiceberg.catalog.sql
from odradek.adapters.embedded import open_embedded
from odradek.adapters.iceberg import embedded_catalog
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import DeleteRecordsPartition, ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.registry.subjects import Subjects
from odradek.registry.value_schemas import RegistryValueSchemas
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

IMPORTED = (
    odradek.adapters.iceberg.tables,
    odradek.columnar.table_file,
    odradek.columnar.typed.protobuf_values,
    pyiceberg.catalog.sql,
)
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "4000",
    "odradek.table.iceberg.enable": "true",
    "retention.ms": "-1",
}
_AVRO = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "x", "type": "string"}]}
_PROTO = 'syntax = "proto3"; message R { int64 n = 1; string x = 2; }'
TOPICS = {
    "json": {"odradek.table.schema": "n bigint"},
    "avro": {"odradek.table.value.schema": json.dumps(_AVRO)},
    "protobuf": {"odradek.table.value.schema": _PROTO},
}
"""Each has two partitions, and a typed column n by another kind of schema."""
SETTINGS: dict[str, Any] = {
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "table_group_bytes": 2_000,
    "head_bytes_max": 400,
    "paged_appends": 4,
    "maintenance_lease_ms": 1,  # of the dead: over at once
    "sweep_interval_ms": 10**9,
}
_BATCHES = 12
_TEXT = "x" * 60


def value_of(topic: str, n: int) -> bytes:
    """Return the value of a record: n and a text, as the topic's schema has them."""
    if topic == "json":
        return b'{"n": %d, "x": "%s"}' % (n, _TEXT.encode())
    if topic == "protobuf":
        return bytes([8, n, 18, len(_TEXT)]) + _TEXT.encode()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(_AVRO), {"n": n, "x": _TEXT})
    return out.getvalue()


class _Doom:
    def __init__(self, at: int) -> None:
        self.left = at

    def over(self, port: Any) -> Any:
        return _Doomed(self, port)


class _Doomed:
    def __init__(self, doom: _Doom, port: Any) -> None:
        self._doom, self._port = doom, port

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name in ("log", "groups", "catalog"):
            return _Doomed(self._doom, method)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._doom.left -= 1
            if self._doom.left == 0 and os.getpid() % 2:  # in the middle of it, or before
                asyncio.get_running_loop().call_later(0.002, os.kill, os.getpid(), signal.SIGKILL)
            response = await method(*args, **kwargs)
            if self._doom.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return response

        return call


def round_of(data_dir: str, number: int, dies_at: int, catalog: str = "") -> None:
    """Produce, delete some records, and maintain; die at that call of a port, counted from maintenance on.

    Args:
        catalog: the setting table_catalog; empty: the embedded store's.
    """
    asyncio.run(_round(data_dir, number, dies_at, catalog))


async def _round(data_dir: str, number: int, dies_at: int, catalog: str) -> None:
    store = open_embedded(data_dir, synchronous="NORMAL")
    settings = Settings(**SETTINGS)
    alive = Engine(tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=settings)
    topic = list(TOPICS)[number % len(TOPICS)]
    if number < len(TOPICS):
        await alive.topics.create(topic, 2, {**TABLE, **TOPICS[topic]})
    for i in range(_BATCHES):
        builder = RecordBatchBuilder()
        for number_of_value in range(10):
            builder.append(1_700_000_000_000 + number, b"%d" % i, value_of(topic, number_of_value))
        [result] = await alive.produce([ProducePartition(topic, i % 2, builder.build())])
        assert not result.error
    if number % 5 == 4:
        end = result.base_offset // 2
        await alive.delete_records([DeleteRecordsPartition(topic, 1, end)])
    doom = _Doom(dies_at)
    engine = Engine(
        tables=doom.over(store),
        objects=doom.over(store.objects),
        clock=SystemClock(),
        rng=SystemRng(),
        settings=settings,
    ).keep_tables(doom.over(embedded_catalog(catalog, data_dir)))
    engine.know_schemas(RegistryValueSchemas(Subjects(engine.catalog, engine.clock, engine.rng)))
    await engine.maintenance.run()
    await store.aclose()


async def at_rest(data_dir: str, catalog: str = "") -> tuple[list[str], dict[str, dict[int, tuple[int, int]]]]:
    """Maintain without dying, and audit; what is wrong, and the offsets of each topic's partitions."""
    store = open_embedded(data_dir, synchronous="NORMAL")
    engine = Engine(
        tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=Settings(**SETTINGS)
    ).keep_tables(embedded_catalog(catalog, data_dir))
    engine.know_schemas(RegistryValueSchemas(Subjects(engine.catalog, engine.clock, engine.rng)))
    problems = []
    for _ in range(3):
        await asyncio.sleep(0.01)
        problems = (await engine.maintenance.run()).failures
    problems += [str(finding) for finding in (await audit_store(engine)).findings]
    ends: dict[str, dict[int, tuple[int, int]]] = {}
    for name in TOPICS:
        topic = await engine.topics.resolve(name)
        for number in range(topic.partition_count):
            head = await engine.index.read_head(PartitionId(topic.topic_id, number))
            assert head is not None
            ends.setdefault(name, {})[number] = head.log_start_offset, head.next_offset
    await store.aclose()
    return problems, ends
