"""A topology over the catalog: is it ready, how many tasks has it, which internal topics does it lack. Pure.

The number of tasks of a subtopology is the highest partition count of its source topics. The coordinator decides the
partition counts of internal topics:

    repartition topic   the application's number if it gives one; else the highest count of the topics that the
                        subtopologies read which write to it, or the count of the topics that it is copartitioned with
    changelog topic     the number of tasks of its subtopology

Sources: KIP-1071; Apache Kafka's group coordinator decides the same (streams/topics).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from odradek.errors import ErrorCode, KafkaError
from odradek.model.streams import InternalTopic, Status, StreamsStatus, Subtopology, TaskId, Topology
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

_NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with the topics that exist."""

    topology: Topology
    topics: Mapping[str, Topic] = field(default_factory=dict)  # those that it requires and that exist, by name
    status: Status | None = None  # why no tasks can be assigned
    task_counts: Mapping[str, int] = field(default_factory=dict)  # by subtopology id; empty if sources are unusable
    partition_counts: Mapping[str, int] = field(default_factory=dict)  # decided, of internal topics
    missing_topics: tuple[InternalTopic, ...] = ()  # to create, with partition counts

    @property
    def is_ready(self) -> bool:
        """True if tasks can be assigned."""
        return self.status is None

    @property
    def stateful(self) -> frozenset[str]:
        """The ids of the subtopologies with state, whose tasks may have standbys."""
        return frozenset(each.subtopology_id for each in self.topology.subtopologies if each.changelog_topics)

    def partitions_of(self, task: TaskId) -> frozenset[PartitionId]:
        """Return the source partitions that the task reads and commits."""
        found = set[PartitionId]()
        for each in self.topology.subtopologies:
            if each.subtopology_id == task.subtopology_id:
                topics = (self.topics[name] for name in each.sources if name in self.topics)
                found |= {PartitionId(t.topic_id, task.partition) for t in topics if task.partition < t.partition_count}
        return frozenset(found)

    def names(self) -> dict[UUID, str]:
        """The topics' names by id."""
        return {topic.topic_id: name for name, topic in self.topics.items()}


class _NotReady(Exception):
    """The topics do not fit the topology."""

    def __init__(self, code: StreamsStatus, detail: str) -> None:
        super().__init__(code, detail)
        self.status = Status(code, detail)


def configure(topology: Topology, catalog: Mapping[str, Topic]) -> ConfiguredTopology:
    """Compare a topology with the topics that exist.

    Raises KafkaError(STREAMS_INVALID_TOPOLOGY) if no topics could satisfy it.
    """
    topics = {name: catalog[name] for name in sorted(topology.required_topics) if name in catalog}
    configured = ConfiguredTopology(topology, topics)
    existing = {name: topic.partition_count for name, topic in topics.items()}
    try:
        _check_sources(topology, existing)
        counts = _repartition_counts(topology, existing)
        _enforce_copartitioning(topology, existing, counts)
        sizes = {**counts, **existing}
        task_counts = {each.subtopology_id: _task_count(each, sizes) for each in topology.subtopologies}
        for each in topology.subtopologies:
            counts |= {topic.name: task_counts[each.subtopology_id] for topic in each.changelog_topics}
        missing = _missing(topology, existing, counts)
    except _NotReady as error:
        return replace(configured, status=error.status)
    status = None
    if missing:
        names = summary(topic.name for topic in missing)
        status = Status(StreamsStatus.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology, topics, status, task_counts, counts, missing)


def summary(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _NAMES_SHOWN} more" if len(ordered) > _NAMES_SHOWN else ""
    return ", ".join(ordered[:_NAMES_SHOWN]) + more


def _check_sources(topology: Topology, existing: Mapping[str, int]) -> None:
    missing = {name for each in topology.subtopologies for name in each.source_topics if name not in existing}
    if missing:
        raise _NotReady(StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {summary(missing)} are missing.")


def _repartition_counts(topology: Topology, existing: Mapping[str, int]) -> dict[str, int]:
    """Return the partition counts of all repartition topics: a fixed point, since one may depend on another."""
    counts = {
        topic.name: topic.partitions
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    while True:
        undecided = [
            (each, sink)
            for each in topology.subtopologies
            for sink in each.repartition_sink_topics
            if sink not in counts
        ]
        before = len(counts)
        for each, sink in undecided:
            repartitions = [topic.name for topic in each.repartition_source_topics]
            known = [counts[name] for name in repartitions if name in counts]
            known += [existing[name] for name in each.source_topics if name in existing]
            if known:
                counts[sink] = max(known)
        if not undecided:
            break
        if len(counts) == before:
            raise _invalid(
                f"the partition counts of the repartition topics {summary(sink for _, sink in undecided)} depend on "
                f"each other: give a number of partitions"
            )
    orphans = {
        topic.name
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
        if topic.name not in counts
    }
    if orphans:
        raise _invalid(f"no subtopology writes to the repartition topics {summary(orphans)}, and none has a count")
    return counts


def _enforce_copartitioning(topology: Topology, existing: Mapping[str, int], counts: dict[str, int]) -> None:
    """Give copartitioned repartition topics the same count. Raises _NotReady where that is impossible."""
    given = {
        topic.name: topic.partitions for each in topology.subtopologies for topic in each.repartition_source_topics
    }
    for each in topology.subtopologies:
        for group in each.copartition_groups:
            sizes = {name: given.get(name) or existing.get(name, counts.get(name, 0)) for name in group}
            external = {name: size for name, size in sizes.items() if name not in given}
            fixed = {name: size for name, size in sizes.items() if given.get(name)}
            deciding = external or fixed
            if len(set(deciding.values())) > 1:
                shown = ", ".join(f"{name}: {size}" for name, size in sorted(deciding.items()))
                raise _NotReady(
                    StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Following topics do not have the same number of partitions: {shown}.",
                )
            size = next(iter(deciding.values())) if deciding else max(sizes.values(), default=0)
            for name, own in fixed.items():
                if own != size:
                    raise _NotReady(
                        StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                        f"Repartition topic {name} has {own} partitions, the source topics {size}.",
                    )
            counts |= dict.fromkeys(sizes.keys() - external.keys(), size)


def _task_count(subtopology: Subtopology, sizes: Mapping[str, int]) -> int:
    return max(sizes[name] for name in subtopology.sources)


def _missing(topology: Topology, existing: Mapping[str, int], counts: Mapping[str, int]) -> tuple[InternalTopic, ...]:
    """Return the internal topics to create. Raises _NotReady if one exists with another partition count."""
    missing: dict[str, InternalTopic] = {}
    for each in topology.subtopologies:
        for topic in (*each.repartition_source_topics, *each.changelog_topics):
            count = counts[topic.name]
            if topic.name not in existing:
                missing[topic.name] = replace(topic, partitions=count)
            elif existing[topic.name] != count:
                raise _NotReady(
                    StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {topic.name} has different number of partitions: expected {count}, found "
                    f"{existing[topic.name]}. Delete it, or reset the application.",
                )
    return tuple(missing[name] for name in sorted(missing))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"invalid topology: {message}")
