"""The effect of a heartbeat on its group: KIP-848's state machine as pure functions.

Rules

1. A member's epoch is the group epoch whose target it has reconciled with. It rises only when the member owes nothing.

2. Revoke first, then grant. A partition that left the target goes from `assigned` to `revoking`; its lease is
    released when the member reports that it no longer owns it; until then the epoch stays and nothing is granted.

3. A partition is granted only when no member holds it, by a write on condition that its lease has no owner. So it
    never has two owners, however outdated the deciding process's view was.

4. A lease carries the member epoch of its grant. A commit must come from the owner with that epoch or a later one:
    an epoch that rises over kept partitions rewrites no lease.

5. Everything that one step changes - group, members, leases - is one transaction on the versions that it read.

6. A member owes partitions for its rebalance timeout at most, by its own heartbeats; then it is removed.

7. A target is kept for the assignment interval before the next one is computed (KIP-1263), so members that start
    together are assigned together. A sole member, or a changed subscription, does not wait. Group and members show
    whether a target is due; this is not stored. The first heartbeat after the interval computes it.

8. Members that write the group item contend with each other. So such a step writes few leases or none, and a member
    that joins during the interval, or leaves, does not write the group item.

Theory of operation. `decide_heartbeat(view, request, ...)` is called on what one query read. It answers a
`Transition`: the writes and the result. The procedure (groups.py) writes it; if another heartbeat was faster, it reads
and decides again. `then` is the next step after the write:

    answer     the transition's result is the answer
    again      decide the same request again: room was made for it (members removed)
    continue   the request has been taken in; more leases are to be released or granted (`decide_continuation`)

      epoch 0          ┌────────── owes nothing: epoch = group epoch, grants what is free ─────────┐
    ───────────> [ member ] ── target lost partitions ──> [ owes ] ── reported gone: released ─────┘
                     │ epoch -1, expired, owed for too long: leases released, member removed, a target is due
                     │ epoch -2 (static): leases released, place in the target kept until the session expires
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from uuid import UUID

from odradek.engine.groups.sessions import elapsed_ms, expired, has_expired, look, next_expiry_ms, seems_dead
from odradek.engine.groups.state import NO_PARTITIONS, GroupState, GroupView, MemberState, StreamsGroup
from odradek.engine.groups.targets import next_target, topics_digest
from odradek.errors import ErrorCode
from odradek.model.group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    GroupHeartbeat,
    GroupHeartbeatResult,
)
from odradek.model.streams import Tasks, Topology
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings

LEASES_PER_STEP = 96  # beside the group, two members and the listing row in a transaction of 100
SHARE_EXPIRED_PER_STEP = 40  # each with its session, beside the group
LEASES_WITH_GROUP = 8  # in a step that writes the group: refused, it costs two write units a lease
HURRY = 5  # a member that waits for partitions, or owes some, is asked back that much sooner


class Grant(NamedTuple):
    """A lease that gets an owner."""

    partition: PartitionId
    topic: str
    member_id: str
    epoch: int


class Release(NamedTuple):
    """A lease that loses its owner."""

    partition: PartitionId
    member_id: str


@dataclass(frozen=True, slots=True)
class Transition:
    """One atomic step: what to write, on the versions that the view holds, and what comes after."""

    result: GroupHeartbeatResult
    group: GroupState | None = None
    members: tuple[MemberState, ...] = ()
    removed: tuple[MemberState, ...] = ()
    granted: tuple[Grant, ...] = ()
    released: tuple[Release, ...] = ()
    keeps_session: bool = False  # of a member of a share group that is removed: it may close it yet
    topology: Topology | None = None  # that a streams group gets
    checks_group: bool = False  # whether the group must be as it was read though it is not written
    checked: tuple[MemberState, ...] = ()  # other members that must be as they were read
    then: Literal["answer", "again", "continue"] = "answer"

    @property
    def writes(self) -> bool:
        return bool(self.group or self.members or self.removed)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The other inputs of a decision besides the view and the request."""

    topics: Mapping[str, Topic]  # all that any member subscribes to, by name
    now_ms: int
    nonce: bytes
    settings: Settings
    assignment_interval_ms: int = 0  # that a target computed now will stand at least
    held: frozenset[PartitionId] = field(default=NO_PARTITIONS, kw_only=True)  # by nobody yet (growth_holds.py)


def decide_heartbeat(view: GroupView, request: GroupHeartbeat, around: Circumstances) -> Transition:
    """The next step for a heartbeat that `check_heartbeat` has passed. Total: a refusal is a transition that writes
    nothing."""
    if request.member_epoch == JOIN_EPOCH:
        return _decide_join(view, request, around)
    member = view.members.get(request.member_id)
    refusal = _check_member(view, member, request)
    if refusal is not None or member is None:
        return refusal or refuse(ErrorCode.UNKNOWN_MEMBER_ID, "")
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return _decide_leave(view, member, request.member_epoch, around)
    return _decide_beat(view, member, request, around)


def decide_continuation(view: GroupView, request: GroupHeartbeat, around: Circumstances) -> Transition:
    """The next step for a heartbeat that has been taken in already but did not fit one transaction."""
    member = view.members.get(request.member_id)
    if member is None or view.group is None:
        return refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {request.member_id} was removed meanwhile: join again")
    return _reconcile(view, view.group, member, _reported(request), around, answers_assignment=True)


def decide_expiry(view: GroupView, gone: Sequence[MemberState], around: Circumstances) -> Transition:
    """Remove members whose sessions are over, as many as fit one step; `then` is "again".

    The next target is computed by the next heartbeat of who stays, for all that have come and gone by then; only the
    last one out leaves an empty target.
    """
    again = GroupHeartbeatResult()
    taken: list[MemberState] = []
    leases = 0
    for member in gone:
        if leases + len(member.held) + len(taken) > LEASES_PER_STEP:
            break
        leases += len(member.held)
        taken.append(member)
    if not taken:
        # More leases than fit: release some. A session of 0 says that the rest may follow at once; if the member
        # lives after all, its heartbeat restores the session and gets its partitions back.
        released = some(gone[0].held)
        rest = replace(
            gone[0],
            version=gone[0].version + 1,
            session_ms=0,
            assigned=gone[0].assigned - released,
            revoking=gone[0].revoking - released,
            streams=None if gone[0].streams is None else replace(gone[0].streams, assigned=Tasks(), revoking=Tasks()),
        )
        return Transition(again, members=(rest,), released=releases(gone[0], released), then="again")
    staying = {member_id: member for member_id, member in view.members.items() if member not in taken}
    return Transition(
        again,
        group=None if staying else _emptied(group_of(view), around),
        removed=tuple(taken),
        released=tuple(release for member in taken for release in releases(member, member.held)),
        then="again",
    )


def decide_share_expiry(group: GroupState, gone: Sequence[MemberState]) -> Transition:
    """Remove members of a share group, which hold no leases, as many as fit one step; `then` is "again"."""
    taken = tuple(gone[:SHARE_EXPIRED_PER_STEP])
    left = replace(
        group,
        version=group.version + 1,
        epoch=group.epoch + 1,
        member_count=max(0, group.member_count - len(taken)),
    )
    return Transition(GroupHeartbeatResult(), group=left, removed=taken, then="again")


# --- who is it -----------------------------------------------------------------------------------------------------


def _check_member(view: GroupView, member: MemberState | None, request: GroupHeartbeat) -> Transition | None:
    """Return an error unless the request is from a present member of this group."""
    unknown = unknown_member(request)
    if request.instance_id is not None:
        static = view.static_member(request.instance_id)
        if static is None:
            return unknown
        if static.member_id != request.member_id:
            return refuse(
                ErrorCode.FENCED_INSTANCE_ID,
                f"instance {request.instance_id} is now member {static.member_id}: another process took its place",
            )
    if member is None or view.group is None:  # it may have joined while the group was being deleted
        return unknown
    if request.member_epoch < JOIN_EPOCH:
        return None
    if request.member_epoch == member.epoch or _lost_the_answer(member, request):
        return None
    return fenced_member(request, member)


def unknown_member(request: GroupHeartbeat) -> Transition:
    """Return the error for a member that the group does not have."""
    return refuse(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"member {request.member_id} is not in group {request.group_id}: its session expired or it never joined; "
        f"join with epoch 0",
    )


def fenced_member(request: GroupHeartbeat, member: MemberState) -> Transition:
    """Return the error for a member whose epoch is not the one that the group knows."""
    return refuse(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member {request.member_id} has epoch {member.epoch}, not {request.member_epoch}: give up all partitions and "
        f"join again",
    )


def make_room(view: GroupView, around: Circumstances) -> Transition:
    """Remove the members of a full group that seem dead. Without any, the group is refused to the next one."""
    dead = [member for _, member in sorted(view.members.items()) if seems_dead(member, around.now_ms)]
    if dead:
        return decide_expiry(view, dead, around)
    return refuse(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {view.group_id} has {len(view.members)} members, the maximum"
    )


def _lost_the_answer(member: MemberState, request: GroupHeartbeat) -> bool:
    """Return True for a repeat by a member that never learned its new epoch and owns only what it may."""
    return (
        request.member_epoch == member.previous_epoch
        and request.owned is not None
        and _partitions(request.owned) <= member.held
    )


def _decide_join(view: GroupView, request: GroupHeartbeat, around: Circumstances) -> Transition:
    known = view.members.get(request.member_id)
    replaced: MemberState | None = None
    if request.instance_id is not None:
        static = view.static_member(request.instance_id)
        if static is not None and static.member_id != request.member_id:
            if not static.is_away and not has_expired(static, around.now_ms):
                return refuse(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"instance {request.instance_id} is in use by member {static.member_id}: wait until it leaves or "
                    f"its session expires",
                )
            if not static.is_away or static.held:
                return decide_expiry(view, [static], around)
            replaced = static
    if known is None and replaced is None and len(view.members) >= around.settings.group_members_max:
        return make_room(view, around)
    if replaced is not None:
        known = replace(replaced, member_id=request.member_id, epoch=0, previous_epoch=-1, version=0, watches={})
        view = _with_place_of(view, replaced, request.member_id)
    elif known is None:
        known = MemberState(request.member_id, renewed_ms=around.now_ms)
    if known.is_away:
        known = replace(known, epoch=0, previous_epoch=-1)
    known = replace(known, instance_id=request.instance_id)
    return _decide_beat(view, known, request, around, replaced=replaced)


def _with_place_of(view: GroupView, old: MemberState, member_id: str) -> GroupView:
    """The view in which the old member's place in the target is the new one's."""
    group = group_of(view)
    target = {member_id if place == old.member_id else place: group.target[place] for place in group.target}
    members = {other: member for other, member in view.members.items() if other != old.member_id}
    return GroupView(view.group_id, replace(group, target=target), members)


# --- what it does --------------------------------------------------------------------------------------------------


def _decide_beat(
    view: GroupView,
    member: MemberState,
    request: GroupHeartbeat,
    around: Circumstances,
    *,
    replaced: MemberState | None = None,
) -> Transition:
    """Process a heartbeat of a member: apply the request, compute the target if it is due, reconcile."""
    is_new = member.member_id not in view.members
    watches = look(member, view, around.now_ms)
    gone = expired(view, watches, around.now_ms, around.settings.group_heartbeat_interval_ms)
    if gone and replaced is None:
        return decide_expiry(view, gone, around)
    updated = replace(_taken_in(member, request), watches=watches)
    group = group_of(view)
    members = {**view.members, member.member_id: updated}
    subscribes_otherwise = (not is_new or replaced is not None) and updated.subscription != member.subscription
    is_due = (
        subscribes_otherwise
        or group.target.keys() != members.keys()
        or topics_digest(members.values(), around.topics, around.held) != group.topics_digest
    )
    waits = len(members) > 1 and not subscribes_otherwise and stands_for_ms(group, around.now_ms) > 0
    computes = is_due and not waits
    # A place of an instance is taken by one process: two that join as the same instance must not miss each other.
    takes_place = replaced is not None or (is_new and updated.instance_id is not None)
    if computes:
        group = _assigned(group, members, around)
    elif takes_place:
        group = replace(group, version=group.version + 1)
    owed_ms = member.revoking_elapsed_ms + elapsed_ms(member, around.now_ms) if member.revoking else 0
    updated = replace(updated, revoking_elapsed_ms=owed_ms)
    return _reconcile(
        view,
        group,
        updated,
        _reported(request),
        around,
        answers_assignment=request.member_epoch == JOIN_EPOCH or request.owned is not None,
        replaced=replaced,
        changes_group=computes or takes_place,
    )


def _emptied(group: GroupState, around: Circumstances) -> GroupState:
    """The group with an empty target, for nobody. What its members asked for is forgotten."""
    if group.streams is None:
        return _assigned(group, {}, around)
    return replace(
        group,
        version=group.version + 1,
        epoch=group.epoch + 1,
        streams=StreamsGroup(is_ready=group.streams.is_ready),
        topics_digest=b"",
        member_count=0,
        assigned_ms=around.now_ms,
        assignment_interval_ms=around.assignment_interval_ms,
    )


def _assigned(group: GroupState, members: Mapping[str, MemberState], around: Circumstances) -> GroupState:
    """The group with a target computed now."""
    return replace(
        next_target(group, members, around.topics, around.held),
        held_since_ms=(group.held_since_ms or (around.now_ms if around.held else 0)) if members else 0,
        assigned_ms=around.now_ms,
        assignment_interval_ms=around.assignment_interval_ms,
    )


def stands_for_ms(group: GroupState, now_ms: int) -> int:
    """Return the time in ms until the next target may be computed. 0 also if the clock of the function that computed
    the present one is ahead: skew makes targets come sooner, never much later."""
    passed_ms = now_ms - group.assigned_ms
    return group.assignment_interval_ms - passed_ms if 0 <= passed_ms < group.assignment_interval_ms else 0


def _taken_in(member: MemberState, request: GroupHeartbeat) -> MemberState:
    """Return the member with the request's values; None there means unchanged, except for a joining member."""
    joins = request.member_epoch == JOIN_EPOCH
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        rack_id=request.rack_id if joins or request.rack_id is not None else member.rack_id,
        client_id=request.client_id or member.client_id,
        client_host=request.client_host or member.client_host,
        subscribed_topic_names=(
            tuple(sorted(set(names))) if names is not None else () if joins else member.subscribed_topic_names
        ),
        # An empty pattern takes a pattern back (KIP-848).
        subscribed_topic_regex=(
            pattern or None if pattern is not None else None if joins else member.subscribed_topic_regex
        ),
        assignor=request.server_assignor if joins or request.server_assignor is not None else member.assignor,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else member.rebalance_timeout_ms
        ),
    )


def _reconcile(
    view: GroupView,
    group: GroupState,
    member: MemberState,
    owned: frozenset[PartitionId] | None,
    around: Circumstances,
    *,
    answers_assignment: bool,
    replaced: MemberState | None = None,
    changes_group: bool = False,
) -> Transition:
    """One step of the member towards its target (rules 1-3), and its renewal."""
    target = group.target.get(member.member_id, NO_PARTITIONS)
    gone = NO_PARTITIONS if owned is None else member.revoking - owned
    names = {topic.topic_id: name for name, topic in around.topics.items()}
    grantable = frozenset(
        partition
        for partition in target - (member.held - gone) - view.held_by_others(member.member_id)
        if partition.topic_id in names
    )
    leases_max = 0 if changes_group and len(gone | grantable) > LEASES_WITH_GROUP else LEASES_PER_STEP
    released = some(gone, leases_max)
    held = member.held - released
    assigned = (held & target) - gone  # what was given up and given back is released first, and granted again
    revoking = held - assigned
    epoch = member.epoch if revoking else group.epoch
    granted: frozenset[PartitionId] = NO_PARTITIONS
    if not revoking:
        granted = some(grantable - held, leases_max - len(released - grantable))
        assigned |= granted
    is_complete = released == gone and (bool(revoking) or granted == grantable)
    if revoking - gone and member.revoking_elapsed_ms >= member.rebalance_timeout_ms:
        return remove(view, member, around, refuse_timeout(member))
    interval_ms = next_interval_ms(
        group,
        around,
        is_settled=not revoking and assigned == target,
        next_expiry_ms=next_expiry_ms(member, view.members),
    )
    written = replace(
        renewed(member, around, epoch=epoch, interval_ms=interval_ms, is_revoking=bool(revoking)),
        assigned=assigned,
        revoking=revoking,
    )
    says_assignment = answers_assignment or assigned != member.assigned or assigned != target or bool(revoking)
    return Transition(
        GroupHeartbeatResult(
            member_id=member.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=by_topic(assigned) if says_assignment else None,
        ),
        group=group if changes_group else None,
        members=(written,),
        removed=() if replaced is None else (replaced,),
        granted=tuple(
            Grant(partition, names[partition.topic_id], member.member_id, epoch) for partition in sorted(granted)
        ),
        released=releases(member, released - granted),
        then="answer" if is_complete else "continue",
    )


def renewed(
    member: MemberState, around: Circumstances, *, epoch: int, interval_ms: int, is_revoking: bool
) -> MemberState:
    """Return the member as an answered heartbeat leaves it, with what it had assigned."""
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch if epoch != member.epoch else member.previous_epoch,
        version=member.version + 1,
        nonce=around.nonce,
        session_ms=around.settings.group_session_timeout_ms,
        interval_ms=interval_ms,
        renewed_ms=around.now_ms,
        revoking_elapsed_ms=member.revoking_elapsed_ms if is_revoking else 0,
    )


def next_interval_ms(group: GroupState, around: Circumstances, *, is_settled: bool, next_expiry_ms: int | None) -> int:
    """Return the time until a member's next heartbeat: shorter while it, or the target, is about to change.

    Args:
        next_expiry_ms: until a session that the member watches is over; None: it watches nobody.
    """
    interval_ms = around.settings.group_heartbeat_interval_ms
    hurried_ms, stands_ms = max(interval_ms // HURRY, 1), stands_for_ms(group, around.now_ms)
    if not is_settled:
        return hurried_ms
    if stands_ms:  # a young target: others may be joining, and wait for the next one
        return min(max(hurried_ms, stands_ms), interval_ms)
    return interval_ms if next_expiry_ms is None else min(max(hurried_ms, next_expiry_ms), interval_ms)


def _decide_leave(view: GroupView, member: MemberState, epoch: int, around: Circumstances) -> Transition:
    left = Transition(GroupHeartbeatResult(member_id=member.member_id, member_epoch=epoch))
    if epoch == LEAVE_EPOCH:
        return remove(view, member, around, left)
    released = some(member.held)
    is_complete = released == member.held
    away = replace(
        member,
        epoch=LEAVE_STATIC_EPOCH if is_complete else member.epoch,
        version=member.version + 1,
        nonce=around.nonce,
        assigned=member.assigned - released,
        revoking=member.revoking - released,
        renewed_ms=around.now_ms,
        watches={},
    )
    return replace(
        left, members=(away,), released=releases(member, released), then="answer" if is_complete else "again"
    )


def remove(view: GroupView, member: MemberState, around: Circumstances, answer: Transition) -> Transition:
    """Release the member's leases and take it out of the group, in as many steps as that needs."""
    stored = view.members[member.member_id]
    step = decide_expiry(view, [stored], around)
    if step.removed:
        return replace(step, result=answer.result, then="answer")
    return step


# --- small things ---------------------------------------------------------------------------------------------------


def by_topic(partitions: frozenset[PartitionId]) -> dict[UUID, list[int]]:
    """Partition numbers by topic id, in order: the shape of an answer."""
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(partitions):
        numbers.setdefault(topic_id, []).append(number)
    return numbers


def _reported(request: GroupHeartbeat) -> frozenset[PartitionId] | None:
    """Return the partitions that the member reports: none when it joins, None if unchanged."""
    if request.member_epoch == JOIN_EPOCH:
        return NO_PARTITIONS
    return None if request.owned is None else _partitions(request.owned)


def _partitions(owned: Mapping[UUID, Sequence[int]]) -> frozenset[PartitionId]:
    return frozenset(PartitionId(topic_id, number) for topic_id, numbers in owned.items() for number in numbers)


def some(partitions: frozenset[PartitionId], count: int = LEASES_PER_STEP) -> frozenset[PartitionId]:
    """At most that many of the partitions, the first in order."""
    return partitions if len(partitions) <= count else frozenset(sorted(partitions)[: max(count, 0)])


def releases(member: MemberState, partitions: frozenset[PartitionId]) -> tuple[Release, ...]:
    """Return the releases of these leases of the member."""
    return tuple(Release(partition, member.member_id) for partition in sorted(partitions))


def group_of(view: GroupView) -> GroupState:
    """Return the group, or the one that its first member makes."""
    return view.group or GroupState(view.group_id)


def refuse(code: ErrorCode, message: str) -> Transition:
    """Return an error; nothing is written."""
    return Transition(GroupHeartbeatResult(error=code, message=message))


def refuse_timeout(member: MemberState) -> Transition:
    """Return the error for a member that owed partitions for too long."""
    return refuse(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"member {member.member_id} did not give up its partitions within {member.rebalance_timeout_ms} ms and was "
        f"removed: join again",
    )
