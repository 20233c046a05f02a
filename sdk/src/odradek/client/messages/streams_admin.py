"""Administration of streams groups as kio messages: StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.streams_group_describe.v0 import response
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse
from kio.schema.types import GroupId

from odradek.client.types import StreamsGroupDescription, StreamsMemberInfo
from odradek.model.streams import Endpoint, InternalTopic, Subtopology, TaskId, Tasks, Topology

__all__ = ["StreamsGroupDescribeResponse", "describe_streams_groups_request", "streams_group_description"]


def describe_streams_groups_request(group_ids: Iterable[str]) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest(
        group_ids=tuple(GroupId(group_id) for group_id in group_ids), include_authorized_operations=False
    )


def streams_group_description(group: response.DescribedGroup) -> StreamsGroupDescription:
    """Convert a described group."""
    return StreamsGroupDescription(
        group_id=str(group.group_id),
        state=group.group_state,
        group_epoch=int(group.group_epoch),
        assignment_epoch=int(group.assignment_epoch),
        topology=None if group.topology is None else _topology(group.topology),
        members=tuple(map(_member, group.members)),
    )


def _topology(topology: response.Topology) -> Topology:
    return Topology(
        int(topology.epoch),
        tuple(
            Subtopology(
                subtopology.subtopology_id,
                source_topics=tuple(map(str, subtopology.source_topics)),
                repartition_sink_topics=tuple(map(str, subtopology.repartition_sink_topics)),
                repartition_source_topics=tuple(map(_topic, subtopology.repartition_source_topics)),
                changelog_topics=tuple(map(_topic, subtopology.state_changelog_topics)),
            )
            for subtopology in topology.subtopologies or ()
        ),
    )


def _topic(topic: response.TopicInfo) -> InternalTopic:
    configs = tuple((config.key, config.value) for config in topic.topic_configs)
    return InternalTopic(str(topic.name), int(topic.partitions), int(topic.replication_factor), configs)


def _member(member: response.Member) -> StreamsMemberInfo:
    endpoint = member.user_endpoint
    return StreamsMemberInfo(
        member_id=member.member_id,
        member_epoch=int(member.member_epoch),
        process_id=member.process_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=int(member.topology_epoch),
        endpoint=None if endpoint is None else Endpoint(endpoint.host, int(endpoint.port)),
        tasks=_tasks(member.assignment),
        target=_tasks(member.target_assignment),
    )


def _tasks(assignment: response.Assignment) -> Tasks:
    return Tasks(
        _task_ids(assignment.active_tasks), _task_ids(assignment.standby_tasks), _task_ids(assignment.warmup_tasks)
    )


def _task_ids(tasks: Iterable[response.TaskIds]) -> frozenset[TaskId]:
    return frozenset(TaskId(task.subtopology_id, int(number)) for task in tasks for number in task.partitions)
