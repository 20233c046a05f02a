"""DescribeTopicPartitions (KIP-966), DescribeProducers (KIP-664), DescribeLogDirs (KIP-113, KIP-827).

All logs are in one object store, so there is one log directory, `objects`, without a known capacity. Its sizes are
those of the live batches as they are stored. A broker shows the partitions that it leads, so that tools which add up
the brokers count each one once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.dispatcher.cluster.metadata import describe_partition
from odradek.dispatcher.context import Answer, Call
from odradek.engine.catalog.partitions import partition_of
from odradek.engine.catalog.topics import check_name
from odradek.engine.leaders.view import LeaderView
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclOperation, ResourceType
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

PARTITIONS_MAX = 2_000  # of one answer: Kafka's max.request.partition.size.limit
LOG_DIR = "objects"


async def handle_describe_topic_partitions(call: Call) -> Answer:
    """Topics in the order of their names, from the cursor on, up to so many partitions; then where to continue."""
    message, cursor = call.message, call.message.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"invalid partition {cursor.partition_index} of the cursor")
    found = await _asked_topics(call)
    if cursor is not None and message.topics and cursor.topic_name not in found:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the topic of the cursor, {cursor.topic_name!r}, is not among the topics"
        )
    if cursor is not None:
        found = {name: topic for name, topic in found.items() if name >= cursor.topic_name}
    left = max(1, min(message.response_partition_limit, PARTITIONS_MAX))
    view = await call.engine.leader_view([topic for topic in found.values() if isinstance(topic, Topic)])
    topics: list[dict[str, Any]] = []
    for name in sorted(found):
        topic = found[name]
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left <= 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": first}}
        if not isinstance(topic, Topic):
            topics.append(_unknown(call, name, topic))
            continue
        end = min(topic.partition_count, first + left)
        left -= end - first
        topics.append(_topic(call, topic, range(first, end), view))
        if end < topic.partition_count:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": end}}
    return {"topics": topics}


def refuse_describe_topic_partitions(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"topics": [{"name": topic.name, "error_code": code} for topic in call.message.topics]}


async def _asked_topics(call: Call) -> dict[str, Topic | ErrorCode]:
    """By name; of no names all that the caller may describe."""
    names = [topic.name for topic in call.message.topics]
    if not names:
        return {
            topic.name: topic
            for topic in await call.engine.topics.list()
            if call.access.may_topic(AclOperation.DESCRIBE, topic.name)
        }
    found: dict[str, Topic | ErrorCode] = {}
    for name in names:
        if not call.access.may_topic(AclOperation.DESCRIBE, name):
            found[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        try:
            check_name(name)
            found[name] = await call.engine.topics.resolve(name)
        except KafkaError as error:
            found[name] = error.code
    return found


def _unknown(call: Call, name: str, code: ErrorCode) -> dict[str, Any]:
    """A topic that cannot be described; as on Apache Kafka with the rights to it, if the caller may know of them."""
    error = {"name": name, "error_code": code}
    if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error
    return {**error, "topic_authorized_operations": call.access.operations(ResourceType.TOPIC, name)}


def _topic(call: Call, topic: Topic, numbers: range, view: LeaderView) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions": [describe_partition(topic, number, call.cluster, view) for number in numbers],
        "topic_authorized_operations": call.access.operations(ResourceType.TOPIC, topic.name),
    }


async def handle_describe_producers(call: Call) -> Answer:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [await _producers(call, topic.name, number) for number in topic.partition_indexes],
            }
            for topic in call.message.topics
        ]
    }


def refuse_describe_producers(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": number, "error_code": code, "error_message": message}
                    for number in topic.partition_indexes
                ],
            }
            for topic in call.message.topics
        ]
    }


async def _producers(call: Call, name: str, number: int) -> dict[str, Any]:
    """Of one partition. A transaction that is open has nothing in the log yet, so no start offset of it is told."""
    try:
        call.access.require(AclOperation.READ, ResourceType.TOPIC, name)
        check_name(name)
        topic = await call.engine.topics.resolve(name)
        found = await call.engine.partition_states.producers(partition_of(topic, number))
    except KafkaError as error:
        return {"partition_index": number, "error_code": error.code, "error_message": error.message}
    return {
        "partition_index": number,
        "active_producers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp_ms,
                "coordinator_epoch": -1,
                "current_txn_start_offset": -1,
            }
            for producer in found
        ],
    }


async def handle_describe_log_dirs(call: Call) -> Answer:
    asked = call.message.topics
    wanted: list[tuple[Topic, Iterable[int]]] = []
    if asked is None:
        wanted += [(topic, range(topic.partition_count)) for topic in await call.engine.topics.list()]
    else:
        for each in asked:
            topic = await call.engine.topics.get(each.topic)
            if topic is not None:  # as on Apache Kafka, what is not there is left out
                wanted.append((topic, [n for n in dict.fromkeys(each.partitions) if 0 <= n < topic.partition_count]))
    view = await call.engine.leader_view([topic for topic, _ in wanted])
    own = (FLEET_BROKER_ID, call.cluster.broker.broker_id)
    topics = []
    for topic, numbers in wanted:
        places = [PartitionId(topic.topic_id, number) for number in numbers]
        partitions = [
            {"partition_index": place.partition, "partition_size": await call.engine.partition_states.size_bytes(place)}
            for place in places
            if view.leader_of(place)[0] in own
        ]
        if partitions:
            topics.append({"name": topic.name, "partitions": partitions})
    return {"results": [{"log_dir": LOG_DIR, "topics": topics, "total_bytes": -1, "usable_bytes": -1}]}


def refuse_describe_log_dirs(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "results": []}
