"""ConsumerGroupHeartbeat (version 1, KIP-848) as kio messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta

__all__ = ["ConsumerGroupHeartbeatResponse", "Heartbeat", "assignment", "heartbeat_request"]

UNCHANGED_MS = -1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The fields that a member sends; None means unchanged since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: dict[UUID, list[int]] | None = None


def heartbeat_request(beat: Heartbeat) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GroupId(beat.group_id),
        member_id=beat.member_id,
        member_epoch=i32(beat.member_epoch),
        instance_id=beat.instance_id,
        rack_id=None,
        rebalance_timeout=i32Timedelta.parse(timedelta(milliseconds=beat.rebalance_timeout_ms)),
        subscribed_topic_names=None if beat.topics is None else tuple(TopicName(topic) for topic in beat.topics),
        subscribed_topic_regex=beat.pattern,
        server_assignor=beat.assignor,
        topic_partitions=None
        if beat.owned is None
        else tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(i32(p) for p in partitions))
            for topic_id, partitions in beat.owned.items()
        ),
    )


def assignment(response: ConsumerGroupHeartbeatResponse) -> dict[UUID, list[int]] | None:
    """Return the partitions to own, by topic id; None if they are unchanged."""
    if response.assignment is None:
        return None
    return {
        topic.topic_id: [int(partition) for partition in topic.partitions]
        for topic in response.assignment.topic_partitions
        if topic.topic_id is not None
    }
