"""The admin APIs as kio messages.

CreateTopics 7, DeleteTopics 6, CreatePartitions 3, DeleteRecords 2, DescribeConfigs 4, IncrementalAlterConfigs 1,
ListGroups 5, ConsumerGroupDescribe 0, DeleteGroups 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from kio.schema.consumer_group_describe.v0 import response as describe_groups_response
from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.delete_records.v2.response import DeleteRecordsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.incremental_alter_configs.v1 import request as alter_configs
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from odradek.client.types import ConsumerGroupDescription, MemberDescription
from odradek.model.topic_partition import TopicPartition

__all__ = [
    "ConsumerGroupDescribeResponse",
    "CreatePartitionsResponse",
    "CreateTopicsResponse",
    "DeleteGroupsResponse",
    "DeleteRecordsResponse",
    "DeleteTopicsResponse",
    "DescribeConfigsResponse",
    "IncrementalAlterConfigsResponse",
    "ListGroupsResponse",
    "alter_configs_request",
    "create_partitions_request",
    "create_topics_request",
    "delete_groups_request",
    "delete_records_request",
    "delete_topics_request",
    "describe_configs_request",
    "describe_groups_request",
    "group_description",
    "list_groups_request",
]

TOPIC_RESOURCE = 2  # Kafka's ConfigResource.Type
_SET, _DELETE = 0, 1  # and AlterConfigOp.OpType


def _timeout(timeout_ms: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=timeout_ms))


def create_topics_request(
    topics: Iterable[tuple[str, int, int, Mapping[str, str | None]]], *, timeout_ms: int, validate_only: bool
) -> CreateTopicsRequest:
    """Topics as (name, partitions, replication factor, configs)."""
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=TopicName(name),
                num_partitions=i32(partitions),
                replication_factor=i16(replication_factor),
                assignments=(),
                configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
            )
            for name, partitions, replication_factor, configs in topics
        ),
        timeout=_timeout(timeout_ms),
        validate_only=validate_only,
    )


def delete_topics_request(topics: Iterable[str], *, timeout_ms: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(name=TopicName(name), topic_id=None) for name in topics),
        timeout=_timeout(timeout_ms),
    )


def create_partitions_request(counts: Mapping[str, int], *, timeout_ms: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=tuple(
            CreatePartitionsTopic(name=TopicName(name), count=i32(count), assignments=None)
            for name, count in counts.items()
        ),
        timeout=_timeout(timeout_ms),
        validate_only=False,
    )


def delete_records_request(offsets: Mapping[TopicPartition, int], *, timeout_ms: int) -> DeleteRecordsRequest:
    by_topic: dict[str, list[DeleteRecordsPartition]] = {}
    for tp, offset in offsets.items():
        partition = DeleteRecordsPartition(partition_index=i32(tp.partition), offset=i64(offset))
        by_topic.setdefault(tp.topic, []).append(partition)
    return DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
        timeout=_timeout(timeout_ms),
    )


def describe_configs_request(topics: Iterable[str], names: Sequence[str] | None = None) -> DescribeConfigsRequest:
    """Ask for configurations: for all of them with their meaning and defaults, or for the values of some `names`."""
    keys = None if names is None else tuple(names)
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=i8(TOPIC_RESOURCE), resource_name=name, configuration_keys=keys)
            for name in topics
        ),
        include_synonyms=names is None,
        include_documentation=names is None,
    )


def alter_configs_request(
    resource_type: int, name: str, values: Mapping[str, str], delete: Iterable[str]
) -> alter_configs.IncrementalAlterConfigsRequest:
    """Set configurations of a resource, and reset those in `delete` to their defaults."""
    changes = [
        *(
            alter_configs.AlterableConfig(name=key, config_operation=i8(_SET), value=value)
            for key, value in values.items()
        ),
        *(alter_configs.AlterableConfig(name=key, config_operation=i8(_DELETE), value=None) for key in delete),
    ]
    return alter_configs.IncrementalAlterConfigsRequest(
        resources=(
            alter_configs.AlterConfigsResource(
                resource_type=i8(resource_type), resource_name=name, configs=tuple(changes)
            ),
        ),
        validate_only=False,
    )


def list_groups_request(states: Iterable[str]) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=tuple(states))


def describe_groups_request(group_ids: Iterable[str]) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(
        group_ids=tuple(GroupId(group_id) for group_id in group_ids), include_authorized_operations=False
    )


def delete_groups_request(group_ids: Sequence[str]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=tuple(GroupId(group_id) for group_id in group_ids))


def group_description(group: describe_groups_response.DescribedGroup) -> ConsumerGroupDescription:
    """Convert a described group."""
    return ConsumerGroupDescription(
        group_id=str(group.group_id),
        state=group.group_state,
        assignor=group.assignor_name,
        group_epoch=int(group.group_epoch),
        assignment_epoch=int(group.assignment_epoch),
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                member_epoch=int(member.member_epoch),
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topics=tuple(str(topic) for topic in member.subscribed_topic_names),
                subscribed_pattern=member.subscribed_topic_regex,
                assignment=_assignment(member.assignment),
                target_assignment=_assignment(member.target_assignment),
            )
            for member in group.members
        ),
    )


def _assignment(assignment: describe_groups_response.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(str(topic.topic_name), int(partition))
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )
