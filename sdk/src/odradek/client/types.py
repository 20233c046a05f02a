"""Arguments and results of the admin client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from odradek.model.streams import Endpoint, Tasks, Topology
from odradek.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create."""

    name: str
    num_partitions: int = -1  # -1: the server's default
    replication_factor: int = -1  # accepted for Kafka's sake and ignored: the store replicates
    configs: Mapping[str, str | None] = field(default_factory=dict)  # Kafka's dotted names


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic that exists."""

    name: str
    topic_id: UUID | None
    partition_count: int
    is_internal: bool = False
    leaders: tuple[int, ...] = ()  # the broker id of each partition's leader, by partition

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions of the topic, by number."""
        return tuple(TopicPartition(self.name, partition) for partition in range(self.partition_count))


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """A result of list_offsets; -1 if no record matches."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a consumer group."""

    member_id: str
    instance_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_pattern: str | None
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A consumer group."""

    group_id: str
    state: str  # Empty | Assigning | Reconciling | Stable | Dead
    assignor: str
    group_epoch: int
    assignment_epoch: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class StreamsMemberInfo:
    """A member of a streams group: one thread of an application."""

    member_id: str
    member_epoch: int
    process_id: str  # members of one process share a state directory
    client_id: str
    client_host: str
    topology_epoch: int
    endpoint: Endpoint | None  # where it answers interactive queries
    tasks: Tasks
    target: Tasks


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group (KIP-1071)."""

    group_id: str
    state: str  # Empty | NotReady | Assigning | Reconciling | Stable | Dead
    group_epoch: int
    assignment_epoch: int
    topology: Topology | None
    members: tuple[StreamsMemberInfo, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster and its brokers."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker: the function fleet, or a gateway."""

    broker_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str  # Empty | Ongoing | CompleteCommit | CompleteAbort ...


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its current transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None  # ms since the epoch; None if no transaction is open
    partitions: tuple[TopicPartition, ...]  # written so far, without those of deleted topics
