"""Administration of share groups as kio messages: ShareGroupDescribe, offsets, configurations of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kio.schema.alter_share_group_offsets.v0 import request as alter
from kio.schema.alter_share_group_offsets.v0.response import AlterShareGroupOffsetsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_share_group_offsets.v1 import request as describe
from kio.schema.describe_share_group_offsets.v1.response import DescribeShareGroupOffsetsResponse
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_describe.v1.response import DescribedGroup, ShareGroupDescribeResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i64

from odradek.client.types import ConsumerGroupDescription, MemberDescription
from odradek.model.topic_partition import TopicPartition

__all__ = [
    "AlterShareGroupOffsetsResponse",
    "DescribeShareGroupOffsetsResponse",
    "ShareGroupDescribeResponse",
    "ShareGroupOffset",
    "alter_share_offsets_request",
    "describe_group_configs_request",
    "describe_share_groups_request",
    "describe_share_offsets_request",
    "share_group_description",
]

GROUP_RESOURCE = 32


@dataclass(frozen=True, slots=True)
class ShareGroupOffset:
    """The position of a share group in a partition."""

    start_offset: int  # everything below is done
    lag: int  # records from there on that are not done; -1 if unknown


def describe_share_groups_request(group_ids: Iterable[str]) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(
        group_ids=tuple(GroupId(group_id) for group_id in group_ids), include_authorized_operations=False
    )


def share_group_description(group: DescribedGroup) -> ConsumerGroupDescription:
    """Convert a described group. Each member may read every partition, so assignment and target are the same."""
    members = []
    for member in group.members:
        assigned = tuple(
            TopicPartition(str(topic.topic_name), int(number))
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        )
        members.append(
            MemberDescription(
                member_id=member.member_id,
                instance_id=None,
                member_epoch=int(member.member_epoch),
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topics=tuple(map(str, member.subscribed_topic_names)),
                subscribed_pattern=None,
                assignment=assigned,
                target_assignment=assigned,
            )
        )
    return ConsumerGroupDescription(
        group_id=str(group.group_id),
        state=group.group_state,
        assignor=group.assignor_name,
        group_epoch=int(group.group_epoch),
        assignment_epoch=int(group.assignment_epoch),
        members=tuple(members),
    )


def describe_share_offsets_request(group_id: str) -> describe.DescribeShareGroupOffsetsRequest:
    return describe.DescribeShareGroupOffsetsRequest(
        groups=(describe.DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group_id), topics=None),)
    )


def alter_share_offsets_request(
    group_id: str, offsets: Mapping[TopicPartition, int]
) -> alter.AlterShareGroupOffsetsRequest:
    topics: dict[str, list[alter.AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            alter.AlterShareGroupOffsetsRequestPartition(partition_index=i32(partition), start_offset=i64(offset))
        )
    return alter.AlterShareGroupOffsetsRequest(
        group_id=GroupId(group_id),
        topics=tuple(
            alter.AlterShareGroupOffsetsRequestTopic(topic_name=TopicName(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def describe_group_configs_request(group_id: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=i8(GROUP_RESOURCE), resource_name=group_id, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=(resource,), include_synonyms=False, include_documentation=True)
