"""DeleteRecords: raise the log start offset. A partition named twice is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.model.acl import AclOperation
from odradek.model.log import DeleteRecordsPartition, DeleteRecordsResult
from odradek.model.topic_partition import TopicPartition


async def handle_delete_records(call: Call) -> Answer:
    counts = Counter(TopicPartition(t.name, p.partition_index) for t in call.message.topics for p in t.partitions)
    questions = [
        DeleteRecordsPartition(topic.name, asked.partition_index, asked.offset)
        for topic in call.message.topics
        for asked in topic.partitions
        if counts[TopicPartition(topic.name, asked.partition_index)] == 1
    ]
    answers = await call.access.ask(
        AclOperation.DELETE,
        questions,
        lambda question: question.topic,
        call.engine.delete_records,
        lambda question, code: DeleteRecordsResult(question.topic, question.partition, code),
    )
    results = {TopicPartition(r.topic, r.partition): r for r in answers}

    def result_of(topic: str, partition: int) -> DeleteRecordsResult:
        repeated = DeleteRecordsResult(topic, partition, ErrorCode.INVALID_REQUEST)
        return results.get(TopicPartition(topic, partition), repeated)

    return _answer(call, result_of)


def refuse_delete_records(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer(call, lambda topic, partition: DeleteRecordsResult(topic, partition, code))


def _answer(call: Call, result_of: Callable[[str, int], DeleteRecordsResult]) -> Answer:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": asked.partition_index,
                        "low_watermark": result_of(topic.name, asked.partition_index).low_watermark,
                        "error_code": result_of(topic.name, asked.partition_index).error,
                    }
                    for asked in topic.partitions
                ],
            }
            for topic in call.message.topics
        ]
    }
