"""The partition that a request names, or UNKNOWN_TOPIC_OR_PARTITION: one lookup for everything that serves partitions.

A topic's row says how many partitions it has; who names one that a copy of the row lacks may know of a growth that the
copy does not. The head says whether a partition still exists: a topic that was deleted a moment ago may be in the
catalog's cache.
"""

from __future__ import annotations

from typing import TypeGuard
from uuid import UUID

from odradek.engine.catalog.topics import Topics
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId, TopicPartition


def has_partition(topic: Topic | None, number: int) -> TypeGuard[Topic]:
    """Return True if the topic exists and has a partition of that number."""
    return topic is not None and 0 <= number < topic.partition_count


def partition_of(topic: Topic, number: int) -> PartitionId:
    """The id of a topic's partition. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""
    if not has_partition(topic, number):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic.name} has partitions 0 to {topic.partition_count - 1}, not {number}",
        )
    return PartitionId(topic.topic_id, number)


async def find_partition(topics: Topics, place: TopicPartition) -> tuple[Topic, PartitionId] | None:
    """Return the topic and the partition; None if there is none or the name is invalid. Raises KafkaError: as get."""
    topic = await topics.get(place.topic)
    if topic is not None and place.partition >= topic.partition_count:
        topic = await topics.reread(topic)
    return (topic, PartitionId(topic.topic_id, place.partition)) if has_partition(topic, place.partition) else None


async def resolve_partition(
    topics: Topics, name: str, number: int, topic_id: UUID | None = None
) -> tuple[Topic, PartitionId]:
    """Return the topic, by id if one is given, and the partition.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID; as Topics.get.
    """
    topic = await topics.resolve(name, topic_id)
    if number >= topic.partition_count:
        topic = await topics.reread(topic)
    return topic, partition_of(topic, number)


async def read_partition(
    topics: Topics, index: PartitionIndex, name: str, number: int, *, whole: bool = True
) -> tuple[Topic, PartitionId, PartitionHead]:
    """The topic, the partition and its head.

    Args:
        whole: as for PartitionIndex.read_heads.

    Raises KafkaError: as resolve_partition; StoreUnavailable, FormatError.
    """
    topic, partition = await resolve_partition(topics, name, number)
    [head] = await index.read_heads([partition], whole=whole)
    if head is None:
        raise deleted(topics, topic)
    return topic, partition, head


def deleted(topics: Topics, topic: Topic) -> KafkaError:
    """Return the error for a partition without a head; drops the catalog's copy of the topic."""
    topics.forget(topic)
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has been deleted")
