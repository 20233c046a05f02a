"""DeleteRecords: raise the log start offset. Of a partition named twice the last offset counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.model.acl import AclOperation
from odradek.model.log import DeleteRecordsPartition, DeleteRecordsResult
from odradek.model.topic_partition import TopicPartition


async def handle_delete_records(call: Call) -> Answer:
    questions = [DeleteRecordsPartition(*place, offset) for place, offset in _asked(call).items()]
    answers = await call.access.ask(
        AclOperation.DELETE,
        questions,
        lambda question: question.topic,
        call.engine.delete_records,
        lambda question, code: DeleteRecordsResult(question.topic, question.partition, code),
    )
    return _answer(answers)


def refuse_delete_records(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer([DeleteRecordsResult(*place, code) for place in _asked(call)])


def _asked(call: Call) -> dict[TopicPartition, int]:
    """The offset of each partition; of one that is named twice the last."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in call.message.topics
        for partition in topic.partitions
    }


def _answer(results: Iterable[DeleteRecordsResult]) -> Answer:
    topics: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        partition = {
            "partition_index": result.partition,
            "low_watermark": result.low_watermark,
            "error_code": result.error,
        }
        topics.setdefault(result.topic, []).append(partition)
    return {"topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()]}
