"""Probes of DescribeConfigs and ListConfigResources: every configuration of every kind of resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.dispatcher.topics.broker_configs import BROKER_CONFIGS

from tests.peers.probe import Answer, Peer, add, attempt, by_name, pick, probe

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
OURS = "odradek.", "record.validation", "transaction.offsets"
_ASPECTS = {
    "values": "Value",
    "types": "ConfigType",
    "sources": "ConfigSource",
    "synonyms": "Synonyms",
    "which are read-only": "ReadOnly",
    "which are sensitive": "IsSensitive",
    "documentation": "Documentation",
}


def describe(peer: Peer, resource_type: int, name: str, keys: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """The result of DescribeConfigs for one resource."""
    resource = {"ResourceType": resource_type, "ResourceName": name, "ConfigurationKeys": keys}
    result = peer.call("DescribeConfigs", Resources=[resource], **more)["Results"][0]
    return dict(result)


def configs(peer: Peer, resource_type: int, name: str, keys: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """The configurations of a resource by name, without those that only we have."""
    rows = describe(peer, resource_type, name, keys, **more)["Configs"]
    return {name: row for name, row in by_name(rows).items() if not name.startswith(OURS)}


# --- every configuration, aspect by aspect ----------------------------------------------------------------------------


def _topic(peer: Peer) -> tuple[int, str, list[str] | None]:
    return TOPIC, peer.topic(retention_ms=1000, cleanup_policy="compact"), None


def _broker(peer: Peer) -> tuple[int, str, list[str] | None]:
    return BROKER, "0", list(BROKER_CONFIGS)


def _group(peer: Peer) -> tuple[int, str, list[str] | None]:
    return GROUP, peer.name("g"), None


def _aspect(resource: Callable[[Peer], tuple[int, str, list[str] | None]], field: str) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        rows_by_name = configs(peer, *resource(peer), IncludeSynonyms=True, IncludeDocumentation=True)
        return {
            name: {field: row[field]} if field == "Documentation" else row[field] for name, row in rows_by_name.items()
        }

    return question


for _label, _resource in {"a topic": _topic, "a broker": _broker, "a group": _group}.items():
    for _aspect_name, _field in _ASPECTS.items():
        add(f"configs: {_aspect_name} of {_label}", _aspect(_resource, _field))


@probe
def names_of_a_broker(peer: Peer) -> Answer:
    """Those that tell a client of something; most others are about files, threads and replicas."""
    names = sorted(configs(peer, BROKER, "0"))
    return {name: "is there" for name in names if name.startswith(_CLIENTS)}


_CLIENTS = (
    *("group.", "max.", "num.partitions", "connections", "message", "offsets.retention", "transaction", "auto"),
    *("log.flush.interval.messages", "log.retention.ms", "log.message", "log.cleanup", "compression"),
)


@probe
def names_of_a_topic(peer: Peer) -> Answer:
    return dict.fromkeys(by_name(describe(peer, TOPIC, peer.topic())["Configs"]), "is there")


@probe
def names_of_a_group(peer: Peer) -> Answer:
    return dict.fromkeys(by_name(describe(peer, GROUP, peer.name("g"))["Configs"]), "is there")


# --- resources --------------------------------------------------------------------------------------------------------


def _resource_error(resource_type: int, name: str) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        result = attempt(lambda: describe(peer, resource_type, name))
        return result if isinstance(result, str) else {**result, "Configs": len(result["Configs"]) > 0}

    return question


for _label, _kind, _name in (
    ("a missing topic", TOPIC, "missing-topic"),
    ("an empty topic", TOPIC, ""),
    ("a bad topic", TOPIC, "a/b"),
    ("an internal topic", TOPIC, "__consumer_offsets"),
    ("all brokers", BROKER, ""),
    ("an unknown broker", BROKER, "77"),
    ("a broker that is no number", BROKER, "one"),
    ("a broker with a plus", BROKER, "+0"),
    ("a broker with blanks", BROKER, " 0"),
    ("the loggers", BROKER_LOGGER, "0"),
    ("the loggers of all brokers", BROKER_LOGGER, ""),
    ("the loggers of an unknown broker", BROKER_LOGGER, "77"),
    ("an unknown group", GROUP, "no-such-group"),
    ("an empty group", GROUP, ""),
    ("client metrics", CLIENT_METRICS, "metrics"),
    ("client metrics without a name", CLIENT_METRICS, ""),
    ("an unknown kind", 99, "x"),
    ("kind 0", 0, "x"),
    ("kind 1", 1, "x"),
):
    add(f"configs: describe {_label}", _resource_error(_kind, _name))


@probe
def an_empty_list_of_keys(peer: Peer) -> Answer:
    return [len(configs(peer, TOPIC, peer.topic(), [])), len(configs(peer, BROKER, "0", []))]


@probe
def an_unknown_key(peer: Peer) -> Answer:
    return describe(peer, TOPIC, peer.topic(), ["no.such.key", "retention.ms"])


@probe
def a_key_twice(peer: Peer) -> Answer:
    return describe(peer, TOPIC, peer.topic(), ["retention.ms", "retention.ms"])


@probe
def an_empty_key(peer: Peer) -> Answer:
    return describe(peer, TOPIC, peer.topic(), [""])


@probe
def a_resource_twice(peer: Peer) -> Answer:
    resource = {"ResourceType": TOPIC, "ResourceName": peer.topic(), "ConfigurationKeys": ["retention.ms"]}
    return peer.call("DescribeConfigs", Resources=[resource, resource])


@probe
def a_resource_in_every_version(peer: Peer) -> Answer:
    resource = {"ResourceType": TOPIC, "ResourceName": peer.topic(), "ConfigurationKeys": ["retention.ms"]}
    versions = range(peer.oldest("DescribeConfigs"), peer.newest("DescribeConfigs") + 1)
    return {str(version): peer.call("DescribeConfigs", version, Resources=[resource]) for version in versions}


@probe
def synonyms_of_an_overridden_value(peer: Peer) -> Answer:
    topic = peer.topic(retention_ms=1234, max_message_bytes=5000, segment_bytes=2_000_000)
    keys = ["retention.ms", "max.message.bytes", "segment.bytes", "min.insync.replicas", "cleanup.policy"]
    return configs(peer, TOPIC, topic, keys, IncludeSynonyms=True)


@probe
def synonyms_of_defaults(peer: Peer) -> Answer:
    keys = ["retention.ms", "max.message.bytes", "segment.ms", "flush.messages", "message.timestamp.type"]
    return configs(peer, TOPIC, peer.topic(), keys, IncludeSynonyms=True)


@probe
def broker_configurations_that_tools_ask_for(peer: Peer) -> Answer:
    keys = [
        "connections.max.reauth.ms",
        "log.flush.interval.messages",
        "log.retention.hours",
        "log.retention.ms",
        "offsets.retention.minutes",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "log.message.timestamp.type",
        "sasl.enabled.mechanisms",
        "super.users",
        "listeners",
        "inter.broker.protocol.version",
        "authorizer.class.name",
    ]
    rows_by_name = configs(peer, BROKER, "0", keys)
    return {name: pick(rows_by_name[name], "ConfigType", "ReadOnly") for name in keys if name in rows_by_name}


@probe
def describe_without_any_right(peer: Peer) -> Answer:
    resources = [
        {"ResourceType": resource_type, "ResourceName": name, "ConfigurationKeys": ["retention.ms"]}
        for resource_type, name in (
            (TOPIC, peer.topic()),
            (TOPIC, peer.name("no")),
            (BROKER, "0"),
            (GROUP, peer.name("g")),
        )
    ]
    return peer.login().call("DescribeConfigs", 4, Resources=resources)["Results"]


# --- ListConfigResources ----------------------------------------------------------------------------------------------


def _listed(kinds: list[int]) -> Callable[[Peer], Answer]:
    def question(peer: Peer) -> Answer:
        topic = peer.topic()
        response = peer.attempt("ListConfigResources", 1, ResourceTypes=kinds)
        if isinstance(response, str):
            return response
        rows = [(resource["ResourceType"], resource["ResourceName"]) for resource in response["ConfigResources"]]
        kept = sorted(row for row in rows if row[0] in (BROKER, BROKER_LOGGER) or row[1] == topic)
        return [pick(response, "ErrorCode"), kept]

    return question


for _label, _kinds in (
    ("all", []),
    ("topics", [TOPIC]),
    ("topics twice", [TOPIC, TOPIC]),
    ("brokers", [BROKER]),
    ("loggers", [BROKER_LOGGER]),
    ("client metrics", [CLIENT_METRICS]),
    ("groups", [GROUP]),
    ("an unknown kind", [99]),
    ("an unknown kind beside topics", [TOPIC, 99]),
    ("kind 0", [0]),
):
    add(f"configs: list {_label}", _listed(_kinds))


@probe
def list_without_any_right(peer: Peer) -> Answer:
    return peer.login().call("ListConfigResources", 1, ResourceTypes=[])
