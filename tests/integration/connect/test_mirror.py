"""Mirrors between two clusters over Kafka's protocol: topics, partitions, configurations, groups, both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from struct import unpack
from typing import Any

import odradek
import pytest
from odradek.connect import plugins
from odradek.connect.connectors.mirror.remote import OFFSET_HEADER
from odradek.connect.connectors.mirror.sink import MirrorSinkConnector
from odradek.connect.errors import Conflict
from odradek.connect.record import SinkRecord
from odradek.testing.connect import SINK_CHECKS, SinkUnderTest
from odradek.testing.contract import check_id

from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import kafka_service, until

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
BYTES = dict.fromkeys(("key.converter", "value.converter", "header.converter"), _BYTES)


class Side:
    """A service with a Kafka port, and a Connect cluster whose state it keeps."""

    def __init__(self, stack: ExitStack, alias: str) -> None:
        self.alias = alias
        self.service = stack.enter_context(kafka_service())
        self.running = stack.enter_context(RunningCluster(self.service))
        self.client = self.running.client
        self.servers = self.service.kafka_bootstrap_servers
        self.admin = stack.enter_context(odradek.Admin(**self.client))

    def produce(self, topic: str, *values: str, partition: int = 0) -> None:
        with odradek.Producer(**self.client) as producer:
            for value in values:
                headers = [("h", b"1")]
                producer.send(topic, value.encode(), key=b"k", headers=headers, partition=partition, timestamp_ms=1_000)

    def mirror(self, name: str, other: Side, kind: str = "Source", **configs: str) -> None:
        """Mirror another side into this one."""
        self.running.cluster.create(
            name,
            {
                "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector", **BYTES,
                "source.cluster.alias": other.alias, "target.cluster.alias": self.alias,
                "source.cluster.bootstrap.servers": other.servers, "consumer.poll.timeout.ms": "100",
                "refresh.topics.interval.seconds": "1", "emit.checkpoints.interval.seconds": "1",
                **{key.replace("_", "."): value for key, value in configs.items()},
            },
        )  # fmt: skip

    def values(self, topic: str, count: int) -> list[str]:
        return [each.value.decode() for each in self.running.read(topic, count, timeout_s=30)]


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        yield Side(stack, "west"), Side(stack, "east")


def test_topics_records_partitions_and_configurations_follow(sides: tuple[Side, Side]) -> None:
    west, east = sides
    configs = {"cleanup.policy": "compact", "max.message.bytes": "2000000"}
    west.admin.create_topics([odradek.NewTopic("orders", 2, configs=configs), odradek.NewTopic("other", 1)])
    west.produce("orders", *(f"{n}" for n in range(20)))
    west.produce("orders", "one", partition=1)
    east.mirror("orders", west, topics="orders,late.*")
    records = east.running.read("west.orders", 21, timeout_s=30)
    assert sorted(each.value.decode() for each in records) == sorted([*(f"{n}" for n in range(20)), "one"])
    [one] = [each for each in records if each.value == b"one"]
    assert (one.partition, one.key, one.timestamp_ms) == (1, b"k", 1_000)
    assert list(one.headers) == [("h", b"1"), (OFFSET_HEADER, b"0")]
    found = east.admin.describe_configs(["west.orders"])["west.orders"]
    assert {name: found[name].value for name in configs} == configs
    assert "west.other" not in east.admin.list_topics()
    # Later: a partition, a configuration, a topic.
    west.admin.create_partitions({"orders": 3})
    west.admin.alter_topic_configs("orders", {"max.message.bytes": "3000000"})
    west.admin.create_topics([odradek.NewTopic("late-1", 1)])
    west.produce("orders", "third", partition=2)
    west.produce("late-1", "x")
    assert east.values("west.late-1", 1) == ["x"]
    assert "third" in east.values("west.orders", 22)
    until(
        lambda: east.admin.describe_configs(["west.orders"])["west.orders"]["max.message.bytes"].value == "3000000", 30
    )


def test_a_restart_repeats_nothing(sides: tuple[Side, Side]) -> None:
    west, east = sides
    west.admin.create_topics([odradek.NewTopic("once", 1)])
    west.produce("once", *(f"{n}" for n in range(50)))
    east.mirror("once", west, topics="once")
    assert len(east.values("west.once", 50)) == 50
    east.running.cluster.restart("once", include_tasks=True, only_failed=False)
    west.produce("once", "50")
    assert east.values("west.once", 51) == [f"{n}" for n in range(51)]
    assert len(east.running.read("west.once", 51, more=True)) == 51


def test_two_clusters_mirror_each_other_and_nothing_goes_round(sides: tuple[Side, Side]) -> None:
    west, east = sides
    for side in sides:
        side.admin.create_topics([odradek.NewTopic("both", 1)])
        side.produce("both", f"of {side.alias}")
    east.mirror("both", west, topics="(.*[.])?both")
    west.mirror("both", east, topics="(.*[.])?both")
    assert east.values("west.both", 1) == ["of west"]
    assert west.values("east.both", 1) == ["of east"]
    west.admin.create_topics([odradek.NewTopic("x.both", 1)])  # looked for after the mirrored topics were there
    until(lambda: "west.x.both" in east.admin.list_topics(), 30)
    assert not {"west.east.both", "east.west.both"} & {*east.admin.list_topics(), *west.admin.list_topics()}


def test_offsets_of_groups_are_translated_and_committed(sides: tuple[Side, Side]) -> None:
    west, east = sides
    west.admin.create_topics([odradek.NewTopic("grouped", 1)])
    for n in range(30):  # a transaction each, whose markers take offsets of the mirrored topic
        west.produce("grouped", f"{n}")
    west.admin.delete_records({odradek.TopicPartition("grouped", 0): 10})
    east.mirror("grouped", west, topics="grouped", batch_max_records="3")
    assert len(east.values("west.grouped", 20)) == 20
    west.admin.alter_consumer_group_offsets("readers", {odradek.TopicPartition("grouped", 0): 17})
    west.admin.alter_consumer_group_offsets("done", {odradek.TopicPartition("grouped", 0): 30})
    east.mirror(
        "checks", west, "Checkpoint", topics="grouped", groups="readers,done", sync_group_offsets_enabled="true"
    )
    place = odradek.TopicPartition("west.grouped", 0)
    until(lambda: east.admin.list_consumer_group_offsets("readers").get(place), 30, "synced")
    until(lambda: east.admin.list_consumer_group_offsets("done").get(place), 30, "synced")
    with odradek.Consumer(**east.client, group_id="readers") as consumer:
        consumer.subscribe(["west.grouped"])
        first: list[Any] = []
        until(lambda: first.extend(r for rs in consumer.poll(500).values() for r in rs) or first, 30)
        assert first[0].value == b"17"
    with odradek.Consumer(**east.client, group_id="done") as consumer:
        consumer.assign([place])
        assert consumer.poll(500) == {}
    checkpoint = east.running.read("west.checkpoints.internal", 2)
    [found] = [each for each in checkpoint if each.key.startswith(b"\x00\x07readers")]
    assert found.key == b"\x00\x07readers\x00\x0cwest.grouped" + (0).to_bytes(4, "big")
    version, upstream, offset = unpack(">hqq", found.value[:18])
    assert (version, upstream) == (0, 17)
    assert offset == first[0].offset


def test_heartbeats(sides: tuple[Side, Side]) -> None:
    west, east = sides
    east.mirror("beats", west, "Heartbeat")
    record = east.running.read("heartbeats", 1)[0]
    assert record.key == b"\x00\x04west\x00\x04east"
    assert len(record.value) == 10


def test_mistakes_are_named() -> None:
    kind = plugins.connector("MirrorSource")
    found = kind.validate({"source.cluster.bootstrap.servers": "here:1", "topics": "("})
    errors = [error for each in found.values() for error in each.errors]
    assert any("a mirror needs value.converter=" in each for each in errors)
    assert any("topics must have regular expressions" in each for each in errors)


@pytest.mark.parametrize("check", SINK_CHECKS, ids=check_id)
def test_the_sink_keeps_the_contract_of_sinks(
    sides: tuple[Side, Side], request: pytest.FixtureRequest, check: Callable[[SinkUnderTest], None]
) -> None:
    """Exactly once into another cluster, whose group of the mirror has the position."""
    _, east = sides
    alias = f"here{abs(hash(request.node.nodeid))}"
    configs = {
        **BYTES, "source.cluster.alias": alias, "target.cluster.alias": "there",
        "target.cluster.bootstrap.servers": east.servers, "offsets.group": alias,
    }  # fmt: skip

    def record(offset: int) -> SinkRecord:
        return SinkRecord(topic="rows", partition=0, offset=offset, key=b"k", value=str(offset).encode())

    def read() -> list[int]:
        if f"{alias}.rows" not in east.admin.list_topics():
            return []
        with odradek.Consumer(**east.client, isolation_level="read_committed", max_poll_records=1000) as consumer:
            place = odradek.TopicPartition(f"{alias}.rows", 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            end, found = consumer.end_offsets([place])[place], []
            while consumer.position(place) < end:
                found += [int(each.value) for some in consumer.poll(300).values() for each in some]
            return found

    check(SinkUnderTest(MirrorSinkConnector, configs, record, read))


def test_a_reset_of_offsets_reaches_the_target(sides: tuple[Side, Side]) -> None:
    west, east = sides
    west.admin.create_topics([odradek.NewTopic("again", 1)])
    west.produce("again", *(f"{n}" for n in range(5)))
    west.running.create(
        "again",
        {
            "connector.class": "odradek.connect.MirrorSinkConnector", **BYTES, "topics": "again",
            "source.cluster.alias": "west", "target.cluster.alias": "east",
            "target.cluster.bootstrap.servers": east.servers,
        },
    )  # fmt: skip
    assert len(east.values("west.again", 5)) == 5
    cluster = west.running.cluster
    cluster.set_target("again", "STOPPED")
    west.running.wait_states("again", "STOPPED")

    def altered() -> bool:
        try:
            place = {"kafka_topic": "again", "kafka_partition": 0}
            cluster.alter_offsets("again", [{"partition": place, "offset": {"kafka_offset": 3}}])
        except Conflict:
            return False
        return True

    until(altered, 30, "the group is empty")
    cluster.set_target("again", "STARTED")
    assert east.values("west.again", 7) == ["0", "1", "2", "3", "4", "3", "4"]


def test_the_sink_mirrors_topics_and_leaves_out_what_came_from_the_target(sides: tuple[Side, Side]) -> None:
    west, east = sides
    west.admin.create_topics([odradek.NewTopic("out", 4), odradek.NewTopic("east.out", 1)])
    west.produce("out", "a", partition=2)
    west.produce("east.out", "from there")
    west.running.create(
        "out",
        {
            "connector.class": "odradek.connect.MirrorSinkConnector", **BYTES, "topics": "out,east.out",
            "source.cluster.alias": "west", "target.cluster.alias": "east",
            "target.cluster.bootstrap.servers": east.servers,
        },
    )  # fmt: skip
    [record] = east.running.read("west.out", 1, timeout_s=30)
    assert (record.value, record.partition, record.key, record.timestamp_ms) == (b"a", 2, b"k", 1_000)
    assert list(record.headers) == [("h", b"1")]
    assert east.admin.describe_topics(["west.out"])["west.out"].partition_count == 4
    assert "west.east.out" not in east.admin.list_topics()
