"""Names of partitions, and committed offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class TopicPartition(NamedTuple):
    """A partition as users name it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionId(NamedTuple):
    """A partition as the store names it. A recreated topic has a new id, so it starts afresh."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: `offset` is the next one to read (Kafka's meaning)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
