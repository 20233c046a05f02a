"""The other cluster: configurations of its clients, names of mirrored topics, and what mirroring needs to know of it.

The other cluster is reached by Kafka's protocol, whoever implements it. This one is reached as the worker reaches it.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Mapping
from typing import Any

from odradek.connect.config import ConfigDef, ConfigValue, Kind, java_regex, non_empty, one_of
from odradek.connect.errors import ConfigError
from odradek.extras import extra

with extra("connect-kafka"):
    import confluent_kafka as kafka

_log = logging.getLogger("odradek.connect.mirror")
OFFSET_HEADER = "__mirror.offset"
TIMEOUT_S = 30.0
_OURS = ("alias", "poll.timeout.ms")  # behind the prefixes of client configurations, and none
kafka_admin: Any = importlib.import_module("confluent_kafka.admin")  # its stubs do not export its names
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

NAMING = (
    ConfigDef()
    .define("source.cluster.alias", Kind.STRING, "source", "Name of the cluster that is read.", importance="HIGH",
            allowed=non_empty())
    .define("target.cluster.alias", Kind.STRING, "target", "Name of the cluster that is written.", importance="HIGH",
            allowed=non_empty())
    .define("replication.policy.class", Kind.STRING, "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
            "Default: topics get the alias of their source in front. Identity: they keep their names; mirror one way "
            "only then.",
            allowed=one_of("org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
                           "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"))
    .define("replication.policy.separator", Kind.STRING, ".", "Between alias and topic.", allowed=non_empty())
)  # fmt: skip

SOURCE = NAMING + (
    ConfigDef()
    .define("source.cluster.bootstrap.servers", Kind.STRING, documentation="Addresses of the cluster that is read.",
            importance="HIGH", allowed=non_empty())
    .define("source.cluster.security.protocol", Kind.STRING, "PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. "
            "All other configurations of librdkafka are accepted behind source.cluster. as well.",
            allowed=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True))
    .define("source.cluster.sasl.mechanism", Kind.STRING, None, "Such as PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.")
    .define("source.cluster.sasl.username", Kind.STRING, None, "The user.")
    .define("source.cluster.sasl.password", Kind.PASSWORD, None, "The password.")
    .define("source.cluster.ssl.ca.location", Kind.STRING, None, "File with the certificates of authorities.")
)  # fmt: skip

TOPICS = (
    ConfigDef()
    .define("topics", Kind.LIST, [".*"], "Regular expressions of the topics.", importance="HIGH")
    .define("topics.exclude", Kind.LIST, [r".*[\-\.]internal", r".*\.replica", r"__.*",
            r"connect-.*-(?:configs|offsets|status|slots)"], "Regular expressions of topics to leave out.",
            also=("topics.blacklist",))
)  # fmt: skip


def client_configs(configs: Mapping[str, str], side: str, role: str = "") -> dict[str, str]:
    """Return librdkafka's configurations of one cluster, `source` or `target`.

    Args:
        configs: the connector's configuration as it was given.
        role: consumer or producer: those of `<side>.<role>.` and `<role>.` are added.
    """
    client_options: dict[str, str] = {}
    for prefix in [f"{role}.", f"{side}.{role}.", f"{side}.cluster."] if role else [f"{side}.cluster."]:
        client_options |= {
            name.removeprefix(prefix): value for name, value in configs.items() if name.startswith(prefix)
        }
    return {name: value for name, value in client_options.items() if name not in _OURS and value not in (None, "")}


def check(validated: Mapping[str, ConfigValue], configs: Mapping[str, str], *patterns: str) -> None:
    """Add errors for converters that do not leave bytes alone, as records are mirrored, and for wrong patterns."""
    for name in ("key.converter", "value.converter", "header.converter"):
        if not str(configs.get(name, "")).endswith("ByteArrayConverter"):
            validated["source.cluster.alias"].errors.append(f"a mirror needs {name}={_BYTES}")
    for name in patterns:
        for pattern in validated[name].value or ():
            try:
                _compiled(name, pattern)
            except ConfigError as error:
                validated[name].errors.extend(error.problems[name])


class Naming:
    """Names of mirrored topics. Raises ConfigError for a pattern that is none."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.source, self.target = options["source.cluster.alias"], options["target.cluster.alias"]
        self._separator = options["replication.policy.separator"]
        self.is_identity = options["replication.policy.class"].endswith("IdentityReplicationPolicy")

    def target_topic(self, topic: str) -> str:
        return topic if self.is_identity else f"{self.source}{self._separator}{topic}"

    def source_topic(self, topic: str) -> str | None:
        """Return the topic of the source that a topic of the target mirrors, None if it mirrors none."""
        if self.is_identity:
            return topic
        prefix = f"{self.source}{self._separator}"
        return topic.removeprefix(prefix) if topic.startswith(prefix) else None

    def is_loop(self, topic: str) -> bool:
        """Return True for a topic of the source that comes from the target: it would go round."""
        return not self.is_identity and self.target in topic.split(self._separator)[:-1]


class Patterns:
    """Lists of regular expressions of whole names: what is included and not excluded."""

    def __init__(self, options: Mapping[str, Any], include: str, exclude: str) -> None:
        self._include = [_compiled(include, pattern_text) for pattern_text in options[include]]
        self._exclude = [_compiled(exclude, pattern_text) for pattern_text in options[exclude]]

    def __contains__(self, name: object) -> bool:
        text = str(name)
        return any(pattern.fullmatch(text) for pattern in self._include) and not any(
            pattern.fullmatch(text) for pattern in self._exclude
        )


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(java_regex(pattern.strip()))
    except re.error as error:
        raise ConfigError({name: [f"{name} must have regular expressions, not {pattern!r}: {error}"]}) from None


class Remote:
    """The cluster that is read. Methods raise kafka.KafkaException."""

    def __init__(self, configs: Mapping[str, str], side: str = "source") -> None:
        self.configs = client_configs(configs, side)
        settings: dict[str, Any] = {**self.configs, "logger": _log}
        self.admin = kafka_admin.AdminClient(settings)

    def partitions(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        topics = self.admin.list_topics(timeout=TIMEOUT_S).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def configs_of(self, topics: list[str]) -> dict[str, dict[str, str]]:
        """Return the configurations of topics that are set on them."""
        wanted = [kafka_admin.ConfigResource(kafka_admin.ConfigResource.Type.TOPIC, topic) for topic in topics]
        configs_by_topic = {}
        for resource, future in self.admin.describe_configs(wanted).items() if wanted else ():
            dynamic = kafka_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            entries = future.result(TIMEOUT_S).values()
            configs_by_topic[resource.name] = {
                e.name: e.value for e in entries if e.source == dynamic and e.value is not None
            }
        return configs_by_topic

    def acls(self) -> list[Any]:
        """Return the ACLs of topics; none if the cluster has no authorizer."""
        any_acl = kafka_admin.AclBindingFilter(
            kafka_admin.ResourceType.TOPIC, None, kafka_admin.ResourcePatternType.ANY, None, None,
            kafka_admin.AclOperation.ANY, kafka_admin.AclPermissionType.ANY,
        )  # fmt: skip
        try:
            return list(self.admin.describe_acls(any_acl).result(TIMEOUT_S))
        except kafka.KafkaException as error:
            if error.args[0].code() in (
                kafka.KafkaError.SECURITY_DISABLED,
                kafka.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            ):
                return []
            raise

    def groups(self) -> list[str]:
        listing = self.admin.list_consumer_groups().result(TIMEOUT_S)
        return [group.group_id for group in listing.valid]

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group by topic and partition."""
        requests = [kafka.ConsumerGroupTopicPartitions(group)]
        offsets = self.admin.list_consumer_group_offsets(requests)[group].result(TIMEOUT_S)
        return {(tp.topic, tp.partition): tp.offset for tp in offsets.topic_partitions if tp.offset >= 0}
