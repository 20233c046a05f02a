"""DescribeGroups 6 as kio messages: groups of the classic protocol, which ConsumerGroupDescribe does not return.

A member's subscription and assignment are bytes that clients agree upon (ConsumerProtocolSubscription,
ConsumerProtocolAssignment): version i16, then [topic string] or [topic string, [partition i32]], big-endian, then the
fields of later versions. Members of other kinds of groups (Kafka Connect's workers) use other bytes, which decode to
nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.types import GroupId

from odradek.client.types import ConsumerGroupDescription, MemberDescription
from odradek.model.topic_partition import TopicPartition

__all__ = ["DescribeGroupsResponse", "classic_group_description", "describe_classic_groups_request"]

CONSUMER = "consumer"


def describe_classic_groups_request(group_ids: Iterable[str]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(
        groups=tuple(GroupId(group_id) for group_id in group_ids), include_authorized_operations=False
    )


def classic_group_description(group: DescribedGroup) -> ConsumerGroupDescription:
    """Convert a described group. The protocol has no epochs (-1) and no target other than the assignment."""
    is_of_consumers = group.protocol_type == CONSUMER
    members = []
    for member in group.members:
        assignment = tuple(sorted(decode_assignment(member.member_assignment))) if is_of_consumers else ()
        members.append(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                member_epoch=-1,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topics=tuple(decode_topics(member.member_metadata)) if is_of_consumers else (),
                subscribed_pattern=None,
                assignment=assignment,
                target_assignment=assignment,
            )
        )
    return ConsumerGroupDescription(str(group.group_id), group.group_state, group.protocol_data, -1, -1, tuple(members))


def decode_topics(data: bytes) -> list[str]:
    """Return the topics of a subscription; nothing for bytes of another protocol."""
    try:
        _, count = struct.unpack_from(">hi", data)
        at, topics = 6, []
        for _ in range(count):
            name, at = _string(data, at)
            topics.append(name)
    except (struct.error, UnicodeDecodeError):
        return []
    return topics


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Return the partitions of an assignment; nothing for bytes of another protocol."""
    try:
        _, count = struct.unpack_from(">hi", data)
        at, partitions = 6, []
        for _ in range(count):
            name, at = _string(data, at)
            (length,) = struct.unpack_from(">i", data, at)
            partitions += [
                TopicPartition(name, partition) for partition in struct.unpack_from(f">{max(length, 0)}i", data, at + 4)
            ]
            at += 4 + 4 * max(length, 0)
    except (struct.error, UnicodeDecodeError):
        return []
    return partitions


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    (text,) = struct.unpack_from(f"{max(length, 0)}s", data, at + 2)
    return text.decode(), at + 2 + max(length, 0)
