"""Every configuration of Kafka 4 is accepted with what Kafka accepts, and refused with what it refuses."""

from __future__ import annotations

import pytest
from odradek.engine.catalog.topic_configs import DEFINITIONS, check_configs
from odradek.engine.groups.configs import DEFINITIONS as OF_GROUPS
from odradek.errors import ErrorCode, KafkaError
from odradek.settings import Settings

# Apache Kafka 4.2: TopicConfig, with a value that it takes and one that it refuses.
OF_KAFKA = {
    "cleanup.policy": ("compact,delete", "shred"),
    "compression.gzip.level": ("-1", "0"),
    "compression.lz4.level": ("17", "18"),
    "compression.type": ("zstd", "rar"),
    "compression.zstd.level": ("-5", "23"),
    "delete.retention.ms": ("0", "-1"),
    "errors.deadletterqueue.group.enable": ("true", "yes"),
    "file.delete.delay.ms": ("0", "-1"),
    "flush.messages": ("1", "0"),
    "flush.ms": ("0", "-1"),
    "follower.replication.throttled.replicas": ("0:1,1:2", "0"),
    "index.interval.bytes": ("0", "-1"),
    "leader.replication.throttled.replicas": ("*", "**"),
    "local.retention.bytes": ("-2", "-3"),
    "local.retention.ms": ("-2", "-3"),
    "max.compaction.lag.ms": ("1", "0"),
    "max.message.bytes": ("0", "-1"),
    "message.timestamp.after.max.ms": ("0", "-1"),
    "message.timestamp.before.max.ms": ("0", "-1"),
    "message.timestamp.type": ("LogAppendTime", "Now"),
    "min.cleanable.dirty.ratio": ("0.1", "2"),
    "min.compaction.lag.ms": ("0", "-1"),
    "min.insync.replicas": ("2", "0"),
    "preallocate": ("true", "1"),
    "remote.log.copy.disable": ("true", "1"),
    "remote.log.delete.on.disable": ("true", "1"),
    "remote.storage.enable": ("true", "1"),
    "retention.bytes": ("-1", "-2"),
    "retention.ms": ("-1", "-2"),
    "segment.bytes": ("1048576", "1"),
    "segment.index.bytes": ("4", "3"),
    "segment.jitter.ms": ("0", "-1"),
    "segment.ms": ("1", "0"),
    "unclean.leader.election.enable": ("true", "1"),
}
OF_KAFKAS_GROUPS = {
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.auto.offset.reset",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.isolation.level",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.renew.acknowledge.enable",
    "share.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
    "streams.session.timeout.ms",
}


@pytest.mark.parametrize(("name", "values"), OF_KAFKA.items())
def test_a_configuration_of_kafka(name: str, values: tuple[str, str]) -> None:
    good, bad = values
    assert check_configs({name: good}) == {name: good}
    with pytest.raises(KafkaError) as refused:
        check_configs({name: bad})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    default = DEFINITIONS[name].default
    assert check_configs({name: default}) == {name: default}


def test_what_is_not_kafkas_is_odradeks_own() -> None:
    assert set(DEFINITIONS) - set(OF_KAFKA) == {"record.validation", "transaction.offsets"}


def test_configurations_of_groups_have_defaults_that_they_take() -> None:
    assert set(OF_GROUPS) >= OF_KAFKAS_GROUPS
    assert all(definition.check(definition.default(Settings())) for definition in OF_GROUPS.values())
