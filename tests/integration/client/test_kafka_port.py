"""Odradek's clients and the console over a Kafka port: any broker by its address, with and without a login."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.client.transport.kafka import parse_servers
from odradek.errors import ErrorCode, KafkaError
from odradek.local import Listener, ThreadedService
from odradek.operations.cluster import Cluster
from odradek.operations.groups import describe_group, list_groups
from odradek.operations.records.filters import Filter
from odradek.operations.records.search import Progress, search
from odradek.operations.topics import describe_topic

from tests.support.kafka.port import kafka_service


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    listener = Listener(port=0, sasl=True, plain_without_tls=True)
    with kafka_service(listener) as opened:
        with odradek.Admin(**opened.client_config) as admin:
            admin.create_user("ann", "pencil, =sharp")
        yield opened


def login(service: ThreadedService, mechanism: str, password: str = "pencil, =sharp") -> dict[str, Any]:
    return {
        "bootstrap_servers": f"kafka://{service.kafka_bootstrap_servers}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "ann",
        "sasl_password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_each_mechanism_logs_in_and_a_wrong_password_does_not(service: ThreadedService, mechanism: str) -> None:
    with odradek.Admin(**login(service, mechanism)) as admin:
        assert isinstance(admin.list_topics(), list)
    with pytest.raises(KafkaError) as refused, odradek.Admin(**login(service, mechanism, "wrong")):
        pass
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "user or password" in refused.value.message


def test_a_port_that_wants_a_login_says_so(service: ThreadedService) -> None:
    with (
        pytest.raises(KafkaError),
        odradek.Admin(
            bootstrap_servers=f"kafka://{service.kafka_bootstrap_servers}",
            default_api_timeout_ms=1_000,
            request_timeout_ms=1_000,
        ),
    ):
        pass


async def test_everything_that_a_page_shows_is_there(service: ThreadedService) -> None:
    async with Cluster(login(service, "SCRAM-SHA-256")) as cluster:
        await cluster.admin.create_topics([odradek.NewTopic("over-tcp", 3)])
        async with cluster.producer() as producer:
            for number in range(60):
                await producer.send("over-tcp", b'{"n": %d}' % number, b"%d" % number)
            await producer.flush()
        topic = await describe_topic(cluster.admin, "over-tcp")
        assert (len(topic.partitions), topic.records) == (3, 60)
        assert topic.size_bytes

        matches = []
        async for event in search(cluster, "over-tcp", Filter(where="value.n >= 50")):
            matches += [] if isinstance(event, Progress) else event
        assert len(matches) == 10

        await cluster.admin.alter_consumer_group_offsets("readers", {odradek.TopicPartition("over-tcp", 0): 1})
        assert "readers" in {group.group for group in await list_groups(cluster.admin)}
        assert (await describe_group(cluster.admin, "readers")).partitions[0].committed == 1
        assert cluster.is_kafka_port
        assert not cluster.has_metrics
        with pytest.raises(KafkaError, match="--registry"):
            await cluster.registry()
        await cluster.admin.delete_topics(["over-tcp"])


def test_a_transaction_and_a_group_work_over_the_port(service: ThreadedService) -> None:
    configs = login(service, "PLAIN")
    with odradek.Admin(**configs) as admin:
        admin.create_topics([odradek.NewTopic("in-steps", 2)])
    with odradek.Consumer(**configs, group_id="steps", auto_offset_reset="earliest",
                          isolation_level="read_committed") as consumer:  # fmt: skip
        consumer.subscribe(["in-steps"])
        with odradek.Producer(**configs, transactional_id="steps") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("in-steps", b"never", b"a")
            producer.abort_transaction()
            producer.begin_transaction()
            producer.send("in-steps", b"kept", b"a")
            producer.commit_transaction()
        values_read: list[bytes | None] = []
        for _ in range(60):
            values_read += [record.value for records in consumer.poll(500).values() for record in records]
            if values_read:
                break
    assert values_read == [b"kept"]


def test_nobody_listens_there() -> None:
    with pytest.raises(KafkaError) as refused, odradek.Admin(bootstrap_servers="kafka://127.0.0.1:1",
                                                           default_api_timeout_ms=300):  # fmt: skip
        pass
    assert "127.0.0.1:1" in refused.value.message


async def test_a_server_that_is_no_kafka_is_named() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cluster = Cluster({"bootstrap_servers": f"kafka://127.0.0.1:{port}", "default_api_timeout_ms": 500})
    with pytest.raises(KafkaError, match=f"127.0.0.1:{port}"):
        await cluster.start()
    server.close()


def test_addresses_are_read_and_wrong_ones_refused() -> None:
    assert parse_servers("kafka://a:1,[::1]:2,b") == [("a", 1), ("::1", 2), ("b", 9092)]
    for wrong in ("kafka://", "kafka://a:99999", "kafka://a b:1", "kafka://a:1,"):
        with pytest.raises(KafkaError, match="host:port"):
            parse_servers(wrong)
    with pytest.raises(KafkaError, match="needs sasl_username"):
        odradek.Admin(bootstrap_servers="kafka://a:1", security_protocol="SASL_SSL")
