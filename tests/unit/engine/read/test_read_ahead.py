"""Reading ahead: a consumer that catches up finds the next bytes there, and nobody pays for what is not read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.engine.read.read_ahead import Blocks
from odradek.format.record_batch import decode_batches
from odradek.model.log import FetchPartition, ProducePartition
from odradek.settings import Settings
from odradek.testing.faults import Fault, Faulty
from odradek.testing.latency import Latency, Slow
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.simulation.loop import run
from tests.support.engine import batch
from tests.support.loop_clock import LoopClock

GET_MS = 30
RECORD = b"x" * 20_000
FETCH_BYTES = 100_000
MERGING = {"merge_delay_ms": 0, "merge_rows_min": 1, "merge_age_ms": 0, "spill_entries": 1, "paged_appends": 8}


class World:
    """A log in stores of which a GET takes 30 ms, and the process that serves its consumers."""

    def __init__(self, read_ahead_bytes: int = 2_000_000, **settings: Any) -> None:
        self.clock = LoopClock()
        self.tables = MemoryStore()
        self.objects = Faulty(MemoryObjectStore(self.clock))
        self.writer = self.engine(self.objects, **settings)
        slow = Slow(self.objects, Latency(GET_MS, GET_MS), self.clock, SeededRng(1))
        self.server = self.engine(slow, read_ahead_bytes=read_ahead_bytes, **settings)

    def engine(self, objects: Any, **settings: Any) -> Engine:
        return Engine(
            tables=self.tables, objects=objects, clock=self.clock, rng=SeededRng(0), settings=Settings(**settings)
        )

    async def fill(self, uploads: int, partitions: int = 1) -> None:
        """Uploads with a record to each partition."""
        await self.writer.topics.create("t", partitions, {"retention.ms": "-1"})
        for number in range(uploads):
            records = batch([b"%06d" % number + RECORD])
            await self.writer.produce([ProducePartition("t", partition, records) for partition in range(partitions)])

    async def read(self, offset: int = 0, fetches: int | None = None, partitions: int = 1) -> list[float]:
        """Fetch on to the end, or so often; returns how many milliseconds each fetch took.

        Asserts that every record is there, once and in order.
        """
        took: list[float] = []
        at = [offset] * partitions
        while fetches is None or len(took) < fetches:
            began = self.clock.monotonic()
            wanted = [
                FetchPartition("t", partition, at[partition], max_bytes=FETCH_BYTES) for partition in range(partitions)
            ]
            results = await self.server.fetch(wanted, max_bytes=partitions * FETCH_BYTES)
            took.append((self.clock.monotonic() - began) * 1000)
            for partition, result in enumerate(results):
                assert not result.error, (result.error.name, result.message)
                for record in decode_batches(b"".join(result.records)):
                    assert record.offset == at[partition]
                    assert (record.value or b"").startswith(b"%06d" % at[partition])
                    at[partition] += 1
            if all(at[partition] == result.high_watermark for partition, result in enumerate(results)):
                break
            await self.clock.sleep(GET_MS / 1000)  # the client works through it
        return took

    @property
    def gets(self) -> int:
        return self.objects.count("get_range")


def in_virtual_time(work: Callable[[], Awaitable[None]]) -> None:
    """Run it; what a task in the background raises and nobody asks for fails the test."""
    unheard: list[Any] = []

    async def inside() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        await work()
        gc.collect()

    run(inside())
    assert not unheard


def test_who_reads_on_waits_for_no_get() -> None:
    async def work() -> None:
        world = World()
        await world.fill(100)
        took = await world.read()
        assert min(took[:2]) >= GET_MS  # nobody knows yet that it goes on
        assert len(took) > 10
        assert max(took[4:]) < GET_MS / 2, took
        assert world.gets == 100  # each upload once

    in_virtual_time(work)


def test_a_segment_takes_fewer_reads_than_fetches() -> None:
    async def work() -> None:
        world = World(**MERGING)
        await world.fill(200)
        await world.clock.sleep(3600)
        assert not (await world.writer.maintenance.run()).failures
        before = world.gets
        took = await world.read()
        assert len(took) >= 40
        assert max(took[4:30]) < GET_MS / 2, took
        assert world.gets - before < len(took) / 2

    in_virtual_time(work)


def test_a_function_reads_nothing_ahead() -> None:
    async def work() -> None:
        world = World(Settings().read_ahead_bytes)
        await world.fill(40)
        assert min(await world.read(fetches=5)) >= GET_MS
        assert world.gets == 5 * (FETCH_BYTES // len(RECORD) - 1)

    in_virtual_time(work)


def test_who_turns_away_has_cost_a_window_at_most() -> None:
    async def work() -> None:
        world = World(read_ahead_bytes=800_000)
        await world.fill(100)
        await world.read(fetches=1)
        await world.clock.sleep(1)
        await world.read(offset=70, fetches=1)
        await world.clock.sleep(1)
        assert world.gets == 2 * 4  # two fetches that show no direction
        await world.read(offset=10, fetches=2)
        await world.clock.sleep(1)
        assert world.gets <= 4 * 4 + 2 * 4  # who has just begun to go on is ahead by two fetches
        await world.read(offset=30, fetches=4)
        await world.clock.sleep(1)
        assert world.gets <= 6 * 4 + 4 * 4 + 400_000 // len(RECORD)

    in_virtual_time(work)


def test_partitions_of_one_upload_are_read_ahead_together() -> None:
    async def work() -> None:
        world = World(read_ahead_bytes=16_000_000)
        await world.fill(60, partitions=8)
        took = await world.read(partitions=8)
        assert max(took[4:12]) < GET_MS / 2, took
        assert world.gets <= 60 + 8  # not 8 * 60: an upload is one range, but where a fetch ended within one

    in_virtual_time(work)


def test_what_could_not_be_read_ahead_is_read_by_the_fetch() -> None:
    async def work() -> None:
        world = World()
        await world.fill(60)
        await world.read(fetches=2)
        begun = world.gets
        world.objects.script = {("get_range", begun + number): Fault.UNAVAILABLE for number in range(1, 9)}
        await world.clock.sleep(1)
        assert len(await world.read(offset=8)) >= 13
        assert world.gets > begun + 8

    in_virtual_time(work)


def test_a_merge_meanwhile_takes_nothing_from_the_reader() -> None:
    async def work() -> None:
        world = World(read_ahead_bytes=300_000, **MERGING, sweep_interval_ms=0, sweep_horizon_ms=960_000)
        await world.fill(60)
        await world.read(fetches=3)
        await world.clock.sleep(3600)
        for _ in range(3):
            assert not (await world.writer.maintenance.run()).failures
            await world.clock.sleep(3600)
        assert len(await world.read(offset=12)) >= 12

    in_virtual_time(work)


class Source:
    """An object of bytes, and how it was read."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []
        self.may_end = asyncio.Event()

    async def read(self, key: str, start: int, length: int) -> bytes:
        self.reads.append((start, length))
        await self.may_end.wait()
        return bytes(range(start, start + length))


async def test_blocks_answer_what_they_hold_whole_or_in_part() -> None:
    source = Source()
    source.may_end.set()
    blocks = Blocks(100, source.read, 2, ManualClock())
    blocks.begin("a", 10, 20)
    blocks.begin("a", 15, 30)  # begins in what is on its way
    await asyncio.sleep(0)
    assert bytes(await blocks.find("a", 12, 4) or b"") == bytes(range(12, 16))
    assert bytes(await blocks.find("a", 12, 14) or b"") == bytes(range(12, 26))
    assert await blocks.find("a", 9, 4) is None
    assert await blocks.find("a", 25, 10) is None
    assert await blocks.find("b", 12, 4) is None
    assert source.reads == [(10, 10), (20, 10)]


async def test_blocks_keep_to_their_limit_and_drop_what_was_used_longest_ago() -> None:
    source = Source()
    source.may_end.set()
    blocks = Blocks(30, source.read, 2, ManualClock())
    for start in (0, 10, 20):
        blocks.begin("a", start, start + 10)
    await asyncio.sleep(0.01)
    for start in (10, 20, 0):
        await blocks.find("a", start, 10)
    blocks.begin("a", 30, 40)
    await asyncio.sleep(0.01)
    assert await blocks.find("a", 10, 10) is None
    assert await blocks.find("a", 0, 10) is not None
    blocks.begin("a", 40, 71)  # more than may be kept in all
    assert len(source.reads) == 4


async def test_a_block_is_not_dropped_before_somebody_had_time_to_ask_for_it() -> None:
    source, clock = Source(), ManualClock()
    source.may_end.set()
    blocks = Blocks(10, source.read, 2, clock)
    blocks.begin("a", 0, 10)
    blocks.begin("a", 10, 20)
    await asyncio.sleep(0.01)
    assert source.reads == [(0, 10)]
    clock.advance(60)
    blocks.begin("a", 10, 20)
    await asyncio.sleep(0.01)
    assert source.reads == [(0, 10), (10, 10)]


async def test_who_needs_a_block_that_waits_its_turn_does_not_wait() -> None:
    source = Source()
    blocks = Blocks(100, source.read, 1, ManualClock())
    blocks.begin("a", 0, 10)
    blocks.begin("a", 10, 20)
    await asyncio.sleep(0.01)
    assert await blocks.find("a", 10, 10) is None
    source.may_end.set()
    await asyncio.sleep(0.01)
    assert source.reads == [(0, 10)]  # nor is it read any more
    assert await blocks.find("a", 0, 10) is not None


async def test_a_request_that_is_cancelled_leaves_the_block_to_the_others() -> None:
    source = Source()
    blocks = Blocks(100, source.read, 1, ManualClock())
    blocks.begin("a", 0, 10)
    await asyncio.sleep(0)
    waiting = asyncio.create_task(blocks.find("a", 0, 5))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0.01)
    source.may_end.set()
    assert bytes(await blocks.find("a", 0, 5) or b"") == bytes(range(5))
