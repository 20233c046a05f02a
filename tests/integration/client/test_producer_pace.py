"""How many requests a producer makes: none beside another one without need, counted on a clock that a test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek import NewTopic
from odradek.aio import Admin, Producer
from odradek.client.transport.base import InProcessTransport
from odradek.protocol.api import ApiKey, FunctionName
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.simulation.loop import run
from tests.support.clients.in_process import Server
from tests.support.services.virtual_account import LoopClock


class Gate:
    """A server that takes 100 ms for a produce request, and answers while the gate is open."""

    def __init__(self, clock: ManualClock) -> None:
        self.server = Server()
        self._clock = clock
        self.open = asyncio.Event()
        self.open.set()
        self.arrived = 0

    async def dispatch(self, function: FunctionName, frame: bytes) -> bytes:
        if int.from_bytes(frame[:2], "big") == ApiKey.PRODUCE:
            self.arrived += 1
            if self.open.is_set():
                self._clock.advance(0.1)
            await self.open.wait()
        return await self.server.dispatch(function, frame)

    async def producer(self, partitions: int = 6, **configs: Any) -> Producer:
        """Create the topic, and a producer that has had an answer for each partition: its producer id is known."""
        async with Admin(transport=self.server.transport()) as admin:
            await admin.create_topics([NewTopic("t", partitions)])
        producer = await Producer(transport=InProcessTransport(self.dispatch), clock=self._clock, **configs).start()
        for partition in range(partitions):
            future = await producer.send("t", b"first", partition=partition)
            await producer.flush()
            await future
        self.arrived = 0
        return producer


async def _settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def test_a_record_is_sent_at_once_if_nothing_is_in_flight() -> None:
    clock = ManualClock()
    gate = Gate(clock)
    producer = await gate.producer()
    for number in range(3):
        await producer.send_and_wait("t", b"x", partition=0)
        assert gate.arrived == number + 1
    await producer.close()


async def test_what_comes_meanwhile_joins_the_next_request() -> None:
    clock = ManualClock()
    gate = Gate(clock)
    producer = await gate.producer()
    gate.open.clear()
    futures = [await producer.send("t", b"x", partition=0)]
    await _settle()
    for number in range(60):
        futures.append(await producer.send("t", b"%d" % number, partition=number % 6))
        await _settle()
    assert gate.arrived == 1
    gate.open.set()
    await asyncio.gather(*futures)
    assert gate.arrived == 2
    await producer.close()


async def test_full_batches_do_not_wait_for_an_answer_and_take_no_open_ones_along() -> None:
    clock = ManualClock()
    gate = Gate(clock)
    producer = await gate.producer(batch_size=1_000)
    gate.open.clear()
    await producer.send("t", b"x", partition=0)
    await _settle()
    await producer.send("t", b"open", partition=1)
    for _ in range(4):
        await producer.send("t", bytes(900), partition=2)
    await _settle()
    assert gate.arrived == 4, "the first, and three full batches: the fourth is open"
    gate.open.set()
    await producer.flush()
    assert gate.arrived == 5
    await producer.close()


async def test_a_request_that_takes_long_holds_nothing_back() -> None:
    clock = ManualClock()
    gate = Gate(clock)
    producer = await gate.producer()
    gate.open.clear()
    await producer.send("t", b"x", partition=0)
    await _settle()
    for partition in range(1, 6):
        await producer.send("t", b"y", partition=partition)
        clock.advance(0.02)
        await _settle()
    assert gate.arrived == 1
    clock.advance(0.5)  # five times what the others took
    await _settle()
    assert gate.arrived == 2, "all that waited, in one request"
    gate.open.set()
    await producer.close()


@pytest.mark.parametrize("configs", [{"linger_ms": 5}, {"linger_ms": 0}])
async def test_linger_ms_waits_for_no_answer(configs: dict[str, Any]) -> None:
    clock = ManualClock()
    gate = Gate(clock)
    producer = await gate.producer(**configs)
    gate.open.clear()
    for number in range(3):
        await producer.send("t", b"%d" % number, partition=number)
        await _settle()
        assert gate.arrived == number + (not configs["linger_ms"])
        clock.advance(0.005)
        await _settle()
        assert gate.arrived == number + 1
    gate.open.set()
    await producer.close()


async def test_flush_waits_for_no_answer() -> None:
    clock = ManualClock()
    gate = Gate(clock)
    producer = await gate.producer()
    gate.open.clear()
    await producer.send("t", b"x", partition=0)
    await _settle()
    await producer.send("t", b"y", partition=0)
    flushing = asyncio.create_task(producer.flush())
    await _settle()
    assert gate.arrived == 2
    gate.open.set()
    await flushing
    await producer.close()


@pytest.mark.parametrize(
    ("configs", "requests_max"), [({}, 55), ({"latency_budget_ms": 1_000}, 8), ({"linger_ms": 5}, 500)]
)
def test_requests_of_five_seconds_in_virtual_time(configs: dict[str, Any], requests_max: int) -> None:
    """A record every 5 ms, an answer after 100 ms: a request per answer, or per second; Kafka's linger makes 500."""

    async def scenario() -> tuple[float, float]:
        server, clock = Server(), LoopClock()
        async with Admin(transport=server.transport(), clock=clock, rng=SeededRng(1)) as admin:
            await admin.create_topics([NewTopic("t", 1)])
        slowest_s = 0.0

        async def slow(function: FunctionName, frame: bytes) -> bytes:
            await clock.sleep(0.1)
            return await server.dispatch(function, frame)

        async def acknowledged(future: Any, sent_s: float) -> None:
            nonlocal slowest_s
            await future
            slowest_s = max(slowest_s, clock.monotonic() - sent_s)

        async with Producer(transport=InProcessTransport(slow), clock=clock, rng=SeededRng(2), **configs) as producer:
            await producer.send_and_wait("t", b"first")
            waiting = []
            for _ in range(1_000):
                waiting.append(asyncio.create_task(acknowledged(await producer.send("t", b"x"), clock.monotonic())))
                await clock.sleep(0.005)
            await asyncio.gather(*waiting)
            return producer.metrics()["request_total"] - 1, slowest_s

    requests, slowest_s = run(scenario())
    assert requests_max * 0.5 <= requests <= requests_max
    assert slowest_s <= max(configs.get("latency_budget_ms", 0), 250) / 1000 + 0.05
