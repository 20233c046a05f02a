"""Consumer groups: ConsumerGroupHeartbeat (KIP-848), and the administrative APIs: list, describe, delete.

DescribeGroups is used by clients before KIP-848. It returns the same groups, with each member's subscription and
assignment in the bytes that those clients decode (ConsumerProtocolSubscription and -Assignment, version 0).
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.groups.topic_names import TopicNames
from odradek.errors import ErrorCode
from odradek.format.consumer_protocol import encode_subscription, topics_named
from odradek.model.acl import AclOperation, ResourceType
from odradek.model.classic_group import ClassicGroup
from odradek.model.group import JOIN_EPOCH, GroupDescription, GroupHeartbeat, GroupHeartbeatResult, MemberDescription

Describe = Callable[[Sequence[str]], Awaitable[list[GroupDescription]]]
_Assignment = Mapping[UUID, Sequence[int]]
DESCRIBED_BY = {"share": "ShareGroupDescribe", "streams": "StreamsGroupDescribe"}
_MEMBER_ID_FROM = 1  # of ConsumerGroupHeartbeat: before, the coordinator makes the id up
_GROUP_ID_NOT_FOUND_FROM = 6  # before, an unknown group is answered as Dead without an error


async def handle_consumer_group_heartbeat(call: Call) -> Answer:
    message = call.message
    owned = message.topic_partitions
    if message.member_epoch == JOIN_EPOCH and owned is None:
        return refuse_consumer_group_heartbeat(
            call, ErrorCode.INVALID_REQUEST, "a joining member must list the partitions that it owns: none"
        )
    if not message.member_id and call.api_version >= _MEMBER_ID_FROM:
        return refuse_consumer_group_heartbeat(
            call, ErrorCode.INVALID_REQUEST, "the member id cannot be empty: a client makes it up (KIP-1082)"
        )
    result = await call.engine.groups.heartbeat(
        GroupHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            rebalance_timeout_ms=to_ms(message.rebalance_timeout),
            subscribed_topic_names=message.subscribed_topic_names,
            subscribed_topic_regex=getattr(message, "subscribed_topic_regex", None),
            server_assignor=message.server_assignor,
            owned=None if owned is None else {t.topic_id: t.partitions for t in owned if t.topic_id is not None},
            client_id=call.request.client_id or "",
            client_host=call.context.client_host,
        )
    )
    return heartbeat_answer(result)


def heartbeat_answer(result: GroupHeartbeatResult) -> Answer:
    """Build the response to a member of a consumer group or a share group: both have the same fields."""
    return {
        "error_code": result.error,
        "error_message": result.message,
        "member_id": result.member_id,
        "member_epoch": result.member_epoch,
        "heartbeat_interval": result.heartbeat_interval_ms,
        "assignment": None
        if result.assignment is None
        else {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in result.assignment.items()
            ]
        },
    }


def refuse_consumer_group_heartbeat(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message}


async def handle_list_groups(call: Call) -> Answer:
    states = getattr(call.message, "states_filter", ())
    types = getattr(call.message, "types_filter", ())
    return {
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in await call.engine.groups.list(states=states, types=types)
            if call.access.may_cluster(AclOperation.DESCRIBE) or _may_describe(call, group.group_id)
        ]
    }


def _may_describe(call: Call, group_id: str) -> bool:
    return call.access.may_group(AclOperation.DESCRIBE, group_id)


async def describe_groups(
    call: Call, group_ids: Sequence[str], describe: Describe | None = None
) -> list[GroupDescription]:
    """Return the groups in the order of their ids; a group that may not be described has only an error."""
    describe = describe or call.engine.groups.describe
    allowed = [group_id for group_id in group_ids if _may_describe(call, group_id)]
    found = iter(await describe(allowed) if allowed else ())
    return [
        next(found)
        if _may_describe(call, group_id)
        else GroupDescription(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not describe the group")
        for group_id in group_ids
    ]


def group_operations(call: Call, group: GroupDescription) -> int | None:
    """Return the caller's operations on an existing group, if the request asks for them (KIP-430)."""
    is_told = getattr(call.message, "include_authorized_operations", False) and not group.error
    return call.access.operations(ResourceType.GROUP, group.group_id) if is_told else None


def refuse_list_groups(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


async def handle_consumer_group_describe(call: Call) -> Answer:
    names = TopicNames(call)
    groups = [_of_the_consumer_protocol(group) for group in await describe_groups(call, call.message.group_ids)]
    groups = [await without_hidden_topics(call, group, names) for group in groups]
    return {
        "groups": [
            {
                "error_code": group.error,
                "error_message": group.message,
                "group_id": group.group_id,
                "group_state": "" if group.error else group.state,
                "group_epoch": group.group_epoch,
                "assignment_epoch": group.assignment_epoch,
                "assignor_name": "" if group.error else group.assignor,
                "members": [await _member(member, names) for member in group.members],
                "authorized_operations": group_operations(call, group),
            }
            for group in groups
        ]
    }


def _of_the_consumer_protocol(group: GroupDescription) -> GroupDescription:
    if group.group_type in DESCRIBED_BY:
        return _described_elsewhere(group)
    if group.classic is None:
        return group
    return GroupDescription(
        group.group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id!r} is classic: use DescribeGroups"
    )


def _described_elsewhere(group: GroupDescription) -> GroupDescription:
    message = f"group {group.group_id!r} is a {group.group_type} group: use {DESCRIBED_BY[group.group_type]}"
    return GroupDescription(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)


async def without_hidden_topics(call: Call, group: GroupDescription, names: TopicNames) -> GroupDescription:
    """Return the group, or a refusal if it uses topics that the caller may not describe."""
    if not call.access.is_bound:
        return group
    seen = {name for member in group.members for name in member.subscribed_topic_names or ()}
    seen |= group.topology.all_topics if group.topology is not None else set()
    try:
        seen |= set() if group.classic is None else _named_by(group.classic)
    except ValueError:  # nobody can tell what its bytes give away
        message = "the group's members have subscriptions that cannot be read, nor shown to who may not see all topics"
        return GroupDescription(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            seen.update([await names.of(topic_id) for topic_id in assignment])
    if all(call.access.may_topic(AclOperation.DESCRIBE, name) for name in seen if name):
        return group
    message = "the group uses topics that you may not describe"
    return GroupDescription(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)


def _named_by(group: ClassicGroup) -> set[str]:
    """The topics in what members of a classic group of consumers say to each other. Raises ValueError."""
    if group.protocol_type != "consumer":
        return set()
    return {
        name for member in group.members for name in topics_named(member.metadata(group.protocol), member.assignment)
    }


def refuse_consumer_group_describe(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "groups": [
            {"error_code": code, "error_message": message, "group_id": group_id} for group_id in call.message.group_ids
        ]
    }


async def _member(member: MemberDescription, names: TopicNames) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.subscribed_topic_names,
        "subscribed_topic_regex": member.subscribed_topic_regex or "",
        "assignment": await _assignment(member.assignment, names),
        "target_assignment": await _assignment(member.target_assignment, names),
        "member_type": 1,  # the new protocol (KIP-1099)
    }


async def _assignment(assignment: _Assignment, names: TopicNames) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": await names.of(topic_id), "partitions": sorted(partitions)}
            for topic_id, partitions in assignment.items()
        ]
    }


async def handle_describe_groups(call: Call) -> Answer:
    names = TopicNames(call)
    groups = [
        await without_hidden_topics(call, group, names) for group in await describe_groups(call, call.message.groups)
    ]
    return {
        "groups": [
            {**await _classic(call, group, names), "authorized_operations": group_operations(call, group)}
            for group in groups
        ]
    }


def refuse_describe_groups(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "groups": [
            {"error_code": code, "error_message": message, "group_id": group_id} for group_id in call.message.groups
        ]
    }


def _described_classic(group_id: str, group: ClassicGroup) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol or "",
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata(group.protocol),
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }


async def _classic(call: Call, group: GroupDescription, names: TopicNames) -> dict[str, Any]:
    if group.classic is not None:
        return _described_classic(group.group_id, group.classic)
    if group.group_type in DESCRIBED_BY:
        group = _described_elsewhere(group)
    error = group.error
    if error is ErrorCode.GROUP_ID_NOT_FOUND and call.api_version < _GROUP_ID_NOT_FOUND_FROM:
        error = ErrorCode.NONE
    return {
        "error_code": error,
        "error_message": group.message,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": "" if group.error else "consumer",
        "protocol_data": "" if group.error else group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": encode_subscription(member.subscribed_topic_names or ()),
                "member_assignment": await _classic_assignment(member.assignment, names),
            }
            for member in group.members
        ],
    }


async def _classic_assignment(assignment: _Assignment, names: TopicNames) -> bytes:
    """Encode ConsumerProtocolAssignment 0: version i16, [topic string, [partition i32]], user data (null)."""
    out = [struct.pack(">hi", 0, len(assignment))]
    for topic_id, partitions in assignment.items():
        name = (await names.of(topic_id)).encode()
        out.append(struct.pack(f">h{len(name)}si{len(partitions)}i", len(name), name, len(partitions), *partitions))
    return b"".join(out) + struct.pack(">i", -1)


async def handle_delete_groups(call: Call) -> Answer:
    asked = call.message.groups_names
    allowed = [group_id for group_id in asked if call.access.may_group(AclOperation.DELETE, group_id)]
    results = list(await call.engine.groups.delete(allowed)) if allowed else []
    results += [(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in asked if group_id not in allowed]
    return {"results": [{"group_id": group_id, "error_code": error} for group_id, error in results]}


def refuse_delete_groups(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"results": [{"group_id": group_id, "error_code": code} for group_id in call.message.groups_names]}
