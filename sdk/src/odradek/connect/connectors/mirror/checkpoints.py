"""Heartbeats and checkpoints: MirrorMaker 2's other two connectors, with its topics and record formats.

A *checkpoint* says that a group's offset in a topic of the source is such an offset in the mirrored topic: of the first
record whose offset in the source (a header that the mirror writes) is not before it. It is found by a search in the
mirrored partition, so that it is exact, and needs no topic of offset syncs. With `sync.group.offsets.enabled` the
offsets are committed for the group here, as long as it has no members here and if they move it forward.

    checkpoint   key: group, topic (strings), partition (int32)     value: version 0 (int16), upstream offset, offset
                 (int64), metadata (string)                         topic: <source alias>.checkpoints.internal
    heartbeat    key: source alias, target alias (strings)          value: version 0 (int16), time in ms (int64)
                                                                    topic: heartbeats
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from struct import pack
from typing import Any

from odradek.client.admin.sync import Admin
from odradek.client.consumer.sync import Consumer
from odradek.connect.config import ConfigDef, Kind, between, non_empty
from odradek.connect.connectors.mirror.remote import (
    NAMING,
    OFFSET_HEADER,
    SOURCE,
    TOPICS,
    Naming,
    Patterns,
    Remote,
    check,
)
from odradek.connect.data import schema as schemas
from odradek.connect.plugin import Configs, ExactlyOnceSupport, SourceConnector, SourceTask
from odradek.connect.record import SourceRecord
from odradek.errors import KafkaError
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition

with extra("connect-kafka"):
    import confluent_kafka as kafka

_log = logging.getLogger("odradek.connect.mirror")
_READ_MS = 2_000
_PATTERNS = ("topics", "topics.exclude", "groups", "groups.exclude")

HEARTBEAT = NAMING + (
    ConfigDef()
    .define("emit.heartbeats.interval.seconds", Kind.INT, 1, "Time between two heartbeats, in s.", allowed=between(1))
    .define("heartbeats.topic", Kind.STRING, "heartbeats", "Their topic.", allowed=non_empty())
)  # fmt: skip
CHECKPOINT = (
    SOURCE
    + TOPICS
    + (
        ConfigDef()
        .define("groups", Kind.LIST, [".*"], "Regular expressions of the groups.", importance="HIGH")
        .define("groups.exclude", Kind.LIST, ["console-consumer-.*", "connect-.*", "mirror-.*", "__.*"],
                "Regular expressions of groups to leave out.")
        .define("emit.checkpoints.interval.seconds", Kind.INT, 60, "Time between two checkpoints, in s.",
                allowed=between(1))
        .define("sync.group.offsets.enabled", Kind.BOOLEAN, False, "Whether the translated offsets are committed for "
                "the groups here, while they have no members here.")
        .define("offset.header", Kind.STRING, OFFSET_HEADER, "The mirror's header with the offset in the source.",
                allowed=non_empty())
    )
)  # fmt: skip


def _text(value: str) -> bytes:
    data = value.encode()
    return pack(">h", len(data)) + data


def _record(topic: str, key: bytes, value: bytes) -> SourceRecord:
    bytes_schema = schemas.OPTIONAL_BYTES
    return SourceRecord(
        topic=topic, partition=0, key=key, key_schema=bytes_schema, value=value, value_schema=bytes_schema
    )


class MirrorHeartbeatTask(SourceTask):
    """Writes the time."""

    def start(self, configs: Configs) -> None:
        self._options = HEARTBEAT.parse(configs)
        self._naming = Naming(self._options)

    def poll(self) -> list[SourceRecord]:
        if self.context.wait(self._options["emit.heartbeats.interval.seconds"]):
            return []
        key = _text(self._naming.source) + _text(self._naming.target)
        return [_record(self._options["heartbeats.topic"], key, pack(">hq", 0, self.context.clock.now_ms()))]


class MirrorCheckpointTask(SourceTask):
    """Translates the offsets of groups."""

    _consumer: Consumer | None = None

    def start(self, configs: Configs) -> None:
        self._options = options = CHECKPOINT.parse(configs)
        self._naming = Naming(options)
        self._topics = Patterns(options, "topics", "topics.exclude")
        self._groups = Patterns(options, "groups", "groups.exclude")
        self._remote = Remote(configs)
        self._consumer = Consumer(**self.context.client, isolation_level="read_committed", max_poll_records=1)
        self._written: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._due_s = 0.0

    def poll(self) -> list[SourceRecord]:
        now_s = self.context.clock.monotonic()
        if now_s < self._due_s:
            self.context.wait(min(self._due_s - now_s, 1.0))
            return []
        self._due_s = now_s + self._options["emit.checkpoints.interval.seconds"]
        records = []
        try:
            for group in sorted(group for group in self._remote.groups() if group in self._groups):
                translations = self._translated(group)
                records += [self._checkpoint(group, *translation) for translation in translations]
                if self._options["sync.group.offsets.enabled"]:
                    self._sync(
                        group, {TopicPartition(self._naming.target_topic(t), p): o for t, p, _, o in translations}
                    )
        except (kafka.KafkaException, KafkaError) as error:
            _log.warning("offsets of groups of %s are not translated: %s", self._naming.source, error)
        return records

    def _checkpoint(self, group: str, topic: str, partition: int, upstream: int, offset: int) -> SourceRecord:
        key = _text(group) + _text(self._naming.target_topic(topic)) + pack(">i", partition)
        value = pack(">hqq", 0, upstream, offset) + _text("")
        return _record(f"{self._naming.source}.checkpoints.internal", key, value)

    def _translated(self, group: str) -> list[tuple[str, int, int, int]]:
        """Return topic, partition, offset in the source and offset here, where it has changed."""
        translations = []
        for (topic, partition), upstream in self._remote.group_offsets(group).items():
            if topic not in self._topics or self._naming.is_loop(topic):
                continue
            written = self._written.get((group, topic, partition))
            offset = self._search(TopicPartition(self._naming.target_topic(topic), partition), upstream)
            if offset is not None and written != (upstream, offset):
                self._written[group, topic, partition] = upstream, offset
                translations.append((topic, partition, upstream, offset))
        return translations

    def _search(self, tp: TopicPartition, upstream: int) -> int | None:
        """Return the offset of the first record that is not before `upstream` in the source; the end if there is none.

        None if the partition does not exist here, or has records without the header.
        """
        consumer = self._consumer
        assert consumer is not None
        try:
            consumer.assign([tp])
            low, high = consumer.beginning_offsets([tp])[tp], consumer.end_offsets([tp])[tp]
        except KafkaError:
            return None
        end = high
        while low < high:
            middle = (low + high) // 2
            consumer.seek(tp, middle)
            records = [record for some in consumer.poll(_READ_MS).values() for record in some]
            if not records or records[0].offset >= high:
                high = middle
                continue
            record = records[0]
            stored = next((value for name, value in record.headers if name == self._options["offset.header"]), None)
            if stored is None:
                return None
            if int(stored) >= upstream:
                high = middle
                end = record.offset
            else:
                low = record.offset + 1
        return end

    def _sync(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if not offsets:
            return
        with Admin(**self.context.client) as admin:
            target_offsets = admin.list_consumer_group_offsets(group)
            ahead = {
                tp: offset
                for tp, offset in offsets.items()
                if tp not in target_offsets or target_offsets[tp] is None or target_offsets[tp].offset < offset
            }
            try:
                if ahead:
                    admin.alter_consumer_group_offsets(group, ahead)
            except KafkaError as error:
                _log.info("offsets of the group %s stay as they are: %s", group, error)

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class _OneTask(SourceConnector):
    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        check(validated, configs, *(pattern for pattern in _PATTERNS if pattern in validated))
        return validated

    @classmethod
    def exactly_once_support(cls, configs: Configs) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.UNSUPPORTED

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)]


class MirrorHeartbeatConnector(_OneTask):
    """Heartbeats: whether a mirror works, and what comes from where."""

    task_class = MirrorHeartbeatTask
    config_def = HEARTBEAT


class MirrorCheckpointConnector(_OneTask):
    """Offsets of consumer groups of another cluster, translated to mirrored topics."""

    task_class = MirrorCheckpointTask
    config_def = CHECKPOINT
