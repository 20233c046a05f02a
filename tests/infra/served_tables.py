"""Calls of functions for served tables, for the test of their permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from odradek.adapters.memory.task_queue import MemoryTaskQueue
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.engine.marks import decode_wake
from odradek.format.record_batch import RecordBatchBuilder
from odradek.functions.environment import MAINTAINER, MAINTENANCE, TABLES, TRIGGER_DISPATCHER
from odradek.model.table import ServedTable
from odradek.registry.schemas import Schema
from odradek.registry.subjects import Subjects
from odradek.served.reads import Bounds, Freshness
from odradek.served.wiring import TableParts, wire_tables

from tests.support.engine import produce


async def served_tables(world: Any, admin: Engine) -> Callable[[], Awaitable[None]]:
    """A served table from its creation to its removal: rows that come, change and go, a wait, a recreated topic.

    Returns what is left to be done a day later.
    """
    queue = MemoryTaskQueue()

    def parts(function: str) -> TableParts:
        engine = world.engine(function, catalog_cache_ms=0)
        return wire_tables(engine, engine.tools.tables.rows, queue)  # type: ignore[attr-defined]

    async def work_off() -> None:
        while queue.messages:
            wake = decode_wake(queue.messages.pop())
            topic = await follows.topics.get_by_id(wake.head_id.topic_id)
            await maintainer.handle(topic, wake, world.clock.monotonic() + 60)

    follows = world.engine(TRIGGER_DISPATCHER, catalog_cache_ms=0)
    maintainer = wire_tables(follows, follows.tools.tables.rows, queue).maintainer  # type: ignore[attr-defined]
    answers, sweeps = parts(TABLES), parts(MAINTENANCE)
    await world.engine(TABLES).acls.current()
    row = Schema("AVRO", '"string"')
    stored = await Subjects(admin.catalog, world.clock, admin.rng).register("scores-value", row)
    value = b"\0" + stored.stored.schema_id.to_bytes(4, "big") + b"\x02v"

    appends = world.engine("produce", catalog_cache_ms=0, head_bytes_max=400, spill_entries=1)

    async def put(*records: tuple[bytes, bytes | None]) -> None:
        builder = RecordBatchBuilder()
        for record in records:
            builder.append(world.clock.now_ms(), *record)
        assert not (await produce(appends, "scores", 0, builder.build())).error

    async def waits(offset: int) -> None:
        fresh = Freshness({0: offset}, 1_000)
        [row] = (await answers.reader.get("scores", "a", Bounds(), fresh)).rows
        assert row.value == "v", row

    for _ in range(2):  # the second time, the topic is another one of that name
        await admin.topics.create("scores", 2, {"cleanup.policy": "compact", "odradek.partitions.per.head": "1"})
        await answers.tables.serve(ServedTable(name="scores", topic="scores", value_format="AVRO"))
        await sweeps.sweep.run()
        await work_off()
        await put((b"a", value), (b"b", value), (b"large", b"x" * 20_000))
        await waits(2)
        await put((b"a", value), (b"b", None))
        await waits(4)
        await put((b"d", value), (b"e", value))
        await sweeps.sweep.run()
        await work_off()
        await put((b"d", value), (b"e", None))
        for size in (10, 20_000, 10, 10):
            await put((b"c", b"x" * size))
        merged = MaintenanceReport()
        merging = world.engine(MAINTAINER, merge_rows_min=1, merge_delay_ms=0).maintenance
        await merging.run_partition(await admin.topics.resolve("scores"), 0, merged)
        assert merged.done["segments_merged"], merged
        await work_off()
        await answers.tables.stop("scores")
        await answers.tables.resume("scores")
        await answers.reader.range("scores", (None, None, None), Bounds(), Freshness({}, 0), limit=10)
        await answers.reader.changes("scores", None, Bounds(), {0: 0}, wait_ms=0)
        await answers.tables.describe("scores")
        await answers.tables.list_all()
        await admin.topics.delete("scores")
    await sweeps.sweep.run()
    await answers.tables.drop("scores")
    await sweeps.sweep.run()
    await work_off()

    async def a_day_later() -> None:
        await sweeps.sweep.run()
        await work_off()

    return a_day_later
