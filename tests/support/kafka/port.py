"""The Kafka port of an embedded service, and short ways for each stock client to write and read through it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import odradek
from odradek.local import Listener, ThreadedService
from odradek.settings import Settings

SETTINGS = Settings(
    poll_interval_ms=10,
    poll_interval_ms_max=40,
    group_heartbeat_interval_ms=300,
    group_session_timeout_ms=3_000,
    group_session_timeout_ms_min=500,
    group_initial_rebalance_delay_ms=100,
    catalog_cache_ms=200,
)

R = TypeVar("R")


class Message(NamedTuple):
    """A record as every client can say it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@contextmanager
def kafka_service(listener: Listener | None = None, **settings: Any) -> Iterator[ThreadedService]:
    """A service with a Kafka port, its loop in a thread."""
    import dataclasses

    chosen = dataclasses.replace(SETTINGS, **settings)
    with odradek.local(kafka=listener or Listener(port=0), settings=chosen, synchronous="NORMAL") as service:
        yield service


# Machines are shared: a limit says when a test gives up, not how fast it must be.
PATIENCE = 3


def until(condition: Callable[[], R], timeout_s: float = 30.0, what: str | Callable[[], str] = "") -> R:
    """Poll until the condition holds, on a quiet machine for at most that long; give what it said.

    A text with what was found last is given as a function: it is asked for after the last look.
    """
    deadline_s = time.monotonic() + PATIENCE * timeout_s
    while not (outcome := condition()):
        if time.monotonic() >= deadline_s:
            said = what() if callable(what) else what
            raise AssertionError(f"did not happen within {PATIENCE * timeout_s} s: {said}")
        time.sleep(0.02)
    return outcome


# --- confluent-kafka -------------------------------------------------------------------------------------------------


def confluent_produce(
    servers: str, topic: str, messages: Sequence[Message], partition: int = 0, **config: Any
) -> list[int]:
    """Offsets of the messages."""
    from confluent_kafka import Producer

    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **_dotted(config)})
    for message in messages:
        producer.produce(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            partition=partition,
            on_delivery=delivered,
        )
    assert producer.flush(30) == 0
    return offsets


def confluent_consume(servers: str, topic: str, count: int, partition: int = 0, offset: int = 0) -> list[Message]:
    """That many messages of one partition, assigned."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, offset)])
    try:
        return [_of_confluent(message) for message in _poll_confluent(consumer, count)]
    finally:
        consumer.close()


def _poll_confluent(consumer: Any, count: int, timeout_s: float = 30.0) -> list[Any]:
    got: list[Any] = []
    deadline_s = time.monotonic() + timeout_s
    while len(got) < count:
        assert time.monotonic() < deadline_s, f"{len(got)} of {count} messages"
        for message in consumer.consume(count - len(got), 0.2):
            assert message.error() is None, message.error()
            got.append(message)
    return got


def poll_confluent(consumer: Any, count: int) -> list[Message]:
    """That many messages of a consumer."""
    return [_of_confluent(message) for message in _poll_confluent(consumer, count)]


def _of_confluent(message: Any) -> Message:
    return Message(message.key(), message.value(), tuple(message.headers() or ()))


# --- kafka-python ----------------------------------------------------------------------------------------------------


def python_produce(
    servers: str, topic: str, messages: Sequence[Message], partition: int = 0, **config: Any
) -> list[int]:
    """Offsets of the messages."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5, **config)
    try:
        sent = [
            producer.send(topic, message.value, message.key, list(message.headers), partition) for message in messages
        ]
        producer.flush(30)
        return [future.get(10).offset for future in sent]
    finally:
        producer.close()


def python_consume(servers: str, topic: str, count: int, partition: int = 0, **config: Any) -> list[Message]:
    """That many messages of one partition, assigned, from the beginning."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=None, consumer_timeout_ms=20_000, **config)
    try:
        tp = TopicPartition(topic, partition)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        got: list[Message] = []
        for record in consumer:
            got.append(Message(record.key, record.value, tuple(record.headers)))
            if len(got) == count:
                break
        return got
    finally:
        consumer.close()


# --- aiokafka --------------------------------------------------------------------------------------------------------


def aio_produce(servers: str, topic: str, messages: Sequence[Message], partition: int = 0, **config: Any) -> list[int]:
    """Offsets of the messages."""
    from aiokafka import AIOKafkaProducer

    async def work() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5, **config) as producer:
            sent = [await producer.send(topic, m.value, m.key, partition, headers=list(m.headers)) for m in messages]
            return [(await future).offset for future in sent]

    return asyncio.run(asyncio.wait_for(work(), 60))


def aio_consume(servers: str, topic: str, count: int, partition: int = 0, **config: Any) -> list[Message]:
    """That many messages of one partition, assigned, from the beginning."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def work() -> list[Message]:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", **config)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, partition)])
            records = [await asyncio.wait_for(consumer.getone(), 20) for _ in range(count)]
            return [Message(r.key, r.value, tuple(r.headers)) for r in records]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(work(), 60))


# --- the SDK ---------------------------------------------------------------------------------------------------------


def sdk_produce(service: ThreadedService, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
    """Offsets of the messages."""
    with odradek.Producer(**service.client_config) as producer:
        sent = [
            producer.send(topic, m.value, key=m.key, headers=list(m.headers), partition=partition) for m in messages
        ]
        return [future.result(30).offset for future in sent]


def sdk_consume(service: ThreadedService, topic: str, count: int, partition: int = 0) -> list[Message]:
    """That many messages of one partition, assigned, from the beginning."""
    tp = odradek.TopicPartition(topic, partition)
    with odradek.Consumer(**service.client_config, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        got: list[Message] = []
        deadline_s = time.monotonic() + 30
        while len(got) < count:
            assert time.monotonic() < deadline_s
            for records in consumer.poll(timeout_ms=500).values():
                got += [
                    Message(r.key, r.value, tuple((key, value or b"") for key, value in r.headers)) for r in records
                ]
        return got


def _dotted(config: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}
