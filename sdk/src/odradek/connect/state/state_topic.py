"""A compacted topic that holds state: created if it is missing, read to its end, written record by record."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from odradek.client.admin.sync import Admin
from odradek.client.consumer.sync import Consumer
from odradek.client.producer.sync import Producer
from odradek.client.types import NewTopic
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition

Apply = Callable[[bytes | None, bytes | None, int], None]
"""key, value, offset -> None; called in the order of offsets of each partition."""
Pair = tuple[bytes, bytes | None]

_READ_MS = 1_000


def ensure_topic(client: Mapping[str, Any], new: NewTopic) -> int:
    """Create a topic unless it exists, and return its number of partitions.

    Raises KafkaError: TOPIC_AUTHORIZATION_FAILED if it does not exist and may not be created, or may not be described.
    """
    refusal = None
    with Admin(**client) as admin:
        try:
            admin.create_topics([new])
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:  # also for a topic that exists
                refusal = error
            elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        try:
            return admin.describe_topics([new.name])[new.name].partition_count
        except KafkaError as error:
            raise refusal or error from None


class StateTopic:
    """One topic of state. Safe for use by several threads; close it.

    Args:
        client: address and credentials.
        apply: takes every record, under the lock of this object.
    """

    def __init__(self, client: Mapping[str, Any], topic: str, partitions: int, apply: Apply) -> None:
        self.topic = topic
        self._client, self._apply = dict(client), apply
        count = ensure_topic(client, NewTopic(topic, num_partitions=partitions, configs={"cleanup.policy": "compact"}))
        self._places = [TopicPartition(topic, number) for number in range(count)]
        self.lock = threading.RLock()
        self._consumer = Consumer(**self._client, auto_offset_reset="earliest")
        self._consumer.assign(self._places)
        self._producer: Producer | None = None

    @property
    def partition_count(self) -> int:
        return len(self._places)

    def read_to_end(self) -> None:
        """Apply everything that was written before this call."""
        with self.lock:
            ends = self._consumer.end_offsets(self._places)
            while any(self._consumer.position(tp) < end for tp, end in ends.items()):
                self._take(_READ_MS)

    def follow(self, timeout_ms: int) -> bool:
        """Wait for records, at most so long, apply them, and return True if there were any."""
        with self.lock:
            return self._take(timeout_ms)

    def _take(self, timeout_ms: int) -> bool:
        polled = self._consumer.poll(timeout_ms)
        for records in polled.values():
            for record in records:
                self._apply(record.key, record.value, record.offset)
        return bool(polled)

    def write(self, pairs: Iterable[Pair]) -> None:
        """Write records, and return when they are durable; a value of None deletes a key. Raises KafkaError."""
        producer = self._producing()
        for future in [producer.send(self.topic, value, key=key) for key, value in pairs]:
            future.result()

    def write_at_end(self, pairs: Sequence[Pair]) -> int:
        """Write records to a topic of one partition on condition that everything in it was applied here.

        Returns the offset of the last one.

        Raises:
            OffsetConflict: somebody else wrote first; nothing was written, or a prefix without its last record.
        """
        with self.lock:
            expected = self._consumer.position(self._places[0])
            producer = self._producing()
            offset = expected - 1
            for key, value in pairs:
                offset = expected
                producer.send(self.topic, value, key=key, partition=0, expected_offset=expected).result()
                expected += 1
            return offset

    def _producing(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(**self._client, linger_ms=0)
        return self._producer

    def close(self) -> None:
        """Release the clients. May be called twice."""
        with self.lock:
            self._consumer.close()
            producer, self._producer = self._producer, None
            if producer is not None:
                producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
