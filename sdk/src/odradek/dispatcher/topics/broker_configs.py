"""The broker's configurations: the operator's settings under Kafka's names, and the defaults of topics' configurations.

They are read-only: a deployment changes them. A value that the operator did not change has the source DEFAULT_CONFIG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odradek.engine.catalog.broker_configs import BROKER_CONFIGS as OF_TOPICS
from odradek.engine.catalog.config_values import ConfigType
from odradek.engine.catalog.topic_configs import DEFINITIONS, default_of
from odradek.engine.groups.configs import STANDBYS_MAX
from odradek.model.topic import ConfigEntry
from odradek.settings import Settings

_BOOLEAN, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_INTERVAL = "Between two computations of a group's assignment, at least."
_HEARTBEAT = "Between two heartbeats of a group member."
_SESSION = "Silence after which a group member is removed."
_SIZE_MAX = "Members of a group, at most."
_BROKER_IDS = "broker.id", "node.id"


@dataclass(frozen=True, slots=True)
class _Definition:
    type: ConfigType
    value: Callable[[Settings], object]
    documentation: str


_DEFINITIONS: Mapping[str, _Definition] = {
    "auto.create.topics.enable": _Definition(
        _BOOLEAN, lambda s: str(s.auto_create_topics).lower(), "Create a missing topic when a client asks for it."
    ),
    "connections.max.idle.ms": _Definition(
        _LONG, lambda s: s.gateway_idle_timeout_ms, "A connection without traffic is closed after that time."
    ),
    "connections.max.reauth.ms": _Definition(
        _LONG, lambda s: s.connections_max_reauth_ms, "Lifetime of a login; 0: unlimited."
    ),
    "default.replication.factor": _Definition(_INT, lambda _: 1, "No effect: the store replicates."),
    "delete.topic.enable": _Definition(_BOOLEAN, lambda _: "true", "Topics can be deleted."),
    "group.consumer.assignment.interval.ms": _Definition(_INT, lambda s: s.group_assignment_interval_ms, _INTERVAL),
    "group.consumer.heartbeat.interval.ms": _Definition(_INT, lambda s: s.group_heartbeat_interval_ms, _HEARTBEAT),
    "group.consumer.max.size": _Definition(_INT, lambda s: s.group_members_max, _SIZE_MAX),
    "group.consumer.session.timeout.ms": _Definition(_INT, lambda s: s.group_session_timeout_ms, _SESSION),
    "group.initial.rebalance.delay.ms": _Definition(
        _INT, lambda s: s.group_initial_rebalance_delay_ms, "Wait for more members before a first rebalance."
    ),
    "group.max.session.timeout.ms": _Definition(
        _INT, lambda s: s.group_session_timeout_ms_max, "Longest session timeout of a classic group member."
    ),
    "group.min.session.timeout.ms": _Definition(
        _INT, lambda s: s.group_session_timeout_ms_min, "Shortest session timeout of a classic group member."
    ),
    "group.share.delivery.count.limit": _Definition(
        _INT, lambda s: s.share_delivery_count_limit, "Deliveries after which a record of a share group is given up."
    ),
    "group.share.partition.max.record.locks": _Definition(
        _INT, lambda s: s.share_partition_max_record_locks, "Records in flight per partition of a share group."
    ),
    "group.share.record.lock.duration.ms": _Definition(
        _INT, lambda s: s.share_record_lock_duration_ms, "How long a delivered record is its member's."
    ),
    "group.streams.assignment.interval.ms": _Definition(_INT, lambda s: s.group_assignment_interval_ms, _INTERVAL),
    "group.streams.heartbeat.interval.ms": _Definition(_INT, lambda s: s.group_heartbeat_interval_ms, _HEARTBEAT),
    "group.streams.initial.rebalance.delay.ms": _Definition(
        _INT, lambda s: s.group_initial_rebalance_delay_ms, "Wait of the first members of a streams group for others."
    ),
    "group.streams.max.size": _Definition(_INT, lambda s: s.group_members_max, _SIZE_MAX),
    "group.streams.max.standby.replicas": _Definition(
        _INT, lambda _: STANDBYS_MAX, "Standby replicas that a streams group may ask for, at most."
    ),
    "group.streams.num.standby.replicas": _Definition(_INT, lambda _: 0, "Standby replicas of each stateful task."),
    "group.streams.session.timeout.ms": _Definition(_INT, lambda s: s.group_session_timeout_ms, _SESSION),
    "log.retention.hours": _Definition(
        _INT,
        lambda s: int(default_of("retention.ms", s)) // 3_600_000,
        "The default of the topic configuration retention.ms, in hours.",
    ),
    "max.connections": _Definition(_INT, lambda s: s.gateway_connections_max, "Client connections of one gateway."),
    "max.connections.per.ip": _Definition(
        _INT, lambda s: s.gateway_connections_per_address_max, "Client connections from one address."
    ),
    "num.partitions": _Definition(
        _INT, lambda s: s.default_partitions, "Partitions of a topic that is created without a count."
    ),
    "offset.metadata.max.bytes": _Definition(
        _INT, lambda s: s.offset_metadata_bytes_max, "Size of the metadata of a committed offset, at most."
    ),
    "producer.id.expiration.ms": _Definition(
        _INT, lambda s: s.producer_expiry_ms, "Silence after which a producer is forgotten."
    ),
    "transaction.max.timeout.ms": _Definition(
        _INT, lambda s: s.transaction_timeout_ms_max, "Longest timeout of a transaction."
    ),
    **{
        broker: _Definition(
            DEFINITIONS[topic].type,
            lambda s, topic=topic: default_of(topic, s),  # type: ignore[misc]
            f"The default of the topic configuration {topic}. {DEFINITIONS[topic].documentation}",
        )
        for topic, broker in OF_TOPICS.items()
    },
}

BROKER_CONFIGS: Mapping[str, ConfigType] = {
    **dict.fromkeys(_BROKER_IDS, _INT),
    **{name: definition.type for name, definition in _DEFINITIONS.items()},
}
"""Kafka's types by name."""


def broker_entries(settings: Settings, broker_id: int) -> Sequence[ConfigEntry]:
    """Return every configuration of a broker, in the order of names."""
    entries = [
        ConfigEntry(
            name,
            str(broker_id),
            is_default=False,
            is_read_only=True,
            config_type=_INT,
            documentation="The broker's id: 0 is the fleet's.",
            default="-1" if name == "broker.id" else None,
            broker_config=name,
        )
        for name in _BROKER_IDS
    ]
    for name, definition in _DEFINITIONS.items():
        value, default = str(definition.value(settings)), str(definition.value(_DEFAULTS))
        entries.append(
            ConfigEntry(
                name,
                value,
                is_default=value == default,
                is_read_only=True,
                config_type=definition.type,
                documentation=definition.documentation,
                default=default,
                broker_config=name,
            )
        )
    return sorted(entries, key=lambda entry: entry.name)


_DEFAULTS = Settings()
