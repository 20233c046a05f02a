"""Fetch (version 12) as kio messages: positions in, record blobs out. Version 12 names topics; 13 and later use ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from odradek.client.config import ConsumerConfig
from odradek.client.connection import error_code
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition

__all__ = ["FetchResponse", "FetchedPartition", "fetch_request", "fetched"]

_CONSUMER = -1


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The result of a fetch for one partition."""

    partition: TopicPartition
    error: ErrorCode
    high_watermark: int
    records: bytes


def fetch_request(
    offsets: Sequence[tuple[TopicPartition, int]], config: ConsumerConfig, *, waits: bool = True
) -> FetchRequest:
    """Request partitions in this order, in which the server fills its response.

    Args:
        waits: False asks for a response at once, even an empty one.
    """
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, partition), offset in offsets:
        topics.setdefault(topic, []).append(
            FetchPartition(
                partition=i32(partition),
                fetch_offset=i64(offset),
                partition_max_bytes=i32(min(config.max_partition_fetch_bytes, config.fetch_max_bytes)),
            )
        )
    return FetchRequest(
        replica_id=BrokerId(_CONSUMER),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=config.fetch_max_wait_ms if waits else 0)),
        min_bytes=i32(config.fetch_min_bytes),
        max_bytes=i32(config.fetch_max_bytes),
        isolation_level=i8(int(config.isolation_level == "read_committed")),
        topics=tuple(FetchTopic(topic=TopicName(topic), partitions=tuple(p)) for topic, p in topics.items()),
        forgotten_topics_data=(),
    )


def fetched(response: FetchResponse) -> list[FetchedPartition]:
    """Return the results by partition. Raises KafkaError if the request as a whole was refused."""
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise KafkaError(code, f"the fetch was refused: {code.name}")
    return [
        FetchedPartition(
            TopicPartition(str(topic.topic), int(partition.partition_index)),
            error_code(partition.error_code),
            int(partition.high_watermark),
            partition.records or b"",
        )
        for topic in response.responses
        for partition in topic.partitions
    ]
