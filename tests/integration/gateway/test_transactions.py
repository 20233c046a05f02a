"""Transactions by a stock client through the Kafka port, with the offsets of a group of either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.local import ThreadedService

from tests.support.kafka import port
from tests.support.kafka.port import Message


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics(
                [odradek.NewTopic(name, 1) for name in ("in", "out-classic", "out-consumer", "out-aiokafka")]
            )
        port.confluent_produce(service.kafka_bootstrap_servers, "in", [Message(None, b"%d" % i) for i in range(20)])
        yield service


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consume_transform_produce(service: ThreadedService, protocol: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    servers, out = service.kafka_bootstrap_servers, f"out-{protocol}"
    config: dict[str, Any] = {"group.protocol": protocol}
    if protocol == "classic":
        config["session.timeout.ms"] = 3_000
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": out,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **config,
        }
    )
    consumer.subscribe(["in"])
    producer = Producer({"bootstrap.servers": servers, "transactional.id": out})
    producer.init_transactions(10)
    try:
        messages = port.poll_confluent(consumer, 20)
        for half, ends in ((messages[:10], producer.commit_transaction), (messages[10:], producer.abort_transaction)):
            producer.begin_transaction()
            for message in half:
                producer.produce(out, b"seen " + (message.value or b""))
            position = TopicPartition("in", 0, 10 if half == messages[:10] else 20)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), 10)
            ends(10)
        [committed] = consumer.committed([TopicPartition("in", 0)], timeout=10)
        assert committed.offset == 10
    finally:
        consumer.close()
    assert port.sdk_consume(service, out, 10) == [Message(None, b"seen %d" % i) for i in range(10)]
    with odradek.Admin(**service.client_config) as admin:
        tp = odradek.TopicPartition(out, 0)
        assert admin.list_offsets({tp: "latest"})[tp].offset == 10  # nothing of the other one, no marker


def test_aiokafka_consumes_transforms_and_produces(service: ThreadedService) -> None:
    """It commits a group's offsets without naming a member, although the group has one."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    servers, out, tp = service.kafka_bootstrap_servers, "out-aiokafka", TopicPartition("in", 0)

    async def work() -> int:
        config = {"group_id": out, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = AIOKafkaConsumer("in", bootstrap_servers=servers, **config)
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=out)
        await consumer.start()
        await producer.start()
        try:
            messages = [await consumer.getone() for _ in range(20)]
            for message in messages[:10]:
                async with producer.transaction():
                    await producer.send(out, b"seen " + message.value)
                    await producer.send_offsets_to_transaction({tp: message.offset + 1}, out)
            assert consumer.assignment() == {tp}
            return int(await consumer.committed(tp) or 0)
        finally:
            await producer.stop()
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(work(), 60)) == 10
    assert port.sdk_consume(service, out, 10) == [Message(None, b"seen %d" % i) for i in range(10)]


def test_kafka_python_forgets_a_position_by_a_negative_offset(service: ThreadedService) -> None:
    """As kafkajs does after an offset was out of range."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    tp = TopicPartition("in", 0)
    consumer = KafkaConsumer(
        bootstrap_servers=service.kafka_bootstrap_servers,
        group_id="negative",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        consumer.assign([tp])
        for offset in (5, -1):
            consumer.commit({tp: OffsetAndMetadata(offset, "", -1)})
        assert consumer.committed(tp) in (None, -1)
        assert consumer.position(tp) == 0
    finally:
        consumer.close()
    with odradek.Consumer(**service.client_config, group_id="negative") as ours:
        assert list(ours.committed([odradek.TopicPartition("in", 0)]).values()) == [None]
        with pytest.raises(odradek.KafkaError, match="the next offset to read"):
            ours.commit({odradek.TopicPartition("in", 0): odradek.OffsetAndMetadata(-1)})
