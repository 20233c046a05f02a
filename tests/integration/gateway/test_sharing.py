"""Several gateways over one store, with stock clients: a share for each, one that comes, one that goes, racks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import confluent_kafka
import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.gateway import Gateway, Listener
from odradek.protocol.api import ApiKey
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

PARTITIONS = 12


class Gateways:
    """Gateways over one store, by broker id."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._tables, self._objects = MemoryStore(), MemoryObjectStore(SystemClock())
        self._up: dict[int, Gateway] = {}
        self.engines: dict[int, Engine] = {}
        self.fetched: Counter[int] = Counter()  # bytes answered to Fetch

    async def start(self, broker_id: int, rack: str | None = None) -> Gateway:
        settings = Settings(leader_cache_ms=100, broker_session_ms=3_000, default_partitions_per_head=1)
        engine = Engine(
            tables=self._tables,
            objects=self._objects,
            clock=self._clock,
            rng=SystemRng(),
            settings=settings,
            broker_id=broker_id,
        )

        def observe(api_key: int, _ms: float, _in: int, bytes_out: int) -> None:
            if api_key == ApiKey.FETCH:
                self.fetched[broker_id] += bytes_out

        gateway = Gateway(engine, Listener(port=0, rack=rack), clock=self._clock, rng=SystemRng(), observe=observe)
        self.engines[broker_id] = engine
        self._up[broker_id] = await gateway.start()
        return gateway

    async def stop(self, broker_id: int) -> None:
        await self._up.pop(broker_id).stop()

    async def stop_all(self) -> None:
        for broker_id in list(self._up):
            await self.stop(broker_id)

    @property
    def servers(self) -> str:
        return ",".join(gateway.bootstrap_servers for gateway in self._up.values())

    def led(self) -> dict[int, int]:
        """How many heads each gateway leads."""
        return {broker_id: len(self.engines[broker_id].leaders._claims) for broker_id in self._up}

    async def until(self, is_so: Callable[[], bool], timeout_s: float = 20.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not is_so():
                await asyncio.sleep(0.05)


@pytest.fixture
async def gateways() -> AsyncIterator[Gateways]:
    async with AsyncExitStack() as stack:
        made = Gateways()
        stack.push_async_callback(made.stop_all)
        yield made


class Writing:
    """An idempotent producer that writes to all partitions, one record after the other, until it is told to end."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failed: list[str] = []
        self.sent: Counter[int] = Counter()

    def start(self) -> Writing:
        self._thread.start()
        return self

    async def end(self) -> None:
        self._ends.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )

        def told(error: confluent_kafka.KafkaError | None, _: object) -> None:
            if error is not None:
                self.failed.append(str(error))

        while not self._ends.wait(0.002):
            for partition in range(PARTITIONS):
                number = self.sent[partition]
                producer.produce("t", b"%d" % number, partition=partition, on_delivery=told)
                self.sent[partition] += 1
            producer.poll(0)
        producer.flush(30)


def read_all(servers: str, count: int, **config: object) -> dict[int, list[int]]:
    """The values of each partition, once so many have come."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest", **config}
    )
    consumer.assign([confluent_kafka.TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    numbers_by_partition: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    left, gives_up_s = count, time.monotonic() + 30
    try:
        while left > 0:
            messages = consumer.consume(1000, timeout=0.2)
            assert messages or time.monotonic() < gives_up_s, f"{left} of {count} are missing"
            for message in messages:
                assert message.error() is None
                numbers_by_partition[message.partition()].append(int(message.value()))
            left -= len(messages)
    finally:
        consumer.close()
    return numbers_by_partition


async def test_gateways_come_and_go_under_a_producer_and_every_record_is_there_once(gateways: Gateways) -> None:
    for broker_id in (1, 2):
        await gateways.start(broker_id)
    await gateways.engines[1].topics.create("t", PARTITIONS)
    writing = Writing(gateways.servers).start()
    try:
        await gateways.until(lambda: gateways.led() == {1: 6, 2: 6})
        await gateways.start(3)
        await gateways.until(lambda: gateways.led() == {1: 4, 2: 4, 3: 4})
        await gateways.stop(1)
        await gateways.until(lambda: gateways.led() == {2: 6, 3: 6})
    finally:
        await writing.end()
    assert writing.failed == []
    numbers_by_partition = await asyncio.to_thread(read_all, gateways.servers, writing.sent.total())
    assert numbers_by_partition == {number: list(range(writing.sent[number])) for number in range(PARTITIONS)}


async def test_consumers_read_from_the_gateways_of_their_rack(gateways: Gateways) -> None:
    for broker_id, rack in ((1, "a"), (2, "b")):
        await gateways.start(broker_id, rack)
    await gateways.engines[1].topics.create("t", PARTITIONS)
    writing = Writing(gateways.servers).start()
    await gateways.until(lambda: writing.sent.total() > 2_000)
    await writing.end()
    count = writing.sent.total()
    assert min(gateways.led().values()) > 0
    for broker_id, rack in ((1, "a"), (2, "b")):
        gateways.fetched.clear()
        config = {"client.rack": rack, "client.id": rack, "fetch.wait.max.ms": 50}
        await asyncio.to_thread(read_all, gateways.servers, count, **config)
        other = 3 - broker_id
        assert gateways.fetched[broker_id] > 8 * gateways.fetched[other], gateways.fetched
