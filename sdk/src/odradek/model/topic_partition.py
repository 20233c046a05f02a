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

    @property
    def shares_head(self) -> bool:
        """Return True if the partition shares its head with others (docs/decisions/0030)."""
        return partitions_per_head(self.topic_id) > 1

    @property
    def head_id(self) -> PartitionId:
        """The first of the partitions that share a head: its key is the head's."""
        per_head = partitions_per_head(self.topic_id)
        return self if per_head == 1 else PartitionId(self.topic_id, self.partition - self.partition % per_head)

    @property
    def place(self) -> int:
        """The partition's place among those that share a head, from 0."""
        return self.partition % partitions_per_head(self.topic_id)


_SHARING_VERSION = 8  # RFC 9562: the bits of a UUID of version 8 are the issuer's to define


def partitions_per_head(topic_id: UUID) -> int:
    """How many partitions of the topic share a head: byte 7 of a topic id of version 8; 1 for every other id."""
    first = topic_id.int >> 64  # its bytes 0 to 7; asked for each partition of each request, and `bytes` makes sixteen
    return first & 0xFF if first >> 12 & 0xF == _SHARING_VERSION else 1


def new_topic_id(random_bytes: bytes, per_head: int) -> UUID:
    """The id of a new topic.

    Args:
        random_bytes: 16.
        per_head: partitions that share a head, 1 to 255.
    """
    topic_id = UUID(bytes=random_bytes, version=4)
    if per_head == 1:
        return topic_id
    content = bytearray(topic_id.bytes)
    content[6] = _SHARING_VERSION << 4 | content[6] & 0x0F
    content[7] = per_head
    return UUID(bytes=bytes(content))


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: `offset` is the next one to read (Kafka's meaning)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
