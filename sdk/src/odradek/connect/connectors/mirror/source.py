"""The mirror source: topics of another cluster, with their partitions, configurations and ACLs.

A record keeps its key, value, headers, timestamp and partition, and gets a header with its offset in the source, from
which checkpoints.py translates the offsets of groups. A topic that comes from the target is left out, so that two
clusters can mirror each other.

Class names and configurations are MirrorMaker 2's; the target is the cluster of the worker.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from odradek.client.admin.sync import Admin
from odradek.client.types import NewTopic
from odradek.connect.config import ConfigDef, Kind, between
from odradek.connect.connectors.mirror.remote import (
    OFFSET_HEADER,
    SOURCE,
    TOPICS,
    Naming,
    Patterns,
    Remote,
    check,
    client_configs,
)
from odradek.connect.data import schema as schemas
from odradek.connect.errors import ConnectError, RetriableError
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import Header, SourceRecord
from odradek.errors import KafkaError
from odradek.extras import extra
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

with extra("connect-kafka"):
    import confluent_kafka as kafka

_log = logging.getLogger("odradek.connect.mirror")
_ASSIGNED = "task.assigned.partitions"

DEFINITIONS = (
    SOURCE
    + TOPICS
    + (
        ConfigDef()
        .define("refresh.topics.interval.seconds", Kind.INT, 600, "Time between two looks for new topics and "
                "partitions, changed configurations and ACLs, in s.", allowed=between(1))
        .define("sync.topic.configs.enabled", Kind.BOOLEAN, True, "Whether configurations of topics are copied.")
        .define("config.properties.exclude", Kind.LIST, ["follower.replication.throttled.replicas",
                "leader.replication.throttled.replicas", "message.timestamp.difference.max.ms",
                "log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms",
                "message.timestamp.type", "unclean.leader.election.enable", "min.insync.replicas"],
                "Regular expressions of configurations to leave out.")
        .define("sync.topic.acls.enabled", Kind.BOOLEAN, False, "Whether ACLs of topics are copied: rights to write "
                "are not, and ALL becomes READ.")
        .define("offset.header", Kind.STRING, OFFSET_HEADER, "Header with the offset in the source; empty: none, and "
                "no translation of groups' offsets.")
        .define("consumer.poll.timeout.ms", Kind.LONG, 500, "The longest wait for records, in ms.", allowed=between(1))
        .define("batch.max.records", Kind.INT, 2_000, "The largest number of records of one poll.", allowed=between(1))
    )
)  # fmt: skip


class MirrorSourceTask(SourceTask):
    """Reads its share of the partitions."""

    _consumer: Any = None

    def start(self, configs: Configs) -> None:
        self._options = options = DEFINITIONS.parse(configs)
        self._naming = Naming(options)
        settings = {
            **client_configs(configs, "source", "consumer"),
            "group.id": f"mirror-{self._naming.target}", "enable.auto.commit": "false", "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "enable.partition.eof": "false",
        }  # fmt: skip
        self._consumer = kafka.Consumer({**settings, "logger": _log})
        places = []
        for text in filter(None, configs.get(_ASSIGNED, "").split(",")):
            topic, _, number = text.rpartition("-")
            stored = self.context.offset(self._partition(topic, int(number)))
            offset = kafka.OFFSET_BEGINNING if stored is None else int(stored["offset"]) + 1
            places.append(kafka.TopicPartition(topic, int(number), offset))
        self._consumer.assign(places)

    def _partition(self, topic: str, number: int) -> dict[str, Any]:
        return {"cluster": self._naming.source, "topic": topic, "partition": number}

    def poll(self) -> list[SourceRecord]:
        options = self._options
        messages = self._consumer.consume(options["batch.max.records"], options["consumer.poll.timeout.ms"] / 1000)
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(self._record(message))
            elif not error.retriable() and error.code() not in (error._ALL_BROKERS_DOWN, error._TRANSPORT):
                raise ConnectError(f"{self._naming.source} cannot be read: {error.str()}")
        return records

    def _record(self, message: Any) -> SourceRecord:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        headers = [Header(name, value, schemas.OPTIONAL_BYTES) for name, value in message.headers() or ()]
        if self._options["offset.header"]:
            name = self._options["offset.header"]
            headers = [header for header in headers if header.key != name]
            headers.append(Header(name, str(offset).encode(), schemas.OPTIONAL_BYTES))
        timestamp_type, timestamp = message.timestamp()
        return SourceRecord(
            topic=self._naming.target_topic(topic),
            partition=partition,
            key=message.key(),
            key_schema=schemas.OPTIONAL_BYTES,
            value=message.value(),
            value_schema=schemas.OPTIONAL_BYTES,
            timestamp_ms=None if timestamp_type == kafka.TIMESTAMP_NOT_AVAILABLE else timestamp,
            headers=tuple(headers),
            source_partition=self._partition(topic, partition),
            source_offset={"offset": offset},
        )

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class MirrorSourceConnector(SourceConnector):
    """Topics of another cluster, with partitions, configurations and ACLs."""

    task_class = MirrorSourceTask
    config_def = DEFINITIONS

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        check(validated, configs, "topics", "topics.exclude", "config.properties.exclude")
        return validated

    def start(self, configs: Configs) -> None:
        super().start(configs)
        self._options = DEFINITIONS.parse(configs)
        self._naming = Naming(self._options)
        self._topics = Patterns(self._options, "topics", "topics.exclude")
        self._excluded = Patterns({**self._options, "all": [".*"]}, "all", "config.properties.exclude")
        self._remote = Remote(configs)
        self._known: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mirror-topics", daemon=True)
        self._refresh()
        self._thread.start()

    def stop(self) -> None:
        if hasattr(self, "_stop"):
            self._stop.set()
            if self._thread.is_alive():
                self._thread.join(60)

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        places = [f"{topic}-{number}" for topic, count in sorted(self._known.items()) for number in range(count)]
        groups = [places[number::tasks_max] for number in range(min(tasks_max, len(places)))]
        return [{**self.configs, _ASSIGNED: ",".join(group)} for group in groups]

    # --- what the source has --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stop.wait(self._options["refresh.topics.interval.seconds"]):
            before = dict(self._known)
            try:
                self._refresh()
            except (ConnectError, KafkaError) as error:
                _log.warning("the topics of %s are not known: %s", self._naming.source, error)
            if self._known != before:
                self.context.request_task_reconfiguration()

    def _refresh(self) -> None:
        """Find topics and partitions, and bring the target up to date. Raises ConnectError, KafkaError."""
        try:
            counts = {
                topic: count
                for topic, count in self._remote.partitions().items()
                if topic in self._topics and not self._naming.is_loop(topic)
            }
            configs = self._remote.configs_of(sorted(counts)) if self._options["sync.topic.configs.enabled"] else {}
            acls = self._remote.acls() if self._options["sync.topic.acls.enabled"] else []
        except kafka.KafkaException as error:
            raise RetriableError(f"{self._naming.source} cannot be read: {error}") from error
        kept = {topic: self._kept(topic_configs) for topic, topic_configs in configs.items()}
        with Admin(**self.context.client) as admin:
            self._create(admin, counts, kept)
            self._copy_configs(admin, kept)
            if acls:
                self._copy_acls(admin, acls)
        self._known = counts

    def _kept(self, configs: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in configs.items() if name in self._excluded}

    def _create(self, admin: Admin, counts: Mapping[str, int], configs: Mapping[str, Mapping[str, str]]) -> None:
        existing = set(admin.list_topics())
        for topic, count in counts.items():
            name = self._naming.target_topic(topic)
            if name not in existing:
                try:
                    admin.create_topics([NewTopic(name, num_partitions=count, configs=dict(configs.get(topic, {})))])
                except KafkaError as error:
                    _log.warning("%s is created without its configurations: %s", name, error)
                    admin.create_topics([NewTopic(name, num_partitions=count)])
            elif admin.describe_topics([name])[name].partition_count < count:
                admin.create_partitions({name: count})

    def _copy_configs(self, admin: Admin, configs: Mapping[str, Mapping[str, str]]) -> None:
        names = {self._naming.target_topic(topic): topic for topic in configs}
        for name, entries in admin.describe_configs(sorted(names)).items() if names else ():
            wanted = configs[names[name]]
            changed = {key: value for key, value in wanted.items() if key in entries and entries[key].value != value}
            if changed:
                try:
                    admin.alter_topic_configs(name, changed)
                except KafkaError as error:
                    _log.warning("configurations of %s are not copied: %s", name, error)

    def _copy_acls(self, admin: Admin, acls: list[Any]) -> None:
        wanted = [acl for acl in map(self._acl, acls) if acl is not None]
        target_acls = set(admin.describe_acls())
        missing = [acl for acl in dict.fromkeys(wanted) if acl not in target_acls]
        if missing:
            admin.create_acls(missing)

    def _acl(self, source_acl: Any) -> AclBinding | None:
        """Return an ACL for the mirrored topic, None for one that is not copied."""
        operation, name = source_acl.operation.name, source_acl.name
        if operation == "WRITE" or not (name == "*" or source_acl.resource_pattern_type.name == "PREFIXED" or name in (
            self._topics)):  # fmt: skip
            return None
        if operation == "ALL" and source_acl.permission_type.name == "ALLOW":
            operation = "READ"
        try:
            return AclBinding(
                ResourceType.TOPIC,
                name if name == "*" else self._naming.target_topic(name),
                PatternType[source_acl.resource_pattern_type.name],
                source_acl.principal,
                source_acl.host,
                AclOperation[operation],
                AclPermission[source_acl.permission_type.name],
            )
        except KeyError:
            return None
