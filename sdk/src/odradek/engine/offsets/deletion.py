"""OffsetDelete (KIP-496): forget what a group has committed for a partition that none of its members reads.

A lease is deleted on condition that nobody owns it. Members of a classic group do not own leases; what they read is
taken from their subscriptions (format/consumer_protocol.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.backoff import Backoff
from odradek.engine.catalog.partitions import find_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.leases import LeaseSlot, lease_slot
from odradek.engine.groups.sessions import alive, classic_alive
from odradek.engine.groups.state import GroupView
from odradek.engine.groups.store import GroupStore
from odradek.errors import ConditionFailed, ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.format.consumer_protocol import topics_of_subscription
from odradek.model.classic_group import ClassicGroup
from odradek.model.group import OffsetCommitResult
from odradek.model.topic_partition import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Delete, Exists, Remove, Update, all_of

_ATTEMPTS = 6


async def delete_offsets(
    store: GroupStore, topics: Topics, clock: Clock, rng: Rng, group_id: str, partitions: Sequence[TopicPartition]
) -> list[OffsetCommitResult]:
    """See `GroupOffsets.delete`."""
    try:
        view = await store.read(group_id)
    except StoreUnavailable as error:
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "the groups table cannot be reached: try again"
        ) from error
    if view.group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
    read = _topics_read(view, clock.now_ms())
    results = []
    for partition in partitions:
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        if partition.topic not in read:
            code = await _delete_one(store, topics, clock, rng, group_id, partition)
        results.append(OffsetCommitResult(partition, code))
    return results


async def _delete_one(
    store: GroupStore, topics: Topics, clock: Clock, rng: Rng, group_id: str, partition: TopicPartition
) -> ErrorCode:
    try:
        there = await find_partition(topics, partition)
    except KafkaError as error:
        return error.code
    if there is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    _, place = there
    slot = lease_slot(group_id, place)
    backoff = Backoff(clock, rng, first_s=0.02, max_s=1.0)
    for attempt in range(_ATTEMPTS):
        try:
            if slot.suffix:
                await store.table.update(_forget(slot))
            else:
                await store.table.delete(Delete(slot.key, Absent(slot.path("o"))))
        except ConditionFailed as refused:
            if refused.current is None:
                return ErrorCode.NONE
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC  # granted to a member meanwhile, or by its pattern
        except (StoreUnavailable, OutcomeUnknown):  # deleting twice is deleting
            await backoff.pause(attempt)
        else:
            return ErrorCode.NONE
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _forget(slot: LeaseSlot) -> Update:
    """The removal of the offset of one partition from the item that it shares with others."""
    actions = tuple(Remove(slot.path(name)) for name in ("e", "f", "le", "m", "c", "q", "x"))
    return Update(slot.key, actions, all_of(Exists(("v",)), Absent(slot.path("o"))))


def _topics_read(view: GroupView, now_ms: int) -> frozenset[str]:
    """The topics that living members subscribe to by name. Raises KafkaError(NON_EMPTY_GROUP)."""
    classic = view.group.classic if view.group is not None else None
    if classic is None:
        living = alive(view.members.values(), now_ms)
        if living and view.topology is not None:
            return view.topology.sources
        return frozenset(name for member in living for name in member.subscribed_topic_names)
    members = classic_alive(classic, view.sessions, now_ms)
    if not members:
        return frozenset()
    return frozenset(name for member in members for name in _subscription(view.group_id, classic, member.protocols))


def _subscription(group_id: str, group: ClassicGroup, protocols: Sequence[tuple[str, bytes]]) -> list[str]:
    """The topics in a member's subscription."""
    try:
        if group.protocol_type != "consumer":
            raise ValueError(group.protocol_type)
        return topics_of_subscription(protocols[0][1])
    except (ValueError, IndexError):
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group_id} has members of protocol type {group.protocol_type!r}: delete them after all have left",
        ) from None
