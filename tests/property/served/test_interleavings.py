"""Maintainers that stall, die, come late and run twice: readers see the fold of the topic, which never goes back.

Real maintainers and readers over a store whose calls take a drawn time of virtual seconds: some stall for minutes, with
what they have read; some answers are lost, some calls refused; some processes die between two calls. A reader checks
each answer against the log: there is an offset, not before what the answer covers nor before what was seen earlier, up
to which the fold of the log is the answer. Planted bugs, each of a rule of decision 0050, are found.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore, MemoryTaskQueue
from odradek.engine.engine import Engine
from odradek.engine.partition.shared_head import view_of
from odradek.errors import KafkaError, OutcomeUnknown, StoreError, StoreUnavailable
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.model.table import ServedTable
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Check, Delete, Exists, Put
from odradek.served import follow, positions, rows
from odradek.served.positions import Positions
from odradek.served.reads import Bounds, Freshness
from odradek.served.rows import RowWriter
from odradek.served.wiring import TableParts, wire_tables
from odradek.settings import Settings
from odradek.testing import SeededRng

from tests.simulation.loop import run
from tests.support.examples import some
from tests.support.loop_clock import LoopClock

PARTITIONS = 2
KEYS = ("a", "b", "c", "d")
NOW = Freshness({}, 0)
_WORKS_S = 400.0


class Died(BaseException):
    """A process ended in the middle."""


class Unkind:
    """A table whose calls take their time, fail and end processes."""

    def __init__(self, table: Any, rng: random.Random, world: World) -> None:
        self._table, self._rng, self._world = table, rng, world

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            rng = self._rng
            fate = rng.random() if self._world.is_unkind else 1.0
            await asyncio.sleep(rng.choice((15.0, 25.0, 90.0)) if fate < 0.04 else rng.random() / 50)
            if fate > 0.98 and self._world.is_unkind:
                raise Died
            if 0.04 < fate < 0.07:
                raise StoreUnavailable("made to fail")
            result = await method(*args, **kwargs)
            await asyncio.sleep(rng.random() / 50)
            if 0.07 < fate < 0.10 and name in ("put", "update", "delete", "transact"):
                raise OutcomeUnknown("the answer was lost")
            return result

        return call


class World:
    """One run: a log, its table, and those who write and read."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.store = MemoryStore()
        self.clock = LoopClock()
        self.objects = MemoryObjectStore(self.clock)
        self.queue = MemoryTaskQueue()
        self.log: list[list[tuple[str, str | None]]] = [[] for _ in range(PARTITIONS)]
        self.is_unkind = True
        self.is_over = False
        self.problems: list[str] = []
        self.processes = 0
        self.engine = self._engine()

    def _engine(self) -> Engine:
        return Engine(
            tables=self.store,
            objects=self.objects,
            clock=self.clock,
            rng=SeededRng(self.seed),
            settings=Settings(catalog_cache_ms=0),
        )

    def process(self) -> TableParts:
        """The parts of a process of its own."""
        self.processes += 1
        return wire_tables(
            self._engine(),
            Unkind(self.store.rows, random.Random(self.rng.random()), self),
            self.queue,  # type: ignore[arg-type]
        )

    async def append(self) -> None:
        rng = self.rng
        partition = rng.randrange(PARTITIONS)
        mine = [key for number, key in enumerate(KEYS) if number % PARTITIONS == partition]
        builder = RecordBatchBuilder()
        for _ in range(rng.randrange(1, 4)):
            key = rng.choice(mine)
            value = None if rng.random() < 0.4 else f"{partition}-{len(self.log[partition])}"
            self.log[partition].append((key, value))
            builder.append(self.clock.now_ms(), key.encode(), None if value is None else value.encode())
        [result] = await self.engine.produce([ProducePartition("t", partition, builder.build())])
        assert not result.error

    async def ends(self) -> dict[int, int]:
        topic = await self.engine.topics.resolve("t")
        ends = {}
        for number in range(PARTITIONS):
            partition = PartitionId(topic.topic_id, number)
            image = await self.engine.index.read_image(partition.head_id)
            assert image is not None
            ends[number] = view_of(image, partition).next_offset
        return ends

    def fold(self, partition: int, end: int, wanted: str) -> str | None:
        return next((value for key, value in reversed(self.log[partition][:end]) if key == wanted), None)

    # --- actors ---------------------------------------------------------------------------------------------------

    async def maintain(self) -> None:
        """One process after the other; each brings the table up to date once or several times."""
        topic = await self.engine.topics.resolve("t")
        while not self.is_over:
            parts = self.process()
            try:
                for _ in range(self.rng.randrange(1, 4)):
                    await parts.maintainer.catch_up("t", topic, await self.ends(), self.clock.monotonic() + 30)
                    await asyncio.sleep(self.rng.random() * 4)
            except (Died, StoreError):
                await asyncio.sleep(self.rng.random())

    async def read(self) -> None:
        """Look at rows all the time, by one process that sees every answer."""
        reader = wire_tables(self._engine(), self.store.rows, self.queue).reader
        floors = dict.fromkeys(KEYS, 0)
        while not self.is_over:
            await asyncio.sleep(self.rng.random())
            key = self.rng.choice(KEYS)
            partition = KEYS.index(key) % PARTITIONS
            try:
                answer = await reader.get("t", key, Bounds(), NOW)
            except KafkaError as error:
                self.problems.append(f"{key}: {error}")
                return
            value = answer.rows[0].value if answer.rows else None
            first = max(answer.covered.get(partition, 0), floors[key])
            possible = [
                end for end in range(first, len(self.log[partition]) + 1) if self.fold(partition, end, key) == value
            ]
            if not possible:
                self.problems.append(f"{key} is {value!r}, which it is at no offset from {first} on")
                return
            floors[key] = possible[0]

    async def run(self) -> None:
        await self.engine.topics.create("t", PARTITIONS, {"cleanup.policy": "compact"})
        parts = wire_tables(self.engine, self.store.rows, self.queue)
        await parts.tables.serve(ServedTable(name="t", topic="t", value_format="STRING"))
        actors = [asyncio.ensure_future(self.maintain()) for _ in range(3)]
        reader = asyncio.ensure_future(self.read())
        until = self.clock.monotonic() + _WORKS_S
        while self.clock.monotonic() < until and not self.problems:
            await self.append()
            await asyncio.sleep(self.rng.random() * 12)
        self.is_unkind, self.is_over = False, True
        await asyncio.gather(*actors, reader)
        await asyncio.sleep(60)
        topic = await self.engine.topics.resolve("t")
        await parts.maintainer.catch_up("t", topic, await self.ends(), self.clock.monotonic() + 60)
        for key in KEYS:
            partition = KEYS.index(key) % PARTITIONS
            rows = (await parts.reader.get("t", key, Bounds(), NOW)).rows
            value = rows[0].value if rows else None
            wanted = self.fold(partition, len(self.log[partition]), key)
            if value != wanted:
                self.problems.append(f"at the end {key} is {value!r}, not {wanted!r}")
        status = await parts.tables.describe("t")
        if status.lag:
            self.problems.append(f"the table is {status.lag} records behind")


def problems(seed: int) -> list[str]:
    world = World(seed)
    run(world.run())
    return world.problems


@pytest.mark.parametrize("first", some(range(0, 12, 3), every=4))
def test_rows_are_the_fold_of_the_topic_and_never_go_back(first: int) -> None:
    for seed in range(first, first + 3):
        assert problems(seed) == [], f"seed {seed}"


# --- planted bugs -------------------------------------------------------------------------------------------------


@contextmanager
def new_rows_without_the_position() -> Iterator[None]:
    """A row that is not there is written by whoever comes."""

    def anyone(generation: str, position: Any) -> Check:
        return Check(positions.position_key(generation, position.partition), Exists(("v",)))

    with patch.object(follow, "is_ours", anyone):
        yield


@contextmanager
def rows_without_their_offset() -> Iterator[None]:
    """An older row is written over a newer one."""

    async def overwrite(self: RowWriter, key: Any, row: Any, *, keeps_deletions: bool) -> bool:
        try:
            if row.is_deleted:
                await self._rows.delete(Delete(key))
            else:
                await self._rows.put(Put(key, rows.encode_row(row)))
        except StoreError:
            raise StoreUnavailable("again") from None
        return True

    with patch.object(RowWriter, "_overwrite", overwrite):
        yield


@contextmanager
def a_partition_taken_without_a_new_epoch() -> Iterator[None]:
    """Two maintainers believe that the partition is theirs."""
    original = Positions.take

    async def take(self: Positions, generation: str, position: Any, now_ms: int) -> Any:
        taken = await original(self, generation, position, now_ms) if position.epoch == 0 else position
        return taken

    with patch.object(Positions, "take", take):
        yield


@contextmanager
def the_position_before_the_rows() -> Iterator[None]:
    """A writer that dies in between has covered rows that nobody wrote."""
    original = RowWriter.apply

    async def apply(self: RowWriter, changes: Any, ours: Check, *, keeps_deletions: bool) -> None:
        item = await self._rows.get(ours.key)
        if item is not None and changes:
            item["o"] = max(row.offset for _, row in changes) + 1
            await self._rows.put(Put(ours.key, item, ours.condition))
        await original(self, changes, ours, keeps_deletions=keeps_deletions)

    with patch.object(RowWriter, "apply", apply):
        yield


@pytest.mark.parametrize(
    "bug",
    some(
        [
            new_rows_without_the_position,
            rows_without_their_offset,
            the_position_before_the_rows,
            a_partition_taken_without_a_new_epoch,
        ],
        every=2,
    ),
    ids=lambda bug: bug.__name__,
)
def test_a_planted_bug_is_found(bug: Callable[[], Any]) -> None:
    with bug():
        for seed in range(60):
            try:
                if problems(seed):
                    return
            except StoreError:
                return
    pytest.fail("none of 60 runs has shown it")
