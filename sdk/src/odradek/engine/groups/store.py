"""Reading a group and writing a transition: the only place that turns group decisions into table operations.

A view is one Query: the group item and all members, no lease. A transition is one conditional write or one
transaction; each item is written on the version that the view holds, each lease on its owner. A member that was removed
and joins again under its id counts its versions from the start: its item is told by the last writer's nonce as well, so
that what its former life has sent changes nothing, however late it arrives. So a transition applies
whole to the state it was decided on, or not at all. A member that joins without a new target checks that the group is
as it was read, and does not write it: members that join concurrently do not conflict. A step that grants tasks of a
streams group checks it as well (streams/decisions.py, S2).
"""

from __future__ import annotations

from odradek.engine.groups.classic_items import decode_classic_session
from odradek.engine.groups.decisions import LEASES_PER_STEP, SHARE_EXPIRED_PER_STEP, Grant, Release, Transition
from odradek.engine.groups.items import (
    GROUP_SK,
    MEMBER_PREFIX,
    MEMBERS_END,
    VERSION,
    decode_group,
    decode_member,
    encode_group,
    encode_member,
    group_key,
    listing_key,
    member_key,
)
from odradek.engine.groups.leases import LeaseSlot, lease_slot, one_update_an_item
from odradek.engine.groups.state import GroupState, GroupView, MemberState
from odradek.engine.groups.streams_items import TOPOLOGY_SK, decode_topology, encode_topology, topology_key
from odradek.engine.partition.fields import is_version, is_version_or_absent
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import CLASSIC_SESSION_PREFIX, group_pk, share_session_sk
from odradek.limits import GROUP_TARGET_BYTES_MAX, TABLE_TRANSACTION_ITEMS_MAX
from odradek.model.classic_group import ClassicSession
from odradek.model.streams import Topology
from odradek.ports.table import (
    Absent,
    AnyOf,
    Check,
    Compare,
    Condition,
    Delete,
    Key,
    Operation,
    Put,
    Remove,
    Set,
    Table,
    Update,
    all_of,
)

assert LEASES_PER_STEP + 4 <= TABLE_TRANSACTION_ITEMS_MAX, (
    "a step writes a group (or checks it), its row, and two members, or a member and the topology, beside leases"
)
assert 2 * SHARE_EXPIRED_PER_STEP + 3 <= TABLE_TRANSACTION_ITEMS_MAX, "members go with their sessions"


class GroupStore:
    """Groups in their table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    async def read(self, group_id: str) -> GroupView:
        """The group with its members, as they stand. Raises StoreUnavailable, FormatError."""
        rows = await self.table.query(group_pk(group_id), sk_from=GROUP_SK, sk_to=MEMBERS_END)
        group: GroupState | None = None
        topology: Topology | None = None
        members: dict[str, MemberState] = {}
        sessions: dict[str, ClassicSession] = {}
        for key, item in rows:
            if key.sk == GROUP_SK:
                group = decode_group(group_id, item)
            elif key.sk == TOPOLOGY_SK:
                topology = decode_topology(item)
            elif key.sk.startswith(MEMBER_PREFIX):
                member_id = key.sk.removeprefix(MEMBER_PREFIX)
                members[member_id] = decode_member(member_id, item)
            elif key.sk.startswith(CLASSIC_SESSION_PREFIX):
                sessions[key.sk.removeprefix(CLASSIC_SESSION_PREFIX)] = decode_classic_session(item)
        return GroupView(group_id, group, members, sessions, topology)

    async def read_group(self, group_id: str) -> GroupState | None:
        """The group alone. Raises StoreUnavailable, FormatError."""
        item = await self.table.get(group_key(group_id))
        return None if item is None else decode_group(group_id, item)

    async def read_member(self, group_id: str, member_id: str) -> MemberState | None:
        """One member alone. Raises StoreUnavailable, FormatError."""
        item = await self.table.get(member_key(group_id, member_id))
        return None if item is None else decode_member(member_id, item)

    async def write(self, view: GroupView, transition: Transition) -> None:
        """Apply a transition to the view that it was decided on.

        Raises:
            ConditionFailed, TransactionCanceled: another write was first; read and decide again.
            StoreUnavailable: surely not applied.
            OutcomeUnknown: may have been applied; the nonce in the member's item tells.
            KafkaError(GROUP_MAX_SIZE_REACHED): the target no longer fits an item.
        """
        operations = _operations(view, transition)
        match operations:
            case [Put() as put]:
                await self.table.put(put)
            case _:
                await self.table.transact(operations)


def create_group_operations(group: GroupState) -> list[Operation]:
    """Make a group that is not there yet, and its listing row."""
    return [
        Put(group_key(group.group_id), encode_group(group), Absent(("v",))),
        Put(listing_key(group.group_id), {"v": VERSION}),
    ]


def _operations(view: GroupView, transition: Transition) -> list[Operation]:
    group_id = view.group_id
    operations: list[Operation] = []
    if transition.group is not None:
        item = encode_group(transition.group)
        target = item["t"]
        if isinstance(target, bytes) and len(target) > GROUP_TARGET_BYTES_MAX:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the assignment of group {group_id} takes {len(target)} bytes, at most {GROUP_TARGET_BYTES_MAX} fit: "
                f"use fewer members or topics",
            )
        if view.group is None:
            operations += create_group_operations(transition.group)
        else:
            operations.append(Put(group_key(group_id), item, _is_version(view.group.version)))
    if transition.topology is not None:
        operations.append(Put(topology_key(group_id), encode_topology(transition.topology)))
    for member in transition.members:
        before = view.members.get(member.member_id)
        condition = Absent(("v",)) if before is None else _is_as_read(before)
        is_checked = before is None or transition.checks_group
        if is_checked and transition.group is None and view.group is not None:
            operations.append(Check(group_key(group_id), _is_version(view.group.version)))
        operations.append(Put(member_key(group_id, member.member_id), encode_member(member), condition))
    operations += [Check(member_key(group_id, member.member_id), _is_as_read(member)) for member in transition.checked]
    operations += [Delete(member_key(group_id, member.member_id), _is_as_read(member)) for member in transition.removed]
    if view.group is not None and view.group.is_share and not transition.keeps_session:
        pk = group_pk(group_id)
        operations += [Delete(Key(pk, share_session_sk(member.member_id))) for member in transition.removed]
    leases = [grant_operation(lease_slot(group_id, grant.partition), grant) for grant in transition.granted]
    leases += [release_operation(lease_slot(group_id, release.partition), release) for release in transition.released]
    return operations + one_update_an_item(leases)


def grant_operation(slot: LeaseSlot, grant: Grant) -> Update:
    """Make the member the owner if nobody else is."""
    owner = slot.path("o")
    return Update(
        slot.key,
        (
            Set(("v",), VERSION),
            Set(("t",), grant.topic),
            Set(owner, grant.member_id),
            Set(slot.path("e"), grant.epoch),
        ),
        all_of(is_version_or_absent(VERSION), AnyOf((Absent(owner), Compare(owner, "=", grant.member_id)))),
    )


def release_operation(slot: LeaseSlot, release: Release) -> Update:
    """Return the removal of a partition's owner; the committed offset stays."""
    owner = slot.path("o")
    condition = all_of(is_version(VERSION), Compare(owner, "=", release.member_id))
    return Update(slot.key, (Remove(owner), Remove(slot.path("e"))), condition)


def _is_version(version: int) -> Condition:
    return Compare(("n",), "=", version)


def _is_as_read(member: MemberState) -> Condition:
    return all_of(_is_version(member.version), Compare(("w",), "=", member.nonce))
