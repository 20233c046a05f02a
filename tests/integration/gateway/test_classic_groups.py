"""Groups of the classic protocol, by clients that nobody here wrote: join, leave, die, commit; the other protocol."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import odradek
import pytest
from odradek.local import ThreadedService

from tests.support.kafka import port
from tests.support.kafka.port import Message, until

TOPIC = "seats"
PARTITIONS = 4
SESSION = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 200}


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic(TOPIC, PARTITIONS)])
        for partition in range(PARTITIONS):
            messages = [Message(b"%d" % partition, b"%d" % i) for i in range(25)]
            port.confluent_produce(service.kafka_bootstrap_servers, TOPIC, messages, partition)
        yield service


class Member:
    """A confluent-kafka consumer that polls in a thread."""

    def __init__(self, servers: str, group_id: str, **config: Any) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": group_id, "auto.offset.reset": "earliest", **SESSION, **config}
        )
        self.assigned: set[int] = set()
        self.values: list[tuple[int, bytes]] = []
        self.callbacks: list[tuple[str, int]] = []
        self._stopping = threading.Event()
        self._asked: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = queue.SimpleQueue()
        self._consumer.subscribe([TOPIC], on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self.callbacks.append(("assigned", len(partitions)))
        self.assigned |= {partition.partition for partition in partitions}

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self.callbacks.append(("revoked", len(partitions)))
        self.assigned -= {partition.partition for partition in partitions}

    def _run(self) -> None:
        while not self._stopping.is_set():
            while not self._asked.empty():
                question, future = self._asked.get()
                future.set_result(question(self._consumer))
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append((message.partition(), message.value()))
        self._consumer.close()

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Between two polls: a call from another thread waits for a gap that a thread which polls may never leave."""
        future: Future[Any] = Future()
        self._asked.put((question, future))
        return future.result(30)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(30)


def settled(*members: Member) -> bool:
    """Return True if the members share all partitions evenly, each partition once."""
    counts = sorted(len(member.assigned) for member in members)
    union = set().union(*(member.assigned for member in members))
    return union == set(range(PARTITIONS)) and sum(counts) == PARTITIONS and counts[0] > 0


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_consumers_share_partitions_as_they_come_and_go(service: ThreadedService, strategy: str) -> None:
    options = {"partition.assignment.strategy": strategy}
    first = Member(service.kafka_bootstrap_servers, f"share-{strategy}", **options)
    second = None
    try:
        until(lambda: settled(first) and len(first.values) == 100, what="the first reads everything")
        second = Member(service.kafka_bootstrap_servers, f"share-{strategy}", **options)
        until(lambda: settled(first, second), what="both share")
        second.close()
        until(lambda: settled(first), what="the first has all again")
        assert len(first.values) == len(set(first.values)) == 100  # the rebalances read nothing twice
    finally:
        first.close()
        if second is not None:
            second.close()


def test_both_members_hear_of_every_generation_of_a_cooperative_rebalance(service: ThreadedService) -> None:
    options = {"partition.assignment.strategy": "cooperative-sticky"}
    first = Member(service.kafka_bootstrap_servers, "every-generation", **options)
    second = None
    try:
        until(lambda: settled(first), what="the first has all")
        second = Member(service.kafka_bootstrap_servers, "every-generation", **options)
        until(lambda: settled(first, second) and len(first.callbacks) == 4, what="both share")
    finally:
        first.close()
        if second is not None:
            second.close()
    # As Apache Kafka: the first gives two up, and joins again at once; the second gets nothing, then what is free.
    assert first.callbacks == [("assigned", 4), ("revoked", 2), ("assigned", 0), ("assigned", 0), ("revoked", 2)]
    assert second.callbacks == [("assigned", 0), ("assigned", 2), ("revoked", 2)]


DYING = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "session.timeout.ms": 1500,
                     "heartbeat.interval.ms": 200})
consumer.subscribe([sys.argv[3]], on_assign=lambda c, p: print(len(p), flush=True))
while True:
    consumer.poll(0.1)
"""


def test_partitions_of_a_killed_consumer_are_given_to_others(service: ThreadedService) -> None:
    arguments = [sys.executable, "-c", DYING, service.kafka_bootstrap_servers, "dying", TOPIC]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) == PARTITIONS
            survivor = Member(service.kafka_bootstrap_servers, "dying")
            try:
                until(lambda: len(survivor.assigned) == PARTITIONS // 2, what="two share")
                process.kill()
                until(lambda: settled(survivor), what="the survivor has all")
            finally:
                survivor.close()
        finally:
            process.kill()


def test_commits_are_found_by_other_clients(service: ThreadedService) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as AioPartition
    from kafka import KafkaConsumer, TopicPartition

    servers = service.kafka_bootstrap_servers
    python = KafkaConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id="commits",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=2_000,
        heartbeat_interval_ms=300,
    )
    try:
        received = 0
        while received < 100:
            received += sum(map(len, python.poll(timeout_ms=500, max_records=100).values()))
        python.commit()
        assert {python.committed(TopicPartition(TOPIC, p)) for p in range(PARTITIONS)} == {25}
    finally:
        python.close()

    async def go_on() -> set[int | None]:
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=servers,
            group_id="commits",
            enable_auto_commit=False,
            session_timeout_ms=2_000,
            heartbeat_interval_ms=300,
        )
        await consumer.start()
        try:
            tp = AioPartition(TOPIC, 0)
            consumer.seek(tp, 20)
            records = await consumer.getmany(tp, timeout_ms=5_000)
            assert [record.offset for record in records[tp]] == [20, 21, 22, 23, 24]
            await consumer.commit({tp: 22})
            return {await consumer.committed(AioPartition(TOPIC, p)) for p in range(PARTITIONS)}
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(go_on(), 60)) == {22, 25}


def test_a_group_is_of_one_protocol_while_it_has_members(service: ThreadedService) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    servers = service.kafka_bootstrap_servers
    newer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "mixed",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    newer.subscribe([TOPIC])
    try:
        assert len(port.poll_confluent(newer, 100)) == 100
        newer.commit(asynchronous=False)
        older = Consumer({"bootstrap.servers": servers, "group.id": "mixed", **SESSION})
        older.subscribe([TOPIC])
        try:
            refused = until(lambda: older.poll(0.2), what="the older protocol is refused")
            assert refused.error() is not None
            assert refused.error().name() == "INCONSISTENT_GROUP_PROTOCOL"
        finally:
            older.close()
    finally:
        newer.close()
    # All have left: the group becomes classic and keeps its offsets.
    member = Member(servers, "mixed")
    try:
        until(lambda: settled(member), what="the older protocol takes over")
        tps = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        member_offsets = member.ask(lambda consumer: consumer.committed(tps, timeout=10))
        assert [offset_committed.offset for offset_committed in member_offsets] == [25] * PARTITIONS
        with odradek.Admin(**service.client_config) as admin:
            [listing] = [group for group in admin.list_consumer_groups() if group.group_id == "mixed"]
            assert (listing.state, listing.group_type) == ("Stable", "classic")
            described = admin.describe_consumer_groups(["mixed"])["mixed"]
            assert (described.state, described.group_epoch, described.assignor) == ("Stable", -1, "range")
            [described_member] = described.members
            assert described_member.subscribed_topics == (TOPIC,)
            assert described_member.assignment == tuple(odradek.TopicPartition(TOPIC, p) for p in range(PARTITIONS))
            with pytest.raises(odradek.KafkaError, match="GROUP_ID_NOT_FOUND"):
                admin.describe_consumer_groups(["mixed", "nobody"])
            with pytest.raises(odradek.KafkaError, match="NON_EMPTY_GROUP"):
                admin.delete_consumer_groups(["mixed"])
    finally:
        member.close()
    simple = Consumer({"bootstrap.servers": servers, "group.id": "mixed", "enable.auto.commit": False})
    try:
        simple.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
        [committed] = simple.committed([TopicPartition(TOPIC, 0)], timeout=10)
        assert committed.offset == 7
    except KafkaException as error:
        pytest.fail(f"a simple consumer's commit to an empty group: {error}")
    finally:
        simple.close()


def test_a_static_member_keeps_its_partitions_over_a_restart(service: ThreadedService) -> None:
    servers = service.kafka_bootstrap_servers
    options = {"group.instance.id": "one", "session.timeout.ms": 6_000}
    other = Member(servers, "static", **{"group.instance.id": "two", "session.timeout.ms": 6_000})
    first = Member(servers, "static", **options)
    try:
        until(lambda: settled(other, first), what="both share")
        kept = set(first.assigned)
        others = set(other.assigned)
        first.close()
        first = Member(servers, "static", **options)
        until(lambda: first.assigned == kept, what="it has what it had")
        assert other.assigned == others
    finally:
        first.close()
        other.close()
