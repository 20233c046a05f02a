"""Records as connectors and transforms see them: key, value and headers with their schemas.

Records are immutable; `record.replace(...)` returns a changed copy, which is what a transform does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from odradek.client.consumer.record import ConsumerRecord
from odradek.connect.data.schema import Schema
from odradek.model.topic_partition import TopicPartition

Partition = Mapping[str, Any]
"""What a source calls a unit of its input, such as a file or a table; plain JSON."""
Offset = Mapping[str, Any]
"""A position in such a unit; plain JSON."""


class Header(NamedTuple):
    """A header of a record."""

    key: str
    value: Any
    schema: Schema | None = None


@dataclass(frozen=True, kw_only=True)
class ConnectRecord:
    """The common part of source and sink records."""

    topic: str
    partition: int | None = None  # of the topic; None lets the partitioner choose
    key: Any = None
    key_schema: Schema | None = None
    value: Any = None
    value_schema: Schema | None = None
    timestamp_ms: int | None = None  # None: the time of sending
    headers: tuple[Header, ...] = ()

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record that a source task has read.

    Attributes:
        source_partition, source_offset: where to continue after this record; they are stored with it, in the same
            transaction. None for a source without positions.
        is_position: nothing is written but the offset, as behind input that gives no record.
    """

    source_partition: Partition | None = None
    source_offset: Offset | None = None
    is_position: bool = False

    @classmethod
    def position(cls, partition: Partition, offset: Offset) -> SourceRecord:
        """Return what stores a source offset and writes no record."""
        return cls(topic="", source_partition=partition, source_offset=offset, is_position=True)


@dataclass(frozen=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record for a sink task.

    Attributes:
        offset: of the record in its topic's partition.
        original: the record as it was read, whatever transforms have done (KIP-793).
    """

    offset: int
    timestamp_type: str = "CreateTime"  # or LogAppendTime
    original: ConsumerRecord | None = field(default=None, compare=False, repr=False)

    @property
    def source(self) -> TopicPartition:
        """The partition that the record was read from."""
        if self.original is not None:
            return self.original.topic_partition
        return TopicPartition(self.topic, self.partition or 0)

    @property
    def source_position(self) -> int:
        """The offset that the record was read at."""
        return self.offset if self.original is None else self.original.offset
