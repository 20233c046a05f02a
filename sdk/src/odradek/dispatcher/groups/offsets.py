"""OffsetCommit, OffsetFetch, OffsetDelete: the committed offsets of a group, in OffsetFetch 8+ of several groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclOperation, ResourceType
from odradek.model.group import OffsetFetchResult
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

_TOPIC_ID_FROM = 10
_GROUPS_FROM = 8
_NOTHING = OffsetAndMetadata(-1)


async def handle_offset_commit(call: Call) -> Answer:
    message = call.message
    names = [await _name(call, topic) for topic in message.topics]
    offsets = {
        TopicPartition(name, given.partition_index): OffsetAndMetadata(
            given.committed_offset, getattr(given, "committed_leader_epoch", -1), given.committed_metadata or ""
        )
        for name, topic in zip(names, message.topics, strict=True)
        if name is not None and call.access.may_topic(AclOperation.READ, name)
        for given in topic.partitions
    }
    results = (
        await call.engine.offsets.commit(
            message.group_id,
            offsets,
            member_id=message.member_id,
            member_epoch=message.generation_id_or_member_epoch,
            instance_id=getattr(message, "group_instance_id", None),
        )
        if offsets or not call.access.is_bound
        else []
    )
    errors: dict[TopicPartition, ErrorCode] = {result.partition: result.error for result in results}
    name_of = {id(topic): name for name, topic in zip(names, message.topics, strict=True)}

    def error_of(topic: Any, partition: int) -> ErrorCode:
        name: str | None = name_of[id(topic)]
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not call.access.may_topic(AclOperation.READ, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return errors.get(TopicPartition(name, partition), ErrorCode.UNKNOWN_SERVER_ERROR)

    return _commit_answer(call, error_of)


def refuse_offset_commit(call: Call, code: ErrorCode, message: str) -> Answer:
    return _commit_answer(call, lambda topic, partition: code)


def _commit_answer(call: Call, error_of: Callable[[Any, int], ErrorCode]) -> Answer:
    return {
        "topics": [
            {
                **_topic_key(topic),
                "partitions": [
                    {"partition_index": given.partition_index, "error_code": error_of(topic, given.partition_index)}
                    for given in topic.partitions
                ],
            }
            for topic in call.message.topics
        ]
    }


async def handle_offset_fetch(call: Call) -> Answer:
    if call.api_version >= _GROUPS_FROM:
        return {"groups": [await _fetch_group(call, group) for group in call.message.groups]}
    try:
        return await _fetch_group(call, call.message)
    except KafkaError as error:
        return refuse_offset_fetch(call, error.code, error.message)


def refuse_offset_fetch(call: Call, code: ErrorCode, message: str) -> Answer:
    if call.api_version >= _GROUPS_FROM:
        return {"groups": [{"group_id": group.group_id, "error_code": code} for group in call.message.groups]}
    return {
        "error_code": code,
        "topics": [
            {
                "name": topic.name,
                "partitions": [_partition(index, _NOTHING, code) for index in topic.partition_indexes],
            }
            for topic in call.message.topics or ()
        ],
    }


async def handle_offset_delete(call: Call) -> Answer:
    message = call.message
    partitions = [
        TopicPartition(topic.name, given.partition_index) for topic in message.topics for given in topic.partitions
    ]
    allowed = [each for each in partitions if call.access.may_topic(AclOperation.READ, each.topic)]
    deleted = await call.engine.offsets.delete(message.group_id, allowed) if allowed or not partitions else ()
    codes = dict.fromkeys(partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    codes |= {result.partition: result.error for result in deleted}
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": given.partition_index,
                        "error_code": codes[TopicPartition(topic.name, given.partition_index)],
                    }
                    for given in topic.partitions
                ],
            }
            for topic in message.topics
        ]
    }


def refuse_offset_delete(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


async def _fetch_group(call: Call, group: Any) -> dict[str, Any]:
    """Fetch the offsets of one group; from version 8 on its error concerns this group only."""
    unknown = []
    denied: list[OffsetFetchResult] = []
    asked: list[TopicPartition] | None = None
    if group.topics is not None:
        asked = []
        for topic in group.topics:
            name = await _name(call, topic)
            if name is None:
                unknown.append(topic)
                continue
            places = [TopicPartition(name, index) for index in topic.partition_indexes]
            if call.access.may_topic(AclOperation.DESCRIBE, name):
                asked += places
            else:
                denied += [OffsetFetchResult(each, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for each in places]
    try:
        call.access.require(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
        results = await call.engine.offsets.fetch(
            group.group_id,
            asked,
            member_id=getattr(group, "member_id", None),
            member_epoch=getattr(group, "member_epoch", -1),
            require_stable=getattr(call.message, "require_stable", False),
        )
    except KafkaError as error:
        if call.api_version < _GROUPS_FROM:
            raise
        return {"group_id": group.group_id, "error_code": error.code}
    topics = [
        {
            "topic_id": topic.topic_id,
            "partitions": [
                _partition(index, _NOTHING, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes
            ],
        }
        for topic in unknown
    ]
    described = [each for each in results if call.access.may_topic(AclOperation.DESCRIBE, each.partition.topic)]
    topics += await _by_topic(
        call, [*described, *denied], {t.name: t for t in group.topics or () if hasattr(t, "name")}
    )
    return {"group_id": group.group_id, "topics": topics}


async def _by_topic(call: Call, results: Iterable[OffsetFetchResult], asked: dict[str, Any]) -> list[dict[str, Any]]:
    by_topic: dict[str, list[dict[str, Any]]] = {name: [] for name in asked}
    for result in results:
        by_topic.setdefault(result.partition.topic, []).append(
            _partition(result.partition.partition, result.committed or _NOTHING, result.error)
        )
    return [
        {"name": name, "topic_id": await _topic_id(call, name), "partitions": partitions}
        for name, partitions in by_topic.items()
    ]


def _partition(index: int, committed: OffsetAndMetadata, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }


def _topic_key(topic: Any) -> dict[str, Any]:
    return {"name": getattr(topic, "name", None), "topic_id": getattr(topic, "topic_id", None)}


async def _name(call: Call, topic: Any) -> str | None:
    """Return the name of a topic in a request; from version 10 on by its id, None if the id is unknown."""
    if call.api_version < _TOPIC_ID_FROM:
        name: str = topic.name
        return name
    found = None if topic.topic_id is None else await call.engine.topics.get_by_id(topic.topic_id)
    return None if found is None else found.name


async def _topic_id(call: Call, name: str) -> UUID | None:
    if call.api_version < _TOPIC_ID_FROM:
        return None
    topic = await call.engine.topics.get(name)
    return None if topic is None else topic.topic_id
