"""The effect of a heartbeat on its share group (KIP-932, "Share group membership"): pure.

A share group needs no target assignment and no leases: every member may read every partition of its topics (as with
Kafka's assignor `simple`, but without distributing partitions), and each fetch decides which records it acquires. Of a
consumer group's state machine (groups/decisions.py) only membership remains: sessions that expire, and an epoch that is
raised when a member joins, leaves or changes its subscription, or when a subscribed topic changes.

    epoch 0 ──> member at the group's epoch ── heartbeat: epoch = the group's, assignment where it changed ──┐
                  │ expired: removed, with its share session; what it holds comes back by the lock <─────────┤
                  │ epoch -1: removed; the session stays for the client to close, which gives records back <─┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from odradek.engine.groups.decisions import (
    Circumstances,
    Transition,
    by_topic,
    decide_share_expiry,
    fenced_member,
    refuse,
    unknown_member,
)
from odradek.engine.groups.sessions import expired, look, seems_dead
from odradek.engine.groups.state import GroupState, GroupView, MemberState
from odradek.engine.groups.targets import subscribed, topics_digest
from odradek.errors import ErrorCode
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, GroupHeartbeat, GroupHeartbeatResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

ASSIGNOR = "simple"


def decide_share_heartbeat(
    view: GroupView, request: GroupHeartbeat, around: Circumstances, *, interval_ms: int, session_ms: int
) -> Transition:
    """The next step for a heartbeat that `check_share_heartbeat` has passed. Total: a refusal writes nothing."""
    if view.group is not None and not view.group.is_share:
        return refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"group {view.group_id} exists and is not a share group")
    group = view.group or GroupState(view.group_id, assignor=ASSIGNOR, is_share=True)
    member = view.members.get(request.member_id)
    if request.member_epoch == LEAVE_EPOCH:
        if member is None:
            return unknown_member(request)
        left = GroupHeartbeatResult(member_id=member.member_id, member_epoch=LEAVE_EPOCH)
        return replace(decide_share_expiry(group, [member]), result=left, then="answer", keeps_session=True)
    if request.member_epoch == JOIN_EPOCH:
        if member is None and len(view.members) >= around.settings.group_members_max:
            return _full(view, group, around)
        known = member or MemberState(request.member_id)
    elif member is None:
        return unknown_member(request)
    elif request.member_epoch not in (member.epoch, member.previous_epoch):
        return fenced_member(request, member)
    else:
        known = member
    watches = look(known, view, around.now_ms) if member is not None else {}
    gone = expired(view, watches, around.now_ms, interval_ms)
    if gone:
        return decide_share_expiry(group, gone)
    names = request.subscribed_topic_names
    renewed = replace(
        known,
        version=known.version + 1,
        nonce=around.nonce,
        rack_id=request.rack_id or known.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=known.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        session_ms=session_ms,
        interval_ms=interval_ms,
        renewed_ms=around.now_ms,
        watches=watches,
    )
    members = {**view.members, renewed.member_id: renewed}
    digest = topics_digest(members.values(), around.topics)
    is_same = member is not None and renewed.subscription == known.subscription and digest == group.topics_digest
    if not is_same:
        group = replace(
            group,
            version=group.version + 1,
            epoch=group.epoch + 1,
            topics_digest=digest,
            member_count=len(members),
        )
    wanted = partitions_of(renewed, around.topics)
    renewed = replace(
        renewed,
        assigned=wanted,
        epoch=group.epoch,
        previous_epoch=known.epoch if known.epoch != group.epoch else known.previous_epoch,
    )
    says_all = names is not None or wanted != known.assigned or request.member_epoch != group.epoch
    return Transition(
        GroupHeartbeatResult(
            member_id=renewed.member_id,
            member_epoch=group.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=by_topic(wanted) if says_all else None,
        ),
        group=None if is_same else group,
        members=(renewed,),
    )


def partitions_of(member: MemberState, topics: Mapping[str, Topic]) -> frozenset[PartitionId]:
    """Everything that the member subscribes to."""
    ids = subscribed(member, topics)
    return frozenset(
        PartitionId(topic.topic_id, number)
        for topic in topics.values()
        if topic.topic_id in ids
        for number in range(topic.partition_count)
    )


def _full(view: GroupView, group: GroupState, around: Circumstances) -> Transition:
    dead = [member for _, member in sorted(view.members.items()) if seems_dead(member, around.now_ms)]
    if dead:
        return decide_share_expiry(group, dead)
    return refuse(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"group {view.group_id} has {len(view.members)} members, the maximum",
    )
