"""Mirrors of Odradek's own connectors from and to a real Apache Kafka: what follows, in both directions at once.

`make java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import odradek
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka import admin as kafka_admin

from bench.peers.kafka_broker import NoBroker, kafka_broker
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import kafka_service, until

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_AUTHORIZER = ("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
               "super.users=User:ANONYMOUS")  # fmt: skip
_S = 120.0


class Apache:
    """An Apache Kafka, and a Connect cluster of ours whose state is elsewhere."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = kafka_admin.AdminClient({"bootstrap.servers": servers})

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        futures = self.admin.create_topics(
            [kafka_admin.NewTopic(topic, partitions, 1, config={n.replace("_", "."): v for n, v in configs.items()})]
        )
        futures[topic].result(_S)

    def produce(self, topic: str, *values: str, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, b"k", partition, headers=[("h", b"1")])
        assert producer.flush(_S) == 0

    def commit(self, group: str, tp: TopicPartition) -> bool:
        requests = [ConsumerGroupTopicPartitions(group, [tp])]
        [done] = self.admin.alter_consumer_group_offsets(requests).values()
        return all(tp.error is None for tp in done.result(_S).topic_partitions)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=_S).topics)

    def read(self, topic: str, count: int) -> list[Any]:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "look", "auto.offset.reset": "earliest",
                             "enable.auto.commit": False})  # fmt: skip
        messages: list[Any] = []
        try:
            until(lambda: topic in self.topics(), _S, topic)
            numbers = self.admin.list_topics(topic, timeout=_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in numbers])

            def more() -> bool:
                messages.extend(message for message in consumer.consume(100, 0.5) if message.error() is None)
                return len(messages) >= count

            until(more, _S, f"{count} records of {topic}")
        finally:
            consumer.close()
        return messages


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[RunningCluster, Apache, str]]:
    """Ours with the Connect workers, theirs, and the address of our Kafka port."""
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(kafka_broker(*_AUTHORIZER))
        except NoBroker as reason:
            pytest.skip(str(reason))
        service = stack.enter_context(kafka_service())
        running = stack.enter_context(RunningCluster(service))
        yield running, Apache(broker.servers), service.kafka_bootstrap_servers


def configs(connector: str, apache: Apache, **more: str) -> dict[str, str]:
    converters = dict.fromkeys(("key.converter", "value.converter", "header.converter"), _BYTES)
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{connector}Connector", **converters,
        "source.cluster.alias": "apache", "target.cluster.alias": "ours",
        "source.cluster.bootstrap.servers": apache.servers, "consumer.poll.timeout.ms": "100",
        "refresh.topics.interval.seconds": "1", "emit.checkpoints.interval.seconds": "1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }  # fmt: skip


def test_from_apache_kafka(sides: tuple[RunningCluster, Apache, str]) -> None:
    """Topics by pattern, records, configurations, new partitions, ACLs, heartbeats, groups."""
    running, apache, _ = sides
    apache.create("orders-eu", 2, cleanup_policy="compact", max_message_bytes="2000000")
    apache.create("left-out", 1)
    apache.produce("orders-eu", *(f"{n}" for n in range(20)))
    acls = [
        kafka_admin.AclBinding(
            kafka_admin.ResourceType.TOPIC, "orders-eu", kafka_admin.ResourcePatternType.LITERAL, "User:ada", "*",
            operation, kafka_admin.AclPermissionType.ALLOW,
        )
        for operation in (kafka_admin.AclOperation.READ, kafka_admin.AclOperation.WRITE)
    ]  # fmt: skip
    for done in apache.admin.create_acls(acls).values():
        done.result(_S)
    tp = TopicPartition("orders-eu", 0, 7)
    until(lambda: apache.commit("readers", tp), _S, "the coordinator of a new broker")
    running.cluster.create("in", configs("Source", apache, topics="orders-.*", sync_topic_acls_enabled="true"))
    running.cluster.create("beats", configs("Heartbeat", apache))
    running.cluster.create(
        "checks", configs("Checkpoint", apache, topics="orders-.*", groups="readers", sync_group_offsets_enabled="true")
    )
    records = running.read("apache.orders-eu", 20, timeout_s=_S)
    assert [record.value.decode() for record in records] == [f"{n}" for n in range(20)]
    assert {(record.partition, record.key, record.headers[0]) for record in records} == {(0, b"k", ("h", b"1"))}
    with odradek.Admin(**running.client) as admin:
        described = admin.describe_configs(["apache.orders-eu"])["apache.orders-eu"]
        assert described["cleanup.policy"].value == "compact"
        assert described["max.message.bytes"].value == "2000000"
        assert "apache.left-out" not in admin.list_topics()
        until(lambda: admin.describe_acls(), _S, "the ACLs")
        [acl] = admin.describe_acls()
        assert (acl.name, acl.principal, acl.operation.name) == ("apache.orders-eu", "User:ada", "READ")
        mirrored = odradek.TopicPartition("apache.orders-eu", 0)

        def at() -> int | None:
            committed = admin.list_consumer_group_offsets("readers").get(mirrored)
            return None if committed is None else committed.offset

        until(lambda: at() == records[7].offset, _S, "the group reads on with the eighth record")
        apache.admin.create_partitions([kafka_admin.NewPartitions("orders-eu", 3)])["orders-eu"].result(_S)
        apache.create("orders-us", 1)
        apache.produce("orders-us", "later")
        until(lambda: admin.describe_topics(["apache.orders-eu"])["apache.orders-eu"].partition_count == 3, _S, "3")
    until(lambda: "orders-eu" in apache.topics(), _S)
    apache.produce("orders-eu", "third", partition=2)
    assert running.read("apache.orders-us", 1, timeout_s=_S)[0].value == b"later"
    assert b"third" in [record.value for record in running.read("apache.orders-eu", 21, timeout_s=_S)]
    assert running.read("heartbeats", 1, timeout_s=_S)[0].key == b"\x00\x06apache\x00\x04ours"


def test_to_apache_kafka_and_nothing_goes_round(sides: tuple[RunningCluster, Apache, str]) -> None:
    """The sink writes ours there, while the source mirrors theirs here: neither takes the other's copies."""
    running, apache, _ = sides
    apache.create("both", 1)
    apache.produce("both", "of apache")
    with odradek.Admin(**running.client) as admin:
        admin.create_topics([odradek.NewTopic("both", 2)])
    running.produce("both", *(b"ours %d" % n for n in range(10)), key=b"k")
    converters = dict.fromkeys(("key.converter", "value.converter", "header.converter"), _BYTES)
    running.cluster.create("back", configs("Source", apache, topics="(.*[.])?both"))
    running.cluster.create(
        "out",
        {
            "connector.class": "odradek.connect.MirrorSinkConnector", **converters, "topics.regex": "(.*[.])?both",
            "source.cluster.alias": "ours", "target.cluster.alias": "apache",
            "target.cluster.bootstrap.servers": apache.servers,
        },
    )  # fmt: skip
    messages = apache.read("ours.both", 10)
    assert sorted(message.value() for message in messages) == sorted(b"ours %d" % n for n in range(10))
    assert len(apache.admin.list_topics("ours.both", timeout=_S).topics["ours.both"].partitions) == 2
    assert running.read("apache.both", 1, timeout_s=_S)[0].value == b"of apache"
    running.cluster.restart("out", include_tasks=True, only_failed=False)
    running.produce("both", b"last", key=b"k")
    assert len(apache.read("ours.both", 11)) == 11
    with odradek.Admin(**running.client) as admin:
        assert "apache.ours.both" not in admin.list_topics()
    assert "ours.apache.both" not in apache.topics()
