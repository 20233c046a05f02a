"""A topic that grows under load: how often a group of stock consumers sees a key's record before an earlier one."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import odradek
from odradek.local import ThreadedService

from tests.support.kafka.port import until

KEYS = [b"key-%d" % number for number in range(60)]
SLOW_S = 0.001  # what a member takes for a record, so that records wait in each partition when the topic grows

Send = Callable[[bytes, bytes], None]


@dataclass(frozen=True)
class Seen:
    """Counts of the records of all keys, as they were read."""

    sent: int
    seen: int
    out_of_order: int  # records that were seen after a later one of their key
    in_new_partitions: int


class _Group:
    """Members of one group, each polling in a thread; every record is noted when it is seen first."""

    def __init__(self, servers: str, topic: str, members: int, config: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.seen: dict[bytes, list[int]] = defaultdict(list)
        self.partitions: dict[int, int] = defaultdict(int)
        self._threads = [
            threading.Thread(target=self._run, args=(servers, topic, f"{topic}-group", dict(config)))
            for _ in range(members)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, servers: str, topic: str, group_id: str, config: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                "topic.metadata.refresh.interval.ms": 500,
                **config,
            }
        )
        consumer.subscribe([topic])
        while not self._stopping.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            key, number, partition = message.key() or b"", int(message.value() or b""), message.partition()
            assert partition is not None
            with self._lock:
                if number not in self.seen[key]:
                    self.seen[key].append(number)
                    self.partitions[partition] += 1
            time.sleep(SLOW_S)
        consumer.close()

    def count(self) -> int:
        with self._lock:
            return sum(map(len, self.seen.values()))

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def sdk_producer(service: ThreadedService, topic: str) -> Iterator[Send]:
    """A producer of ours."""
    with odradek.Producer(**service.client_config) as producer:

        def send(key: bytes, value: bytes) -> None:
            producer.send(topic, value, key=key)

        yield send


@contextmanager
def stock_producer(service: ThreadedService, topic: str, refresh_ms: int = 300_000) -> Iterator[Send]:
    """confluent-kafka's, with Java's partitioner; it hears of new partitions when it refreshes its metadata."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": service.kafka_bootstrap_servers,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "topic.metadata.refresh.interval.ms": refresh_ms,
        }
    )

    def send(key: bytes, value: bytes) -> None:
        producer.produce(topic, value, key)
        producer.poll(0)

    yield send
    producer.flush(60)


def grow_under_load(
    service: ThreadedService,
    topic: str,
    producing: Callable[..., Any],
    *,
    rounds: int = 100,
    before: int = 2,
    after: int = 8,
    members: int = 2,
    config: Mapping[str, Any] = {},
    topic_configs: Mapping[str, str] = {},
    **options: Any,
) -> Seen:
    """Write `rounds` records of each key, grow the topic after a third of them, and read until all were seen."""
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic(topic, before, configs=dict(topic_configs))])
        group = _Group(service.kafka_bootstrap_servers, topic, members, config)
        try:
            with producing(service, topic, **options) as send:
                for number in range(rounds):
                    for key in KEYS:
                        send(key, b"%d" % number)
                    if number == rounds // 3:
                        until(lambda: group.count() > 0, what="nothing is consumed")
                        admin.create_partitions({topic: after})
                    time.sleep(0.01)
            sent = rounds * len(KEYS)
            until(lambda: group.count() == sent, timeout_s=60, what=lambda: f"{group.count()} of {sent} were seen")
        finally:
            group.stop()
    out_of_order = sum(
        number < newest
        for numbers in group.seen.values()
        for number, newest in zip(numbers[1:], _running_max(numbers), strict=False)
    )
    moved = sum(count for partition, count in group.partitions.items() if partition >= before)
    return Seen(sent, group.count(), out_of_order, moved)


def _running_max(numbers: list[int]) -> Iterator[int]:
    newest = -1
    for number in numbers:
        newest = max(newest, number)
        yield newest
