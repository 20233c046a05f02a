"""Requests and responses of the engine for consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.errors import ErrorCode
from odradek.model.classic_group import ClassicGroup
from odradek.model.streams import StreamsAnswer, StreamsMemberDescription, StreamsRequest, Topology
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


@dataclass(frozen=True, slots=True)
class GroupHeartbeat:
    """A ConsumerGroupHeartbeat request; None means unchanged since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int  # 0 joins, -1 leaves, -2 leaves temporarily (static member)
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Mapping[UUID, Sequence[int]] | None = None
    client_id: str = ""
    client_host: str = ""
    streams: StreamsRequest | None = None  # of a member of a streams group


@dataclass(frozen=True, slots=True)
class GroupHeartbeatResult:
    """The response to a heartbeat; an `assignment` of None is unchanged."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 5000
    assignment: Mapping[UUID, Sequence[int]] | None = None
    streams: StreamsAnswer | None = None  # to a member of a streams group


@dataclass(frozen=True, slots=True)
class OffsetCommitResult:
    """The outcome of a commit for one partition."""

    partition: TopicPartition
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class OffsetFetchResult:
    """A committed offset; `committed` is None if there is none."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None = None
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One entry of ListGroups."""

    group_id: str
    state: str  # Empty | NotReady | Assigning | Reconciling | Stable | Dead
    group_type: str = "consumer"
    protocol_type: str = "consumer"


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member in the form of ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: Mapping[UUID, Sequence[int]] = field(default_factory=dict)  # currently held
    target_assignment: Mapping[UUID, Sequence[int]] = field(default_factory=dict)
    streams: StreamsMemberDescription | None = None  # a member of a streams group


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in the form of ConsumerGroupDescribe."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = "Dead"
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = "uniform"
    members: tuple[MemberDescription, ...] = ()
    classic: ClassicGroup | None = None  # a group of the classic protocol, with its members
    group_type: str = "consumer"  # or classic, share, streams
    topology: Topology | None = None  # of a streams group
