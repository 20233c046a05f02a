"""A client that metadata leads past the balancer (`gateway_direct`): to a name that has the addresses of several tasks.

A name of AWS Cloud Map keeps a task's address for a while after it has stopped. Lookups are the test's own here.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.gateway import Gateway, Listener
from odradek.protocol.api import ApiKey
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

BALANCER, ZONE = "kafka.example.com", "zone1.kafka.example.com"
ADDRESSES = {BALANCER: ("127.0.0.1",), ZONE: ("127.0.0.1", "127.0.0.2")}
RECORDS = 120


class Zone:
    """The tasks of a zone: gateways over one store, at one port of two addresses, which advertise the zone's name."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.produced: Counter[str] = Counter()  # requests by address
        self._tables, self._objects = MemoryStore(), MemoryObjectStore(SystemClock())

    def _engine(self, clock: SystemClock, rng: SystemRng) -> Engine:
        return Engine(tables=self._tables, objects=self._objects, clock=clock, rng=rng, settings=Settings())

    async def create_topic(self) -> None:
        await self._engine(SystemClock(), SystemRng()).topics.create("t", 1)

    async def start(self, address: str) -> Gateway:
        clock, rng = SystemClock(), SystemRng()
        engine = self._engine(clock, rng)

        def observe(api_key: int, _ms: float, _in: int, _out: int) -> None:
            self.produced[address] += api_key == ApiKey.PRODUCE

        listener = Listener(address, self.port, f"{ZONE}:{self.port}")
        gateway = Gateway(engine, listener, clock=clock, rng=rng, observe=observe)
        await gateway.start()
        return gateway


@pytest.fixture
async def zone(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Zone, dict[str, Gateway]]]:
    real = socket.getaddrinfo

    def look_up(host: Any, *others: Any, **named: Any) -> Any:
        if host not in ADDRESSES:
            return real(host, *others, **named)
        return [address_found for address in ADDRESSES[host] for address_found in real(address, *others, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with AsyncExitStack() as stack:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            made = Zone(free.getsockname()[1])
        await made.create_topic()
        tasks = {}
        for address in ADDRESSES[ZONE]:
            tasks[address] = await made.start(address)
            stack.push_async_callback(tasks[address].stop)
        yield made, tasks


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of this machine on Linux alone")
async def test_a_client_goes_on_with_another_task_of_its_zone(zone: tuple[Zone, dict[str, Gateway]]) -> None:
    made, tasks = zone
    first, other = tasks
    servers = f"{BALANCER}:{made.port}"
    async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
        for number in range(RECORDS):
            if number == RECORDS // 2:
                assert made.produced[first]
                assert not made.produced[other], "the name's first address answers"
                await tasks[first].stop()
            await asyncio.wait_for(producer.send_and_wait("t", b"%d" % number, partition=0), 30)
    assert made.produced[other]
    # The first connection of the next client meets the balancer, whose other targets are not modelled.
    async with AIOKafkaConsumer("t", bootstrap_servers=f"{ZONE}:{made.port}", auto_offset_reset="earliest") as consumer:
        numbers = [int((await asyncio.wait_for(consumer.getone(), 30)).value) for _ in range(RECORDS)]
        [node] = consumer._client.cluster.brokers()
    assert numbers == list(range(RECORDS))
    assert (node.host, node.port) == (ZONE, made.port)
