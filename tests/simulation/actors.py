"""Actors: programs that use the engine as clients do, crash, and start again as a new process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError
from odradek.format.record_batch import RecordBatchBuilder, decode_batches
from odradek.model.log import FetchPartition, ProducePartition
from odradek.model.record import CompressionType
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

from tests.simulation.history import History, Poll, Send
from tests.simulation.world import Process, World

Program = Callable[[Process], Coroutine[Any, Any, None]]


async def lives(world: World, name: str, program: Program, restarts: int = 6) -> None:
    """Run a program; after a crash start it again as a new process, a bounded number of times."""
    for _ in range(restarts):
        process = world.process(name)
        if await process.run(program(process)):
            return
        await asyncio.sleep(world.rng.random())


def encode(values: list[bytes], producer: tuple[int, int, int] = (-1, -1, -1), timestamp_ms: int = 0) -> bytes:
    """A batch; `producer` is (id, epoch, base sequence)."""
    builder = RecordBatchBuilder(CompressionType.NONE)
    for value in values:
        builder.append(timestamp_ms, value, value)
    return builder.build(producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2])


async def find_topic(engine: Engine, name: str) -> Topic:
    """The topic, however long the store stays away."""
    while True:
        try:
            topic = await engine.topics.get(name)
        except KafkaError:
            topic = None
        if topic is not None:
            return topic
        await engine.clock.sleep(0.1)


class Producer:
    """Sends unique values to the partitions of a topic; several requests in flight a partition."""

    def __init__(self, world: World, history: History, name: str, topic: str, count: int, *, idempotent: bool) -> None:
        self._world = world
        self._history = history
        self._name = name
        self._topic = topic
        self._left = count
        self._idempotent = idempotent
        self._values = 0
        self._lives = 0

    async def program(self, process: Process) -> None:
        engine, rng = process.engine, self._world.rng
        topic = await find_topic(engine, self._topic)
        self._lives += 1
        life = f"{self._name}/{self._lives}"
        producer_id, epoch = (-1, -1)
        while self._idempotent and producer_id < 0:
            try:
                producer_id, epoch = await engine.producer_ids.init(None)
            except KafkaError:
                await engine.clock.sleep(0.1)
        sequences = [0] * topic.partition_count
        pending: set[asyncio.Task[None]] = set()
        while self._left > 0:
            partition = rng.randrange(topic.partition_count)
            values = [self._next_value() for _ in range(rng.choice((1, 1, 1, 2, 3)))]
            self._left -= len(values)
            place = PartitionId(topic.topic_id, partition)
            base = sequences[partition]
            sends = [
                self._history.sent(value, place, life if self._idempotent else "", base + i)
                for i, value in enumerate(values)
            ]
            sequences[partition] += len(values)
            records = encode(values, (producer_id, epoch, base if self._idempotent else -1))
            request = ProducePartition(self._topic, partition, records)
            task = asyncio.ensure_future(self._send(engine, request, sends))
            pending.add(task)
            # Five in flight, like a client's connection.
            while len(pending) >= (5 if self._idempotent else 2):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            await engine.clock.sleep(rng.random() * 0.05)
        for each in list(pending):
            await each

    def _next_value(self) -> bytes:
        self._values += 1
        return f"{self._name}:{self._values}".encode()

    async def _send(self, engine: Engine, request: ProducePartition, sends: list[Send]) -> None:
        for attempt in range(200):
            [result] = await engine.produce([request])
            if result.error is ErrorCode.NONE:
                for i, send in enumerate(sends):
                    send.outcome, send.offset = "acked", result.base_offset + i
                return
            if result.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                for send in sends:
                    send.outcome = "acked"
                return
            may_retry = result.error.is_retryable or result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if result.error is ErrorCode.UNKNOWN_PRODUCER_ID:
                may_retry = True  # its predecessors are on their way
            if not self._idempotent and not result.error.has_no_side_effects:
                return  # a plain producer that does not want duplicates leaves it there
            if not may_retry:
                break
            await engine.clock.sleep(0.05 * min(attempt + 1, 20))
        else:
            return
        for send in sends:
            send.outcome = "failed" if not self._idempotent else "unknown"


class ConditionalProducer:
    """Appends only where it expects to: a compare-and-set on the log's end."""

    def __init__(self, world: World, history: History, name: str, topic: str, count: int) -> None:
        self._world = world
        self._history = history
        self._name = name
        self._topic = topic
        self._left = count

    async def program(self, process: Process) -> None:
        engine = process.engine
        topic = await find_topic(engine, self._topic)
        expected = [0] * topic.partition_count
        while self._left > 0:
            self._left -= 1
            partition = self._world.rng.randrange(topic.partition_count)
            value = f"{self._name}:{self._left}".encode()
            place = PartitionId(topic.topic_id, partition)
            send = self._history.sent(value, place, "", 0)
            request = ProducePartition(self._topic, partition, encode([value]), expected_offset=expected[partition])
            [result] = await engine.produce([request])
            if result.error is ErrorCode.NONE:
                send.outcome, send.offset = "acked", result.base_offset
                assert result.base_offset == expected[partition], "a conditional append went elsewhere"
            elif result.error.has_no_side_effects:
                send.outcome = "failed"
            [fetched] = await engine.fetch([FetchPartition(self._topic, partition, 2**60)])
            if fetched.high_watermark >= 0:
                expected[partition] = fetched.high_watermark
            await engine.clock.sleep(self._world.rng.random() * 0.2)


class Consumer:
    """Reads every partition of a topic from the start, by itself (assign), until told to stop."""

    def __init__(self, world: World, history: History, name: str, topic: str, stop: asyncio.Event) -> None:
        self._world = world
        self._history = history
        self._name = name
        self._topic = topic
        self._stop = stop
        self._lives = 0

    async def program(self, process: Process) -> None:
        engine = process.engine
        topic = await find_topic(engine, self._topic)
        self._lives += 1
        offsets = [0] * topic.partition_count
        polls = [
            Poll(f"{self._name}/{self._lives}", PartitionId(topic.topic_id, p)) for p in range(topic.partition_count)
        ]
        self._history.polls += polls
        idle_s = 0.01
        while not self._stop.is_set():
            before = list(offsets)
            wanted = [FetchPartition(self._topic, p, offset, max_bytes=400) for p, offset in enumerate(offsets)]
            for result in await engine.fetch(wanted, max_wait_ms=self._world.rng.choice((0, 20)), max_bytes=2000):
                if (
                    result.error is ErrorCode.OFFSET_OUT_OF_RANGE
                    and result.log_start_offset > offsets[result.partition]
                ):
                    offsets[result.partition] = result.log_start_offset
                for record in decode_batches(b"".join(result.records)):
                    if record.offset >= offsets[result.partition]:
                        polls[result.partition].records.append((record.offset, record.value or b""))
                        offsets[result.partition] = record.offset + 1
            # Others may stall for an hour: an idle consumer must not count it in milliseconds.
            idle_s = min(idle_s * 2, 120.0) if offsets == before else 0.01
            await engine.clock.sleep(idle_s)
