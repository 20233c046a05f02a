"""confluent-kafka, kafka-python and aiokafka over a bare TCP listener: are our answers what they expect?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import pytest
from odradek.engine.engine import Engine
from odradek.protocol.api import ApiKey

from tests.support.engine import memory_store
from tests.support.tcp_front import TcpFront

ResultT = TypeVar("ResultT")
COUNT = 200


class WallClock:
    """Real time: these clients wait for it."""

    def __init__(self) -> None:
        import time

        self._time = time

    def now_ms(self) -> int:
        return self._time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return self._time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@pytest.fixture
def asked() -> set[tuple[int, int]]:
    """The (API key, version) pairs that were asked for."""
    return set()


@pytest.fixture
async def address(asked: set[tuple[int, int]]) -> AsyncIterator[str]:
    store = memory_store()
    store.clock = WallClock()  # type: ignore[assignment]
    engine: Engine = store.engine()
    await engine.topics.create("flights", 2)
    async with TcpFront(engine, lambda key, version: asked.add((key, version))) as front:
        yield front.address


def values() -> Iterator[bytes]:
    return (b"flight %d" % i for i in range(COUNT))


async def in_thread(work: Callable[[], ResultT]) -> ResultT:
    return await asyncio.wait_for(asyncio.to_thread(work), 60)


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd", "snappy"])
async def test_confluent_kafka(address: str, asked: set[tuple[int, int]], compression: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    def work() -> list[bytes]:
        producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "compression.type": compression, "linger.ms": 5}
        )
        failed: list[Any] = []
        for value in values():
            producer.produce("flights", value, partition=1, on_delivery=lambda error, _: error and failed.append(error))
        assert producer.flush(30) == 0
        assert failed == []
        consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False})
        consumer.assign([TopicPartition("flights", 1, 0)])
        got: list[bytes] = []
        while len(got) < COUNT:
            message = consumer.poll(10)
            assert message is not None, "no message within 10 s"
            assert message.error() is None
            got.append(message.value())
        consumer.commit(offsets=[TopicPartition("flights", 1, COUNT)], asynchronous=False)
        [committed] = consumer.committed([TopicPartition("flights", 1)], timeout=10)
        assert committed.offset == COUNT
        assert consumer.get_watermark_offsets(TopicPartition("flights", 1), timeout=10) == (0, COUNT)
        consumer.close()
        return got

    assert await in_thread(work) == list(values())
    assert {(0, 10), (1, 16)} <= asked


async def test_confluent_kafka_admin(address: str) -> None:
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

    def work() -> None:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("new", 3, 1, config={"retention.ms": "1000"})])["new"].result(10)
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([NewTopic("new", 3, 1)])["new"].result(10)
        admin.create_partitions([NewPartitions("new", 5)])["new"].result(10)
        topics = admin.list_topics(timeout=10).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"flights": 2, "new": 5}
        resource = ConfigResource(ConfigResource.Type.TOPIC, "new")
        assert admin.describe_configs([resource])[resource].result(10)["retention.ms"].value == "1000"
        assert admin.describe_cluster().result(10).cluster_id == "tcp-front"
        assert admin.list_consumer_groups().result(10).errors == []
        [deleted] = admin.delete_records([TopicPartition("flights", 1, -1)]).values()
        assert deleted.result(10).low_watermark >= 0
        with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
            next(iter(admin.delete_records([TopicPartition("flights", 0, 2**40)]).values())).result(10)
        admin.delete_topics(["new"])["new"].result(10)
        assert set(admin.list_topics(timeout=10).topics) == {"flights"}

    await in_thread(work)


async def test_confluent_kafka_in_a_group_of_the_new_protocol(address: str, asked: set[tuple[int, int]]) -> None:
    from confluent_kafka import Consumer, Producer

    def work() -> list[bytes]:
        producer = Producer({"bootstrap.servers": address})
        for i, value in enumerate(values()):
            producer.produce("flights", value, partition=i % 2)
        assert producer.flush(30) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "new-protocol",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["flights"])
        got: list[bytes] = []
        while len(got) < COUNT:
            message = consumer.poll(30)
            assert message is not None, "no message within 30 s"
            assert message.error() is None, message.error()
            got.append(message.value())
        consumer.commit(asynchronous=False)
        consumer.close()
        return got

    assert sorted(await in_thread(work)) == sorted(values())
    assert any(key == ApiKey.CONSUMER_GROUP_HEARTBEAT for key, _ in asked)


async def test_kafka_python(address: str) -> None:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic

    def work() -> list[bytes]:
        admin = KafkaAdminClient(bootstrap_servers=address)
        admin.create_topics([NewTopic("python", 1, 1)])
        assert "python" in admin.list_topics()
        admin.close()
        producer = KafkaProducer(bootstrap_servers=address, compression_type="gzip")
        sent = [producer.send("python", value, headers=[("h", b"1")]) for value in values()]
        producer.flush(30)
        assert [one.get(10).offset for one in sent] == list(range(COUNT))
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=address, group_id=None, consumer_timeout_ms=10_000)
        partition = TopicPartition("python", 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        got = []
        for record in consumer:
            got.append(record.value)
            if len(got) == COUNT:
                break
        assert consumer.end_offsets([partition]) == {partition: COUNT}
        consumer.close()
        return got

    assert await in_thread(work) == list(values())


async def test_aiokafka(address: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True)
    await producer.start()
    try:
        for value in values():
            await producer.send("flights", value, partition=0)
        await producer.flush()
    finally:
        await producer.stop()
    partition = TopicPartition("flights", 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([partition])
        got = []
        while len(got) < COUNT:
            got.append((await asyncio.wait_for(consumer.getone(), 10)).value)
        assert got == list(values())
        assert await consumer.end_offsets([partition]) == {partition: COUNT}
        found = await consumer.offsets_for_times({partition: 0})
        assert found[partition].offset == 0
    finally:
        await consumer.stop()
