"""MirrorMaker 2 with exactly once between Apache Kafka and Odradek, both ways, while its worker is killed.

Each mirrored partition has the records of its source, in their order, once. Consumer groups are translated: one that
moves to the other cluster misses nothing, and repeats at most what MirrorMaker's checkpoints leave open by design.

`make java`; ODRADEK_JAVA_KILLS makes it longer.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from bench.peers.kafka_broker import NoBroker, kafka_broker
from tests.java.programs import JavaProgram
from tests.support.clients.numbered import Sent
from tests.support.clients.numbered_producers import Load, confluent, create_topic
from tests.support.kafka.port import until
from tests.support.services.slow_service import RunningService, Unkindness, free_ports

pytestmark = [pytest.mark.java, pytest.mark.timeout(2_400)]

KILLS = int(os.environ.get("ODRADEK_JAVA_KILLS", "6"))
PARTITIONS = 2
RECORDS_PER_S = 60
LAG_MAX = 20  # offset.lag.max: records between two offset syncs
TOPIC = "numbers"
# Groups of each cluster: one stops halfway, one reads to the end. Groups with members are not synchronized.
STOPPED, CAUGHT_UP = "readers-of-{}-stopped", "readers-of-{}-caught-up"
START_S = 180.0


@dataclass
class Cluster:
    """One side: writers of a topic, and groups that read it, while the block runs."""

    alias: str
    servers: str
    sent: Sent = field(default_factory=Sent)

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._written = threading.Event()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Cluster:
        create_topic(self.servers, TOPIC, PARTITIONS)
        aborted_and_committed(self.servers)
        load = Load(TOPIC, PARTITIONS, records_per_s=RECORDS_PER_S, ended=self._ended)
        for target in (
            lambda: self.sent.merge(confluent(self.servers, load)),
            lambda: read_in_group(self.servers, STOPPED.format(self.alias), stopped=self._stopped),
            lambda: read_in_group(self.servers, CAUGHT_UP.format(self.alias), written=self._written),
        ):
            self._threads.append(threading.Thread(target=target, name=self.alias))
            self._threads[-1].start()
        return self

    def stop_a_group(self) -> None:
        """End the group that stops halfway; what is written from here on it has not read."""
        self._stopped.set()

    def stop_writing(self) -> None:
        """End the writer and the groups: the one that reads to the end has committed all that is written."""
        self._stopped.set()
        self._ended.set()
        for thread in self._threads:
            thread.join()
            self._written.set()  # the first of them is the writer

    def __exit__(self, *_: object) -> None:
        self.stop_writing()


def test_both_ways_over_kills(tmp_path: Path) -> None:
    rng = random.Random(1)
    # MirrorMaker gives its target topics the source's configuration, so the service names those that are predicted.
    service = RunningService(
        tmp_path / "data", Unkindness(late_every=50, late_ms=300), transaction_offsets_predicted="kafka.*"
    )
    try:
        with kafka_broker() as kafka, service, Cluster("kafka", kafka.servers) as one:
            other = Cluster("odradek", service.servers)
            with other:
                _mirror(tmp_path, one, other, rng)
    except NoBroker as reason:
        pytest.skip(str(reason))


def _mirror(folder: Path, one: Cluster, other: Cluster, rng: random.Random) -> None:
    properties = mirror_maker_properties(folder, one, other)
    ways = [(one, other), (other, one)]
    for _ in range(KILLS):
        with mirror_maker(folder, properties) as running:
            wait_for_progress(running, ways)
            time.sleep(rng.uniform(1, 6))
    for cluster in (one, other):
        cluster.stop_a_group()
    with mirror_maker(folder, properties) as running:
        wait_for_progress(running, ways)
        for cluster in (one, other):
            cluster.stop_writing()
            assert not cluster.sent.fatal
        for source, target in ways:
            expected = counts(source, TOPIC)
            wait_for(running, partial(has_all, target, f"{source.alias}.{TOPIC}", expected))
            wait_for(running, partial(is_translated, source, target))
        time.sleep(3)  # for what would be too many
    for source, target in ways:
        _compare(source, target)


def _compare(source: Cluster, target: Cluster) -> None:
    """Records are equal; groups go on where they were."""
    name = f"{source.alias}.{TOPIC}"
    records, mirror = read_all(source.servers, TOPIC), read_all(target.servers, name)
    report = [f"\nMirrorMaker 2, {source.alias} to {target.alias}: {KILLS} kills"]
    for partition, mirrored_records in records.items():
        values = [value for _, value in mirrored_records]
        assert len(set(values)) == len(values) > 100
        assert [value for _, value in mirror[partition]] == values, f"{name}-{partition}"
    report.append(f"{sum(map(len, records.values()))} records equal")
    for group_template in (STOPPED, CAUGHT_UP):
        group = group_template.format(source.alias)
        resumed = read_in_group(target.servers, group, name)
        for partition, start in committed(source.servers, group, TOPIC).items():
            expected = [value for offset, value in records[partition] if offset >= start]
            read_values = resumed[partition]
            repeated = len(read_values) - len(expected)
            assert repeated >= 0, f"{group} of {name}-{partition} misses {-repeated} records"
            assert read_values[repeated:] == expected
            assert (
                read_values == [value for _, value in mirror[partition]][-len(read_values) or len(mirror[partition]) :]
            )
            report.append(f"{group} repeats {repeated} of {len(records[partition])}")
            if group_template == CAUGHT_UP:
                assert repeated <= 2 * LAG_MAX, f"{group} of {name}-{partition}"
    print(", ".join(report))


def wait_for_progress(running: JavaProgram, ways: Sequence[tuple[Cluster, Cluster]]) -> None:
    """Wait until more is mirrored in each direction."""
    for source, target in ways:
        wait_for(running, partial(has_more, source, target, mirrored(source, target)))


def wait_for(running: JavaProgram, condition: Callable[[], bool]) -> None:
    """Wait until it holds, as long as no task of MirrorMaker has failed."""

    def holds() -> bool:
        log = running.log.read_text(errors="replace")
        assert "uncaught and unrecoverable exception" not in log, running.tail()
        time.sleep(0.5)
        return condition()

    until(holds, START_S, running.tail())


def has_more(source: Cluster, target: Cluster, than: int) -> bool:
    """Return True if more is mirrored than before."""
    return mirrored(source, target) > than


def has_all(target: Cluster, topic: str, expected: list[int]) -> bool:
    """Return True if each partition has as many records as its source."""
    return all(mirrored_count >= count for mirrored_count, count in zip(counts(target, topic), expected, strict=True))


def is_translated(source: Cluster, target: Cluster) -> bool:
    """Return True if the target has offsets of both groups, and the one at the end is as near to it as syncs allow."""
    name = f"{source.alias}.{TOPIC}"
    ends = [offsets[-1][0] for offsets in read_all(target.servers, name).values()]
    offsets_by_group = [
        committed(target.servers, group_template.format(source.alias), name) for group_template in (STOPPED, CAUGHT_UP)
    ]
    return all(len(offsets_read) == PARTITIONS for offsets_read in offsets_by_group) and all(
        offsets_by_group[1][partition] > end - 3 * LAG_MAX for partition, end in enumerate(ends)
    )


# --- MirrorMaker --------------------------------------------------------------------------------------------------


def mirror_maker(folder: Path, properties: Path) -> JavaProgram:
    """The dedicated mode: one process with the workers of both directions."""
    return JavaProgram("org.apache.kafka.connect.mirror.MirrorMaker", str(properties), log=folder / "mirror.log")


def mirror_maker_properties(folder: Path, one: Cluster, other: Cluster) -> Path:
    """Its file; a killed worker is missed within seconds, and everything is synchronized within a few."""
    [rest_port] = free_ports(1)
    values: dict[str, object] = {
        "clusters": f"{one.alias},{other.alias}",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{rest_port}",
        "tasks.max": PARTITIONS,
        "topics": TOPIC,
        "groups": "readers-.*",
        "offset.lag.max": LAG_MAX,
        "refresh.topics.interval.seconds": 5,
        "refresh.groups.interval.seconds": 5,
        "sync.topic.configs.interval.seconds": 5,
        "emit.checkpoints.interval.seconds": 2,
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": 2,
        "sync.topic.acls.enabled": "false",  # only administrators may describe ACLs
    }
    for source, target in ((one, other), (other, one)):
        values |= {
            f"{source.alias}.bootstrap.servers": source.servers,
            f"{source.alias}.exactly.once.source.support": "enabled",
            f"{source.alias}.consumer.isolation.level": "read_committed",
            f"{source.alias}.session.timeout.ms": 6_000,
            f"{source.alias}.heartbeat.interval.ms": 1_000,
            f"{source.alias}.rebalance.timeout.ms": 10_000,
            f"{source.alias}.scheduled.rebalance.max.delay.ms": 0,
            f"{source.alias}->{target.alias}.enabled": "true",
        }
    for topic_prefix in ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic."):
        values[f"{topic_prefix}replication.factor"] = 1
    for topic_use in ("config", "offset", "status"):
        values[f"{topic_use}.storage.replication.factor"] = 1
    path = folder / "mirror.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
    return path


def mirrored(source: Cluster, target: Cluster) -> int:
    """The sum of the mirror's end offsets; 0 before its topic exists."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(_consumer_config(target.servers, "progress"))
    tps = [TopicPartition(f"{source.alias}.{TOPIC}", partition) for partition in range(PARTITIONS)]
    try:
        return sum(consumer.get_watermark_offsets(tp, timeout=10)[1] for tp in tps)
    except KafkaException:
        return 0
    finally:
        consumer.close()


# --- both clusters, by confluent-kafka ----------------------------------------------------------------------------


def aborted_and_committed(servers: str) -> None:
    """Transactions, so that Apache Kafka's offsets have gaps: markers, and records that no mirror may have."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "transactional.id": "gaps"})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for i in range(5):
                producer.produce(TOPIC, b"gap:%d:%d:%d" % (number, partition, i), partition=partition)
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def read_all(servers: str, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and value of each committed record, by partition."""
    records_read: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(PARTITIONS)}
    for partition, offset, value in _consume(servers, topic, f"reader-of-all-{time.monotonic_ns()}"):
        records_read[partition].append((offset, value))
    return records_read


def _consume(servers: str, topic: str, group: str) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every committed record, without a group's coordination."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(_consumer_config(servers, group))
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    return _to_the_end(consumer, set(range(PARTITIONS)))


def _consumer_config(servers: str, group: str) -> dict[str, str | bool | int]:
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "session.timeout.ms": 6_000,
    }


def _to_the_end(consumer: object, left: set[int]) -> list[tuple[int, int, bytes]]:
    """Read until each partition has told its end."""
    from confluent_kafka import Consumer, KafkaError

    assert isinstance(consumer, Consumer)
    messages: list[tuple[int, int, bytes]] = []
    until_s = time.monotonic() + 120
    while left:
        assert time.monotonic() < until_s, f"no end of partitions {left}"
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            messages.append((message.partition() or 0, message.offset() or 0, message.value() or b""))
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition() or 0)
        elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            break
    consumer.close()
    return messages


def read_in_group(
    servers: str,
    group: str,
    topic: str = TOPIC,
    *,
    stopped: threading.Event | None = None,
    written: threading.Event | None = None,
) -> Mapping[int, Sequence[bytes]]:
    """Read as a member of a group and commit what was read; by default to the end of the log.

    Args:
        stopped: read until this is set.
        written: read until this is set, then to the end of the log.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(_consumer_config(servers, group))
    consumer.subscribe([topic])
    values_read: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    positions, ends = dict.fromkeys(values_read, 0), dict.fromkeys(values_read, 0)
    at_end: set[int] = set()
    until_s = time.monotonic() + 3_600
    while time.monotonic() < until_s:
        if stopped is not None and stopped.is_set():
            break
        if written is not None and written.is_set():
            ends = {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition))[1] for partition in ends
            }
            if all(positions[partition] >= end for partition, end in ends.items()):
                break
        if stopped is None and written is None and len(at_end) == PARTITIONS:
            break
        messages = consumer.consume(100, 0.5)
        for message in messages:
            error, partition = message.error(), message.partition() or 0
            if error is None:
                values_read[partition].append(message.value() or b"")
                positions[partition] = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(partition)
        if any(message.error() is None for message in messages):
            consumer.commit(asynchronous=False)
    consumer.close()
    return values_read


def committed(servers: str, group: str, topic: str) -> dict[int, int]:
    """A group's committed offset of each partition that has one."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(_consumer_config(servers, group))
    tps = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], timeout=30)
    consumer.close()
    return {tp.partition: tp.offset for tp in tps if tp.offset >= 0}


def counts(cluster: Cluster, topic: str) -> list[int]:
    """How many committed records each partition has."""
    return [len(records) for records in read_all(cluster.servers, topic).values()]
