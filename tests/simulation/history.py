"""What actors did and saw: the auditor's evidence.

Every value that is ever sent is unique, so a value names its send.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.model.topic_partition import PartitionId


@dataclass
class Send:
    """One record that an actor tried to append."""

    value: bytes
    partition: PartitionId
    producer: str  # sends of one idempotent producer to one partition keep their order; others have ""
    sequence: int  # the order of sending within the producer and partition
    offset: int | None = None  # acknowledged at this offset
    outcome: str = "unknown"  # acked | failed (surely not in the log) | unknown


@dataclass
class Poll:
    """Records that one consumer saw, in the order it saw them."""

    consumer: str
    partition: PartitionId
    records: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass
class History:
    """All of it."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    created: dict[PartitionId, str] = field(default_factory=dict)  # partitions that exist at the end

    def sent(self, value: bytes, partition: PartitionId, producer: str, sequence: int) -> Send:
        send = Send(value, partition, producer, sequence)
        self.sends.append(send)
        return send
