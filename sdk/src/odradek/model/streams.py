"""Requests, responses and state of streams groups (KIP-1071): tasks, topologies, statuses.

A *task* is one partition of a subtopology: it reads that partition of each of the subtopology's source topics. A member
runs a task as *active* (it processes and commits), as *standby* (it keeps a copy of the state) or as *warm-up* (it
restores the state before the active task moves there).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class TaskId(NamedTuple):
    """One partition of a subtopology."""

    subtopology_id: str
    partition: int


NO_TASKS: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a member by role. Operators work role by role, as on sets."""

    active: frozenset[TaskId] = NO_TASKS
    standby: frozenset[TaskId] = NO_TASKS
    warmup: frozenset[TaskId] = NO_TASKS

    def __or__(self, other: Tasks) -> Tasks:
        return Tasks(self.active | other.active, self.standby | other.standby, self.warmup | other.warmup)

    def __and__(self, other: Tasks) -> Tasks:
        return Tasks(self.active & other.active, self.standby & other.standby, self.warmup & other.warmup)

    def __sub__(self, other: Tasks) -> Tasks:
        return Tasks(self.active - other.active, self.standby - other.standby, self.warmup - other.warmup)

    def __le__(self, other: Tasks) -> bool:
        return not self - other

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def __iter__(self) -> Iterator[TaskId]:
        yield from self.active
        yield from self.standby
        yield from self.warmup


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic, which the coordinator creates."""

    name: str
    partitions: int = 0  # 0: the coordinator decides; always 0 for a changelog topic
    replication_factor: int = 0  # 0: the default
    configs: tuple[tuple[str, str], ...] = ()  # sorted by name


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology whose topics are read together. All sequences are sorted."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    changelog_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[tuple[str, ...], ...] = ()  # of its source topics and repartition source topics

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all topics that its tasks read and commit."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of a streams application. The subtopologies are sorted by id."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    @property
    def required_topics(self) -> frozenset[str]:
        """The names of the topics that must exist before tasks can be assigned."""
        return frozenset(
            name
            for subtopology in self.subtopologies
            for name in (*subtopology.sources, *(topic.name for topic in subtopology.changelog_topics))
        )

    @property
    def all_topics(self) -> frozenset[str]:
        """The names of all topics that it mentions."""
        return self.required_topics.union(*(subtopology.repartition_sink_topics for subtopology in self.subtopologies))

    @property
    def sources(self) -> frozenset[str]:
        """The names of the topics that members read and commit."""
        return frozenset(name for subtopology in self.subtopologies for name in subtopology.sources)


class StreamsStatus(IntEnum):
    """Status codes of a heartbeat's response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """A status with its explanation."""

    code: StreamsStatus
    detail: str


class Endpoint(NamedTuple):
    """The address at which a member answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class EndpointPartitions:
    """The topic partitions whose state the member at an endpoint has: partition numbers by topic."""

    endpoint: Endpoint
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StreamsRequest:
    """The part of a heartbeat that only streams groups have; None means unchanged since the last heartbeat."""

    topology: Topology | None = None  # given when joining, and only then
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None  # sorted
    requests_shutdown: bool = False
    endpoint_epoch: int = -1  # of the endpoint information that the member has
    unsupported: str | None = None  # what the request uses that this coordinator does not support


@dataclass(frozen=True, slots=True)
class StreamsAnswer:
    """The part of a heartbeat's response that only streams groups have."""

    tasks: Tasks | None = None  # None: unchanged
    statuses: tuple[Status, ...] = ()
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None  # None: unchanged
    missing_topics: tuple[InternalTopic, ...] = ()  # internal topics that the coordinator is to create now


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    """A member in the form of StreamsGroupDescribe, beside what all members have."""

    topology_epoch: int
    process_id: str
    endpoint: Endpoint | None
    client_tags: tuple[tuple[str, str], ...]
    assignment: Tasks = field(default_factory=Tasks)
    target_assignment: Tasks = field(default_factory=Tasks)
