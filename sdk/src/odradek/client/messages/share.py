"""ShareGroupHeartbeat (version 1), ShareFetch and ShareAcknowledge (version 2, KIP-932) as kio messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from uuid import UUID

from kio.schema.share_acknowledge.v2 import request as acknowledge
from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse
from kio.schema.share_fetch.v2 import request as fetch
from kio.schema.share_fetch.v2.response import ShareFetchResponse
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.share_group_heartbeat.v1.response import ShareGroupHeartbeatResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from odradek.client.config import ShareConsumerConfig
from odradek.client.connection import error_code
from odradek.errors import ErrorCode
from odradek.model.topic_partition import PartitionId

__all__ = [
    "Acknowledgements",
    "DeliveredPartition",
    "ShareAcknowledgeResponse",
    "ShareFetchResponse",
    "ShareGroupHeartbeatResponse",
    "acknowledged",
    "assignment",
    "delivered",
    "share_acknowledge_request",
    "share_fetch_request",
    "share_heartbeat_request",
]

Acknowledgements = Mapping[PartitionId, Mapping[int, int]]
"""Acknowledgement types by offset, by partition."""

_STRICT, _BATCHES = 1, 0


@dataclass(frozen=True, slots=True)
class DeliveredPartition:
    """The result of a ShareFetch for one partition."""

    partition: PartitionId
    error: ErrorCode
    message: str
    acknowledge_error: ErrorCode
    acknowledge_message: str
    records: bytes
    acquired: dict[int, int]  # delivery counts by offset


def share_heartbeat_request(
    group_id: str, member_id: str, member_epoch: int, topics: Iterable[str] | None
) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=GroupId(group_id),
        member_id=member_id,
        member_epoch=i32(member_epoch),
        rack_id=None,
        subscribed_topic_names=None if topics is None else tuple(TopicName(topic) for topic in topics),
    )


def assignment(response: ShareGroupHeartbeatResponse) -> frozenset[PartitionId] | None:
    """Return the partitions to read; None if they are unchanged."""
    if response.assignment is None:
        return None
    return frozenset(
        PartitionId(topic.topic_id, int(number))
        for topic in response.assignment.topic_partitions
        if topic.topic_id is not None
        for number in topic.partitions
    )


def share_fetch_request(
    config: ShareConsumerConfig,
    member_id: str,
    epoch: int,
    *,
    added: frozenset[PartitionId],
    forgotten: frozenset[PartitionId],
    acknowledgements: Acknowledgements,
    max_wait_ms: float,
    max_records: int,
) -> ShareFetchRequest:
    assert config.group_id is not None
    topics = _by_topic({*added, *acknowledgements})
    return ShareFetchRequest(
        group_id=GroupId(config.group_id),
        member_id=member_id,
        share_session_epoch=i32(epoch),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=round(max_wait_ms))),
        min_bytes=i32(config.fetch_min_bytes),
        max_bytes=i32(config.fetch_max_bytes),
        max_records=i32(max_records),
        batch_size=i32(max_records),
        share_acquire_mode=i8(_STRICT if config.share_acquire_mode == "record_limit" else _BATCHES),
        is_renew_ack=False,
        topics=tuple(
            fetch.FetchTopic(
                topic_id=topic_id,
                partitions=tuple(
                    fetch.FetchPartition(
                        partition_index=i32(partition.partition),
                        acknowledgement_batches=tuple(
                            fetch.AcknowledgementBatch(
                                first_offset=i64(first),
                                last_offset=i64(last),
                                acknowledge_types=(i8(acknowledge_type),),
                            )
                            for first, last, acknowledge_type in _runs(acknowledgements.get(partition, {}))
                        ),
                    )
                    for partition in partitions
                ),
            )
            for topic_id, partitions in topics
        ),
        forgotten_topics_data=tuple(
            fetch.ForgottenTopic(
                topic_id=topic_id, partitions=tuple(i32(partition.partition) for partition in partitions)
            )
            for topic_id, partitions in _by_topic(forgotten)
        ),
    )


ShareFetchRequest = fetch.ShareFetchRequest


def share_acknowledge_request(
    group_id: str, member_id: str, epoch: int, acknowledgements: Acknowledgements, *, renews: bool
) -> acknowledge.ShareAcknowledgeRequest:
    return acknowledge.ShareAcknowledgeRequest(
        group_id=GroupId(group_id),
        member_id=member_id,
        share_session_epoch=i32(epoch),
        is_renew_ack=renews,
        topics=tuple(
            acknowledge.AcknowledgeTopic(
                topic_id=topic_id,
                partitions=tuple(
                    acknowledge.AcknowledgePartition(
                        partition_index=i32(partition.partition),
                        acknowledgement_batches=tuple(
                            acknowledge.AcknowledgementBatch(
                                first_offset=i64(first),
                                last_offset=i64(last),
                                acknowledge_types=(i8(acknowledge_type),),
                            )
                            for first, last, acknowledge_type in _runs(acknowledgements[partition])
                        ),
                    )
                    for partition in partitions
                ),
            )
            for topic_id, partitions in _by_topic(acknowledgements)
        ),
    )


def delivered(response: ShareFetchResponse) -> list[DeliveredPartition]:
    """Return the results by partition."""
    return [
        DeliveredPartition(
            PartitionId(topic.topic_id, int(partition.partition_index)),
            error_code(partition.error_code),
            partition.error_message or "",
            error_code(partition.acknowledge_error_code),
            partition.acknowledge_error_message or "",
            bytes(partition.records or b""),
            {
                offset: int(run.delivery_count)
                for run in partition.acquired_records
                for offset in range(int(run.first_offset), int(run.last_offset) + 1)
            },
        )
        for topic in response.responses
        if topic.topic_id is not None
        for partition in topic.partitions
    ]


def acknowledged(response: ShareAcknowledgeResponse) -> dict[PartitionId, tuple[ErrorCode, str]]:
    """Return error code and message by partition."""
    return {
        PartitionId(topic.topic_id, int(partition.partition_index)): (
            error_code(partition.error_code),
            partition.error_message or "",
        )
        for topic in response.responses
        if topic.topic_id is not None
        for partition in topic.partitions
    }


def _by_topic(partitions: Iterable[PartitionId]) -> list[tuple[UUID, list[PartitionId]]]:
    return [(topic_id, list(of_topic)) for topic_id, of_topic in groupby(sorted(partitions), key=lambda p: p.topic_id)]


def _runs(types: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Return (first, last, type) of neighbouring offsets with the same acknowledgement."""
    runs: list[tuple[int, int, int]] = []
    for offset, acknowledge_type in sorted(types.items()):
        if runs and runs[-1][1] + 1 == offset and runs[-1][2] == acknowledge_type:
            runs[-1] = (runs[-1][0], offset, acknowledge_type)
        else:
            runs.append((offset, offset, acknowledge_type))
    return runs
