"""ShareFetch and ShareAcknowledge (KIP-932): one engine call per frame.

The response is limited to what the transport can carry. A session holds partitions by topic id; the caller's right to
read a topic is checked when the engine knows its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.limits import SHARE_RECORD_LOCKS_MAX
from odradek.model.acl import AclOperation
from odradek.model.share import AcknowledgementBatch, ShareFetchAnswer, ShareFetchRequest, ShareFetchResult
from odradek.model.topic_partition import PartitionId

_PARTITIONS_TOLD = 64  # more partitions than one request acquires from
_PARTITION_OVERHEAD_BYTES = 512  # including error messages
_ACQUIRED_BYTES = 19  # of one entry of the acquired records
_RECORD_LIMIT_MODE = 1


async def handle_share_fetch(call: Call) -> Answer:
    message = call.message
    places = [PartitionId(topic.topic_id, each.partition_index) for topic, each in _asked(call)]
    limit = call.context.max_response_bytes
    overhead = min(limit // 8, _PARTITION_OVERHEAD_BYTES * _PARTITIONS_TOLD + _ACQUIRED_BYTES * SHARE_RECORD_LOCKS_MAX)
    request = _request(
        call,
        partitions=frozenset(places),
        forgotten=frozenset(
            PartitionId(topic.topic_id, number)
            for topic in message.forgotten_topics_data
            if topic.topic_id is not None
            for number in topic.partitions
        ),
        max_wait_ms=max(0, min(to_ms(message.max_wait), call.engine.settings.request_timeout_ms)),
        min_bytes=max(0, message.min_bytes),
        max_bytes=max(0, min(message.max_bytes, limit - overhead)),
        max_records=max(0, message.max_records),
        is_strict=getattr(message, "share_acquire_mode", 0) == _RECORD_LIMIT_MODE,
    )
    answer = await call.engine.share.serve(request, lambda name: call.access.may_topic(AclOperation.READ, name))
    size_bytes = sum(result.size_bytes for result in answer.results)
    pause_ms = await call.engine.quotas.fetched(call.context.principal, call.request.client_id, size_bytes)
    return {
        "throttle_time": pause_ms,
        "error_code": answer.error,
        "error_message": answer.message,
        "acquisition_lock_timeout": answer.lock_duration_ms,
        "responses": _by_topic(answer, _fetched),
    }


async def handle_share_acknowledge(call: Call) -> Answer:
    request = _request(call, fetches=False)
    answer = await call.engine.share.serve(request, lambda name: call.access.may_topic(AclOperation.READ, name))
    return {
        "error_code": answer.error,
        "error_message": answer.message,
        "acquisition_lock_timeout": answer.lock_duration_ms,
        "responses": _by_topic(answer, _acknowledged),
    }


def refuse_share_request(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message}


def _request(call: Call, *, fetches: bool = True, **options: Any) -> ShareFetchRequest:
    message = call.message
    return ShareFetchRequest(
        group_id=message.group_id or "",
        member_id=message.member_id or "",
        session_epoch=message.share_session_epoch,
        acknowledgements={
            PartitionId(topic.topic_id, each.partition_index): [
                AcknowledgementBatch(
                    int(batch.first_offset), int(batch.last_offset), tuple(map(int, batch.acknowledge_types))
                )
                for batch in each.acknowledgement_batches
            ]
            for topic, each in _asked(call)
            if each.acknowledgement_batches or not fetches
        },
        fetches=fetches,
        renews=getattr(message, "is_renew_ack", False),
        **options,
    )


def _asked(call: Call) -> Iterable[tuple[Any, Any]]:
    """Yield topics and partitions of the request. A null id is no topic's."""
    return ((topic, each) for topic in call.message.topics if topic.topic_id is not None for each in topic.partitions)


def _by_topic(answer: ShareFetchAnswer, tell: Any) -> list[dict[str, Any]]:
    ordered = sorted(answer.results, key=lambda result: result.partition)
    return [
        {"topic_id": topic_id, "partitions": [tell(result) for result in results]}
        for topic_id, results in groupby(ordered, key=lambda result: result.partition.topic_id)
    ]


def _fetched(result: ShareFetchResult) -> dict[str, Any]:
    return {
        "partition_index": result.partition.partition,
        "error_code": result.error,
        "error_message": result.message,
        "acknowledge_error_code": result.acknowledge_error,
        "acknowledge_error_message": result.acknowledge_message,
        "current_leader": {"leader_id": -1, "leader_epoch": -1},
        "records": b"".join(result.records) if result.records else None,
        "acquired_records": [
            {"first_offset": each.first_offset, "last_offset": each.last_offset, "delivery_count": each.delivery_count}
            for each in result.acquired
        ],
    }


def _acknowledged(result: ShareFetchResult) -> dict[str, Any]:
    error, message = result.acknowledge_error, result.acknowledge_message
    if error is ErrorCode.NONE:
        error, message = result.error, result.message
    return {
        "partition_index": result.partition.partition,
        "error_code": error,
        "error_message": message,
        "current_leader": {"leader_id": -1, "leader_epoch": -1},
    }
