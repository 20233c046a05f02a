"""The mirror sink: topics of this cluster into another one, over Kafka's protocol, each record once.

Each partition has a producer with a transactional id of its own. A transaction writes records, and the offset behind
them as the offset of a group in the target; a task that gets the partition takes over the id, which fences an older
task, and continues at that offset.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from odradek.connect.config import ConfigDef, Kind, non_empty, one_of
from odradek.connect.connectors.mirror.remote import (
    NAMING,
    TIMEOUT_S,
    Naming,
    Remote,
    check,
    client_configs,
    kafka_admin,
)
from odradek.connect.errors import ConnectError, DataError, RetriableError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition

with extra("connect-kafka"):
    import confluent_kafka as kafka

_log = logging.getLogger("odradek.connect.mirror")

DEFINITIONS = NAMING + (
    ConfigDef()
    .define("target.cluster.bootstrap.servers", Kind.STRING, documentation="Addresses of the cluster that is written.",
            importance="HIGH", allowed=non_empty())
    .define("target.cluster.security.protocol", Kind.STRING, "PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. "
            "All other configurations of librdkafka are accepted behind target.cluster. as well.",
            allowed=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True))
    .define("target.cluster.sasl.mechanism", Kind.STRING, None, "Such as PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.")
    .define("target.cluster.sasl.username", Kind.STRING, None, "The user.")
    .define("target.cluster.sasl.password", Kind.PASSWORD, None, "The password.")
    .define("target.cluster.ssl.ca.location", Kind.STRING, None, "File with the certificates of authorities.")
    .define("offsets.group", Kind.STRING, None, "Group in the target whose offsets say how far the mirror is; by "
            "default mirror- and the connector's name.")
)  # fmt: skip


class _Writer:
    """Writes one partition of the target. Raises RetriableError, ConnectError."""

    def __init__(self, configs: Mapping[str, str], group: str, topic_partition: tuple[str, int]) -> None:
        self._group, self._place = group, topic_partition
        self._configs = configs
        settings: dict[str, Any] = {
            **configs, "transactional.id": f"{group}-{topic_partition[0]}-{topic_partition[1]}",
            "logger": _log, "linger.ms": 5,
        }  # fmt: skip
        self._producer = kafka.Producer(settings)
        self.position = 0

    def take_over(self) -> int:
        """Fence an older writer of the partition, and return the offset to continue at, 0 if there is none."""
        with _translated():
            self._producer.init_transactions(TIMEOUT_S)
            settings: dict[str, Any] = {**self._configs, "group.id": self._group, "logger": _log}
            consumer = kafka.Consumer(settings)
            try:
                [committed] = consumer.committed([kafka.TopicPartition(*self._place)], TIMEOUT_S)
            finally:
                consumer.close()
        self.position = max(0, committed.offset)
        return self.position

    def write(self, records: Sequence[SinkRecord]) -> None:
        """Write records that are not there yet, and their offset, in one transaction."""
        new = [record for record in records if record.source_position >= self.position]
        if not new:
            return
        behind = new[-1].source_position + 1
        topic, partition = self._place
        producer, failed = self._producer, []
        try:
            producer.begin_transaction()
            for record in new:
                producer.produce(
                    topic, _bytes(record.value), _bytes(record.key), partition, timestamp=record.timestamp_ms or 0,
                    headers=[(header.key, _bytes(header.value)) for header in record.headers],
                    on_delivery=lambda error, _: failed.append(error) if error is not None else None,
                )  # fmt: skip
                producer.poll(0)
            producer.send_offsets_to_transaction(
                [kafka.TopicPartition(topic, partition, behind)], _metadata(self._group), TIMEOUT_S
            )
            producer.commit_transaction(TIMEOUT_S)
        except (kafka.KafkaException, BufferError) as error:
            self._abort(error)
        self.position = behind

    def _abort(self, error: Exception) -> None:
        """Abort, so that the records come again. Raises RetriableError; ConnectError for a replaced task."""
        kafka_error = error.args[0] if isinstance(error, kafka.KafkaException) else None
        if kafka_error is not None and kafka_error.fatal():
            raise ConnectError(f"another task writes {self._place[0]}-{self._place[1]}: {kafka_error.str()}") from error
        try:
            self._producer.abort_transaction(TIMEOUT_S)
        except kafka.KafkaException:
            _log.info("the transaction of %s was not aborted yet", self._place)
        raise RetriableError(f"the records cannot be written: {error}") from error

    def close(self) -> None:
        self._producer.flush(1)


def _metadata(group: str) -> Any:
    """Return the metadata of a group without members."""
    consumer = kafka.Consumer({"group.id": group, "bootstrap.servers": ""})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise DataError(f"a mirror writes bytes, not {type(value).__name__}: use ByteArrayConverter")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except kafka.KafkaException as error:
        raise RetriableError(f"the target cannot be reached: {error}") from error


def _group(options: Mapping[str, Any], configs: Configs) -> str:
    """Return the group of the target that has the positions of a mirror."""
    return options["offsets.group"] or f"mirror-{configs.get('name', '')}"


class MirrorSinkTask(SinkTask):
    """Writes its partitions, each with a producer."""

    def start(self, configs: Configs) -> None:
        self._options = options = DEFINITIONS.parse(configs)
        self._naming = Naming(options)
        self._configs = client_configs(configs, "target", "producer")
        self._group = _group(options, configs)
        self._remote = Remote(configs, "target")
        self._writers: dict[TopicPartition, _Writer | None] = {}
        self._known: dict[str, int] = {}

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        """Prepare nothing yet: the target is reached by `put`, which may be tried again."""
        for tp in partitions:
            self._writers[tp] = None

    def _writer(self, tp: TopicPartition) -> _Writer:
        writer = self._writers.get(tp)
        if writer is None:
            topic = self._naming.target_topic(tp.topic)
            made = _Writer(self._configs, self._group, (topic, tp.partition))
            made.take_over()
            self._writers[tp] = writer = made
        return writer

    def _ensure_topics(self) -> None:
        """Give the target as many partitions as there are here, those without records too."""
        counts: dict[str, int] = {}
        for tp in self._writers:
            if not self._naming.is_loop(tp.topic):
                counts[tp.topic] = max(counts.get(tp.topic, 0), tp.partition + 1)
        for topic, count in counts.items():
            self._ensure(self._naming.target_topic(topic), count)

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._ensure_topics()
        grouped: dict[TopicPartition, list[SinkRecord]] = {}
        for record in records:
            if not self._naming.is_loop(record.source.topic):
                grouped.setdefault(record.source, []).append(record)
        for tp, some in grouped.items():
            try:
                self._writer(tp).write(some)
            except RetriableError:  # what became of the transaction is known after the id was taken over anew
                self._forget(tp)
                raise

    def _ensure(self, topic: str, count: int) -> None:
        """Create a topic of the target, or add partitions to it."""
        if self._known.get(topic, 0) >= count:
            return
        with _translated():
            self._known = self._remote.partitions()
            if topic not in self._known:
                made = self._remote.admin.create_topics([kafka_admin.NewTopic(topic, num_partitions=count)])
            elif self._known[topic] < count:
                made = self._remote.admin.create_partitions([kafka_admin.NewPartitions(topic, count)])
            else:
                return
            for future in made.values():
                try:
                    future.result(TIMEOUT_S)
                except kafka.KafkaException as error:
                    if error.args[0].code() not in (kafka.KafkaError.TOPIC_ALREADY_EXISTS,
                                                    kafka.KafkaError.INVALID_PARTITIONS):  # fmt: skip
                        raise
            self._known[topic] = count

    def _forget(self, tp: TopicPartition) -> None:
        writer = self._writers.pop(tp, None)
        if writer is not None:
            writer.close()

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._forget(tp)

    def stop(self) -> None:
        self.close(list(getattr(self, "_writers", ())))


class MirrorSinkConnector(SinkConnector):
    """Topics of this cluster into another Kafka cluster."""

    task_class = MirrorSinkTask
    config_def = DEFINITIONS

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, Any]:
        validated = super().validate(configs)
        check(validated, configs)
        return validated

    @classmethod
    def alter_offsets(cls, configs: Configs, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Change the positions in the target's group as well."""
        options = DEFINITIONS.parse(configs)
        naming = Naming(options)
        places = [
            kafka.TopicPartition(naming.target_topic(tp.topic), tp.partition, offset or 0)
            for tp, offset in offsets.items()
            if not naming.is_loop(tp.topic)
        ]
        if not places:
            return
        requests = [kafka.ConsumerGroupTopicPartitions(_group(options, configs), places)]
        remote = Remote(configs, "target")  # which must live until it has answered
        try:
            [done] = remote.admin.alter_consumer_group_offsets(requests).values()
            refused = [tp.error for tp in done.result(TIMEOUT_S).topic_partitions if tp.error is not None]
        except kafka.KafkaException as error:
            refused = [error.args[0]]
        except TimeoutError:
            raise ConnectError(f"the target did not answer within {TIMEOUT_S:.0f} s: try again") from None
        unknown = kafka.KafkaError.UNKNOWN_TOPIC_OR_PART  # nothing was written to it yet
        refused = [error for error in refused if error.code() != unknown]
        if refused:
            raise ConnectError(f"the positions in the target cannot be changed, try again: {refused[0].str()}")

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
