"""A maintainer of a table topic dies at any call: no file is lost, none stays, and the table equals the topic."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.adapters.memory import MemoryTableCatalog
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.engine.iceberg.decisions import files_of
from odradek.model.log import DeleteRecordsPartition
from odradek.ports.table_catalog import TableName
from odradek.settings import Settings
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of, rows_of

SMALL = {
    "head_bytes_max": 400,
    "spill_entries": 2,
    "merge_rows_min": 1,
    "table_group_bytes": 600,
    "maintenance_parallelism": 1,
}
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "2000",
    "odradek.table.iceberg.enable": "true",
}
NAME = TableName("odradek", "t")


class Died(BaseException):
    """The process is gone: nothing of the program sees it."""


class Doom:
    """Counts calls of all ports; the process dies at one of them, before or after it was applied."""

    def __init__(self, at: int = -1, *, after: bool = False) -> None:
        self.at, self.after, self.calls, self.dead = at, after, 0, False

    def over(self, port: Any) -> Any:
        return _Doomed(self, port)


class _Doomed:
    def __init__(self, doom: Doom, port: Any) -> None:
        self._doom, self._port = doom, port

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name in ("log", "groups", "catalog"):
            return _Doomed(self._doom, method)

        async def call(*args: Any, **kwargs: Any) -> Any:
            doom = self._doom
            number, doom.calls = doom.calls, doom.calls + 1
            if doom.dead or (number == doom.at and not doom.after):
                doom.dead = True
                raise Died
            result = await method(*args, **kwargs)
            if number == doom.at:
                doom.dead = True
                raise Died
            return result

        return call


def engine_over(store: Store, lake: MemoryTableCatalog, doom: Doom, seed: int) -> Engine:
    return Engine(
        tables=doom.over(store.tables),
        objects=doom.over(store.objects),
        clock=store.clock,
        rng=SeededRng(seed),
        settings=Settings(**SMALL),  # type: ignore[arg-type]
    ).keep_tables(doom.over(lake))


async def prepared() -> tuple[Store, MemoryTableCatalog]:
    """A table with files, of which one is to go, and records that are to become another."""
    store = memory_store(1)
    lake = MemoryTableCatalog(store.clock)
    engine = engine_over(store, lake, Doom(), 1)
    await engine.topics.create("t", 1, TABLE)
    for i in range(50):
        packed = batch([b"%d" % i, None, b"x" * 60], timestamp_ms=1_700_000_000_000 + i)
        assert not (await produce(engine, "t", 0, packed)).error
        if i == 35:
            store.clock.advance(61)
            await engine.maintenance.run()
    first = min(end for _, end in (await files(engine)).values())
    await engine.delete_records([DeleteRecordsPartition("t", 0, first)])
    store.clock.advance(61)
    return store, lake


async def files(engine: Engine) -> dict[str, tuple[int, int]]:
    partition = await partition_of(engine, "t")
    return files_of(partition, await rows_of(engine, partition))


async def dies_at(number: int, *, after: bool) -> None:
    store, lake = await prepared()
    records = await read_all(engine_over(store, lake, Doom(), 2), "t", 0, 40)
    try:
        await engine_over(store, lake, Doom(number, after=after), 3).maintenance.run()
    except (Died, BaseExceptionGroup):
        pass
    names = {info.key for info in await store.objects.list("topics/")}
    for snapshot in lake.tables[NAME].snapshots:
        assert snapshot.files <= names, "a reader of the table finds every file"
    for seed in (4, 5):
        store.clock.advance(7_300)  # leases of the dead, and uploads that nobody knows
        engine = engine_over(store, lake, Doom(), seed)
        report = await engine.maintenance.run()
        assert report.failures == []
    live = await files(engine)
    names = {info.key for info in await store.objects.list("topics/")}
    assert {key for key in names if key.endswith(".parquet")} == live.keys() == lake.tables[NAME].snapshots[-1].files
    assert all(snapshot.files <= names for snapshot in lake.tables[NAME].snapshots)
    assert await read_all(engine, "t", 0, 40) == records
    assert (await audit_store(engine, fast=True)).findings == []


async def calls_of_a_pass() -> int:
    store, lake = await prepared()
    doom = Doom()
    report = await engine_over(store, lake, doom, 3).maintenance.run()
    assert report.done["table_segments_written"] >= 1
    assert report.done["table_files_removed"] >= 1
    assert report.done["table_files_added"] >= 1
    return doom.calls


async def test_a_maintainer_dies_at_some_calls() -> None:
    count = await calls_of_a_pass()
    for number in range(3, count, max(1, count // 14)):
        await dies_at(number, after=bool(number % 2))


@pytest.mark.slow
async def test_a_maintainer_dies_at_every_call() -> None:
    """Slow: before and after each call of a pass."""
    for number in range(await calls_of_a_pass()):
        for after in (False, True):
            await dies_at(number, after=after)
