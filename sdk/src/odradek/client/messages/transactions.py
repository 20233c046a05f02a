"""The transaction APIs as kio messages: InitProducerId 4, Produce 12, TxnOffsetCommit 5, EndTxn 5 (KIP-890).

With these versions written partitions need not be announced, and each end of a transaction bumps the producer epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.produce.v12.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v12.response import ProduceResponse
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponse
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from odradek.client.messages.offsets import ConsumerGroupMetadata, by_topic
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.protocol.conditional_produce import conditional

__all__ = [
    "EndTxnResponse",
    "InitProducerIdResponse",
    "ProduceResponse",
    "TxnOffsetCommitResponse",
    "end_request",
    "init_request",
    "offsets_request",
    "transactional_produce_request",
]

_ALL = -1


def init_request(
    transactional_id: str, timeout_ms: int, producer_id: int, producer_epoch: int
) -> InitProducerIdRequest:
    """Take over the transactional id or, given producer id and epoch, continue after an error."""
    return InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id),
        transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(producer_epoch),
    )


def transactional_produce_request(
    transactional_id: str,
    batches: Sequence[tuple[TopicPartition, bytes]],
    *,
    timeout_ms: int,
    chosen_by: Mapping[TopicPartition, int] | None = None,
) -> ProduceRequest:
    """Build a request with one batch for each of some partitions, in the open transaction."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for (topic, partition), data in batches:
        topics.setdefault(topic, []).append(PartitionProduceData(index=i32(partition), records=Records(data)))
    request = ProduceRequest(
        transactional_id=TransactionalId(transactional_id),
        acks=i16(_ALL),
        timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
        topic_data=tuple(
            TopicProduceData(name=TopicName(topic), partition_data=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )
    if not chosen_by:
        return request
    made: ProduceRequest = conditional(request, {}, chosen_by)
    return made


def offsets_request(
    transactional_id: str,
    producer: tuple[int, int],
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> TxnOffsetCommitRequest:
    """Request that the transaction commits offsets for a member of a group."""
    return TxnOffsetCommitRequest(
        transactional_id=TransactionalId(transactional_id),
        group_id=GroupId(group.group_id),
        producer_id=ProducerId(producer[0]),
        producer_epoch=i16(producer[1]),
        generation_id=i32(group.member_epoch),
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    _partition(partition, offsets[TopicPartition(topic, partition)]) for partition in partitions
                ),
            )
            for topic, partitions in by_topic(offsets).items()
        ),
    )


def _partition(partition: int, position: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=i32(partition),
        committed_offset=i64(position.offset),
        committed_leader_epoch=i32(position.leader_epoch),
        committed_metadata=position.metadata,
    )


def end_request(transactional_id: str, producer: tuple[int, int], *, commit: bool) -> EndTxnRequest:
    """Request the commit or abort of the transaction."""
    return EndTxnRequest(
        transactional_id=TransactionalId(transactional_id),
        producer_id=ProducerId(producer[0]),
        producer_epoch=i16(producer[1]),
        committed=commit,
    )
