"""Produce (version 9) and InitProducerId (version 4) as kio messages: names in, outcomes out.

Version 9 names topics. Version 13 uses topic ids, which have no advantage here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta

from odradek.client.connection import error_code
from odradek.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.protocol.conditional_produce import conditional, with_next_offset

__all__ = [
    "InitProducerIdResponse",
    "PartitionOutcome",
    "ProduceResponse",
    "init_producer_id_request",
    "outcomes",
    "produce_request",
    "produce_response_type",
]


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The result of a produce request for one partition."""

    error: ErrorCode
    message: str | None
    base_offset: int
    log_append_time_ms: int  # -1 under CreateTime
    next_offset: int = -1  # where the log ends, for a conditional batch that expected another offset


def produce_request(
    batches: Sequence[tuple[TopicPartition, bytes]],
    *,
    acks: int,
    timeout_ms: int,
    expected_offsets: Mapping[TopicPartition, int] | None = None,
    chosen_by: Mapping[TopicPartition, int] | None = None,
) -> ProduceRequest:
    """Build a request with one batch for each of some partitions, some of them conditional."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for (topic, partition), data in batches:
        topics.setdefault(topic, []).append(PartitionProduceData(index=i32(partition), records=Records(data)))
    request = ProduceRequest(
        transactional_id=None,
        acks=i16(acks),
        timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
        topic_data=tuple(
            TopicProduceData(name=TopicName(topic), partition_data=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )
    if not expected_offsets and not chosen_by:
        return request
    made: ProduceRequest = conditional(request, expected_offsets or {}, chosen_by or {})
    return made


def produce_response_type(*, is_conditional: bool) -> type[ProduceResponse]:
    """Return the type that decodes the response: with Odradek's own field if it may contain one."""
    return with_next_offset(ProduceResponse) if is_conditional else ProduceResponse


def outcomes(response: ProduceResponse) -> dict[TopicPartition, PartitionOutcome]:
    """Return the results by partition."""
    by_partition = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            appended = partition.log_append_time
            by_partition[TopicPartition(str(topic.name), int(partition.index))] = PartitionOutcome(
                error_code(partition.error_code),
                partition.error_message,
                int(partition.base_offset),
                -1 if appended is None else round(appended.timestamp() * 1000),
                int(getattr(partition, "next_offset", -1)),
            )
    return by_partition


def init_producer_id_request() -> InitProducerIdRequest:
    """Request a new producer id without a transactional id."""
    return InitProducerIdRequest(
        transactional_id=None, transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=60_000))
    )
