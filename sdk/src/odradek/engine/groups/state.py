"""A consumer group in memory: group, members, and the view of both on which one heartbeat decides.

Invariant that every transition keeps, because it writes members and leases in one transaction: **the partitions in a
member's `assigned` and `revoking` are exactly those whose lease names it as the owner.** So a decision reads the group
and its members and knows every lease's owner without reading a lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odradek.model.classic_group import ClassicGroup, ClassicSession
from odradek.model.group import LEAVE_STATIC_EPOCH
from odradek.model.streams import Endpoint, Tasks, Topology
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId

NO_PARTITIONS: frozenset[PartitionId] = frozenset()


@dataclass(frozen=True, slots=True)
class Watch:
    """One member's observation of another: its version, and how long it has not changed."""

    version: int
    elapsed_ms: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """What only a member of a streams group has. The leases of the active tasks are the member's `assigned` and
    `revoking`."""

    topology_epoch: int = -1
    process_id: str = ""  # members of one process share a state directory
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    assigned: Tasks = field(default_factory=Tasks)  # tasks that it may run
    revoking: Tasks = field(default_factory=Tasks)  # tasks that it was told to give up

    @property
    def held(self) -> Tasks:
        """All tasks that the member may still run."""
        return self.assigned | self.revoking


@dataclass(frozen=True, slots=True)
class StreamsGroup:
    """What only a streams group has."""

    target: Mapping[str, Tasks] = field(default_factory=dict)  # by member id
    is_ready: bool = False  # True if the target was computed for a topology whose topics were all there
    shutdown_by: str | None = None  # the member that asked for the application's shutdown


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member of a group."""

    member_id: str
    epoch: int = 0  # of the target that it has reconciled with; LEAVE_STATIC_EPOCH while a static member is away
    previous_epoch: int = -1  # accepted once more, since the answer that carried `epoch` may be lost
    version: int = 0  # raised by every write of the member: what watchers watch
    nonce: bytes = b""  # of the call that wrote this version: how a call recognizes its own write
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()  # sorted
    subscribed_topic_regex: str | None = None
    assignor: str | None = None  # asked for by the member
    rebalance_timeout_ms: int = 300_000
    session_ms: int = 45_000  # duration of the session lease
    interval_ms: int = 5_000  # until the next heartbeat, as last answered
    renewed_ms: int = 0  # the renewing function's clock
    revoking_elapsed_ms: int = 0  # since when it has owed partitions, by its own heartbeats
    assigned: frozenset[PartitionId] = NO_PARTITIONS  # leases that it may use
    revoking: frozenset[PartitionId] = NO_PARTITIONS  # leases that it was told to give up
    watches: Mapping[str, Watch] = field(default_factory=dict)  # by member id
    streams: StreamsMember | None = None  # a member of a streams group

    @property
    def held(self) -> frozenset[PartitionId]:
        """All leases that name this member."""
        return self.assigned | self.revoking

    @property
    def is_away(self) -> bool:
        """A static member that left for a while."""
        return self.epoch == LEAVE_STATIC_EPOCH

    @property
    def subscription(self) -> tuple[tuple[str, ...], str | None, str | None]:
        """The inputs of the target, except topics."""
        return self.subscribed_topic_names, self.subscribed_topic_regex, self.assignor


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group. The epoch rises in the step that computes the target, so it is KIP-848's assignment epoch; the group
    epoch is one more while a new target is due but has to wait."""

    group_id: str
    version: int = 0  # raised by every write
    epoch: int = 0
    assignor: str = "uniform"
    target: Mapping[str, frozenset[PartitionId]] = field(default_factory=dict)  # by member id
    topics_digest: bytes = b""  # of the subscribed topics that the target was computed from
    member_count: int = 0  # when the target was computed
    assigned_ms: int = 0  # when the target was computed, by the clock of the function that did; 0: never
    assignment_interval_ms: int = 0  # from then on the next one waits that long (KIP-1263)
    held_since_ms: int = 0  # since when partitions were held at times (growth_holds.py); 0: never since it was empty
    classic: ClassicGroup | None = None  # a group of the classic protocol; then the epoch is its generation
    is_share: bool = False  # a share group: everybody may read everything, so it has no target
    streams: StreamsGroup | None = None  # a streams group: its target is in tasks

    @property
    def group_type(self) -> str:
        """The type as Kafka names it: consumer, classic, share or streams."""
        if self.classic is not None:
            return "classic"
        return "share" if self.is_share else "streams" if self.streams is not None else "consumer"

    @property
    def was_used(self) -> bool:
        """False for a group that has only ever had offsets: any protocol may take it over."""
        return self.epoch > 0 or self.is_share or self.streams is not None


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Owner and committed offset of one partition in one group."""

    topic: str
    owner: str | None = None  # a member id
    epoch: int = -1  # of the owner when it was granted: older commits are refused
    committed: OffsetAndMetadata | None = None
    commit_ms: int = 0  # stamp of the last commit, only ever raised


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and its members, as read by one query. `group` None: the group does not exist."""

    group_id: str
    group: GroupState | None = None
    members: Mapping[str, MemberState] = field(default_factory=dict)
    sessions: Mapping[str, ClassicSession] = field(default_factory=dict)  # of classic members, by member id
    topology: Topology | None = None  # of a streams group

    @property
    def is_assigned(self) -> bool:
        """Return True if the target was computed for the present members."""
        return self.members.keys() == (self.group.target.keys() if self.group is not None else set())

    def static_member(self, instance_id: str) -> MemberState | None:
        """The member with this instance id."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def held_by_others(self, member_id: str) -> frozenset[PartitionId]:
        """The partitions whose leases other members hold."""
        return union(member.held for member in self.members.values() if member.member_id != member_id)


def union(sets: Iterable[frozenset[PartitionId]]) -> frozenset[PartitionId]:
    """All partitions of all sets."""
    return NO_PARTITIONS.union(*sets)
