"""OffsetForLeaderEpoch: the end offsets of leader epochs (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.model.acl import AclOperation
from odradek.model.log import EpochEndPartition, EpochEndResult


async def handle_offset_for_leader_epoch(call: Call) -> Answer:
    results = await call.access.ask(
        AclOperation.DESCRIBE,
        list(_questions(call)),
        lambda question: question.topic,
        call.engine.epoch_end_offsets,
        lambda question, code: EpochEndResult(question.topic, question.partition, error=code),
    )
    return _answer(call, iter(results))


def refuse_offset_for_leader_epoch(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer(call, (EpochEndResult(asked.topic, asked.partition, error=code) for asked in _questions(call)))


def _questions(call: Call) -> Iterable[EpochEndPartition]:
    for topic in call.message.topics:
        for asked in topic.partitions:
            yield EpochEndPartition(topic.topic, asked.partition, asked.leader_epoch, asked.current_leader_epoch)


def _answer(call: Call, results: Iterator[EpochEndResult]) -> Answer:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_partition(next(results)) for _ in topic.partitions]}
            for topic in call.message.topics
        ]
    }


def _partition(result: EpochEndResult) -> dict[str, Any]:
    return {
        "error_code": result.error,
        "partition": result.partition,
        "leader_epoch": result.leader_epoch,
        "end_offset": result.end_offset,
    }
