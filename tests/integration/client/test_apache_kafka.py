"""Odradek's clients and the console against a real Apache Kafka: KRaft, one node, jars from Maven Central.

Slow: its broker takes ten seconds to start. Without Java and Maven there is nothing to test against.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import odradek
import pytest
from odradek.console.app import console_app
from odradek.operations.cluster import Cluster
from odradek.operations.groups import describe_group, list_groups
from odradek.operations.places import parse_place
from odradek.operations.records.filters import Filter
from odradek.operations.records.search import Progress, search
from odradek.operations.resets import apply_reset, plan_reset
from odradek.operations.skew import key_skew
from odradek.operations.topics import change_configs, consumers_of, delete_records, describe_topic, plan_deletion

from bench.peers.kafka_broker import NoBroker, kafka_broker

pytestmark = pytest.mark.slow

ORIGIN = "http://127.0.0.1"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    try:
        with kafka_broker() as broker:
            yield f"kafka://{broker.servers}"
    except NoBroker as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def filled(servers: str) -> str:
    with odradek.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([odradek.NewTopic("orders", 3)])
    with odradek.Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
        for number in range(300):
            producer.send("orders", b'{"n": %d}' % number, b"key-%d" % (number % 11), headers=[("h", b"1")])
        producer.flush()
    with odradek.Consumer(bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        received = 0
        for _ in range(60):
            received += sum(map(len, consumer.poll(500).values()))
            if received == 300:
                break
        consumer.commit()
    assert received == 300
    return servers


async def test_topics_records_and_groups_are_shown_and_changed(filled: str) -> None:
    async with Cluster({"bootstrap_servers": filled}) as cluster:
        topic = await describe_topic(cluster.admin, "orders")
        assert (len(topic.partitions), topic.records) == (3, 300)
        assert topic.size_bytes
        await change_configs(cluster.admin, "orders", {"retention.ms": "3600000"})
        assert (await describe_topic(cluster.admin, "orders")).config("retention.ms") == "3600000"

        matches = []
        async for event in search(cluster, "orders", Filter(where="value.n >= 290")):
            matches += [] if isinstance(event, Progress) else event
        assert len(matches) == 10
        assert (await key_skew(cluster, "orders")).keys == 11

        assert [group.type for group in await list_groups(cluster.admin) if group.group == "billing"] == ["consumer"]
        assert (await describe_group(cluster.admin, "billing")).lag == 0
        reset = await plan_reset(cluster.admin, "billing", topics=[], place=parse_place("earliest", "to"), shift=None)
        await apply_reset(cluster.admin, reset)
        assert (await describe_group(cluster.admin, "billing")).lag == 300
        ends = {
            odradek.TopicPartition("orders", partition.partition): partition.next_offset
            for partition in topic.partitions
        }
        assert [consumer.lag for consumer in await consumers_of(cluster.admin, "orders", ends)] == [300]

        done = await delete_records(cluster.admin, await plan_deletion(cluster.admin, "orders", [], 5))
        assert sum(result.deleted for result in done) == 15


async def test_the_consoles_pages_answer(filled: str) -> None:
    cluster = Cluster({"bootstrap_servers": filled})
    app = console_app(cluster)
    through = httpx.ASGITransport(app=app, client=("127.0.0.1", 50_000))
    async with cluster, httpx.AsyncClient(transport=through, base_url=ORIGIN, timeout=60) as client:
        await client.get("/", params={"token": app.state.console.sessions.new_token()})
        for path, text in {
            "/": "Kafka port does not tell",
            "/topics": "orders",
            "/topics/orders": "Partitions",
            "/topics/orders?tab=configuration": "retention.ms",
            "/topics/orders?tab=consumers": "billing",
            "/topics/orders?tab=storage": "--data-dir",
            "/topics/orders/records": "key-",
            "/topics/orders/records/0/7": "headers".capitalize(),
            "/groups": "billing",
            "/groups/detail?id=billing": "orders-0",
            "/groups/detail?id=billing&tab=lag": "Lag over time",
            "/transactions": "Transactions",
            "/security": "ACLs",
            "/security?tab=users": "Users",
            "/security?tab=quotas": "Quotas",
            "/health": "broker",
            "/costs": "does not tell",
        }.items():
            response = await client.get(path)
            assert (response.status_code, text in response.text) == (200, True), f"{path}: {response.text[-2000:]}"
        assert "--registry" in (await client.get("/schemas")).text
