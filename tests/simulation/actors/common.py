"""Shared by all actors: lives that end in crashes and begin again, records with an identity, patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from odradek.engine.engine import Engine
from odradek.errors import FormatError, KafkaError
from odradek.format.batch_header import iter_headers
from odradek.format.record_batch import RecordBatchBuilder, decode_batches
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.log import Buffer
from odradek.model.record import CompressionType, Record
from odradek.model.topic import Topic

from tests.simulation.books.history import IDENTITY_HEADER
from tests.simulation.world import Process, World

Program = Callable[[Process], Coroutine[Any, Any, None]]


async def lives(
    world: World, name: str, program: Program, restarts: int = 6, *, broker_id: int = FLEET_BROKER_ID
) -> None:
    """Run a program; after a crash start it again as a new process, a bounded number of times."""
    for _ in range(restarts):
        process = world.process(name, broker_id=broker_id)
        if await process.run(program(process)):
            return
        await asyncio.sleep(world.rng.random())


async def pause(world: World, pace_s: float) -> None:
    """Some time between two steps of an actor; now and then a long one."""
    longer = 8.0 if world.rng.random() < 0.1 else 1.0
    await asyncio.sleep(world.rng.random() * pace_s * longer)


class Payload(NamedTuple):
    """A record to send. A tombstone has no value, so its identity is in a header."""

    identity: bytes
    key: bytes | None = None
    is_tombstone: bool = False


def encode(
    payloads: Sequence[Payload],
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp_ms: int = 0,
    *,
    transactional: bool = False,
) -> bytes:
    """A batch; `producer` is (id, epoch, base sequence)."""
    builder = RecordBatchBuilder(CompressionType.NONE)
    for payload in payloads:
        if payload.is_tombstone:
            builder.append(timestamp_ms, payload.key, None, [(IDENTITY_HEADER, payload.identity)])
        else:
            builder.append(timestamp_ms, payload.key, payload.identity)
    return builder.build(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=transactional,
    )


def read_from(position: int, parts: Sequence[Buffer]) -> tuple[list[Record], int]:
    """The records of a fetch's answer from the position on, and the next position.

    As Kafka's clients have it, that is after the last batch, though its last records may have been compacted away.
    Raises FormatError where a CRC is wrong.
    """
    data = b"".join(parts)
    ends = [header.next_offset for at, header in iter_headers(data) if at + header.size_bytes <= len(data)]
    return [record for record in decode_batches(data) if record.offset >= position], max([position, *ends])


def idle_pace_s(world: World) -> float:
    """The pace of a member that waits for the run's end: often enough for its session, by its timeout, s.

    A group may wait for a process that is stalled or frozen for more than an hour, and each heartbeat of the others
    meanwhile is several steps of the run.
    """
    return max(1.0, world.settings.group_session_timeout_ms / 3_000)


async def find_topic(engine: Engine, name: str) -> Topic:
    """The topic, however long the store stays away."""
    while True:
        topic = await look_up(engine, name)
        if topic is not None:
            return topic
        await engine.clock.sleep(0.1)


async def look_up(engine: Engine, name: str) -> Topic | None:
    """The topic; None where there is none or the store does not answer."""
    try:
        return await engine.topics.get(name)
    except (KafkaError, FormatError):
        return None
