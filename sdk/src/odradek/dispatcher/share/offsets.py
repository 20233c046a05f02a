"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclOperation
from odradek.model.share import ShareOffset
from odradek.model.topic_partition import TopicPartition

_HIDDEN = "you may not use the topic"


async def handle_describe_share_group_offsets(call: Call) -> Answer:
    return {"groups": [await _described(call, group) for group in call.message.groups]}


async def _described(call: Call, group: Any) -> dict[str, Any]:
    if not call.access.may_group(AclOperation.DESCRIBE, group.group_id):
        return _refused_group(group.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not describe the group")
    places: list[TopicPartition] | None = None
    if group.topics is not None:
        places = [TopicPartition(topic.topic_name, number) for topic in group.topics for number in topic.partitions]
    try:
        found = await call.engine.share_offsets.describe(group.group_id, places)
    except KafkaError as error:
        return _refused_group(group.group_id, error.code, error.message)
    shown = [
        each
        if call.access.may_topic(AclOperation.DESCRIBE, each.topic)
        else ShareOffset(each.topic, None, each.partition, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=_HIDDEN)
        for each in found
        if places is not None or call.access.may_topic(AclOperation.DESCRIBE, each.topic)
    ]
    return {
        "group_id": group.group_id,
        "topics": [
            {
                "topic_name": name,
                "topic_id": each[0].topic_id,
                "partitions": [
                    {
                        "partition_index": one.partition,
                        "start_offset": one.start_offset,
                        "leader_epoch": 0,
                        "lag": one.lag,
                        "error_code": one.error,
                        "error_message": one.message,
                    }
                    for one in each
                ],
            }
            for name, each in _by_topic(shown)
        ],
    }


def refuse_describe_share_group_offsets(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"groups": [_refused_group(group.group_id, code, message) for group in call.message.groups]}


async def handle_alter_share_group_offsets(call: Call) -> Answer:
    asked = {
        TopicPartition(topic.topic_name, each.partition_index): int(each.start_offset)
        for topic in call.message.topics
        for each in topic.partitions
    }
    allowed = {place: at for place, at in asked.items() if call.access.may_topic(AclOperation.READ, place.topic)}
    results = [
        *await call.engine.share_offsets.alter(call.message.group_id, allowed),
        *(
            ShareOffset(place.topic, None, place.partition, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=_HIDDEN)
            for place in asked
            if place not in allowed
        ),
    ]
    return {
        "responses": [
            {
                "topic_name": name,
                "topic_id": each[0].topic_id,
                "partitions": [
                    {"partition_index": one.partition, "error_code": one.error, "error_message": one.message}
                    for one in each
                ],
            }
            for name, each in _by_topic(results)
        ]
    }


async def handle_delete_share_group_offsets(call: Call) -> Answer:
    asked = [topic.topic_name for topic in call.message.topics]
    allowed = [name for name in asked if call.access.may_topic(AclOperation.READ, name)]
    results = [
        *await call.engine.share_offsets.delete(call.message.group_id, allowed),
        *(
            ShareOffset(name, None, -1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=_HIDDEN)
            for name in asked
            if name not in allowed
        ),
    ]
    return {
        "responses": [
            {
                "topic_name": each.topic,
                "topic_id": each.topic_id,
                "error_code": each.error,
                "error_message": each.message,
            }
            for each in results
        ]
    }


def refuse_share_group_offsets(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message}


def _refused_group(group_id: str, code: ErrorCode, message: str) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": code, "error_message": message}


def _by_topic(offsets: Sequence[ShareOffset]) -> list[tuple[str, list[ShareOffset]]]:
    ordered = sorted(offsets, key=lambda each: (each.topic, each.partition))
    return [(name, list(each)) for name, each in groupby(ordered, key=lambda one: one.topic)]
