"""ShareGroupHeartbeat and ShareGroupDescribe (KIP-932).

Share groups are listed and deleted like groups of any kind (dispatcher/groups/groups.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.groups.groups import describe_groups, group_operations, heartbeat_answer, without_hidden_topics
from odradek.dispatcher.groups.topic_names import TopicNames
from odradek.errors import ErrorCode
from odradek.model.group import GroupDescription, GroupHeartbeat


async def handle_share_group_heartbeat(call: Call) -> Answer:
    message = call.message
    result = await call.engine.share_groups.heartbeat(
        GroupHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            rack_id=message.rack_id,
            subscribed_topic_names=message.subscribed_topic_names,
            client_id=call.request.client_id or "",
            client_host=call.context.client_host,
        )
    )
    return heartbeat_answer(result)


def refuse_share_group_heartbeat(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message}


async def handle_share_group_describe(call: Call) -> Answer:
    names = TopicNames(call)
    groups = [
        await without_hidden_topics(call, _of_the_share_protocol(group), names)
        for group in await describe_groups(call, call.message.group_ids)
    ]
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
                "members": [
                    {
                        "member_id": member.member_id,
                        "rack_id": member.rack_id,
                        "member_epoch": member.member_epoch,
                        "client_id": member.client_id,
                        "client_host": member.client_host,
                        "subscribed_topic_names": member.subscribed_topic_names,
                        "assignment": await _assignment(member.assignment, names),
                    }
                    for member in group.members
                ],
                "authorized_operations": group_operations(call, group),
            }
            for group in groups
        ]
    }


def refuse_share_group_describe(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "groups": [
            {"error_code": code, "error_message": message, "group_id": group_id} for group_id in call.message.group_ids
        ]
    }


def _of_the_share_protocol(group: GroupDescription) -> GroupDescription:
    if group.group_type == "share" or group.error is not ErrorCode.NONE:
        return group
    return GroupDescription(
        group.group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id!r} is not a share group"
    )


async def _assignment(assignment: Mapping[UUID, Sequence[int]], names: TopicNames) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": await names.of(topic_id), "partitions": sorted(partitions)}
            for topic_id, partitions in assignment.items()
        ]
    }
