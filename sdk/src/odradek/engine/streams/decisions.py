"""The effect of a heartbeat on its streams group: KIP-1071's state machine as pure functions.

Rules 1 to 8 of consumer groups (groups/decisions.py) hold for streams groups as well, with tasks in place of
partitions. What is different:

S1. An active task stands for its source partitions. Their leases are granted with the task, all in one step, and
    released when the member reports that it has given the task up. So commits are fenced partition by partition, and a
    task has one owner. Standby and warm-up tasks commit nothing and have no leases.

S2. The members of one process share a state directory, so a process never runs two copies of a task: a copy is granted
    only when no other member of the process holds one, in whichever role. A standby has no lease whose condition
    could say so. Instead, a step that grants tasks checks that the group is as it was read, and, where there are
    standbys, so are the other members of the process; and a step that writes a new target grants nothing. One target
    gives a process one copy, so two grants could only meet if one were decided on an older target, or on a member as
    it was before its grant (which a Query may still show for a moment after the transaction was applied).

S3. A group keeps the topology of its first member. A member with an older topology epoch is told so; one with another
    topology is refused: a changed application needs another id, or the group deleted.

S4. The target depends on the members with their processes, on the topics that the topology requires, and on the number
    of standbys. Their digest in the group item shows whether a target is due. While a topic is missing or has the wrong
    number of partitions, the target is empty, and the status says why.

S5. Whoever joins an empty group starts the initial rebalance delay, in which nobody gets tasks, so that members that
    start together are assigned together. It is the time for which the first, empty target stands (rule 7).

S6. A request to shut the application down stays in the group item, and is told to every member, until the group is
    empty.

Sources: KIP-1071, and Apache Kafka 4.2's group coordinator for what the KIP leaves open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from odradek.engine.groups.decisions import (
    LEASES_PER_STEP,
    LEASES_WITH_GROUP,
    Circumstances,
    Grant,
    Transition,
    decide_expiry,
    fenced_member,
    make_room,
    next_interval_ms,
    refuse,
    refuse_timeout,
    releases,
    remove,
    renewed,
    some,
    stands_for_ms,
    unknown_member,
)
from odradek.engine.groups.sessions import elapsed_ms, expired, look, next_expiry_ms
from odradek.engine.groups.state import (
    NO_PARTITIONS,
    GroupState,
    GroupView,
    MemberState,
    StreamsGroup,
    StreamsMember,
    union,
)
from odradek.engine.groups.targets import DIGEST_BYTES
from odradek.engine.streams.assignor import STICKY, StreamsAssignorMember, assign_sticky
from odradek.engine.streams.endpoints import endpoint_information
from odradek.engine.streams.topology import ConfiguredTopology, configure
from odradek.errors import ErrorCode
from odradek.limits import STREAMS_SOURCES_PER_SUBTOPOLOGY_MAX
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, GroupHeartbeat, GroupHeartbeatResult
from odradek.model.streams import Status, StreamsAnswer, StreamsRequest, StreamsStatus, TaskId, Tasks, Topology
from odradek.model.topic_partition import PartitionId

FIRST_EPOCH = 1  # of a new group while its first target is delayed: 0 would tell a member that it is not in the group

# Of a process with more threads some are not checked: should it get a second copy of a task, the lock on the state
# directory keeps the copies apart until the first is given up.
PEERS_CHECKED_MAX = 30

assert STREAMS_SOURCES_PER_SUBTOPOLOGY_MAX + PEERS_CHECKED_MAX <= LEASES_PER_STEP, "a task is granted in one step"


@dataclass(frozen=True, slots=True)
class StreamsCircumstances(Circumstances):
    """The other inputs of a decision, with what only streams groups have."""

    standby_replicas: int = 0
    initial_delay_ms: int = 0


def decide_streams_heartbeat(view: GroupView, request: GroupHeartbeat, around: StreamsCircumstances) -> Transition:
    """The next step for a heartbeat that `check_streams_heartbeat` has passed.

    Total but for topologies that no topics could satisfy: raises KafkaError(STREAMS_INVALID_TOPOLOGY).
    """
    member = view.members.get(request.member_id)
    if request.member_epoch == JOIN_EPOCH:
        return _decide_join(view, member, request, around)
    if member is None or member.streams is None or view.group is None or view.topology is None:
        return unknown_member(request)
    if request.member_epoch == LEAVE_EPOCH:
        return _decide_leave(view, member, request, around)
    if request.member_epoch != member.epoch and not _lost_the_answer(member, request):
        return fenced_member(request, member)
    return _decide_beat(view, member, request, around, view.topology)


def decide_streams_continuation(view: GroupView, request: GroupHeartbeat, around: StreamsCircumstances) -> Transition:
    """The next step for a heartbeat that has been taken in already but did not fit one transaction."""
    member = view.members.get(request.member_id)
    if member is None or member.streams is None or view.group is None or view.topology is None:
        return refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {request.member_id} was removed meanwhile: join again")
    return _reconcile(view, view.group, member, request, around, configure(view.topology, around.topics))


def inputs_digest(members: Mapping[str, MemberState], configured: ConfiguredTopology, standby_replicas: int) -> bytes:
    """Return a digest of what the target depends on."""
    topics = sorted((topic.topic_id.bytes, topic.partition_count) for topic in configured.topics.values())
    processes = sorted((member_id, _streams(member).process_id) for member_id, member in members.items())
    return hashlib.sha256(repr((topics, processes, standby_replicas)).encode()).digest()[:DIGEST_BYTES]


# --- who is it -----------------------------------------------------------------------------------------------------


def _lost_the_answer(member: MemberState, request: GroupHeartbeat) -> bool:
    """Return True for a repeat by a member that never learned its new epoch and owns only what it may."""
    owned = _request(request).owned
    return request.member_epoch == member.previous_epoch and owned is not None and owned <= _streams(member).held


def _decide_join(
    view: GroupView, known: MemberState | None, request: GroupHeartbeat, around: StreamsCircumstances
) -> Transition:
    if known is None and len(view.members) >= around.settings.group_members_max:
        return make_room(view, around)
    asked = _request(request).topology
    stored = view.topology if view.group is not None and view.group.streams is not None else None
    if asked is None:
        return refuse(ErrorCode.INVALID_REQUEST, "a joining member must give its topology")
    if stored is not None and stored != asked and stored.epoch <= asked.epoch:
        return refuse(
            ErrorCode.INVALID_REQUEST,
            f"group {request.group_id} has another topology, and a streams group keeps its own: change application.id, "
            f"or stop all members and delete the group",
        )
    member = known or MemberState(request.member_id, renewed_ms=around.now_ms)
    if member.streams is None:
        member = replace(member, streams=StreamsMember())
    return _decide_beat(view, member, request, around, stored or asked, is_new_topology=stored is None)


def _decide_leave(
    view: GroupView, member: MemberState, request: GroupHeartbeat, around: StreamsCircumstances
) -> Transition:
    answer = GroupHeartbeatResult(member_id=member.member_id, member_epoch=LEAVE_EPOCH, streams=StreamsAnswer())
    step = remove(view, member, around, Transition(answer))
    group = view.group
    if step.group is None and group is not None and _request(request).requests_shutdown:
        return replace(step, group=_with_shutdown(replace(group, version=group.version + 1), member))
    return step


# --- what it does --------------------------------------------------------------------------------------------------


def _decide_beat(
    view: GroupView,
    member: MemberState,
    request: GroupHeartbeat,
    around: StreamsCircumstances,
    topology: Topology,
    *,
    is_new_topology: bool = False,
) -> Transition:
    """Process a heartbeat of a member: apply the request, compute the target if it is due, reconcile."""
    watches = look(member, view, around.now_ms)
    gone = expired(view, watches, around.now_ms, around.settings.group_heartbeat_interval_ms)
    if gone:
        return decide_expiry(view, gone, around)
    configured = configure(topology, around.topics)
    foreign = _foreign(_request(request).owned, configured)
    if foreign is not None:
        return refuse(ErrorCode.INVALID_REQUEST, f"task {foreign.subtopology_id}_{foreign.partition} does not exist")
    updated = replace(_taken_in(member, request), watches=watches)
    group = _group_of(view)
    members = {**view.members, member.member_id: updated}
    digest = inputs_digest(members, configured, around.standby_replicas)
    changed = replace(group, version=group.version + 1)
    is_changed = is_new_topology
    if not view.members and around.initial_delay_ms:
        changed = replace(
            changed,
            member_count=1,
            assigned_ms=around.now_ms,
            assignment_interval_ms=around.initial_delay_ms,
        )
        is_changed = True
    if _request(request).requests_shutdown and _streams_group(changed).shutdown_by is None:
        changed = _with_shutdown(changed, member)
        is_changed = True
    stands = stands_for_ms(changed, around.now_ms) > 0
    waits = stands and (len(members) > 1 or _is_delayed(changed, around))
    if digest != group.topics_digest and not waits:
        changed = _assigned(changed, members, configured, around, digest)
        is_changed = True
    owed_ms = member.revoking_elapsed_ms + elapsed_ms(member, around.now_ms) if _streams(member).revoking else 0
    step = _reconcile(
        view,
        changed if is_changed else group,
        replace(updated, revoking_elapsed_ms=owed_ms),
        request,
        around,
        configured,
        changes_group=is_changed,
    )
    return replace(step, topology=topology) if is_new_topology and step.writes else step


def _is_delayed(group: GroupState, around: StreamsCircumstances) -> bool:
    """Return True in the initial rebalance delay: nobody has been in a target since the group was empty."""
    return not _streams_group(group).target and stands_for_ms(group, around.now_ms) > 0


def _assigned(
    group: GroupState,
    members: Mapping[str, MemberState],
    configured: ConfiguredTopology,
    around: StreamsCircumstances,
    digest: bytes,
) -> GroupState:
    """The group one epoch further, with a target computed now."""
    before = _streams_group(group)
    if configured.is_ready:
        target = assign_sticky(
            [
                StreamsAssignorMember(member_id, _streams(member).process_id, before.target.get(member_id, Tasks()))
                for member_id, member in members.items()
            ],
            configured.task_counts,
            configured.stateful,
            around.standby_replicas,
        )
    else:
        target = dict.fromkeys(members, Tasks())
    return replace(
        group,
        epoch=group.epoch + 1,
        topics_digest=digest,
        member_count=len(members),
        assigned_ms=around.now_ms,
        assignment_interval_ms=around.assignment_interval_ms,
        streams=replace(before, target=target, is_ready=configured.is_ready),
    )


def _taken_in(member: MemberState, request: GroupHeartbeat) -> MemberState:
    """Return the member with the request's values; None there means unchanged, except for a joining member."""
    joins = request.member_epoch == JOIN_EPOCH
    asked, known = _request(request), _streams(member)
    streams = replace(
        known,
        topology_epoch=known.topology_epoch if asked.topology is None else asked.topology.epoch,
        process_id=asked.process_id or known.process_id or member.member_id,
        endpoint=asked.endpoint if joins or asked.endpoint is not None else known.endpoint,
        client_tags=asked.client_tags or () if joins or asked.client_tags is not None else known.client_tags,
    )
    return replace(
        member,
        rack_id=request.rack_id if joins or request.rack_id is not None else member.rack_id,
        client_id=request.client_id or member.client_id,
        client_host=request.client_host or member.client_host,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else member.rebalance_timeout_ms
        ),
        streams=streams,
    )


def _reconcile(
    view: GroupView,
    group: GroupState,
    member: MemberState,
    request: GroupHeartbeat,
    around: StreamsCircumstances,
    configured: ConfiguredTopology,
    *,
    changes_group: bool = False,
) -> Transition:
    """One step of the member towards its target, and its renewal."""
    streams = _streams(member)
    joins = request.member_epoch == JOIN_EPOCH
    reported = Tasks() if joins else _request(request).owned
    target = _streams_group(group).target.get(member.member_id, Tasks())
    gone = _given_up(streams, reported)
    held = streams.held - gone
    assigned = held & target
    revoking = held - assigned
    if revoking and member.revoking_elapsed_ms >= member.rebalance_timeout_ms:
        return remove(view, member, around, refuse_timeout(member))
    grantable = Tasks() if revoking else _free(target - assigned, view, member, configured)

    checked = () if changes_group or not grantable else _peers(view, group, member, around)
    given_up = member.held - _leases(held, configured)
    wanted = _leases(assigned, configured) - member.held - view.held_by_others(member.member_id)
    leases_max = LEASES_PER_STEP - len(checked)
    if changes_group and len(given_up | wanted) > LEASES_WITH_GROUP:
        leases_max = 0
    moves = _moves(given_up, wanted, Tasks() if changes_group else grantable, member.held, configured, leases_max)
    assigned |= moves.tasks
    # A lease that could not be released yet keeps its task: nobody else may take it.
    left = given_up - moves.released - moves.granted
    still = (task for task in gone.active - assigned.active if configured.partitions_of(task) & left)
    revoking |= Tasks(frozenset(still))
    held_leases = (member.held - moves.released) | moves.granted
    owed_leases = held_leases - _leases(assigned, configured)

    epoch = member.epoch if revoking or owed_leases else group.epoch
    is_settled = not revoking and assigned == target
    waits_for_topics = configured.status is not None and configured.status.code != StreamsStatus.MISSING_INTERNAL_TOPICS
    interval_ms = around.settings.group_heartbeat_interval_ms
    if not waits_for_topics:  # clients give sources that are missing two intervals to appear
        is_settled = is_settled and not configured.missing_topics
        expiry_ms = next_expiry_ms(member, view.members)
        interval_ms = next_interval_ms(group, around, is_settled=is_settled, next_expiry_ms=expiry_ms)
    written = replace(
        renewed(member, around, epoch=epoch, interval_ms=interval_ms, is_revoking=bool(revoking)),
        assigned=held_leases - owed_leases,
        revoking=owed_leases,
        streams=replace(streams, assigned=assigned, revoking=revoking),
    )
    says_tasks = joins or reported is not None or assigned != streams.assigned or bool(revoking)
    answer = _answer(view, group, written, request, around, configured)
    return Transition(
        GroupHeartbeatResult(
            member_id=member.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=interval_ms,
            streams=replace(answer, tasks=assigned if says_tasks else None),
        ),
        group=group if changes_group else None,
        members=(written,),
        granted=_grants(moves.granted, configured, member.member_id, epoch),
        released=releases(member, moves.released - moves.granted),
        checks_group=bool(assigned - streams.assigned),
        checked=checked if assigned - streams.assigned else (),
        then="answer" if moves.is_complete and not (changes_group and grantable) else "continue",
    )


class _Moves(NamedTuple):
    """The leases that one step writes, and the tasks that it grants with them."""

    released: frozenset[PartitionId]
    granted: frozenset[PartitionId]
    tasks: Tasks
    is_complete: bool  # nothing is left for another step


def _moves(
    given_up: frozenset[PartitionId],
    wanted: frozenset[PartitionId],
    grantable: Tasks,
    held: frozenset[PartitionId],
    configured: ConfiguredTopology,
    leases_max: int,
) -> _Moves:
    """Fit what is to be released and granted into one step: first leases that are given up, then those that a kept task
    has gained, then whole tasks. Standbys come with the last active task."""
    released = some(given_up, leases_max)
    granted = some(wanted, leases_max - len(released))
    tasks = set[TaskId]()
    for task in sorted(grantable.active):
        leases = configured.partitions_of(task) - (held - given_up)  # what is given back is granted anew
        if len(released | granted | leases) > leases_max:
            break
        granted |= leases
        tasks.add(task)
    is_complete = given_up <= released | granted and wanted <= granted and tasks == grantable.active
    return _Moves(released, granted, grantable if is_complete else Tasks(frozenset(tasks)), is_complete)


def _given_up(streams: StreamsMember, reported: Tasks | None) -> Tasks:
    """Return what the member was told to give up and no longer reports; nothing if it reports nothing new."""
    return Tasks() if reported is None else streams.revoking - reported


def _free(wanted: Tasks, view: GroupView, member: MemberState, configured: ConfiguredTopology) -> Tasks:
    """Return those of the tasks that the member may be granted now (rules 3 and S2)."""
    others = [other for other in view.members.values() if other.member_id != member.member_id]
    process_id = _streams(member).process_id
    everywhere = {task for other in others for task in _streams(other).held.active}
    beside = {task for other in others if _streams(other).process_id == process_id for task in _streams(other).held}
    leased = view.held_by_others(member.member_id)
    return Tasks(
        frozenset(
            task
            for task in wanted.active - everywhere - beside
            if (partitions := configured.partitions_of(task)) and not partitions & leased
        ),
        wanted.standby - beside,
        wanted.warmup - beside,
    )


def _peers(
    view: GroupView, group: GroupState, member: MemberState, around: StreamsCircumstances
) -> tuple[MemberState, ...]:
    """Return the members that could keep a copy of the member's new tasks in the same state directory."""
    known = [*_streams_group(group).target.values(), *(_streams(other).held for other in view.members.values())]
    if not around.standby_replicas and not any(tasks.standby or tasks.warmup for tasks in known):
        return ()  # active tasks have leases
    peers = [
        other
        for _, other in sorted(view.members.items())
        if other.member_id != member.member_id and _streams(other).process_id == _streams(member).process_id
    ]
    return tuple(peers[:PEERS_CHECKED_MAX])


def _leases(tasks: Tasks, configured: ConfiguredTopology) -> frozenset[PartitionId]:
    """Return the partitions of the active tasks."""
    return union(configured.partitions_of(task) for task in tasks.active) if tasks.active else NO_PARTITIONS


def _grants(
    granted: Collection[PartitionId], configured: ConfiguredTopology, member_id: str, epoch: int
) -> tuple[Grant, ...]:
    names = configured.names()
    return tuple(Grant(partition, names[partition.topic_id], member_id, epoch) for partition in sorted(granted))


# --- what it is told ------------------------------------------------------------------------------------------------


def _answer(
    view: GroupView,
    group: GroupState,
    member: MemberState,
    request: GroupHeartbeat,
    around: StreamsCircumstances,
    configured: ConfiguredTopology,
) -> StreamsAnswer:
    members = {**view.members, member.member_id: member}
    endpoint_epoch, endpoints = endpoint_information(members.values(), configured)
    return StreamsAnswer(
        statuses=tuple(_statuses(group, member, around, configured)),
        endpoint_epoch=endpoint_epoch,
        endpoints=None if endpoint_epoch == _request(request).endpoint_epoch else endpoints,
        missing_topics=configured.missing_topics,
    )


def _statuses(
    group: GroupState, member: MemberState, around: StreamsCircumstances, configured: ConfiguredTopology
) -> list[Status]:
    statuses = []
    own, current = _streams(member).topology_epoch, configured.topology.epoch
    if own < current:
        statuses.append(
            Status(
                StreamsStatus.STALE_TOPOLOGY,
                f"The member's topology epoch {own} is behind the group's topology epoch {current}.",
            )
        )
    if _is_delayed(group, around):
        statuses.append(
            Status(StreamsStatus.ASSIGNMENT_DELAYED, "Assignment delayed due to the initial rebalance delay.")
        )
    if configured.status is not None:
        statuses.append(configured.status)
    shutdown_by = _streams_group(group).shutdown_by
    if shutdown_by is not None:
        statuses.append(
            Status(
                StreamsStatus.SHUTDOWN_APPLICATION,
                f"Member {shutdown_by} asked all members of the application to shut down.",
            )
        )
    return statuses


# --- small things ---------------------------------------------------------------------------------------------------


def _foreign(owned: Tasks | None, configured: ConfiguredTopology) -> TaskId | None:
    """Return a task that the topology does not have, if it can be told."""
    if owned is None or not configured.is_ready:
        return None
    counts = configured.task_counts
    return next((task for task in owned if task.partition >= counts.get(task.subtopology_id, 0)), None)


def _with_shutdown(group: GroupState, member: MemberState) -> GroupState:
    return replace(group, streams=replace(_streams_group(group), shutdown_by=member.member_id))


def _group_of(view: GroupView) -> GroupState:
    return view.group or GroupState(view.group_id, epoch=FIRST_EPOCH, assignor=STICKY, streams=StreamsGroup())


def _streams_group(group: GroupState) -> StreamsGroup:
    return group.streams or StreamsGroup()


def _streams(member: MemberState) -> StreamsMember:
    return member.streams or StreamsMember()


def _request(request: GroupHeartbeat) -> StreamsRequest:
    return request.streams or StreamsRequest()
