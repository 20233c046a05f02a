"""A process that maintains an embedded store and kills itself at a call of its ports; test_iceberg_kills.py forks it.

Nothing of the module has threads or an open file at import, so a server may fork it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import odradek.adapters.iceberg.tables
import odradek.columnar.table_file
import pyiceberg.catalog.sql
from odradek.adapters.embedded import open_embedded
from odradek.adapters.iceberg import embedded_catalog
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import DeleteRecordsPartition, ProducePartition
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

IMPORTED = (odradek.adapters.iceberg.tables, odradek.columnar.table_file, pyiceberg.catalog.sql)
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "4000",
    "odradek.table.schema": "n bigint",
    "odradek.table.iceberg.enable": "true",
    "retention.ms": "-1",
}
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
            answer = await method(*args, **kwargs)
            if self._doom.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call


def round_of(data_dir: str, number: int, dies_at: int) -> None:
    """Produce, delete some records, and maintain; die at that call of a port, counted from maintenance on."""
    asyncio.run(_round(data_dir, number, dies_at))


async def _round(data_dir: str, number: int, dies_at: int) -> None:
    store = open_embedded(data_dir, synchronous="NORMAL")
    settings = Settings(**SETTINGS)
    alive = Engine(tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=settings)
    if number == 0:
        await alive.topics.create("t", 2, TABLE)
    for i in range(_BATCHES):
        builder = RecordBatchBuilder()
        for each in range(10):
            builder.append(1_700_000_000_000 + number, b"%d" % i, b'{"n": %d, "x": "%s"}' % (each, b"x" * 60))
        [result] = await alive.produce([ProducePartition("t", i % 2, builder.build())])
        assert not result.error
    if number % 5 == 4:
        end = result.base_offset // 2
        await alive.delete_records([DeleteRecordsPartition("t", 1, end)])
    doom = _Doom(dies_at)
    engine = Engine(
        tables=doom.over(store),
        objects=doom.over(store.objects),
        clock=SystemClock(),
        rng=SystemRng(),
        settings=settings,
    ).keep_tables(doom.over(embedded_catalog("", data_dir)))
    await engine.maintenance.run()
    await store.aclose()


async def at_rest(data_dir: str) -> tuple[list[str], dict[int, tuple[int, int]]]:
    """Maintain without dying, and audit; what is wrong, and the offsets of the log."""
    store = open_embedded(data_dir, synchronous="NORMAL")
    engine = Engine(
        tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=Settings(**SETTINGS)
    ).keep_tables(embedded_catalog("", data_dir))
    problems = []
    for _ in range(3):
        await asyncio.sleep(0.01)
        problems = (await engine.maintenance.run()).failures
    problems += [str(finding) for finding in (await audit_store(engine)).findings]
    topic = await engine.topics.resolve("t")
    ends = {}
    for number in range(2):
        from odradek.model.topic_partition import PartitionId

        head = await engine.index.read_head(PartitionId(topic.topic_id, number))
        assert head is not None
        ends[number] = head.log_start_offset, head.next_offset
    await store.aclose()
    return problems, ends
