"""Configurations of a worker and of every connector: Kafka Connect's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of, with_prefix
from odradek.connect.errors import ConfigError
from odradek.connect.providers import Providers

_JSON = "org.apache.kafka.connect.json.JsonConverter"

WORKER = (
    ConfigDef()
    .define(
        "group.id", Kind.STRING, "connect", "Name of the Connect cluster: workers with the same name share its tasks.",
        importance="HIGH", allowed=non_empty(),
    )
    .define("config.storage.topic", Kind.STRING, None, "Topic of configurations; by default <group.id>-configs.")
    .define("offset.storage.topic", Kind.STRING, None, "Topic of source offsets; by default <group.id>-offsets.")
    .define("status.storage.topic", Kind.STRING, None, "Topic of states; by default <group.id>-status.")
    .define("slots.topic", Kind.STRING, None, "Topic whose partitions the workers share; by default <group.id>-slots.")
    .define(
        "offset.storage.partitions", Kind.INT, 5, "Partitions of the topic of offsets when it is created.",
        importance="LOW", allowed=between(1),
    )
    .define(
        "slots", Kind.INT, 32, "Partitions of the slots topic when it is created: the largest number of workers.",
        importance="LOW", allowed=between(1),
    )
    .define(
        "session.timeout.ms", Kind.INT, 10_000,
        "A worker that was not heard of for so long loses its tasks to others. The last worker that starts sets it for "
        "the cluster.", importance="HIGH", allowed=between(1),
    )
    .define("worker.id", Kind.STRING, None, "Shown as the worker of a task; by default host name and address.")
    .define("key.converter", Kind.CLASS, _JSON, "Converter of keys, for connectors that name none.", importance="HIGH")
    .define("value.converter", Kind.CLASS, _JSON, "Converter of values, likewise.", importance="HIGH")
    .define(
        "header.converter", Kind.CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "Converter of headers, likewise.", importance="LOW",
    )
    .define(
        "offset.flush.interval.ms", Kind.LONG, 60_000, "Time between two commits of a sink task.", importance="LOW",
        allowed=between(0),
    )
    .define(
        "exactly.once.source.support", Kind.STRING, "enabled",
        "enabled writes the records of sources and their offsets in one transaction, and fences zombies. disabled is "
        "at-least-once.",
        importance="HIGH", allowed=one_of("enabled", "disabled", "preparing", ignore_case=True),
    )
    .define(
        "task.shutdown.graceful.timeout.ms", Kind.LONG, 5_000,
        "Time that a task gets to stop before the worker goes on without it.", importance="LOW", allowed=between(0),
    )
    .define(
        "topic.creation.enable", Kind.BOOLEAN, True,
        "Whether source connectors create the topics that are missing.", importance="LOW",
    )
    .define(
        "listeners", Kind.LIST, ["http://127.0.0.1:8083"],
        "Addresses of the REST API, http:// or https://; empty opens none.", also=("rest.listeners",),
    )
    .define(
        "rest.basic.auth.users.file", Kind.STRING, None,
        "File of those who may use the REST API, a line user=password each. Needed for an address beyond 127.0.0.1.",
        importance="HIGH",
    )
    .define(
        "rest.extension.classes", Kind.LIST, [],
        "Kafka's BasicAuthSecurityRestExtension is understood: it asks for rest.basic.auth.users.file.",
        importance="LOW",
    )
    .define(
        "rest.advertised.host.name", Kind.STRING, None,
        "Name with a dot under which clients reach a REST API without users; under other names it refuses them.",
        importance="LOW",
    )
    .define("ssl.keystore.location", Kind.STRING, None, "PEM file of key and certificates for https://.")
    .define("ssl.key.password", Kind.PASSWORD, None, "Password of the key in it.")
    .define("ssl.truststore.location", Kind.STRING, None, "PEM file of the authorities of clients' certificates.")
    .define(
        "ssl.client.auth", Kind.STRING, "none", "required: clients need a certificate of such an authority.",
        allowed=one_of("none", "requested", "required"),
    )
    .define(
        "config.providers", Kind.LIST, [],
        "Names of providers of values such as ${file:/run/secrets/db:password}. config.providers.<name>.class and "
        ".param.* configure each.",
    )
)  # fmt: skip


@dataclass(frozen=True)
class WorkerSettings:
    """A worker's configuration.

    Args:
        values: parsed by WORKER, with names of topics filled in.
        client: keyword arguments of Producer, Consumer and Admin: the address and the credentials.
        originals: everything that was given, with `key.converter.schemas.enable` and the like.
        providers: of values that are kept elsewhere.
    """

    values: Mapping[str, Any]
    client: Mapping[str, Any]
    originals: Mapping[str, Any] = field(default_factory=dict)
    providers: Providers = field(default_factory=lambda: Providers({}, {}))

    @classmethod
    def of(
        cls, configs: Mapping[str, Any], client: Mapping[str, Any], environ: Mapping[str, str] | None = None
    ) -> WorkerSettings:
        """Check a worker's configuration, whose values may name those of config providers.

        Args:
            environ: what EnvVarConfigProvider reads; by default nothing.

        Raises:
            ConfigError: with every problem.
        """
        providers = Providers(configs, environ or {})
        configs = providers.resolve(configs)
        values = WORKER.parse(configs)
        for name, suffix in (
            ("config.storage", "configs"),
            ("offset.storage", "offsets"),
            ("status.storage", "status"),
        ):
            values[f"{name}.topic"] = values[f"{name}.topic"] or f"{values['group.id']}-{suffix}"
        values["slots.topic"] = values["slots.topic"] or f"{values['group.id']}-slots"
        return cls(values, dict(client), dict(configs), providers)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def group_id(self) -> str:
        return str(self.values["group.id"])

    @property
    def is_exactly_once(self) -> bool:
        """Return True if sources write in transactions."""
        return str(self.values["exactly.once.source.support"]).lower() == "enabled"


_COMMON, _ERRORS, _TRANSFORMS, _TOPICS, _OFFSETS = "Common", "Error Handling", "Transforms", "Topics", "Offsets"

CONNECTOR = (
    ConfigDef()
    .define("name", Kind.STRING, documentation="Name of the connector.", importance="HIGH", group=_COMMON)
    .define("connector.class", Kind.STRING, documentation="The class.", importance="HIGH", group=_COMMON)
    .define(
        "tasks.max", Kind.INT, 1, "The largest number of tasks.", importance="HIGH", allowed=between(1), group=_COMMON
    )
    .define("key.converter", Kind.CLASS, None, "Converter of keys; by default the worker's.", group=_COMMON)
    .define("value.converter", Kind.CLASS, None, "Converter of values; by default the worker's.", group=_COMMON)
    .define("header.converter", Kind.CLASS, None, "Converter of headers; by default the worker's.", group=_COMMON)
    .define("transforms", Kind.LIST, [], "Aliases of the transforms, in their order.", group=_TRANSFORMS)
    .define("predicates", Kind.LIST, [], "Aliases of the predicates.", group=_TRANSFORMS)
    .define(
        "errors.tolerance", Kind.STRING, "none",
        "none: a record that cannot be converted or transformed fails the task. all: it is skipped.",
        group=_ERRORS, allowed=one_of("none", "all"),
    )
    .define(
        "errors.retry.timeout", Kind.LONG, 0, "How long a failed operation is retried, in ms; -1 has no limit.",
        group=_ERRORS, allowed=between(-1),
    )
    .define(
        "errors.retry.delay.max.ms", Kind.LONG, 60_000, "The longest pause between two attempts.", group=_ERRORS,
        allowed=between(1),
    )
    .define("errors.log.enable", Kind.BOOLEAN, False, "Whether skipped records are logged.", group=_ERRORS)
    .define(
        "errors.log.include.messages", Kind.BOOLEAN, False, "Whether the log says which record it was.", group=_ERRORS
    )
)  # fmt: skip

SOURCE = (
    ConfigDef()
    .define(
        "topic.creation.groups", Kind.LIST, [], "Groups of topics with configurations of their own (KIP-158).",
        group=_TOPICS,
    )
    .define(
        "topic.creation.default.partitions", Kind.INT, -1, "Partitions of new topics; -1: the service's default.",
        group=_TOPICS,
    )
    .define(
        "topic.creation.default.replication.factor", Kind.INT, -1, "Accepted, as of Kafka; the store replicates.",
        group=_TOPICS,
    )
    .define(
        "exactly.once.support", Kind.STRING, "requested",
        "required refuses a connector or a worker without exactly once.", group=_OFFSETS,
        allowed=one_of("requested", "required"),
    )
    .define(
        "transaction.boundary", Kind.STRING, "poll",
        "poll: a transaction for each batch that the task returns. interval: for all within an interval. connector: "
        "the task says where transactions end, if it can.",
        group=_OFFSETS, allowed=one_of("poll", "interval", "connector"),
    )
    .define(
        "transaction.boundary.interval.ms", Kind.LONG, None, "That interval; by default offset.flush.interval.ms.",
        group=_OFFSETS, allowed=between(1),
    )
)  # fmt: skip

SINK = (
    ConfigDef()
    .define("topics", Kind.LIST, [], "The topics to read.", importance="HIGH", group=_COMMON)
    .define(
        "topics.regex", Kind.STRING, None, "Or a regular expression (RE2) of whole topic names.", importance="HIGH",
        group=_COMMON,
    )
    .define(
        "errors.deadletterqueue.topic.name", Kind.STRING, "", "Topic for skipped records; empty: none.", group=_ERRORS
    )
    .define(
        "errors.deadletterqueue.topic.replication.factor", Kind.INT, 3, "Accepted, as of Kafka; the store replicates.",
        group=_ERRORS,
    )
    .define(
        "errors.deadletterqueue.context.headers.enable", Kind.BOOLEAN, False,
        "Whether skipped records get headers that say where they failed and why.", group=_ERRORS,
    )
)  # fmt: skip

_OVERRIDES = ("producer.override.", "consumer.override.", "admin.override.")


def overrides(configs: Mapping[str, Any], client: str) -> dict[str, Any]:
    """Return a connector's `producer.override.*` and the like as keyword arguments of the client.

    Raises:
        ConfigError: for the address and credentials, which are the worker's.
    """
    prefix = f"{client}.override."
    assert prefix in _OVERRIDES
    client_configs = {}
    for name, value in with_prefix(configs, prefix).items():
        if name.startswith(("bootstrap", "aws", "transport")):
            raise ConfigError({prefix + name: [f"{prefix}{name} is the worker's: it cannot be overridden"]})
        client_configs[name.replace(".", "_")] = _typed(value)
    return client_configs


def _typed(value: Any) -> Any:
    text = str(value)
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else value
