"""Every configuration of Apache Kafka exists with its type and default, takes what Kafka takes and refuses the rest.

tests/golden/kafka_configs.json was printed by Apache Kafka itself (tests/support/kafka/KafkaConfigs.java).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from odradek.dispatcher.topics.broker_configs import BROKER_CONFIGS
from odradek.engine.catalog.config_values import ConfigType
from odradek.engine.catalog.topic_configs import DEFINITIONS, check_configs
from odradek.engine.groups.configs import DEFINITIONS as OF_GROUPS
from odradek.engine.groups.configs import duration_ms
from odradek.errors import ErrorCode, KafkaError
from odradek.settings import Settings

from tests.support.engine import memory_store

KAFKA: dict[str, Any] = json.loads((Path(__file__).parents[3] / "golden/kafka_configs.json").read_text())
OWN = {
    "odradek.growth.hold.ms",
    "odradek.partitions.per.head",
    "odradek.table.commit.interval.ms",
    "odradek.table.enable",
    "odradek.table.flush.ms",
    "odradek.table.iceberg.enable",
    "odradek.table.iceberg.namespace",
    "odradek.table.iceberg.table",
    "odradek.table.schema",
    "odradek.table.value.bytes",
    "odradek.table.value.schema",
    "odradek.table.segment.bytes",
    "record.validation",
    "transaction.offsets",
}
OWN_DEFAULTS = {
    "errors.deadletterqueue.copy.record.enable": "true",
    "streams.assignor.name": "",
    "streams.initial.rebalance.delay.ms": "500",  # as of classic groups
}
# Our bounds where they are not Kafka's: a function's payload, Kafka's bounds of brokers (group.*.min and max), ours.
OWN_BOUNDS = {
    "max.message.bytes": (0, 4_500_000),
    "consumer.assignment.interval.ms": (0, 15_000),
    "consumer.heartbeat.interval.ms": (1_000, 60_000),
    "consumer.session.timeout.ms": (6_000, 1_800_000),
    "streams.assignment.interval.ms": (0, 15_000),
    "streams.heartbeat.interval.ms": (1_000, 60_000),
    "streams.initial.rebalance.delay.ms": (0, 300_000),
    "streams.num.standby.replicas": (0, 2),
    "streams.session.timeout.ms": (6_000, 1_800_000),
    "share.heartbeat.interval.ms": (1_000, 60_000),
    "share.session.timeout.ms": (6_000, 1_800_000),
    "share.record.lock.duration.ms": (1_000, 3_600_000),
    "share.delivery.count.limit": (1, 10),
    "share.partition.max.record.locks": (100, 10_000),
}


def of_kafka(section: str) -> dict[str, Any]:
    """Without what Kafka keeps to its own tests."""
    return {name: config for name, config in KAFKA[section].items() if not config.get("internal")}


def taken(name: str, values: Sequence[str]) -> list[str]:
    if name not in OWN_BOUNDS:
        return list(values)
    low, high = OWN_BOUNDS[name]
    return [value for value in values if low <= int(value) <= high]


def test_the_list_is_of_a_kafka_that_has_been_released() -> None:
    assert KAFKA["version"] == "4.4.0"
    assert set(DEFINITIONS) == set(of_kafka("topic")) | OWN
    assert set(OF_GROUPS) == set(of_kafka("group"))


@pytest.mark.parametrize(("name", "kafkas"), of_kafka("topic").items())
def test_a_configuration_of_topics(name: str, kafkas: dict[str, Any]) -> None:
    ours = DEFINITIONS[name]
    assert (ours.type.name, ours.default) == (kafkas["type"], kafkas["default"])
    wanted = taken(name, kafkas["takes"])
    assert [value for value in kafkas["takes"] if ours.check(value)] == wanted
    assert [value for value in kafkas["refuses"] if ours.check(value) and name not in OWN_BOUNDS] == []
    assert len(wanted) > 1
    for value in wanted:
        check_configs({name: value})
    with pytest.raises(KafkaError) as refused:
        check_configs({name: kafkas["refuses"][0]})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("name", "kafkas"), of_kafka("group").items())
def test_a_configuration_of_groups(name: str, kafkas: dict[str, Any]) -> None:
    ours = OF_GROUPS[name]
    assert (ours.type.name, ours.default(Settings())) == (
        kafkas["type"], OWN_DEFAULTS.get(name, kafkas["default"]),
    )  # fmt: skip
    assert [value for value in kafkas["takes"] if ours.check(value)] == taken(name, kafkas["takes"])
    assert [value for value in kafkas["refuses"] if ours.check(value) and name not in OWN_BOUNDS] == []


def test_configurations_of_the_broker_have_kafkas_names_and_types() -> None:
    named = {name: ConfigType(config_type).name for name, config_type in BROKER_CONFIGS.items()}
    assert named == {name: KAFKA["broker"][name]["type"] for name in named}


def test_values_are_kept_as_kafka_shows_them() -> None:
    """Seen on Apache Kafka by tests/peers: it stores what it has parsed."""
    raw_configs = {
        "preallocate": " TRUE ",
        "retention.ms": " +5 ",
        "segment.ms": "0007",
        "min.cleanable.dirty.ratio": "5e-1",
    }
    stored = {"preallocate": "true", "retention.ms": "5", "segment.ms": "7", "min.cleanable.dirty.ratio": "0.5"}
    assert check_configs(raw_configs) == stored
    lists = {"cleanup.policy": " compact , delete,compact ", "leader.replication.throttled.replicas": "0:0, 1:0"}
    assert check_configs(lists) == {
        "cleanup.policy": "compact,delete",
        "leader.replication.throttled.replicas": "0:0,1:0",
    }


async def test_values_that_contradict_each_other_are_refused() -> None:
    topics = memory_store().engine().topics
    contrary = {"min.compaction.lag.ms": "20", "max.compaction.lag.ms": "10"}
    with pytest.raises(KafkaError, match=r"must not exceed max\.compaction\.lag\.ms"):
        await topics.create("t", configs=contrary)
    await topics.create("t", configs={"max.compaction.lag.ms": "10"})
    with pytest.raises(KafkaError) as refused:
        await topics.alter_configs("t", set={"min.compaction.lag.ms": "20"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_a_flag_of_a_group_counts_however_it_is_written() -> None:
    engine = memory_store().engine()
    await engine.group_configs.alter("g", set={"share.renew.acknowledge.enable": " FALSE "})
    assert not (await engine.group_configs.of("g")).may_renew


@pytest.mark.parametrize("group_type", ["consumer", "share"])
async def test_a_session_is_longer_than_the_interval_of_heartbeats(group_type: str) -> None:
    configs = memory_store().engine().group_configs
    await configs.alter("g", set={f"{group_type}.session.timeout.ms": "10000"})
    with pytest.raises(KafkaError, match="must be greater than") as refused:
        await configs.alter("g", set={f"{group_type}.heartbeat.interval.ms": "10000"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    await configs.alter("g", set={f"{group_type}.heartbeat.interval.ms": "9999"})


def test_a_duration_may_have_a_fraction_of_a_second() -> None:
    assert duration_ms("P1DT1H1M1.5S") == 90_061_500
    assert duration_ms("PT0.0019S") == 1
    assert duration_ms("PT1.H") is None
