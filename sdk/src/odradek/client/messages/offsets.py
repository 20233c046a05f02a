"""Offset requests: ListOffsets 7, OffsetCommit 9, OffsetFetch 9. Each function makes one call for many partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v9.response import OffsetCommitResponse
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.offset_fetch.v9.response import OffsetFetchResponse
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.static.primitive import i8, i32, i64

from odradek.client.connection import Connection, error_code
from odradek.client.types import OffsetAndTimestamp
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

_CONSUMER = -1


class Membership(NamedTuple):
    """The committer of offsets: a group member at an epoch, or, by default, a client that is not a member."""

    member_id: str = ""
    member_epoch: int = -1
    instance_id: str | None = None


SIMPLE = Membership()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """A consumer's membership, with which a transaction commits offsets. See Consumer.group_metadata."""

    group_id: str
    member_id: str = ""
    member_epoch: int = -1
    group_instance_id: str | None = None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partition numbers by topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


async def list_offsets(
    connection: Connection,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the first offset at or after each timestamp (ms, or a constant of model.log). Raises KafkaError."""
    if not timestamps:
        return {}
    request = ListOffsetsRequest(
        replica_id=BrokerId(_CONSUMER),
        isolation_level=i8(int(read_committed)),
        topics=tuple(
            ListOffsetsTopic(
                name=TopicName(topic),
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=i32(partition), timestamp=i64(timestamps[TopicPartition(topic, partition)])
                    )
                    for partition in partitions
                ),
            )
            for topic, partitions in by_topic(timestamps).items()
        ),
    )

    def check(response: ListOffsetsResponse) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                raise_for("offsets", TopicPartition(str(topic.name), partition.partition_index), partition.error_code)

    response = await connection.call(request, ListOffsetsResponse, "ListOffsets", check=check, timeout_ms=timeout_ms)
    return {
        TopicPartition(str(topic.name), int(partition.partition_index)): OffsetAndTimestamp(
            int(partition.offset), int(partition.timestamp), int(partition.leader_epoch)
        )
        for topic in response.topics
        for partition in topic.partitions
    }


async def fetch_committed(
    connection: Connection,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    membership: Membership = SIMPLE,
    *,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return committed offsets of a group (None: of all its partitions), without partitions that have none.

    Raises KafkaError: STALE_MEMBER_EPOCH and UNKNOWN_MEMBER_ID if the member has to check its epoch.
    """
    request = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(
                group_id=GroupId(group_id),
                member_id=membership.member_id or None,
                member_epoch=i32(membership.member_epoch),
                topics=None
                if partitions is None
                else tuple(
                    OffsetFetchRequestTopics(name=TopicName(topic), partition_indexes=tuple(i32(p) for p in indexes))
                    for topic, indexes in by_topic(partitions).items()
                ),
            ),
        ),
        require_stable=True,
    )

    def check(response: OffsetFetchResponse) -> None:
        for group in response.groups:
            code = error_code(group.error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"committed offsets of group {group_id!r}: {code.name}")
            for topic in group.topics:
                for partition in topic.partitions:
                    name = TopicPartition(str(topic.name), partition.partition_index)
                    raise_for("committed offset", name, partition.error_code)

    response = await connection.call(request, OffsetFetchResponse, "OffsetFetch", check=check, timeout_ms=timeout_ms)
    return {
        TopicPartition(str(topic.name), int(partition.partition_index)): OffsetAndMetadata(
            int(partition.committed_offset), int(partition.committed_leader_epoch), partition.metadata or ""
        )
        for group in response.groups
        for topic in group.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0  # Kafka clients may commit a negative one, and that is no position
    }


async def commit(
    connection: Connection,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    membership: Membership = SIMPLE,
    *,
    timeout_ms: float | None = None,
) -> None:
    """Commit offsets. Raises KafkaError for the first refused partition; others may have been committed."""
    if not offsets:
        return
    check_positions(offsets)
    request = OffsetCommitRequest(
        group_id=GroupId(group_id),
        generation_id_or_member_epoch=i32(membership.member_epoch),
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    _commit_partition(partition, offsets[TopicPartition(topic, partition)]) for partition in partitions
                ),
            )
            for topic, partitions in by_topic(offsets).items()
        ),
    )

    def check(response: OffsetCommitResponse) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                raise_for("commit", TopicPartition(str(topic.name), partition.partition_index), partition.error_code)

    await connection.call(request, OffsetCommitResponse, "OffsetCommit", check=check, timeout_ms=timeout_ms)


def check_positions(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Raises KafkaError(OFFSET_OUT_OF_RANGE) for an offset that is no position."""
    for partition, position in offsets.items():
        if position.offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"cannot commit offset {position.offset} of {partition}: commit the next offset to read, 0 or more",
            )


def _commit_partition(partition: int, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=i32(partition),
        committed_offset=i64(position.offset),
        committed_leader_epoch=i32(position.leader_epoch),
        committed_metadata=position.metadata,
    )


def raise_for(operation: str, partition: TopicPartition, code: int) -> None:
    """Raise a KafkaError if the error code of a partition is not NONE."""
    error = error_code(code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, f"{operation} of {partition}: {_UNSAID.get(error, error.name)}")


_UNSAID = {  # texts for responses that have no field for a message
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic or partition does not exist",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "an ACL is missing",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "an ACL is missing",
}
