"""Requests of stock admin clients through the Kafka port."""

from __future__ import annotations

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
        yield service


def test_confluent_kafka(service: ThreadedService) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
        OffsetSpec,
    )

    servers = service.kafka_bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("orders", 3, 1, config={"retention.ms": "1000000"})])["orders"].result(10)
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(10)
    admin.create_partitions([NewPartitions("orders", 4)])["orders"].result(10)
    metadata = admin.list_topics("orders", timeout=10)
    assert len(metadata.topics["orders"].partitions) == 4
    [broker] = metadata.brokers.values()
    assert f"{broker.host}:{broker.port}" == servers
    cluster = admin.describe_cluster().result(10)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [servers]

    change = ConfigEntry("retention.ms", "2000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(10)
    plain = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    assert admin.describe_configs([plain])[plain].result(10)["retention.ms"].value == "2000000"

    port.confluent_produce(servers, "orders", [Message(None, b"%d" % i) for i in range(10)], 2)
    tp = TopicPartition("orders", 2)
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 10), (OffsetSpec.for_timestamp(0), 0)):
        assert admin.list_offsets({tp: spec})[tp].result(10).offset == offset

    place_at = TopicPartition("orders", 2, 4)
    group = ConsumerGroupTopicPartitions("auditors", [place_at])
    admin.alter_consumer_group_offsets([group])["auditors"].result(10)
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("auditors")])["auditors"].result(10)
    assert [
        (topic_partition.topic, topic_partition.partition, topic_partition.offset)
        for topic_partition in listed.topic_partitions
    ] == [("orders", 2, 4)]
    groups = admin.list_consumer_groups().result(10)
    assert ("auditors", groups.errors) in [(group.group_id, []) for group in groups.valid]
    assert admin.describe_consumer_groups(["auditors"])["auditors"].result(10).state.name == "EMPTY"
    admin.delete_consumer_groups(["auditors"])["auditors"].result(10)
    admin.delete_topics(["orders"])["orders"].result(10)
    assert "orders" not in admin.list_topics(timeout=10).topics


def test_kafka_python(service: ThreadedService) -> None:
    from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
    from kafka.admin import NewTopic

    servers = service.kafka_bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([NewTopic("python", 2, 1)])
        assert "python" in admin.list_topics()
        port.python_produce(servers, "python", [Message(None, b"a"), Message(None, b"b")], 1)
        consumer = KafkaConsumer(bootstrap_servers=servers, group_id="python-readers", enable_auto_commit=False)
        tp = TopicPartition("python", 1)
        consumer.assign([tp])
        assert consumer.beginning_offsets([tp]) == {tp: 0}
        assert consumer.end_offsets([tp]) == {tp: 2}
        assert consumer.offsets_for_times({tp: 0})[tp].offset == 0
        consumer.seek(tp, 1)
        [record] = next(iter(consumer.poll(timeout_ms=10_000).values()))
        assert (record.offset, record.value) == (1, b"b")
        consumer.commit()
        assert consumer.committed(tp) == 2
        consumer.close()
        check_descriptions_of_kafka_python(admin, tp)
        admin.delete_topics(["python"])
        assert "python" not in admin.list_topics()
    finally:
        admin.close()


def check_descriptions_of_kafka_python(admin: Any, tp: Any) -> None:
    """Check the views of tools: partitions, sizes, producers, rights."""
    [described] = admin.describe_topic_partitions([tp.topic])["topics"]
    assert [partition["replica_nodes"] for partition in described["partitions"]] == [[0], [0]]
    [directory] = admin.describe_log_dirs()[0]["log_dirs"]
    [topic] = [topic_row for topic_row in directory["topics"] if topic_row["name"] == tp.topic]
    assert [partition_row["partition_size"] > 0 for partition_row in topic["partitions"]] == [False, True]
    [producer] = admin.describe_producers([tp])[tp].active_producers
    assert producer.last_sequence == 1
    assert tp.topic in admin.list_config_resources()["topic"]
    [topic] = admin.describe_topics([tp.topic])
    assert {"READ", "WRITE", "ALTER_CONFIGS"} <= set(topic["authorized_operations"])
    assert "IDEMPOTENT_WRITE" in admin.describe_cluster()["authorized_operations"]


async def test_aiokafka(service: ThreadedService) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=service.kafka_bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic("aio", 2, 1)])
        assert "aio" in await admin.list_topics()
        await admin.delete_topics(["aio"])
        assert "aio" not in await admin.list_topics()
    finally:
        await admin.close()


def test_offsets_of_a_group_can_be_deleted_while_nobody_reads_the_topic(service: ThreadedService) -> None:
    """OffsetDelete, which confluent-kafka does not offer in Python: asked by frame."""
    from odradek.dispatcher.answer import build
    from odradek.protocol.api import ApiKey
    from odradek.protocol.frame import decode_response, encode_request, request_schema, response_schema

    from tests.support.kafka.raw import RawConnection

    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic("gone", 1)])
        admin.alter_consumer_group_offsets("deleters", {odradek.TopicPartition("gone", 0): 3})
    fields: dict[str, Any] = {
        "group_id": "deleters",
        "topics": [{"name": "gone", "partitions": [{"partition_index": 0}, {"partition_index": 9}]}],
    }
    with RawConnection(service.kafka_bootstrap_servers) as connection:
        request = build(request_schema(ApiKey.OFFSET_DELETE, 0), fields)
        connection.send(encode_request(request, correlation_id=9, client_id="tests"))
        response = decode_response(connection.receive(), response_schema(ApiKey.OFFSET_DELETE, 0), correlation_id=9)
    assert [p.error_code for p in response.topics[0].partitions] == [0, 3]
    with odradek.Admin(**service.client_config) as admin:
        assert admin.list_consumer_group_offsets("deleters") == {}
