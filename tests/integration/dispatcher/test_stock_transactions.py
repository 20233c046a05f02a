"""Transactions of confluent-kafka, kafka-python and aiokafka over a bare TCP listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TypeVar

import pytest
from odradek.dispatcher import Arrival
from odradek.engine.engine import Engine
from odradek.gateway import Gateway, Listener
from odradek.gateway.sasl import OpenSession
from odradek.model.log import Buffer
from odradek.system import SystemClock, SystemRng

from tests.support.clients.transactional_producer import committed, values
from tests.support.engine import Store, memory_store

R = TypeVar("R")
COUNT = 50


@pytest.fixture
def apis_asked() -> set[tuple[int, int]]:
    """The (API key, version) pairs that were asked for."""
    return set()


@pytest.fixture
def store() -> Store:
    made = memory_store()
    made.clock = SystemClock()  # type: ignore[assignment]  # these clients wait for real time
    return made


@pytest.fixture
async def engine(store: Store) -> Engine:
    engine = store.engine()
    await engine.topics.create("in", 2)
    await engine.topics.create("out", 2)
    return engine


@pytest.fixture
async def address(
    engine: Engine, apis_asked: set[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    original_answer = OpenSession.answer

    async def noted(session: OpenSession, frame: Buffer, arrival: Arrival | None) -> list[Buffer] | None:
        apis_asked.add((int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")))
        return await original_answer(session, frame, arrival)

    monkeypatch.setattr(OpenSession, "answer", noted)
    async with Gateway(engine, Listener(port=0), clock=SystemClock(), rng=SystemRng()) as gateway:
        yield gateway.bootstrap_servers


async def in_thread(work: Callable[[], R]) -> R:
    return await asyncio.wait_for(asyncio.to_thread(work), 60)


async def outcome(engine: Engine) -> tuple[list[bytes | None], list[bytes | None], int | None]:
    return await values(engine, "out", 0), await values(engine, "out", 1), await committed(engine, "readers", "in")


async def test_confluent_kafka_reads_processes_and_writes(address: str, engine: Engine) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    def work() -> None:
        plain = Producer({"bootstrap.servers": address})
        for i in range(COUNT):
            plain.produce("in", b"%d" % i, partition=0)
        assert plain.flush(30) == 0

        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "readers",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition("in", 0, 0)])
        producer = Producer({"bootstrap.servers": address, "transactional.id": "tx", "linger.ms": 1})
        producer.init_transactions(30)

        producer.begin_transaction()
        producer.produce("out", b"aborted", partition=0)
        assert producer.flush(30) == 0
        producer.send_offsets_to_transaction([TopicPartition("in", 0, 7)], consumer.consumer_group_metadata(), 30)
        producer.abort_transaction(30)

        producer.begin_transaction()
        for i in range(COUNT):
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            producer.produce("out", message.value(), partition=i % 2)
        position = consumer.position([TopicPartition("in", 0)])
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)

        zombie = producer
        fresh = Producer({"bootstrap.servers": address, "transactional.id": "tx"})
        fresh.init_transactions(30)
        zombie.begin_transaction()
        zombie.produce("out", b"zombie", partition=0)
        with pytest.raises(KafkaException):
            zombie.commit_transaction(30)
        fresh.begin_transaction()
        fresh.produce("out", b"fresh", partition=1)
        fresh.commit_transaction(30)
        consumer.close()

    await in_thread(work)
    even, odd, offset = await outcome(engine)
    assert even == [b"%d" % i for i in range(0, COUNT, 2)]
    assert odd == [*(b"%d" % i for i in range(1, COUNT, 2)), b"fresh"]
    assert offset == COUNT


async def test_kafka_python_commits_and_aborts(address: str, engine: Engine, apis_asked: set[tuple[int, int]]) -> None:
    from kafka import KafkaProducer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    def work() -> None:
        producer = KafkaProducer(bootstrap_servers=address, transactional_id="tx")
        producer.init_transactions()
        for round_ in range(3):
            producer.begin_transaction()
            producer.send("out", b"aborted", partition=0)
            producer.flush(30)
            producer.abort_transaction()
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("out", b"%d" % round_, partition=partition)
            producer.send_offsets_to_transaction(
                {TopicPartition("in", 0): OffsetAndMetadata(round_, "", -1)}, "readers"
            )
            producer.commit_transaction()
        producer.close(10)

    await in_thread(work)
    assert await outcome(engine) == ([b"0", b"1", b"2"], [b"0", b"1", b"2"], 2)


async def test_aiokafka_commits_and_aborts(address: str, engine: Engine) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.structs import TopicPartition

    producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id="tx")
    await producer.start()
    try:
        for round_ in range(3):
            await producer.begin_transaction()
            await producer.send_and_wait("out", b"aborted", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                for partition in (0, 1):
                    await producer.send("out", b"%d" % round_, partition=partition)
                await producer.send_offsets_to_transaction({TopicPartition("in", 0): round_}, "readers")
    finally:
        await producer.stop()
    assert await outcome(engine) == ([b"0", b"1", b"2"], [b"0", b"1", b"2"], 2)


# --- transaction.offsets=predicted: told, and refused because another writer was faster ---------------------------


async def told_and_kept(engine: Engine, offsets: list[int]) -> None:
    """The told offset of "refused" became another writer's; that of "kept" is the record's."""
    assert await values(engine, "told") == [b"of another", b"kept"]
    assert offsets == [0, 1]


@pytest.fixture
async def predicted_topic(engine: Engine) -> str:
    await engine.topics.create("told", 1, {"transaction.offsets": "predicted"})
    return "told"


async def test_confluent_kafka_repeats_what_cannot_keep_its_offset(
    address: str, engine: Engine, predicted_topic: str
) -> None:
    from confluent_kafka import KafkaException, Producer

    offsets: list[int] = []

    def work() -> None:
        producer = Producer({"bootstrap.servers": address, "transactional.id": "tx", "linger.ms": 1})
        producer.init_transactions(30)
        for value in (b"refused", b"kept"):
            producer.begin_transaction()
            producer.produce(
                predicted_topic, value, partition=0, on_delivery=lambda _, message: offsets.append(message.offset())
            )
            assert producer.flush(30) == 0
            if value == b"refused":
                other = Producer({"bootstrap.servers": address})
                other.produce(predicted_topic, b"of another", partition=0)
                assert other.flush(30) == 0
                with pytest.raises(KafkaException) as raised:
                    producer.commit_transaction(30)
                assert raised.value.args[0].txn_requires_abort()
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)

    await in_thread(work)
    await told_and_kept(engine, offsets)


async def test_kafka_python_goes_on_as_a_new_producer(address: str, engine: Engine, predicted_topic: str) -> None:
    """To it, any error of a commit is fatal."""
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    offsets: list[int] = []

    def work() -> None:
        for value in (b"refused", b"kept"):
            producer = KafkaProducer(bootstrap_servers=address, transactional_id="tx")
            producer.init_transactions()
            producer.begin_transaction()
            offsets.append(producer.send(predicted_topic, value, partition=0).get(30).offset)
            if value == b"refused":
                other = KafkaProducer(bootstrap_servers=address)
                other.send(predicted_topic, b"of another", partition=0).get(30)
                other.close(10)
                with pytest.raises(KafkaError):
                    producer.commit_transaction()
            else:
                producer.commit_transaction()
            producer.close(10)

    await in_thread(work)
    await told_and_kept(engine, offsets)


async def test_aiokafka_goes_on_as_a_new_producer(address: str, engine: Engine, predicted_topic: str) -> None:
    """To it, any error of a commit is fatal."""
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    offsets: list[int] = []
    for value in (b"refused", b"kept"):
        producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id="tx")
        await producer.start()
        await producer.begin_transaction()
        offsets.append((await producer.send_and_wait(predicted_topic, value, partition=0)).offset)
        if value == b"refused":
            async with AIOKafkaProducer(bootstrap_servers=address) as other:
                await other.send_and_wait(predicted_topic, b"of another", partition=0)
            with pytest.raises(KafkaError):
                await producer.commit_transaction()
            with suppress(KafkaError):
                await producer.stop()
        else:
            await producer.commit_transaction()
            await producer.stop()
    await told_and_kept(engine, offsets)
