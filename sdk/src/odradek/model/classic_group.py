"""A group of the classic protocol (JoinGroup, SyncGroup), and what its members ask and are answered.

The words are Kafka's: a *generation* is one round of rebalancing; the *leader* is the member that assigns partitions;
*protocols* are the assignors a member knows, each with its subscription in bytes that no broker reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.errors import ErrorCode

NO_GENERATION = -1


class ClassicState(StrEnum):
    """States as Kafka names them. Dead is a group that is not there."""

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
    rebalance_ms: int = 300_000  # how long a round waits for this member
    protocols: tuple[tuple[str, bytes], ...] = ()  # in the order of the member's preference
    assignment: bytes = b""
    joined: bool = False  # has joined the round that is under way

    def metadata(self, protocol: str | None) -> bytes:
        """What the member says under a protocol; empty where it does not know it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """A classic group; members in the order in which they came."""

    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None  # None before the first round is complete, and while the group is empty
    leader: str | None = None
    members: tuple[ClassicMember, ...] = ()
    is_initial: bool = False  # the round under way began in an empty group: it waits a little for more members

    def member(self, member_id: str) -> ClassicMember | None:
        """The member with that id."""
        return next((member for member in self.members if member.member_id == member_id), None)

    def static_member(self, instance_id: str | None) -> ClassicMember | None:
        """The member with that instance id."""
        if instance_id is None:
            return None
        return next((member for member in self.members if member.instance_id == instance_id), None)


@dataclass(frozen=True, slots=True)
class ClassicJoin:
    """A JoinGroup request."""

    group_id: str
    member_id: str  # empty: the coordinator makes one
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    session_ms: int
    rebalance_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    requires_known_member_id: bool = True  # KIP-394, from version 4: an id is made first, and joins with the next
    may_skip_assignment: bool = True  # KIP-814, from version 9: a leader may be told to leave the assignment as it is


@dataclass(frozen=True, slots=True)
class ClassicJoinResult:
    """The answer; `members` with their metadata for the leader only."""

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
    """Who asks: what Heartbeat, SyncGroup and OffsetCommit say of themselves."""

    group_id: str
    member_id: str
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClassicSync:
    """A SyncGroup request; assignments by member id come from the leader only."""

    identity: ClassicIdentity
    protocol_type: str | None = None  # None before version 5
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClassicSyncResult:
    """The answer to SyncGroup."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class ClassicLeave:
    """One member that leaves, named by its id, or by its instance id with an empty member id (an administrator)."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClassicLeaveResult:
    """The answers of LeaveGroup, in the order of the members asked for."""

    error: ErrorCode = ErrorCode.NONE
    members: Sequence[tuple[ClassicLeave, ErrorCode]] = ()


@dataclass(frozen=True, slots=True)
class ClassicSession:
    """What is stored of a classic member's life."""

    counter: int = 0  # raised by every heartbeat
    renewed_ms: int = 0  # by the clock of the gateway that renewed it
