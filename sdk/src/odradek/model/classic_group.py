"""A group of the classic protocol (JoinGroup, SyncGroup), and the requests and responses of its members.

The terms are Kafka's: a *generation* is one round of rebalancing; the *leader* is the member that assigns partitions;
*protocols* are the assignors a member supports, each with its subscription in bytes that no broker reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.errors import ErrorCode
from odradek.model.topic_partition import PartitionId

NO_GENERATION = -1


class ClassicState(StrEnum):
    """The states, with Kafka's names. Dead stands for a group that does not exist."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member of a classic group."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_ms: int = 45_000
    rebalance_ms: int = 300_000  # the time for which a round waits for this member
    protocols: tuple[tuple[str, bytes], ...] = ()  # in the member's order of preference
    assignment: bytes = b""
    joined: bool = False  # True: has joined the current round

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's bytes for a protocol, empty if it does not support the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """A classic group, with its members in the order of joining."""

    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None  # None before the first round is complete, and while the group is empty
    leader: str | None = None
    members: tuple[ClassicMember, ...] = ()
    is_initial: bool = False  # the current round began in an empty group, and waits a little for more members
    held: frozenset[PartitionId] = frozenset()  # taken out of the assignments of this generation
    held_since_ms: int = 0  # since when the group, which was not empty since, has had something held; 0: never
    synced_ms: int = 0  # when this generation's assignments came, if something was taken out

    def member(self, member_id: str) -> ClassicMember | None:
        """Return the member with that id, or None."""
        return next((member for member in self.members if member.member_id == member_id), None)

    def static_member(self, instance_id: str | None) -> ClassicMember | None:
        """Return the member with that instance id, or None."""
        if instance_id is None:
            return None
        return next((member for member in self.members if member.instance_id == instance_id), None)


@dataclass(frozen=True, slots=True)
class ClassicJoin:
    """A JoinGroup request."""

    group_id: str
    member_id: str  # empty: the coordinator assigns one
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    session_ms: int
    rebalance_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    requires_known_member_id: bool = True  # KIP-394, from version 4: the member gets an id first, and joins with it
    may_skip_assignment: bool = True  # KIP-814, from version 9: the leader may be told to keep the assignment


@dataclass(frozen=True, slots=True)
class ClassicJoinResult:
    """The response to JoinGroup; only the leader gets `members` with their metadata."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[ClassicMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicIdentity:
    """The identity of a member in Heartbeat, SyncGroup and OffsetCommit."""

    group_id: str
    member_id: str
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClassicSync:
    """A SyncGroup request; only the leader sends assignments by member id."""

    identity: ClassicIdentity
    protocol_type: str | None = None  # None before version 5
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClassicSyncResult:
    """The response to SyncGroup."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class ClassicLeave:
    """A member that leaves, by its id, or by its instance id with an empty member id (an administrator)."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClassicLeaveResult:
    """The response to LeaveGroup, in the order of the request's members."""

    error: ErrorCode = ErrorCode.NONE
    members: Sequence[tuple[ClassicLeave, ErrorCode]] = ()


@dataclass(frozen=True, slots=True)
class ClassicSession:
    """The stored session of a classic member."""

    counter: int = 0  # incremented by every heartbeat
    renewed_ms: int = 0  # by the clock of the gateway that renewed it
