"""The record that a consumer returns."""

from __future__ import annotations

import gc
from itertools import repeat
from typing import Any, NamedTuple

from odradek.columnar.rows import Fields
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.model.record import Header, TimestampType
from odradek.model.topic_partition import TopicPartition

_PAUSE_COLLECTOR_FROM = 700  # records: the collector begins to look after so many new objects


class ConsumerRecord(NamedTuple):
    """A record with its location. `key` and `value` are the results of the deserializers, otherwise bytes or None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: tuple[Header, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)


def make_records(topic: str, partition: int, timestamp_type: TimestampType, fields: Fields) -> list[ConsumerRecord]:
    """Return the records of decoded fields, without deserializers."""
    offsets, timestamps, keys, values, headers = fields
    rows = zip(repeat(topic), repeat(partition), offsets, timestamps, repeat(timestamp_type), keys, values, headers)
    # The class's own constructor checks and names its arguments, which takes longer than all the rest of a poll.
    made = map(tuple.__new__, repeat(ConsumerRecord), rows)
    # Nothing of what is made here is garbage yet, and looking for it again and again takes three quarters of a poll.
    pause = gc.isenabled() and len(offsets) >= _PAUSE_COLLECTOR_FROM
    if pause:
        gc.disable()
    try:
        return list(made)
    finally:
        if pause:
            gc.enable()


class CorruptRecordBatchError(KafkaError):
    """A batch cannot be decoded. The position stays at its first record; seek to `next_offset` to continue.

    Attributes:
        topic_partition: the partition of the batch.
        offset: the first offset of the batch that has not been handed out.
        next_offset: the offset after the batch.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, next_offset: int, cause: FormatError) -> None:
        super().__init__(
            cause.code,
            f"the batch of offsets {offset} to {next_offset - 1} of {topic_partition} cannot be read ({cause}); "
            f"seek to {next_offset} to skip it",
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.next_offset = next_offset

    def as_record(self) -> ConsumerRecord:
        """Return a record for an error handler: the location of the batch, without key, value and headers."""
        return ConsumerRecord(*self.topic_partition, self.offset, -1, TimestampType.CREATE_TIME, None, None, ())


class RecordDeserializationError(KafkaError):
    """A deserializer failed. The position stays at the record; seek past it to continue.

    Attributes:
        topic_partition: the partition of the record.
        offset: the offset of the record.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, cause: Exception) -> None:
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"the record at offset {offset} of {topic_partition} cannot be deserialized ({cause}); "
            "seek past it to skip it",
        )
        self.topic_partition = topic_partition
        self.offset = offset
