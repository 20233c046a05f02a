"""A consumer group of three over `flights`: together they read every record exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek import Consumer, RebalanceListener, TopicPartition
from odradek.cli.demo.failure import DemoFailed

MEMBERS = 3
_POLL_MS = 200.0
_STALLED_S = 120.0
_SETTINGS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "max_poll_records": 5_000,
    "fetch_max_wait_ms": 250,
}


@dataclass(slots=True)
class Member:
    """The work of one member."""

    name: str
    records: int = 0
    partitions: set[TopicPartition] = field(default_factory=set)  # that it read from
    lag: int = 0  # of those it holds at the end
    error: Exception | None = None


class _Shared:
    """The shared state of the members: every (partition, offset) that was read."""

    def __init__(self, expected: int) -> None:
        self._lock = threading.Lock()
        self._seen: dict[TopicPartition, set[int]] = {}
        self._held: dict[str, int] = {}
        self._started = threading.Event()
        self._failed = threading.Event()
        self._leaving = threading.Barrier(MEMBERS)
        self._moved_at = time.monotonic()
        self._expected = expected
        self.read = 0
        self.repeated = 0

    def has_joined(self, member: Member, held: int, partition_count: int) -> bool:
        """Return True if every member holds partitions and all are held, or if waiting for that takes too long."""
        with self._lock:
            self._held[member.name] = held
            shares = self._held.values()
            if len(shares) == MEMBERS and min(shares) > 0 and sum(shares) == partition_count:
                self._started.set()
        if self._is_stalled or self._failed.is_set():
            self._started.set()
        if self._started.is_set():
            self._moved_at = time.monotonic()
        return self._started.is_set()

    def add(self, tp: TopicPartition, offsets: Sequence[int]) -> None:
        """Count the records that a member read."""
        with self._lock:
            offsets_seen = self._seen.setdefault(tp, set())
            before = len(offsets_seen)
            offsets_seen.update(offsets)
            self.read += len(offsets_seen) - before
            self.repeated += len(offsets) - (len(offsets_seen) - before)
            self._moved_at = time.monotonic()

    @property
    def is_over(self) -> bool:
        """True if everything is read, a member failed, or progress has ended."""
        return self.read >= self._expected or self._failed.is_set() or self._is_stalled

    @property
    def _is_stalled(self) -> bool:
        return time.monotonic() - self._moved_at > _STALLED_S

    def fail(self) -> None:
        self._failed.set()
        self._leaving.abort()

    def leave_together(self) -> None:
        try:
            self._leaving.wait(_STALLED_S)
        except threading.BrokenBarrierError:
            return


def read_together(config: Mapping[str, Any], topic: str, group_id: str, expected: int) -> list[Member]:
    """Read the topic with three members of a new group, each in a thread with its consumer.

    Raises DemoFailed: a record was read twice or not at all; KafkaError: a member failed.
    """
    shared = _Shared(expected)
    members = [Member(f"member {i + 1}") for i in range(MEMBERS)]
    threads = [
        threading.Thread(target=_read, args=(config, topic, group_id, member, shared), name=member.name)
        for member in members
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        shared.fail()
        raise
    for member in members:
        if member.error is not None:
            raise member.error
    if shared.read != expected:
        raise DemoFailed(f"the group read {shared.read:,} of {expected:,} records of {topic}, then made no progress")
    if shared.repeated:
        raise DemoFailed(f"the group read {shared.repeated:,} records of {topic} more than once")
    return members


def _read(config: Mapping[str, Any], topic: str, group_id: str, member: Member, shared: _Shared) -> None:
    try:
        with Consumer(**config, group_id=group_id, **_SETTINGS) as consumer:
            held_back = _HeldBack(consumer)
            consumer.subscribe([topic], listener=held_back)
            partition_count = len(consumer.partitions_for(topic))
            while not shared.has_joined(member, len(consumer.assignment()), partition_count):
                consumer.poll(_POLL_MS)
            held_back.release()
            while not shared.is_over:
                for tp, records in consumer.poll(_POLL_MS).items():
                    shared.add(tp, [record.offset for record in records])
                    member.records += len(records)
                    member.partitions.add(tp)
                # Before the next poll, which may hand partitions to another member.
                consumer.commit()
            member.lag = sum(lag or 0 for lag in consumer.lag().values())
            shared.leave_together()  # a member that leaves early gives its partitions to the others
    except Exception as error:  # raised again in the thread that waits
        member.error = error
        shared.fail()


class _HeldBack(RebalanceListener):
    """Keeps partitions paused until all members have joined: the first could otherwise read everything alone."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._is_released = False

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if not self._is_released:
            self._consumer.pause(*partitions)

    def release(self) -> None:
        self._is_released = True
        self._consumer.resume(*self._consumer.paused())
