"""An engine over memory with served tables, without HTTP: what a function has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore, MemoryTaskQueue
from odradek.engine.engine import Engine
from odradek.engine.marks import decode_wake
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.model.table import ServedTable, TableRow
from odradek.served.reads import Bounds, Freshness
from odradek.served.wiring import TableParts, wire_tables
from odradek.settings import Settings
from odradek.testing import ManualClock, SeededRng

NOW_MS = 1_700_000_000_000
ANY_TIME = Freshness({}, 0)
ALL = Bounds()


class Served:
    """A store with tables; any number of processes may be opened on it."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(NOW_MS, auto_advance=True)
        self.rng = SeededRng(1)
        self.store = MemoryStore()
        self.objects = MemoryObjectStore(self.clock)
        self.queue = MemoryTaskQueue()
        self.settings = Settings(**{"catalog_cache_ms": 0, **settings})
        self.engine = self._engine()
        self.parts = wire_tables(self.engine, self.store.rows, self.queue, expires=True)

    def _engine(self) -> Engine:
        return Engine(
            tables=self.store,
            objects=self.objects,
            clock=self.clock,
            rng=self.rng,
            settings=self.settings,
            wakes=self.queue,
        )

    def process(self) -> TableParts:
        """The parts of another process."""
        return wire_tables(self._engine(), self.store.rows, self.queue, expires=True)

    async def topic(self, name: str = "scores", partitions: int = 1, **configs: str) -> None:
        topic_configs = {
            "cleanup.policy": "compact",
            **{key.replace("_", "."): value for key, value in configs.items()},
        }
        await self.engine.topics.create(name, partitions, topic_configs)

    async def serve(self, name: str = "scores", topic: str = "scores", **options: Any) -> ServedTable:
        return await self.parts.tables.serve(ServedTable(name=name, topic=topic, **options))

    async def put(
        self, *rows: tuple[bytes | None, bytes | None], topic: str = "scores", partition: int = 0, at_ms: int = NOW_MS
    ) -> int:
        """Append a batch; return the offset of its first record."""
        builder = RecordBatchBuilder()
        for key, value in rows:
            builder.append(at_ms, key, value)
        [result] = await self.engine.produce([ProducePartition(topic, partition, builder.build())])
        assert not result.error, result
        return result.base_offset

    async def work(self, parts: TableParts | None = None) -> int:
        """Work off the messages; return how many there were."""
        count = 0
        while self.queue.messages:
            message = self.queue.messages.pop(0)
            wake = decode_wake(message)
            topic = await self.engine.topics.get_by_id(wake.head_id.topic_id)
            count += 1
            await (parts or self.parts).maintainer.handle(topic, wake, self.clock.monotonic() + 60)
        return count

    async def rows(self, key: str, name: str = "scores", bounds: Bounds = ALL) -> Sequence[TableRow]:
        return (await self.parts.reader.get(name, key, bounds, ANY_TIME)).rows

    async def value(self, key: str, name: str = "scores") -> Any:
        rows = await self.rows(key, name)
        return rows[0].value if rows else None
