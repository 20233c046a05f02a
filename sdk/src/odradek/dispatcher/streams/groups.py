"""StreamsGroupHeartbeat and StreamsGroupDescribe (KIP-1071), and the internal topics that a heartbeat asks for.

Streams groups are listed and deleted like groups of any kind (dispatcher/groups/groups.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.groups.groups import describe_groups, group_operations, without_hidden_topics
from odradek.dispatcher.groups.topic_names import TopicNames
from odradek.dispatcher.store_errors import translated
from odradek.engine.streams.topology import summary
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclOperation
from odradek.model.group import GroupDescription, GroupHeartbeat, GroupHeartbeatResult, MemberDescription
from odradek.model.streams import (
    Endpoint,
    EndpointPartitions,
    InternalTopic,
    Status,
    StreamsAnswer,
    StreamsMemberDescription,
    StreamsRequest,
    StreamsStatus,
    Subtopology,
    TaskId,
    Tasks,
    Topology,
)

_ERRORS_SHOWN = 3


async def handle_streams_group_heartbeat(call: Call) -> Answer:
    message = call.message
    result = await call.engine.streams_groups.heartbeat(
        GroupHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            rebalance_timeout_ms=to_ms(message.rebalance_timeout),
            client_id=call.request.client_id or "",
            client_host=call.context.client_host,
            streams=_streams_request(message),
        )
    )
    if result.streams is not None and result.streams.missing_topics:
        result = replace(result, streams=await _with_topics_created(call, result.streams))
    return _heartbeat_answer(result)


def refuse_streams_group_heartbeat(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message, "status": []}


# --- request --------------------------------------------------------------------------------------------------------


def _streams_request(message: Any) -> StreamsRequest:
    roles = (message.active_tasks, message.standby_tasks, message.warmup_tasks)
    given = [role for role in roles if role is not None]
    endpoint = message.user_endpoint
    return StreamsRequest(
        topology=None if message.topology is None else _topology(message.topology),
        owned=Tasks(*map(_task_ids, roles)) if len(given) == len(roles) else None,
        process_id=message.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, int(endpoint.port)),
        client_tags=None if message.client_tags is None else _pairs(message.client_tags),
        requests_shutdown=message.shutdown_application,
        endpoint_epoch=message.endpoint_information_epoch,
        unsupported=_unsupported(message, len(given) not in (0, len(roles))),
    )


def _unsupported(message: Any, is_partial: bool) -> str | None:
    """Return what the request uses that no version of this coordinator takes."""
    if is_partial:
        return "active, standby and warm-up tasks must be given together, or none of them"
    if message.task_offsets is not None or message.task_end_offsets is not None:
        return "changelog offsets of tasks are not supported"
    if message.warmup_tasks:
        return "warm-up tasks are not supported: the coordinator assigns none"
    if message.topology is not None and any(each.source_topic_regex for each in message.topology.subtopologies):
        return "patterns of source topics are not supported in streams groups: name the topics"
    return None


def _task_ids(role: Any) -> frozenset[TaskId]:
    return frozenset(TaskId(each.subtopology_id, int(number)) for each in role for number in each.partitions)


def _pairs(values: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((each.key, each.value) for each in values))


def _topology(topology: Any) -> Topology:
    return Topology(
        int(topology.epoch),
        tuple(sorted(map(_subtopology, topology.subtopologies), key=lambda each: each.subtopology_id)),
    )


def _subtopology(each: Any) -> Subtopology:
    return Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=tuple(sorted(each.source_topics)),
        repartition_sink_topics=tuple(sorted(each.repartition_sink_topics)),
        repartition_source_topics=_internal_topics(each.repartition_source_topics),
        changelog_topics=_internal_topics(each.state_changelog_topics),
        copartition_groups=tuple(sorted(_copartition_group(each, group) for group in each.copartition_groups)),
    )


def _internal_topics(topics: Iterable[Any]) -> tuple[InternalTopic, ...]:
    return tuple(
        sorted(
            (
                InternalTopic(
                    topic.name, int(topic.partitions), int(topic.replication_factor), _pairs(topic.topic_configs)
                )
                for topic in topics
            ),
            key=lambda topic: topic.name,
        )
    )


def _copartition_group(subtopology: Any, group: Any) -> tuple[str, ...]:
    """Return the names of a copartition group, which refers to topics by index. Raises
    KafkaError(STREAMS_INVALID_TOPOLOGY)."""
    repartitions = [topic.name for topic in subtopology.repartition_source_topics]
    names = set[str]()
    for indexes, known in (
        (group.source_topics, subtopology.source_topics),
        (group.repartition_source_topics, repartitions),
    ):
        for index in indexes:
            if not 0 <= index < len(known):
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"invalid topology: subtopology {subtopology.subtopology_id!r} has no topic {index}, which one of "
                    f"its copartition groups names",
                )
            names.add(known[index])
    return tuple(sorted(names))


# --- internal topics ------------------------------------------------------------------------------------------------


async def _with_topics_created(call: Call, answer: StreamsAnswer) -> StreamsAnswer:
    """Create the internal topics that are missing, if the member may; the status says what failed.

    The member learns from its next heartbeat that they are there: the assignment is computed then.
    """
    refused = []
    failed = []
    for topic in answer.missing_topics:
        create = AclOperation.CREATE
        if not call.access.may_cluster(create) and not call.access.may_topic(create, topic.name):
            refused.append(topic.name)
    for topic in () if refused else answer.missing_topics:
        try:
            with translated(call):
                await call.engine.topics.create(topic.name, topic.partitions, dict(topic.configs))
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another member's heartbeat was first
                failed.append(f"{topic.name} ({error.message})")
    detail = ""
    if refused:
        detail = f"; Unauthorized to CREATE on topics {summary(refused)}."
    elif failed:
        detail = f"; Creation failed: {', '.join(failed[:_ERRORS_SHOWN])}."
    return replace(
        answer,
        statuses=tuple(
            Status(status.code, status.detail + detail)
            if status.code is StreamsStatus.MISSING_INTERNAL_TOPICS
            else status
            for status in answer.statuses
        ),
    )


# --- response -------------------------------------------------------------------------------------------------------


def _heartbeat_answer(result: GroupHeartbeatResult) -> Answer:
    answer = result.streams or StreamsAnswer()
    tasks = answer.tasks
    return {
        "error_code": result.error,
        "error_message": result.message,
        "member_id": result.member_id,
        "member_epoch": result.member_epoch,
        "heartbeat_interval": result.heartbeat_interval_ms,
        "status": [{"status_code": int(code), "status_detail": detail} for code, detail in answer.statuses],
        "active_tasks": None if tasks is None else _described_tasks(tasks.active),
        "standby_tasks": None if tasks is None else _described_tasks(tasks.standby),
        "warmup_tasks": None if tasks is None else _described_tasks(tasks.warmup),
        "endpoint_information_epoch": answer.endpoint_epoch,
        "partitions_by_user_endpoint": None
        if answer.endpoints is None
        else [_described_endpoint(each) for each in answer.endpoints],
    }


def _described_tasks(tasks: Iterable[TaskId]) -> list[dict[str, Any]]:
    numbers: dict[str, list[int]] = {}
    for task in sorted(tasks):
        numbers.setdefault(task.subtopology_id, []).append(task.partition)
    return [{"subtopology_id": each, "partitions": partitions} for each, partitions in numbers.items()]


def _described_endpoint(each: EndpointPartitions) -> dict[str, Any]:
    return {
        "user_endpoint": each.endpoint._asdict(),
        "active_partitions": [{"topic": name, "partitions": numbers} for name, numbers in each.active.items()],
        "standby_partitions": [{"topic": name, "partitions": numbers} for name, numbers in each.standby.items()],
    }


# --- describe -------------------------------------------------------------------------------------------------------


async def handle_streams_group_describe(call: Call) -> Answer:
    names = TopicNames(call)
    groups = [
        await without_hidden_topics(call, group, names)
        for group in await describe_groups(call, call.message.group_ids, call.engine.streams_groups.describe)
    ]
    return {
        "groups": [{**_described(group), "authorized_operations": group_operations(call, group)} for group in groups]
    }


def refuse_streams_group_describe(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "groups": [
            {"error_code": code, "error_message": message, "group_id": group_id} for group_id in call.message.group_ids
        ]
    }


def _described(group: GroupDescription) -> dict[str, Any]:
    return {
        "error_code": group.error,
        "error_message": group.message,
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "topology": None if group.topology is None else _described_topology(group.topology),
        "members": [_described_member(member, member.streams) for member in group.members if member.streams],
    }


def _described_topology(topology: Topology) -> dict[str, Any]:
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology_id": each.subtopology_id,
                "source_topics": each.source_topics,
                "repartition_sink_topics": each.repartition_sink_topics,
                "state_changelog_topics": _described_topics(each.changelog_topics),
                "repartition_source_topics": _described_topics(each.repartition_source_topics),
            }
            for each in topology.subtopologies
        ],
    }


def _described_topics(topics: Sequence[InternalTopic]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "topic_configs": [{"key": key, "value": value} for key, value in topic.configs],
        }
        for topic in topics
    ]


def _described_member(member: MemberDescription, streams: StreamsMemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "member_epoch": member.member_epoch,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": streams.topology_epoch,
        "process_id": streams.process_id,
        "user_endpoint": None if streams.endpoint is None else streams.endpoint._asdict(),
        "client_tags": [{"key": key, "value": value} for key, value in streams.client_tags],
        "assignment": _described_assignment(streams.assignment),
        "target_assignment": _described_assignment(streams.target_assignment),
    }


def _described_assignment(tasks: Tasks) -> dict[str, Any]:
    return {
        "active_tasks": _described_tasks(tasks.active),
        "standby_tasks": _described_tasks(tasks.standby),
        "warmup_tasks": _described_tasks(tasks.warmup),
    }
