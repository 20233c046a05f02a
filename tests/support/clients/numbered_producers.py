"""Stock Python producers that write numbered records to a topic, idempotent and otherwise at their defaults.

Each fills the partitions in turn and keeps going for a count of records or a time, with a bounded number of records
without an answer, so that a run on the slowest store ends soon after its last record.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.clients.numbered import Numbered, Sent

_PASSING = (-185, 7, 15)  # timed out, by the client or the service; COORDINATOR_NOT_AVAILABLE: the catalog is away
DELIVERY_S = 120.0  # within which every record is answered, whatever the store does; clients' own timeouts are equal


@dataclass(frozen=True)
class Load:
    """A producer's load; the first of the limits that is met ends it."""

    topic: str
    partitions: int = 3
    records: int = 1_000_000
    seconds: float = 3_600.0
    records_per_s: float = 0.0  # 0: as fast as it can
    size: int = 100  # bytes of a value
    outstanding: int = 200  # records without an answer, at most; 0 (Java only): as many as its buffer holds
    keys: int = 0  # different keys in each partition, "<partition>-<number>" (confluent only); 0: no keys
    ended: threading.Event = field(default_factory=threading.Event)  # ends it as well

    def due(self, sent: int, began_s: float) -> float | None:
        """Seconds until the next record is due (0 or less: now); None: the end."""
        now_s = time.monotonic()
        if self.ended.is_set() or sent >= self.records or now_s - began_s >= self.seconds:
            return None
        return began_s + sent / self.records_per_s - now_s if self.records_per_s else 0.0


def confluent(servers: str, load: Load, producer: str = "confluent", **config: Any) -> Sent:
    """Write by confluent-kafka (librdkafka)."""
    from confluent_kafka import KafkaException, Producer

    sent, unanswered = Sent(), set[Numbered]()

    def on_error(error: Any) -> None:
        if error.fatal():
            sent.fatal.append(str(error))

    def on_delivery(record: Numbered) -> Callable[[Any, Any], None]:
        def told(error: Any, message: Any) -> None:
            unanswered.discard(record)
            if error is not None:
                sent.refuse(record, error)

        return told

    client = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "message.timeout.ms": int(DELIVERY_S * 1000),
            "queue.buffering.max.messages": load.outstanding,
            "error_cb": on_error,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )

    def poll(timeout_s: float) -> None:
        try:
            client.poll(timeout_s)
        except KafkaException as error:  # a fatal one is raised here, too
            sent.fatal.append(str(error))

    began_s, total = time.monotonic(), 0
    while (due_s := load.due(total, began_s)) is not None and not sent.fatal:
        if due_s > 0 or len(unanswered) >= load.outstanding:
            poll(max(0.001, min(due_s, 0.1)))
            continue
        record = sent.next(producer, total % load.partitions)
        unanswered.add(record)
        try:
            client.produce(
                load.topic,
                record.value(load.size),
                key=b"%d-%d" % (record.partition, record.sequence % load.keys) if load.keys else None,
                partition=record.partition,
                on_delivery=on_delivery(record),
            )
        except (BufferError, KafkaException) as error:
            unanswered.discard(record)
            sent.refuse(record, error)
        total += 1
        poll(0)
    ends_s = time.monotonic() + DELIVERY_S
    while unanswered and not sent.fatal and time.monotonic() < ends_s:
        poll(0.1)
    if sent.fatal:
        client.purge()
        poll(1.0)
    assert not unanswered or sent.fatal, f"{len(unanswered)} records without an answer after {DELIVERY_S} s"
    for record in unanswered:
        sent.refuse(record, "no answer of a dead producer")
    return sent


def kafka_python(servers: str, load: Load, producer: str = "python", **config: Any) -> Sent:
    """Write by kafka-python."""
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    sent, room, lock = Sent(), threading.Semaphore(load.outstanding), threading.Lock()

    def on_error(record: Numbered) -> Callable[[Exception], None]:
        def told(error: Exception) -> None:
            room.release()
            with lock:
                sent.refuse(record, f"{type(error).__name__}: {error}")

        return told

    client = KafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, delivery_timeout_ms=int(DELIVERY_S * 1000), **config
    )
    began_s, total = time.monotonic(), 0
    try:
        while (due_s := load.due(total, began_s)) is not None:
            if due_s > 0:
                time.sleep(due_s)
                continue
            assert room.acquire(timeout=DELIVERY_S), f"no answer within {DELIVERY_S} s"
            record = sent.next(producer, total % load.partitions)
            total += 1
            try:
                future = client.send(load.topic, record.value(load.size), partition=record.partition)
            except KafkaError as error:
                on_error(record)(error)
                sent.fatal.append(str(error))
                break
            future.add_callback(lambda _: room.release())
            future.add_errback(on_error(record))
        client.flush(DELIVERY_S)
    finally:
        client.close(10)
    return sent


def aiokafka(servers: str, load: Load, producer: str = "aio", **config: Any) -> Sent:
    """Write by aiokafka."""
    return asyncio.run(asyncio.wait_for(_aiokafka(servers, load, producer, config), load.seconds + DELIVERY_S))


async def _aiokafka(servers: str, load: Load, producer: str, config: dict[str, Any]) -> Sent:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    sent, room = Sent(), asyncio.Semaphore(load.outstanding)
    answers: set[asyncio.Future[Any]] = set()

    def on_answer(record: Numbered) -> Callable[[asyncio.Future[Any]], None]:
        def told(future: asyncio.Future[Any]) -> None:
            answers.discard(future)
            room.release()
            if error := future.exception():
                sent.refuse(record, f"{type(error).__name__}: {error}")

        return told

    async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, **config) as client:
        began_s, total = time.monotonic(), 0
        while (due_s := load.due(total, began_s)) is not None:
            if due_s > 0:
                await asyncio.sleep(due_s)
                continue
            await room.acquire()
            record = sent.next(producer, total % load.partitions)
            total += 1
            try:
                future = await client.send(load.topic, record.value(load.size), partition=record.partition)
            except KafkaError as error:
                sent.refuse(record, f"{type(error).__name__}: {error}")
                sent.fatal.append(str(error))
                break
            answers.add(future)
            future.add_done_callback(on_answer(record))
        if answers:
            await asyncio.wait(answers, timeout=DELIVERY_S)
        assert not answers, f"{len(answers)} records without an answer after {DELIVERY_S} s"
    return sent


def create_topic(servers: str, topic: str, partitions: int) -> None:
    """Create a topic, on a store that may fail now and then."""
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import NewTopic

    new = NewTopic(topic, partitions, 1)
    _administer(servers, lambda admin: admin.create_topics([new])[topic], KafkaError.TOPIC_ALREADY_EXISTS)


def recreate_topic(servers: str, topic: str, partitions: int, gone_s: float) -> None:
    """Delete a topic and create it again some seconds later."""
    from confluent_kafka import KafkaError

    _administer(servers, lambda admin: admin.delete_topics([topic])[topic], KafkaError.UNKNOWN_TOPIC_OR_PART)
    time.sleep(gone_s)
    create_topic(servers, topic, partitions)


def _administer(servers: str, ask: Callable[[Any], Any], done_before: int) -> None:
    """Ask until it is done; librdkafka's admin client leaves it to its caller to try again.

    Args:
        done_before: the error that says, from the second time on, that an attempt which failed was done after all.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    for attempt in range(10):
        try:
            ask(admin).result(30)
            return
        except KafkaException as failure:
            error = failure.args[0]
            if attempt and error.code() == done_before:
                return
            if not error.retriable() and error.code() not in _PASSING:
                raise
        time.sleep(0.3)
    raise AssertionError(f"not done in ten attempts: {error}")


def wait_for_records(servers: str, topic: str, partitions: int, count: int, timeout_s: float) -> int:
    """Read a topic from the beginning, committed records only, until it has so many or time is over; its count."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    received, ends_s = 0, time.monotonic() + timeout_s
    try:
        while received < count and time.monotonic() < ends_s:
            received += sum(message.error() is None for message in consumer.consume(1_000, 0.2))
    finally:
        consumer.close()
    return received
