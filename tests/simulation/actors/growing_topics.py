"""Producers of ours, the real client, while their topic grows; and who makes it grow.

A client lives outside of the service: each of its calls is one of a function, which may be slow, freeze or die, or
whose answer is lost. Each key is one client's, which numbers the key's records.
"""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.client.producer.producer import Producer
from odradek.client.transport.base import InProcessTransport, RequestFailed
from odradek.dispatcher.context import RequestContext
from odradek.dispatcher.dispatcher import Dispatcher
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
from odradek.protocol.api import OWNED, FunctionName
from odradek.testing.seeded_rng import SeededRng

from tests.simulation.actors.common import look_up, pause
from tests.simulation.books.history import KeyedSend
from tests.simulation.world import Process, World

_FUNCTIONS = 2  # that serve one client, by turns
_ANSWERS_LOST = 0.03
_PARTITIONS_MAX = 12
_FOR_EVER_MS = 2**31 - 1


class _Functions(InProcessTransport):
    """The functions of one client, each with its own caches; one that dies is followed by another."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(self._serve)
        self._world = world
        self._name = name
        self._alive: dict[int, tuple[Process, Dispatcher]] = {}

    async def _serve(self, function: FunctionName, frame: bytes) -> bytes:
        world = self._world
        number = world.rng.randrange(_FUNCTIONS)
        running = self._alive.get(number)
        if running is None or running[0].dead:
            process = world.process(f"{self._name}-function{number}")
            cluster = Cluster("test", Broker(FLEET_BROKER_ID, "localhost", 9092))
            running = self._alive[number] = process, Dispatcher(process.engine, cluster)
        process, dispatcher = running
        responses: list[bytes] = []

        async def work() -> None:
            context = RequestContext("User:test", "127.0.0.1", "https", OWNED[function], FUNCTION_BINARY_BYTES_MAX)
            responses.append(b"".join(await dispatcher.dispatch(frame, context) or []))

        if not await process.run(work()) or world.rng.random() < (0 if world.is_calm else _ANSWERS_LOST):
            raise RequestFailed(ErrorCode.NETWORK_EXCEPTION, "no answer", may_have_applied=True)
        return responses[0]


class KeyedClient:
    """Sends numbered records of its keys."""

    def __init__(self, world: World, name: str, topic: str, count: int, pace_s: float) -> None:
        self._world = world
        self._name = name
        self._topic = topic
        self._count = count
        self._pace_s = pace_s

    async def run(self) -> None:
        world, rng = self._world, self._world.rng
        options: dict[str, Any] = {
            "transport": _Functions(world, self._name),
            "clock": world.clock,
            "rng": SeededRng(rng.getrandbits(64)),
            "linger_ms": rng.choice((0, 200)),
            "batch_size": rng.choice((300, 16_384)),
            "request_timeout_ms": rng.choice((10_000, 60_000)),  # each call of a function takes up to a second
            "delivery_timeout_ms": _FOR_EVER_MS,
            "max_block_ms": _FOR_EVER_MS,
            "metadata_max_age_ms": rng.choice((500, 300_000)),
        }
        numbers: dict[bytes, int] = {}
        keys = [f"{self._name}.{number}".encode() for number in range(rng.choice((2, 5, 9)))]
        async with Producer(**options) as producer:
            for _ in range(self._count):
                key = rng.choice(keys)
                number = numbers[key] = numbers.get(key, -1) + 1
                send = KeyedSend(key, number)
                world.history.keyed.append(send)
                future = await producer.send(self._topic, send.identity, key)
                future.add_done_callback(lambda future, send=send: self._take(send, future))  # type: ignore[misc]
                await pause(world, self._pace_s)
            await producer.flush()

    def _take(self, send: KeyedSend, future: Any) -> None:
        error = future.exception(0)
        if error is not None:
            self._world.history.problem(f"{self._name} failed to write {send.identity!r}: {error}")
            return
        written = future.result(0)
        send.place = written.partition, written.offset


class Multiplier:
    """Multiplies the partitions of a topic, some times."""

    def __init__(self, world: World, topic: str, turns: int, pace_s: float) -> None:
        self._world = world
        self._topic = topic
        self._turns = turns
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        while self._turns > 0:
            await pause(self._world, self._pace_s)
            topic = await look_up(process.engine, self._topic)
            if topic is None:
                continue
            count = topic.partition_count * self._world.rng.choice((2, 2, 4))  # a multiple, of a stale number too
            if count > _PARTITIONS_MAX:
                return
            try:
                await process.engine.topics.create_partitions(topic.name, count)
            except KafkaError as error:
                self._world.note(f"{process.name} grows {self._topic} to {count}: {error.code.name}")
            else:
                self._turns -= 1
            await asyncio.sleep(0)
