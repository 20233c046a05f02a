"""The state machine of groups of the classic protocol, Kafka's, as pure functions.

            join                    all have joined, or time is up          leader syncs
    Empty ───────> PreparingRebalance ──────────────────> CompletingRebalance ──────────> Stable
      ^                │    ^  ^                             │                              │
      │ nobody left    │    │  └── join, leave, expiry ──────┘                              │
      └────────────────┘    └─────── join (leader, new metadata), leave, expiry ────────────┘

Rules

1. A round is complete when every member has joined it (`joined`), or when its time is up: then the members that did
   not join are removed, save static ones. A complete round raises the generation.

2. The whole group is one item, written on the version that was read. So of two that see a round complete, one
   completes it, and the other finds the next generation.

3. A member waits in JoinGroup until there is a generation above the one it began in and it is a member of it. A member
   polls, so another may be quicker: have assigned, and begun the next round. Then the late one still gets this
   generation and its assignment, which are kept until the next round is complete; that round waits for it. If nothing
   was assigned, it joins the next round at once, unasked: its client has seen nothing.

4. Everything that a member says carries (member id, generation); what does not fit the group is refused
   (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS).

Unlike Kafka's coordinator this one keeps no list of ids that it assigned with MEMBER_ID_REQUIRED (KIP-394): an id that
it has assigned joins, whether or not it was a member before. Commits are still fenced by the generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from odradek.errors import ErrorCode
from odradek.model.classic_group import (
    ClassicGroup,
    ClassicIdentity,
    ClassicJoin,
    ClassicJoinResult,
    ClassicLeave,
    ClassicMember,
    ClassicState,
    ClassicSync,
    ClassicSyncResult,
)

PREPARING, COMPLETING = ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE
EMPTY, STABLE = ClassicState.EMPTY, ClassicState.STABLE


@dataclass(frozen=True, slots=True)
class JoinStep:
    """The next step of a join: write `group` if there is one, then answer, or wait in the round."""

    group: ClassicGroup | None = None
    answer: ClassicJoinResult | None = None


@dataclass(frozen=True, slots=True)
class SyncStep:
    """The next step of a sync: write `group` if there is one, then answer, or wait for the leader."""

    group: ClassicGroup | None = None
    answer: ClassicSyncResult | None = None


# --- join ----------------------------------------------------------------------------------------------------------


def decide_join(
    group: ClassicGroup, request: ClassicJoin, member_id: str, *, waiting_since: int | None, members_max: int
) -> JoinStep:
    """Decide the next step of a join.

    Args:
        group: as stored; an empty one if there is none.
        member_id: the request's, or a new one.
        waiting_since: the generation in which this join began to wait, None before its first write.
    """
    member = group.member(member_id)
    if waiting_since is not None:
        return _decide_waiting(group, request, member_id, member, waiting_since)
    refusal = _check_join(group, request, member_id, member, members_max)
    if refusal is not None:
        return JoinStep(answer=ClassicJoinResult(refusal, member_id=member_id))
    group = replace(group, protocol_type=request.protocol_type)  # alike, or there is nobody else
    if member is None:
        replaced = group.static_member(request.instance_id)
        if replaced is not None:
            return _decide_replacement(group, request, member_id, replaced)
        return JoinStep(_prepared(_with_member(group, _taken_in(ClassicMember(member_id), request)), member_id))
    changed = member.protocols != request.protocols
    if group.state is PREPARING:
        fresh = replace(_taken_in(member, request), joined=True)
        return JoinStep(None if fresh == member else _with_member(group, fresh))
    is_settled = not changed and (group.state is COMPLETING or group.leader != member_id)
    if is_settled:
        return JoinStep(answer=_joined(group, member_id))
    return JoinStep(_prepared(_with_member(group, _taken_in(member, request)), member_id))


def _decide_waiting(
    group: ClassicGroup, request: ClassicJoin, member_id: str, member: ClassicMember | None, waiting_since: int
) -> JoinStep:
    if member is None:
        code = ErrorCode.FENCED_INSTANCE_ID if group.static_member(request.instance_id) else ErrorCode.UNKNOWN_MEMBER_ID
        return JoinStep(answer=ClassicJoinResult(code, member_id=member_id))
    if group.state is PREPARING and (member.joined or not _owes_assignment(group, member)):
        return JoinStep() if member.joined else JoinStep(_with_member(group, replace(member, joined=True)))
    if group.generation > waiting_since:
        return JoinStep(answer=_joined(group, member_id))
    # The group was deleted and made again meanwhile, with this member in it: a new beginning.
    return JoinStep(_prepared(group, member_id))


def _owes_assignment(group: ClassicGroup, member: ClassicMember | None) -> bool:
    """Return True if a member that has not joined the round in progress may still get what the last one assigned."""
    return member is not None and not member.joined and any(each.assignment for each in group.members)


def _check_join(
    group: ClassicGroup, request: ClassicJoin, member_id: str, member: ClassicMember | None, members_max: int
) -> ErrorCode | None:
    static = group.static_member(request.instance_id)
    if request.instance_id is not None and request.member_id:
        if static is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if static.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    others = [each for each in group.members if each.member_id != member_id and each is not static]
    if others and (
        request.protocol_type != group.protocol_type
        or not _common_protocols(others) & {name for name, _ in request.protocols}
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if member is None and static is None and len(group.members) >= members_max:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return None


def _decide_replacement(group: ClassicGroup, request: ClassicJoin, member_id: str, replaced: ClassicMember) -> JoinStep:
    """A static member comes back under a new id (KIP-345). Where nothing else changed no round is needed."""
    fresh = _taken_in(replace(replaced, member_id=member_id), request)
    members = tuple(fresh if each is replaced else each for each in group.members)
    was_leader = group.leader == replaced.member_id
    renamed = replace(group, members=members, leader=member_id if was_leader else group.leader)
    keeps_protocol = _chosen_protocol(members) == group.protocol
    if group.state is STABLE and keeps_protocol and fresh.metadata(group.protocol) == replaced.metadata(group.protocol):
        if was_leader and not request.may_skip_assignment:
            # A client that cannot be told to skip would assign again: name the replaced member id as leader.
            answer = replace(_joined(renamed, member_id), leader=replaced.member_id, members=())
        else:
            answer = replace(_joined(renamed, member_id), skip_assignment=was_leader)
        return JoinStep(renamed, answer)
    return JoinStep(_prepared(renamed, member_id))


def _taken_in(member: ClassicMember, request: ClassicJoin) -> ClassicMember:
    return replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_ms=request.session_ms,
        rebalance_ms=request.rebalance_ms if request.rebalance_ms > 0 else request.session_ms,
        protocols=request.protocols,
    )


def _with_member(group: ClassicGroup, member: ClassicMember) -> ClassicGroup:
    if group.member(member.member_id) is None:
        return replace(group, members=(*group.members, member))
    members = tuple(member if each.member_id == member.member_id else each for each in group.members)
    return replace(group, members=members)


def _prepared(group: ClassicGroup, *joined: str) -> ClassicGroup:
    """Return the group in a round that these members have joined; a round in progress continues."""
    goes_on = group.state is PREPARING
    return replace(
        group,
        state=PREPARING,
        is_initial=group.is_initial if goes_on else group.state is EMPTY,
        members=tuple(
            replace(member, joined=member.member_id in joined or (goes_on and member.joined))
            for member in group.members
        ),
    )


def _joined(group: ClassicGroup, member_id: str) -> ClassicJoinResult:
    return ClassicJoinResult(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.members if group.leader == member_id else (),
    )


# --- rounds --------------------------------------------------------------------------------------------------------


def rebalance_timeout_ms(group: ClassicGroup) -> int:
    """Return the time for which a round waits for its members: the longest rebalance timeout."""
    return max((member.rebalance_ms for member in group.members), default=0)


def decide_round(group: ClassicGroup, *, waited_ms: int, initial_delay_ms: int) -> ClassicGroup | None:
    """Return the group after its round, or None while the round is not complete.

    Args:
        waited_ms: since a member has been seen waiting in this round.
    """
    if group.state is not PREPARING or not any(member.joined for member in group.members):
        return None
    if waited_ms < rebalance_timeout_ms(group):
        if not all(member.joined for member in group.members):
            return None
        if group.is_initial and waited_ms < initial_delay_ms:
            return None
    return complete_round(group)


def complete_round(group: ClassicGroup) -> ClassicGroup:
    """Raise the generation for the members who joined, and static members who may still come."""
    members = tuple(member for member in group.members if member.joined or member.instance_id is not None)
    present = [member.member_id for member in members if member.joined]
    leader = group.leader if group.leader in present else present[0]
    return replace(
        group,
        state=COMPLETING,
        generation=group.generation + 1,
        protocol=_chosen_protocol(members),
        leader=leader,
        is_initial=False,
        members=tuple(replace(member, assignment=b"", joined=False) for member in members),
    )


def _common_protocols(members: Collection[ClassicMember]) -> set[str]:
    names = [{name for name, _ in member.protocols} for member in members]
    return set.intersection(*names) if names else set()


def _chosen_protocol(members: Collection[ClassicMember]) -> str | None:
    """The protocol that most members like best among those that all know; the first member settles a draw."""
    common = _common_protocols(members)
    votes = Counter(next(name for name, _ in member.protocols if name in common) for member in members if common)
    return max(votes, key=lambda name: votes[name]) if votes else None


def without(group: ClassicGroup, gone: Collection[str]) -> ClassicGroup:
    """The group after these members left or expired: another round for the rest, or an empty group."""
    staying = tuple(member for member in group.members if member.member_id not in gone)
    if len(staying) == len(group.members):
        return group
    if not staying:
        return ClassicGroup(generation=group.generation + 1, protocol_type=group.protocol_type)
    return _prepared(replace(group, members=staying))


def rebalanced(group: ClassicGroup) -> ClassicGroup:
    """The group in another round, which all its members have to join."""
    return _prepared(group)


# --- sync, heartbeat, leave, commit --------------------------------------------------------------------------------


def decide_sync(group: ClassicGroup, request: ClassicSync) -> SyncStep:
    """The next step of a sync: the leader's assignment is written, the others wait for it."""
    refusal = check_identity(group, request.identity)
    if refusal is None and (
        request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol)
    ):
        refusal = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member_id = request.identity.member_id
    if refusal is None and group.state is PREPARING and not _owes_assignment(group, group.member(member_id)):
        refusal = ErrorCode.REBALANCE_IN_PROGRESS
    if refusal is not None:
        return SyncStep(answer=ClassicSyncResult(refusal))
    if group.state is COMPLETING:
        if group.leader != member_id:
            return SyncStep()
        assigned = tuple(
            replace(member, assignment=request.assignments.get(member.member_id, b"")) for member in group.members
        )
        group = replace(group, state=STABLE, members=assigned)
        return SyncStep(group, _synced(group, member_id))
    return SyncStep(answer=_synced(group, member_id))


def _synced(group: ClassicGroup, member_id: str) -> ClassicSyncResult:
    member = group.member(member_id)
    return ClassicSyncResult(
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        assignment=b"" if member is None else member.assignment,
    )


def decide_heartbeat(group: ClassicGroup, identity: ClassicIdentity) -> ErrorCode:
    """Return the answer to a heartbeat."""
    refusal = check_identity(group, identity)
    if refusal is not None:
        return refusal
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING else ErrorCode.NONE


def decide_commit(group: ClassicGroup, identity: ClassicIdentity) -> ErrorCode:
    """Decide whether a member may commit: also while the next round gathers, but not between a round and its sync."""
    refusal = check_identity(group, identity)
    if refusal is not None:
        return refusal
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is COMPLETING else ErrorCode.NONE


def check_identity(group: ClassicGroup, identity: ClassicIdentity) -> ErrorCode | None:
    """Return an error unless the request is from a member of this group in this generation."""
    static = group.static_member(identity.instance_id)
    if static is not None and static.member_id != identity.member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    if group.member(identity.member_id) is None or (identity.instance_id is not None and static is None):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None if identity.generation == group.generation else ErrorCode.ILLEGAL_GENERATION


def leaving_member(group: ClassicGroup, leave: ClassicLeave) -> ClassicMember | ErrorCode:
    """The member that leaves, or why there is none. An empty member id with an instance id is an administrator's."""
    static = group.static_member(leave.instance_id)
    if leave.instance_id is not None:
        if static is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if leave.member_id and static.member_id != leave.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        return static
    return group.member(leave.member_id) or ErrorCode.UNKNOWN_MEMBER_ID
