"""The writes of a commit and the meaning of its refusal. Pure.

Owner and offset of a partition are in one item, the lease, so a commit is one conditional update, without a read
before it:

    by a member            the lease's owner is this member, granted at its epoch or an earlier one
    by a simple consumer   nobody owns the partition

and in both cases `stamp` is above that of the last commit. A former owner that was paused between any two calls
fails the first condition as soon as its lease is released: no clock and no session has a say in it.

**Stamps** make a commit that arrives late harmless. A write whose outcome was unknown may still be on its way when
it is repeated; the repeat carries a higher stamp, so the first can no longer apply after it and put back an older
offset. The stamp is the time of the call, raised above the last one where a refusal shows that clocks disagree or two
commits met in one millisecond; a call that has itself been stalled for longer than a request lasts does not raise it,
but gives up.

A member may commit backwards (a seek), and only what it owns: Kafka would also take offsets of partitions that the
member was never given, which nothing could fence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.engine.groups.leases import VERSION, LeaseSlot, decode_lease
from odradek.engine.groups.state import LeaseState, MemberState
from odradek.engine.partition.fields import is_version_or_absent
from odradek.errors import ErrorCode
from odradek.model.topic_partition import OffsetAndMetadata
from odradek.ports.table import Absent, Action, Compare, Condition, Item, Not, Remove, Set, Update, all_of

NO_EPOCH = -1  # of a simple consumer, which is no member


@dataclass(frozen=True, slots=True)
class Committer:
    """The committer. Epoch NO_EPOCH: a consumer that assigned its partitions itself, or an admin tool."""

    member_id: str = ""
    member_epoch: int = NO_EPOCH
    instance_id: str | None = None

    @property
    def is_simple(self) -> bool:
        return self.member_epoch < 0


def check_offset(offset: OffsetAndMetadata, metadata_bytes_max: int) -> ErrorCode:
    """Return NONE if an offset can be committed at all.

    A negative one can, as on Apache Kafka: kafkajs commits -1 or -2 after an offset was out of range, and starts again
    at its configured position, because it finds no position there.
    """
    if len(offset.metadata.encode()) > metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def commit_operation(
    slot: LeaseSlot, topic: str, offset: OffsetAndMetadata, committer: Committer, stamp_ms: int
) -> Update:
    """Return the conditional update of one lease; a transaction may contain it, joined with others of its item."""
    le, m = slot.path("le"), slot.path("m")
    actions: tuple[Action, ...] = (
        Set(("v",), VERSION),
        Set(("t",), topic),
        Set(slot.path("f"), offset.offset),
        Set(le, offset.leader_epoch) if offset.leader_epoch >= 0 else Remove(le),
        Set(m, offset.metadata) if offset.metadata else Remove(m),
        Set(slot.path("c"), stamp_ms),
    )
    condition = all_of(is_version_or_absent(VERSION), *_may_commit(slot, committer), _is_newer(slot, stamp_ms))
    return Update(slot.key, actions, condition)


def decide_refusal(current: Item | None, slot: LeaseSlot, committer: Committer) -> ErrorCode | int:
    """Return the reason of a lease's refusal: a stamp to exceed, or an error about the committer.

    Where the update has several leases, another one of them may be the reason: then the stamp is one that it exceeds.

    Returns:
        The last commit's stamp if only that was in the way; FENCED_MEMBER_EPOCH if the partition is not the
        committer's; STALE_MEMBER_EPOCH if it is, but of a later epoch; UNKNOWN_MEMBER_ID for a simple consumer if a
        member owns it.
    """
    lease = None if current is None else decode_lease(current, slot.suffix)
    owner = None if lease is None else lease.owner
    if committer.is_simple:
        return ErrorCode.UNKNOWN_MEMBER_ID if lease is not None and owner is not None else _stamp(lease)
    if lease is None or owner != committer.member_id:
        return ErrorCode.FENCED_MEMBER_EPOCH
    return ErrorCode.STALE_MEMBER_EPOCH if lease.epoch > committer.member_epoch else _stamp(lease)


def explain_refusal(code: ErrorCode, committer: Committer, members: Mapping[str, MemberState]) -> ErrorCode:
    """The most telling code for a member's refused commit, now that the group has been read."""
    if committer.is_simple:
        return code
    if committer.instance_id is not None:
        holders = [member.member_id for member in members.values() if member.instance_id == committer.instance_id]
        if holders and committer.member_id not in holders:
            return ErrorCode.FENCED_INSTANCE_ID
    member = members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.epoch != committer.member_epoch:
        return ErrorCode.STALE_MEMBER_EPOCH
    return code


def _may_commit(slot: LeaseSlot, committer: Committer) -> tuple[Condition, ...]:
    owner, epoch = slot.path("o"), slot.path("e")
    if committer.is_simple:
        return (Absent(owner),)
    return Compare(owner, "=", committer.member_id), Compare(epoch, "<=", committer.member_epoch)


def _is_newer(slot: LeaseSlot, stamp_ms: int) -> Condition:
    # Shorter than "absent or less": an expression has many of these.
    return Not(Compare(slot.path("c"), ">=", stamp_ms))


def _stamp(lease: LeaseState | None) -> int:
    return 0 if lease is None else lease.commit_ms
