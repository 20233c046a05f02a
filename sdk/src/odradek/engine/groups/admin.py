"""List, describe and delete groups.

States are KIP-848's and KIP-1071's: Empty (no members), Assigning (members have come or gone, and the next target waits
for its interval or a heartbeat), NotReady (a streams group whose topics are missing, or have the wrong number of
partitions), Reconciling (a member owes or waits for partitions), Stable. Members that seem dead by the clock
(groups/sessions.py) are not shown, and do not keep a group from being deleted: whether they are removed is decided on
their versions, never on the clock alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from odradek.engine.groups.classic_items import classic_session_key
from odradek.engine.groups.decisions import LEASES_PER_STEP, Circumstances, by_topic, decide_expiry, decide_share_expiry
from odradek.engine.groups.items import LISTING_PK, group_key, listing_key
from odradek.engine.groups.leases import LEASE_PREFIX, LEASES_END, lease_partitions, lease_slot
from odradek.engine.groups.requests import check_group_id, may_be
from odradek.engine.groups.sessions import alive, classic_alive
from odradek.engine.groups.state import NO_PARTITIONS, GroupState, GroupView, MemberState, StreamsGroup
from odradek.engine.groups.store import GroupStore
from odradek.engine.groups.streams_items import topology_key
from odradek.engine.tools import Tools
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.format.item_keys import group_pk
from odradek.model.classic_group import ClassicLeave, ClassicState
from odradek.model.group import GroupDescription, GroupListing, MemberDescription
from odradek.model.streams import StreamsMemberDescription, Tasks
from odradek.ports.clock import Clock
from odradek.ports.table import Absent, Compare, Condition, Delete, Operation, Row, all_of
from odradek.settings import Settings

_PARALLEL_READS = 16


async def list_groups(
    store: GroupStore, now_ms: int, states: Sequence[str], types: Sequence[str]
) -> list[GroupListing]:
    """All groups, filtered. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
    try:
        group_ids = [row.key.sk for row in await store.table.query(LISTING_PK)]
    except StoreUnavailable as error:
        raise _unavailable() from error
    views = await _read_all(store, group_ids)
    listings = [_listing(view, view.group, now_ms) for view in views if view.group is not None]
    wanted_states, wanted_types = {state.lower() for state in states}, {kind.lower() for kind in types}
    return [
        listing
        for listing in listings
        if (not wanted_states or listing.state.lower() in wanted_states)
        and (not wanted_types or listing.group_type.lower() in wanted_types)
    ]


def _listing(view: GroupView, group: GroupState, now_ms: int) -> GroupListing:
    if group.classic is not None:
        state = group.classic.state if classic_alive(group.classic, view.sessions, now_ms) else ClassicState.EMPTY
        return GroupListing(view.group_id, state.value, "classic", group.classic.protocol_type)
    state_name = state_of(view, group, now_ms)
    if not group.was_used:
        return GroupListing(view.group_id, state_name, "classic", "")
    return GroupListing(view.group_id, state_name, group.group_type, group.group_type)


async def describe_groups(store: GroupStore, now_ms: int, group_ids: Sequence[str]) -> list[GroupDescription]:
    """Return the groups in the order of their ids. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
    views = {view.group_id: view for view in await _read_all(store, [each for each in group_ids if may_be(each)])}
    return [_described(views.get(group_id) or GroupView(group_id), now_ms) for group_id in group_ids]


DeleteItems = Callable[[str], Awaitable[None]]
"""Deletes what a group of one kind has beside group, members and leases; called once the group has no members."""


async def delete_group(tools: Tools, group_id: str, delete_share_items: DeleteItems) -> ErrorCode:
    """Delete a group that has no living members, with its leases and offsets; see `Groups.delete` for the codes.

    Leases go first and the group last: a crash in between leaves a group that can be deleted again. A lease that got
    an owner or a commit meanwhile stays, and so does then the group.
    """
    clock, settings = tools.clock, tools.settings
    store = GroupStore(tools.tables.groups)
    try:
        check_group_id(group_id)
    except KafkaError as error:
        return error.code
    backoff = tools.backoff(first_s=0.02, max_s=1.0)
    for attempt in range(settings.group_attempts_max):
        try:
            view = await store.read(group_id)
            if view.group is None:
                return ErrorCode.NONE if attempt else ErrorCode.GROUP_ID_NOT_FOUND
            if has_living_members(view, clock.now_ms()):
                return ErrorCode.NON_EMPTY_GROUP
            if view.members:
                await evict(store, clock, settings, view)
                continue
            leases = await store.table.query(group_pk(group_id), sk_from=LEASE_PREFIX, sk_to=LEASES_END)
            if view.group.is_share:
                await delete_share_items(group_id)
            for member_id in sorted(view.sessions):
                await store.table.delete(Delete(classic_session_key(group_id, member_id)))
            while len(leases) > LEASES_PER_STEP:
                await store.table.transact([_delete_leases(group_id, row) for row in leases[:LEASES_PER_STEP]])
                leases = leases[LEASES_PER_STEP:]
            is_as_read = Compare(("n",), "=", view.group.version)
            await store.table.transact(
                [
                    Delete(group_key(group_id), is_as_read),
                    Delete(listing_key(group_id)),
                    *([] if view.topology is None else [Delete(topology_key(group_id))]),
                    *(_delete_leases(group_id, row) for row in leases),
                ]
            )
        except (ConditionFailed, TransactionCanceled, OutcomeUnknown, StoreUnavailable):
            await backoff.pause(attempt)
        except (ItemTooLarge, StoreRejected):
            return ErrorCode.INVALID_REQUEST
        else:
            return ErrorCode.NONE
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def has_living_members(view: GroupView, now_ms: int) -> bool:
    """Return True if a member of either protocol does not seem dead by the clock."""
    classic = view.group.classic if view.group is not None else None
    if classic is not None and classic_alive(classic, view.sessions, now_ms):
        return True
    return bool(alive(view.members.values(), now_ms))


async def evict(store: GroupStore, clock: Clock, settings: Settings, view: GroupView) -> None:
    """Do one step of removing all members, who seem dead; the caller reads again. Raises as `GroupStore.write`."""
    gone = list(view.members.values())
    if view.group is not None and view.group.is_share:
        await store.write(view, decide_share_expiry(view.group, gone))
    else:
        await remove_some(store, clock, settings, view, gone)


async def remove_some(
    store: GroupStore, clock: Clock, settings: Settings, view: GroupView, gone: Sequence[MemberState]
) -> None:
    """Do one step of removing members of a consumer group; the caller reads again. Raises as `GroupStore.write`."""
    # Who stays computes the next target. If nobody does it is empty, and no topic matters.
    await store.write(view, decide_expiry(view, gone, Circumstances({}, clock.now_ms(), b"", settings)))


def leaving_member(view: GroupView, leave: ClassicLeave) -> MemberState | ErrorCode:
    """The member of a consumer group that an administrator removes, or why there is none."""
    if leave.instance_id is None:
        return view.members.get(leave.member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    static = view.static_member(leave.instance_id)
    if static is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if leave.member_id and static.member_id != leave.member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    return static


def state_of(view: GroupView, group: GroupState, now_ms: int) -> str:
    """The group's state as Kafka names it."""
    members = alive(view.members.values(), now_ms)
    if not members:
        return "Empty"
    if group.is_share:
        return "Stable"
    if group.streams is not None:
        return _streams_state(members, group, group.streams)
    if not view.is_assigned:
        return "Assigning"
    is_settled = all(
        member.is_away
        or (
            member.epoch == group.epoch
            and not member.revoking
            and member.assigned == group.target.get(member.member_id, NO_PARTITIONS)
        )
        for member in members
    )
    return "Stable" if is_settled else "Reconciling"


def _streams_state(members: Sequence[MemberState], group: GroupState, streams: StreamsGroup) -> str:
    if {member.member_id for member in members} != streams.target.keys():
        return "Assigning"
    if not streams.is_ready:
        return "NotReady"
    is_settled = all(
        member.streams is not None
        and member.epoch == group.epoch
        and not member.streams.revoking
        and member.streams.assigned == streams.target[member.member_id]
        for member in members
    )
    return "Stable" if is_settled else "Reconciling"


def _streams_member(member: MemberState, group: GroupState) -> StreamsMemberDescription | None:
    if member.streams is None or group.streams is None:
        return None
    return StreamsMemberDescription(
        topology_epoch=member.streams.topology_epoch,
        process_id=member.streams.process_id,
        endpoint=member.streams.endpoint,
        client_tags=member.streams.client_tags,
        assignment=member.streams.assigned,
        target_assignment=group.streams.target.get(member.member_id, Tasks()),
    )


def _described(view: GroupView, now_ms: int) -> GroupDescription:
    if view.group is None:
        return GroupDescription(
            view.group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"group {view.group_id!r} does not exist", "Dead"
        )
    if view.group.classic is not None:
        classic = view.group.classic
        living = tuple(classic_alive(classic, view.sessions, now_ms))
        state = classic.state if living else ClassicState.EMPTY
        return GroupDescription(
            view.group_id,
            state=state.value,
            group_epoch=classic.generation,
            assignment_epoch=classic.generation,
            assignor=classic.protocol or "",
            group_type="classic",
            classic=replace(classic, members=living),
        )
    members = alive(view.members.values(), now_ms)
    state_name = state_of(view, view.group, now_ms)
    return GroupDescription(
        view.group_id,
        state=state_name,
        group_epoch=view.group.epoch + 1 if state_name == "Assigning" else view.group.epoch,
        assignment_epoch=view.group.epoch,
        assignor=view.group.assignor,
        group_type=view.group.group_type,
        topology=view.topology if view.group.streams is not None else None,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.subscribed_topic_names,
                subscribed_topic_regex=member.subscribed_topic_regex,
                assignment=by_topic(member.assigned),
                target_assignment=by_topic(view.group.target.get(member.member_id, NO_PARTITIONS)),
                streams=_streams_member(member, view.group),
            )
            for member in members
        ),
    )


def _delete_leases(group_id: str, row: Row) -> Operation:
    """Return the deletion of the leases of an item, on condition that they are unchanged and have no owner."""
    conditions: list[Condition] = []
    for partition in lease_partitions(row.key.sk):
        slot = lease_slot(group_id, partition)
        [stamp] = slot.path("c")
        commit_ms = row.item.get(str(stamp))
        conditions.append(Absent(slot.path("o")))
        conditions.append(Compare((stamp,), "=", commit_ms) if isinstance(commit_ms, int) else Absent((stamp,)))
    return Delete(row.key, all_of(*conditions))


async def _read_all(store: GroupStore, group_ids: Sequence[str]) -> list[GroupView]:
    views: list[GroupView] = []
    try:
        for start in range(0, len(group_ids), _PARALLEL_READS):
            views += await asyncio.gather(
                *(store.read(group_id) for group_id in group_ids[start : start + _PARALLEL_READS])
            )
    except StoreUnavailable as error:
        raise _unavailable() from error
    return views


def _unavailable() -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the groups table cannot be reached: try again")
