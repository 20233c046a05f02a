"""Probes of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.peers.probe import Answer, Peer, add, attempt, probe
from tests.peers.probes.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, configs

SET, DELETE, APPEND, SUBTRACT = range(4)
_DYNAMIC = 1
Change = tuple[str, int, str | None]


def alter(peer: Peer, resource_type: int, name: str, *changes: Change, **more: Any) -> Answer:
    """Alter a resource incrementally; the results, or that the connection was closed."""
    rows = [{"Name": key, "ConfigOperation": operation, "Value": value} for key, operation, value in changes]
    resource = {"ResourceType": resource_type, "ResourceName": name, "Configs": rows}
    response = attempt(lambda: peer.call("IncrementalAlterConfigs", Resources=[resource], **more))
    return response if isinstance(response, str) else response["Responses"]


def overrides(peer: Peer, resource_type: int, name: str) -> dict[str, Any]:
    """The values that are the resource's own."""
    peer.settle()
    rows_by_name = configs(peer, resource_type, name)
    return {key: row["Value"] for key, row in rows_by_name.items() if row["ConfigSource"] in (_DYNAMIC, 8)}


def _topic_change(changes: Sequence[Change], before: dict[str, Any] | None = None) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        topic = peer.topic(**before or {})
        return [alter(peer, TOPIC, topic, *changes), overrides(peer, TOPIC, topic)]

    return question


_COMPACT = {"cleanup_policy": "compact"}
_THROTTLED = "leader.replication.throttled.replicas"
for _label, _changes, _before in (
    ("nothing", [], None),
    ("a value", [("retention.ms", SET, "1000")], None),
    ("a value with blanks", [("retention.ms", SET, "  1000 ")], None),
    ("a value with a plus", [("retention.ms", SET, "+1000")], None),
    ("a value with zeros", [("retention.ms", SET, "0001000")], None),
    ("a hexadecimal value", [("retention.ms", SET, "0x10")], None),
    ("a fraction", [("retention.ms", SET, "1.5")], None),
    ("an empty value", [("retention.ms", SET, "")], None),
    ("a null value", [("retention.ms", SET, None)], None),
    ("a value too low", [("retention.ms", SET, "-2")], None),
    ("a value at its default", [("retention.ms", SET, "604800000")], None),
    ("a boolean in capitals", [("preallocate", SET, "TRUE")], None),
    ("a boolean that is none", [("preallocate", SET, "yes")], None),
    ("a ratio", [("min.cleanable.dirty.ratio", SET, "0.25")], None),
    ("a ratio in scientific notation", [("min.cleanable.dirty.ratio", SET, "2.5e-1")], None),
    ("a ratio with an f", [("min.cleanable.dirty.ratio", SET, "0.5f")], None),
    ("a ratio that is not a number", [("min.cleanable.dirty.ratio", SET, "NaN")], None),
    ("a ratio over one", [("min.cleanable.dirty.ratio", SET, "1.1")], None),
    ("an unknown name", [("no.such.thing", SET, "1")], None),
    ("an empty name", [("", SET, "1")], None),
    ("a name with a blank", [("retention.ms ", SET, "1")], None),
    ("a deletion", [("retention.ms", DELETE, None)], {"retention_ms": 5}),
    ("a deletion with a value", [("retention.ms", DELETE, "7")], {"retention_ms": 5}),
    ("a deletion of what is not set", [("retention.ms", DELETE, None)], None),
    ("a deletion of an unknown name", [("no.such.thing", DELETE, None)], None),
    ("the same name twice", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], None),
    ("a name set and deleted", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], None),
    ("a good and a bad value", [("retention.ms", SET, "1"), ("segment.ms", SET, "x")], None),
    ("an unknown operation", [("retention.ms", 9, "1")], None),
    ("a negative operation", [("retention.ms", -1, "1")], None),
    ("an addition to a list", [("cleanup.policy", APPEND, "compact")], None),
    ("an addition of what is there", [("cleanup.policy", APPEND, "delete")], None),
    ("an addition of what is there to an override", [("cleanup.policy", APPEND, "compact")], _COMPACT),
    ("an addition of two", [("cleanup.policy", APPEND, "compact,delete")], None),
    ("an addition of nothing", [("cleanup.policy", APPEND, "")], None),
    ("an addition of null", [("cleanup.policy", APPEND, None)], None),
    ("an addition of nonsense", [("cleanup.policy", APPEND, "nonsense")], None),
    ("an addition to a number", [("retention.ms", APPEND, "1")], None),
    ("a subtraction from a list", [("cleanup.policy", SUBTRACT, "delete")], {"cleanup_policy": "compact,delete"}),
    ("a subtraction of the last", [("cleanup.policy", SUBTRACT, "delete")], None),
    ("a subtraction of what is not there", [("cleanup.policy", SUBTRACT, "compact")], None),
    ("a subtraction of nothing", [("cleanup.policy", SUBTRACT, "")], None),
    ("a subtraction of null", [("cleanup.policy", SUBTRACT, None)], None),
    ("a subtraction from a number", [("retention.ms", SUBTRACT, "1")], None),
    ("a list with blanks", [("cleanup.policy", SET, " compact , delete ")], None),
    ("a list with doubles", [("cleanup.policy", SET, "compact,compact")], None),
    ("a list with a comma at its end", [("cleanup.policy", SET, "compact,")], None),
    ("a list with two commas", [("cleanup.policy", SET, "compact,,delete")], None),
    ("an empty list", [("cleanup.policy", SET, "")], None),
    ("a list of a blank", [("cleanup.policy", SET, " ")], None),
    ("a list in capitals", [("cleanup.policy", SET, "COMPACT")], None),
    ("throttled replicas", [(_THROTTLED, SET, "0:0,1:0")], None),
    ("throttled replicas with blanks", [(_THROTTLED, SET, "0:0, 1:0")], None),
    ("throttled replicas with doubles", [(_THROTTLED, SET, "0:0,0:0")], None),
    ("all throttled replicas", [(_THROTTLED, SET, "*")], None),
    ("no throttled replicas", [(_THROTTLED, SET, "none")], None),
    ("all throttled replicas beside one", [(_THROTTLED, SET, "*,0:0")], None),
    (
        "an addition to throttled replicas",
        [(_THROTTLED, APPEND, "1:0")],
        {"leader_replication_throttled_replicas": "0:0"},
    ),
    ("min.compaction.lag.ms over max", [("min.compaction.lag.ms", SET, "20")], {"max_compaction_lag_ms": "10"}),
    ("max.compaction.lag.ms under min", [("max.compaction.lag.ms", SET, "10")], {"min_compaction_lag_ms": "20"}),
    ("local.retention.ms over retention.ms", [("local.retention.ms", SET, "20")], {"retention_ms": "10"}),
    ("local.retention.bytes over all", [("local.retention.bytes", SET, "20")], {"retention_bytes": "10"}),
    ("the type of timestamps", [("message.timestamp.type", SET, "LogAppendTime")], None),
    ("the type of timestamps in small letters", [("message.timestamp.type", SET, "logappendtime")], None),
    ("compression", [("compression.type", SET, "zstd")], None),
    ("compression in capitals", [("compression.type", SET, "ZSTD")], None),
    ("compression none", [("compression.type", SET, "none")], None),
    ("level 0 of gzip", [("compression.gzip.level", SET, "0")], None),
    ("level 10 of gzip", [("compression.gzip.level", SET, "10")], None),
    ("level 18 of lz4", [("compression.lz4.level", SET, "18")], None),
    ("level 23 of zstd", [("compression.zstd.level", SET, "23")], None),
    ("segments of 13 bytes", [("segment.bytes", SET, "13")], None),
    ("segments of 1 MiB", [("segment.bytes", SET, str(1024 * 1024))], None),
    ("segments of 0 ms", [("segment.ms", SET, "0")], None),
    ("messages of -1 bytes", [("max.message.bytes", SET, "-1")], None),
    ("messages of 0 bytes", [("max.message.bytes", SET, "0")], None),
    ("an index of 3 bytes", [("segment.index.bytes", SET, "3")], None),
    ("min.insync.replicas of 0", [("min.insync.replicas", SET, "0")], None),
    ("min.insync.replicas of 5", [("min.insync.replicas", SET, "5")], None),
    ("remote storage", [("remote.storage.enable", SET, "true")], None),
    ("remote copy", [("remote.log.copy.disable", SET, "true")], None),
    ("jitter", [("segment.jitter.ms", SET, "-1")], None),
    ("errors for deep decompression", [("max.decompressed.message.bytes", SET, "0")], None),
):
    add(f"alter configs: {_label}", _topic_change(_changes, _before))


def _resource_change(resource_type: int, name: str, *changes: Change) -> Callable[[Peer], Answer]:
    return lambda peer: alter(peer, resource_type, name, *changes, ValidateOnly=True)


_VALUE = ("retention.ms", SET, "1")
for _label, _kind, _name, _change in (
    ("of a missing topic", TOPIC, "missing-topic", _VALUE),
    ("of an empty topic", TOPIC, "", _VALUE),
    ("of a bad topic", TOPIC, "a/b", _VALUE),
    ("of an unknown broker", BROKER, "77", ("log.cleaner.threads", SET, "1")),
    ("of a broker that is no number", BROKER, "one", ("log.cleaner.threads", SET, "1")),
    ("of a broker, unknown", BROKER, "0", ("no.such.thing", SET, "1")),
    ("of a broker, read-only", BROKER, "0", ("num.partitions", SET, "1")),
    ("of a logger", BROKER_LOGGER, "0", ("kafka.no.such.logger", SET, "INFO")),
    ("of a logger, nonsense", BROKER_LOGGER, "0", ("root", SET, "LOUD")),
    ("of a logger, deleted root", BROKER_LOGGER, "0", ("root", DELETE, None)),
    ("of client metrics, unknown", CLIENT_METRICS, "metrics", ("no.such.thing", SET, "1")),
    ("of client metrics without a name", CLIENT_METRICS, "", ("interval.ms", SET, "1000")),
    ("of an empty group", GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    ("of an unknown kind", 99, "x", _VALUE),
    ("of kind 0", 0, "x", _VALUE),
):
    add(f"alter configs: {_label}", _resource_change(_kind, _name, _change))


def _group_change(*changes: Change) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        group = peer.name("g")
        return [alter(peer, GROUP, group, *changes), overrides(peer, GROUP, group)]

    return question


for _label, _change in (
    ("a session time-out", ("consumer.session.timeout.ms", SET, "50000")),
    ("a short session time-out", ("consumer.session.timeout.ms", SET, "10")),
    ("a long session time-out", ("consumer.session.timeout.ms", SET, "100000000")),
    ("a heartbeat interval", ("consumer.heartbeat.interval.ms", SET, "6000")),
    ("a heartbeat interval over the time-out", ("consumer.heartbeat.interval.ms", SET, "14000")),
    ("a value with blanks", ("consumer.heartbeat.interval.ms", SET, " 6000 ")),
    ("a value that is no number", ("consumer.heartbeat.interval.ms", SET, "x")),
    ("an unknown name", ("no.such.thing", SET, "1")),
    ("where share groups begin", ("share.auto.offset.reset", SET, "earliest")),
    ("where share groups begin, by duration", ("share.auto.offset.reset", SET, "by_duration:PT1H")),
    ("where share groups begin, nonsense", ("share.auto.offset.reset", SET, "sometimes")),
    ("where share groups begin, in capitals", ("share.auto.offset.reset", SET, "EARLIEST")),
    ("isolation of share groups", ("share.isolation.level", SET, "read_committed")),
    ("isolation of share groups, in capitals", ("share.isolation.level", SET, "READ_COMMITTED")),
    ("locks of share groups", ("share.record.lock.duration.ms", SET, "20000")),
    ("short locks of share groups", ("share.record.lock.duration.ms", SET, "1")),
    ("standbys", ("streams.num.standby.replicas", SET, "1")),
    ("many standbys", ("streams.num.standby.replicas", SET, "9")),
    ("a deletion of what is not set", ("consumer.session.timeout.ms", DELETE, None)),
    ("an addition", ("consumer.session.timeout.ms", APPEND, "1")),
):
    add(f"alter configs: of a group, {_label}", _group_change(_change))


@probe
def client_metrics(peer: Peer) -> Answer:
    name = peer.name("metrics")
    altered = alter(
        peer, CLIENT_METRICS, name, ("interval.ms", SET, "1000"), ("metrics", SET, "a.b"), ("match", SET, "")
    )
    return [altered, attempt(lambda: overrides(peer, CLIENT_METRICS, name))]


@probe
def validate_only_changes_nothing(peer: Peer) -> Answer:
    topic = peer.topic()
    return [alter(peer, TOPIC, topic, _VALUE, ValidateOnly=True), overrides(peer, TOPIC, topic)]


@probe
def one_resource_of_two_is_bad(peer: Peer) -> Answer:
    topic = peer.topic()
    change = [{"Name": "retention.ms", "ConfigOperation": SET, "Value": "9"}]
    resources = [
        {"ResourceType": TOPIC, "ResourceName": name, "Configs": change} for name in (peer.name("missing"), topic)
    ]
    responses = peer.call("IncrementalAlterConfigs", Resources=resources)["Responses"]
    return [sorted(responses, key=lambda row: str(row["ResourceName"])), overrides(peer, TOPIC, topic)]


@probe
def without_any_right(peer: Peer) -> Answer:
    change = [{"Name": "retention.ms", "ConfigOperation": SET, "Value": "9"}]
    resources = [
        {"ResourceType": resource_type, "ResourceName": name, "Configs": change}
        for resource_type, name in (
            (TOPIC, peer.topic()),
            (TOPIC, peer.name("no")),
            (BROKER, "0"),
            (GROUP, peer.name("g")),
        )
    ]
    responses = peer.login().call("IncrementalAlterConfigs", 1, Resources=resources)["Responses"]
    return sorted(responses, key=str)


# --- AlterConfigs: all values at once ---------------------------------------------------------------------------------


def _replacement(rows: Sequence[tuple[str, str | None]], **before: Any) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        topic = peer.topic(**before)
        values = [{"Name": name, "Value": value} for name, value in rows]
        resource = {"ResourceType": TOPIC, "ResourceName": topic, "Configs": values}
        response = attempt(lambda: peer.call("AlterConfigs", Resources=[resource]))
        return [response if isinstance(response, str) else response["Responses"], overrides(peer, TOPIC, topic)]

    return question


add("alter configs: replace by nothing", _replacement([], retention_ms=5))
add("alter configs: replace by another", _replacement([("segment.ms", "100000")], retention_ms=5))
add("alter configs: replace by a null", _replacement([("retention.ms", None)], retention_ms=5))
add("alter configs: replace by a bad value", _replacement([("retention.ms", "x")], retention_ms=5))
add("alter configs: replace by an unknown name", _replacement([("no.such.thing", "1")], retention_ms=5))
