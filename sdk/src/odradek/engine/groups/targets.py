"""The target assignment: the owner of each partition, from the members' subscriptions and the catalog. Pure.

A target is due when its inputs have changed: a member joined, left or changed its subscription, or the *digest* of the
subscribed topics (ids and partition counts) differs: a topic was created, deleted or given partitions. The heartbeat
that notices computes the new target and writes it with the next group epoch, on condition that the group has not
changed since it was read. Every process would compute the same target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from odradek.engine.groups.assignors import ASSIGNORS, AssignorMember, preferred_assignor
from odradek.engine.groups.state import NO_PARTITIONS, GroupState, MemberState
from odradek.engine.groups.topic_pattern import matching
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

DIGEST_BYTES = 12


def subscribed(member: MemberState, topics: Mapping[str, Topic]) -> frozenset[UUID]:
    """The ids of the topics that a member subscribes to, by name or by pattern."""
    names = {name for name in member.subscribed_topic_names if name in topics}
    if member.subscribed_topic_regex:
        names.update(matching(member.subscribed_topic_regex, topics))
    return frozenset(topics[name].topic_id for name in names)


def topics_digest(
    members: Iterable[MemberState], topics: Mapping[str, Topic], held: frozenset[PartitionId] = NO_PARTITIONS
) -> bytes:
    """Return a digest of the target's inputs other than the members."""
    ids = frozenset[UUID]().union(*(subscribed(member, topics) for member in _distinct(members)))
    counts = sorted((topic.topic_id.bytes, topic.partition_count) for topic in topics.values() if topic.topic_id in ids)
    waiting = sorted((topic_id.bytes, number) for topic_id, number in held if topic_id in ids)
    inputs = (counts, waiting) if waiting else counts
    return hashlib.sha256(repr(inputs).encode()).digest()[:DIGEST_BYTES]


def next_target(
    group: GroupState,
    members: Mapping[str, MemberState],
    topics: Mapping[str, Topic],
    held: frozenset[PartitionId] = NO_PARTITIONS,
) -> GroupState:
    """The group one epoch further, with the target for these members.

    Args:
        held: partitions that nobody gets yet (groups/growth_holds.py). They have their place in the assignment, so
            that the others do not move when they come.
    """
    assignor = preferred_assignor(member.assignor for member in members.values())
    counts = {topic.topic_id: topic.partition_count for topic in topics.values()}
    target = ASSIGNORS[assignor](
        [
            AssignorMember(
                member.member_id,
                subscribed(member, topics),
                group.target.get(member.member_id, NO_PARTITIONS),
                member.instance_id,
            )
            for member in members.values()
        ],
        counts,
    )
    return replace(
        group,
        version=group.version + 1,
        epoch=group.epoch + 1,
        assignor=assignor,
        target={member_id: partitions - held for member_id, partitions in target.items()} if held else target,
        topics_digest=topics_digest(members.values(), topics, held),
        member_count=len(members),
    )


def _distinct(members: Iterable[MemberState]) -> list[MemberState]:
    """One member a subscription: most groups have one."""
    return list({(member.subscribed_topic_names, member.subscribed_topic_regex): member for member in members}.values())
