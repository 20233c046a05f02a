"""ListOffsets: offsets by timestamp. A partition named twice is refused, as Apache Kafka does; so is a special
timestamp that the version does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.model.acl import AclOperation
from odradek.model.log import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsResult,
)
from odradek.model.topic_partition import TopicPartition

_KNOWN_FROM = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The version from which a special timestamp means something; before, it is an unknown one."""


async def handle_list_offsets(call: Call) -> Answer:
    counts = Counter(TopicPartition(t.name, p.partition_index) for t in call.message.topics for p in t.partitions)
    questions = [
        ListOffsetsPartition(
            topic.name, asked.partition_index, asked.timestamp, getattr(asked, "current_leader_epoch", -1)
        )
        for topic in call.message.topics
        for asked in topic.partitions
        if counts[TopicPartition(topic.name, asked.partition_index)] == 1
        and call.api_version >= _KNOWN_FROM.get(asked.timestamp, 0)
    ]
    answers = await call.access.ask(
        AclOperation.DESCRIBE,
        questions,
        lambda question: question.topic,
        call.engine.list_offsets,
        lambda question, code: ListOffsetsResult(question.topic, question.partition, code),
    )
    results = {TopicPartition(r.topic, r.partition): r for r in answers}

    def result_of(topic: str, partition: int) -> ListOffsetsResult:
        tp = TopicPartition(topic, partition)
        code = ErrorCode.INVALID_REQUEST if counts[tp] > 1 else ErrorCode.UNSUPPORTED_VERSION
        return results.get(tp, ListOffsetsResult(topic, partition, code))

    return _answer(call, result_of)


def refuse_list_offsets(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer(call, lambda topic, partition: ListOffsetsResult(topic, partition, code))


def _answer(call: Call, result_of: Callable[[str, int], ListOffsetsResult]) -> Answer:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_partition(result_of(topic.name, asked.partition_index)) for asked in topic.partitions],
            }
            for topic in call.message.topics
        ]
    }


def _partition(result: ListOffsetsResult) -> dict[str, Any]:
    return {
        "partition_index": result.partition,
        "error_code": result.error,
        "timestamp": result.timestamp_ms,
        "offset": result.offset,
        "leader_epoch": result.leader_epoch,
    }
