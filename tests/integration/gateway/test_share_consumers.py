"""A share consumer that nobody here wrote (confluent-kafka's, on librdkafka) on the Kafka port, beside ours."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.local import ThreadedService

from tests.support.kafka import port

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service(share_record_lock_duration_ms=1_500) as service:
        yield service


def queue(service: ThreadedService, name: str, count: int = 20, **configs: str) -> None:
    """A topic of two partitions with so many records, and a group of its name that begins at the start."""
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic(name, 2)])
        values = {"share.auto.offset.reset": "earliest"}
        admin.alter_group_configs(name, values | {key.replace("_", "."): value for key, value in configs.items()})
    with odradek.Producer(**service.client_config) as producer:
        for i in range(count):
            producer.send(name, b"%d" % i, partition=i % 2)


def stock(service: ThreadedService, name: str, **configs: Any) -> Any:
    from confluent_kafka import ShareConsumer

    consumer = ShareConsumer({"bootstrap.servers": service.kafka_bootstrap_servers, "group.id": name, **configs})
    consumer.subscribe([name])
    return consumer


def take(consumer: Any, count: int) -> list[Any]:
    """So many messages, by as many polls as it takes."""
    taken: list[Any] = []
    give_up = time.monotonic() + TIMEOUT_S
    while len(taken) < count and time.monotonic() < give_up:
        for message in consumer.poll(1.0):
            assert message.error() is None, message.error()
            taken.append(message)
    return taken


def test_confluent_kafka_works_a_queue_off(service: ThreadedService) -> None:
    queue(service, "implicit")
    consumer = stock(service, "implicit")
    taken = take(consumer, 20)
    assert sorted(int(message.value()) for message in taken) == list(range(20))
    consumer.commit_sync()
    consumer.close()
    with odradek.Admin(**service.client_config) as admin:
        offsets = admin.list_share_group_offsets("implicit")
        assert [(at.start_offset, at.lag) for _, at in sorted(offsets.items())] == [(10, 0), (10, 0)]
        assert admin.describe_share_groups(["implicit"])["implicit"].state == "Empty"


def test_what_confluent_kafka_releases_our_consumer_gets(service: ThreadedService) -> None:
    from confluent_kafka import AcknowledgeType

    queue(service, "explicit", 4)
    consumer = stock(service, "explicit", **{"share.acknowledgement.mode": "explicit"})
    for message in take(consumer, 4):
        acknowledge_type = {b"0": AcknowledgeType.RELEASE, b"1": AcknowledgeType.REJECT}.get(message.value())
        consumer.acknowledge(message, AcknowledgeType.ACCEPT if acknowledge_type is None else acknowledge_type)
    consumer.commit_sync()
    consumer.close()
    with odradek.ShareConsumer(**service.client_config, group_id="explicit") as ours:
        ours.subscribe(["explicit"])
        record = next(ours)
        assert (record.value, record.delivery_count) == (b"0", 2)


def test_two_of_them_share_and_a_lost_ones_records_come_back(service: ThreadedService) -> None:
    queue(service, "both", 12)
    with odradek.ShareConsumer(
        **service.client_config, group_id="both", share_acknowledgement_mode="explicit", max_poll_records=3
    ) as ours:
        ours.subscribe(["both"])
        held = [record.value for records in ours.poll(10_000).values() for record in records]
        assert held  # and never acknowledged
        consumer = stock(service, "both")
        taken = [message.value() for message in take(consumer, 12)]
        consumer.commit_sync()
        consumer.close()
    assert sorted(map(int, taken)) == list(range(12)), "the lock ended, and they came to the other one"


_CLOSES_AFTER_A_DELETION = """
import sys, time
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient
servers = sys.argv[1]
consumer = ShareConsumer({"bootstrap.servers": servers, "group.id": "gone"})
consumer.subscribe(["gone", "stays"])
taken = set()
deadline = time.monotonic() + 30
while taken != {"gone", "stays"} and time.monotonic() < deadline:
    taken |= {message.topic() for message in consumer.poll(1.0)}
assert taken == {"gone", "stays"}
admin = AdminClient({"bootstrap.servers": servers})
admin.delete_topics(["gone"])["gone"].result()
consumer.close()
"""


def test_confluent_kafka_closes_after_a_topic_was_deleted(service: ThreadedService) -> None:
    """In a process of its own: librdkafka crashes where an answer names a partition that it did not ask about."""
    queue(service, "stays", 2)
    queue(service, "gone", 2)
    with odradek.Admin(**service.client_config) as admin:
        admin.alter_group_configs("gone", {"share.auto.offset.reset": "earliest"})
    command = [sys.executable, "-c", _CLOSES_AFTER_A_DELETION, service.kafka_bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
